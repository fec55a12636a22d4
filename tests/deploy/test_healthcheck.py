from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from tests.deploy.queries import ROOT


@contextmanager
def service(status: int) -> Iterator[int]:
    """A server on the loopback that answers ``/health/ready`` with a status; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health/ready" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def check(port: int) -> tuple[int, str]:
    script = ROOT / "deploy/healthcheck.py"
    environment = {"READTRACE_PORT": str(port), "http_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-I", str(script)], env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_ready_is_healthy_even_beside_a_proxy() -> None:
    with service(200) as port:
        assert check(port) == (0, "")


def test_not_ready_is_unhealthy_and_says_so() -> None:
    with service(503) as port:
        assert check(port) == (1, "/health/ready answered 503, expected 200\n")


def test_no_server_is_unhealthy() -> None:
    with service(200) as port:
        pass
    status, printed = check(port)
    assert status == 1
    assert f"port {port} does not answer" in printed
