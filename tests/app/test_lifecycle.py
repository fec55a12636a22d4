"""Models that come and go, and ends of the process, seen over TCP from a real server under load."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from app.bundle import MANIFEST
from app.commands.options import ENGINE_LOST
from app.keys import make_key, write_keys
from tests.app.api.test_classify import assert_problem
from tests.app.tiny import make_endless, write_all, write_reviews, write_topics
from tests.service import Server, running_server

SWAPS = 100
CLIENTS = 2
TEXTS = ["good film", "a dull film , not good !", "bad " * 50]


class Load:
    """Clients that ask one request after the other, each with a connection of its own."""

    def __init__(self, url: str, texts: list[str]) -> None:
        self._url = url
        self._body = {"input": texts, "model": "reviews", "explain": "none"}
        self._stop = threading.Event()
        self.sent = 0
        self.statuses: list[int] = []
        self.models: set[str] = set()
        self.failures: list[Exception] = []
        self._threads = [threading.Thread(target=self._ask) for _ in range(CLIENTS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def ask_no_more(self) -> None:
        self._stop.set()

    def stop(self) -> None:
        self.ask_no_more()
        for thread in self._threads:
            thread.join(30)

    def _ask(self) -> None:
        with httpx.Client(base_url=self._url, timeout=30) as client:
            while not self._stop.is_set():
                self.sent += 1
                try:
                    answer = client.post("/classify", json=self._body)
                except httpx.TransportError as error:
                    self.failures.append(error)
                    return
                self.statuses.append(answer.status_code)
                if answer.status_code == 200:
                    self.models.add(answer.json()["model"])


@contextmanager
def load(server: Server, texts: list[str] = TEXTS) -> Iterator[Load]:
    clients = Load(server.url, texts)
    clients.start()
    try:
        yield clients
    finally:
        clients.stop()


def until(happened: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def metric(client: httpx.Client, series: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"readtrace_{series} "))


def reload(server: Server, client: httpx.Client) -> None:
    """Send the signal and wait until the folder was read anew."""
    before = metric(client, 'reloads_total{outcome="done"}')
    server.process.send_signal(signal.SIGHUP)
    until(lambda: metric(client, 'reloads_total{outcome="done"}') > before)


def publish(root: Path, version: int) -> None:
    """Put a version where the one before was, each by a rename, as a careful deployment does."""
    before = root / "reviews" / str(version - 1)
    partial = root / "reviews" / ".partial"
    shutil.copytree(before, partial)
    manifest = json.loads((partial / MANIFEST).read_bytes())
    (partial / MANIFEST).write_text(json.dumps(manifest | {"version": str(version)}))
    partial.rename(root / "reviews" / str(version))
    before.rename(root / "reviews" / ".gone")
    shutil.rmtree(root / "reviews" / ".gone")


def descriptors_and_threads(server: Server) -> tuple[int, int]:
    process = Path("/proc") / str(server.process.pid)
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


def test_no_request_fails_while_a_model_is_swapped_a_hundred_times(tmp_path: Path) -> None:
    write_reviews(tmp_path)
    # A short calibration, or most of the time would go into it.
    with running_server(tmp_path, max_run_seconds="1e-6") as server, server.client() as client:
        with load(server) as clients:
            for version in range(2, SWAPS + 2):
                publish(tmp_path, version)
                reload(server, client)
                if version == 12:
                    held = descriptors_and_threads(server)
            until(lambda: f"reviews@{SWAPS + 1}" in clients.models)
            assert descriptors_and_threads(server)[0] <= held[0] + 2
            assert descriptors_and_threads(server)[1] <= held[1]
        assert not clients.failures
        assert set(clients.statuses) == {200}
        assert len(clients.models) > SWAPS / 10  # the load saw the swaps
        until(lambda: metric(client, "retiring_models") == 0)
        (listed,) = client.get("/v1/models").json()["data"]
        assert (listed["id"], listed["state"]) == (f"reviews@{SWAPS + 1}", "ready")
        assert metric(client, 'model_changes_total{outcome="loaded"}') == SWAPS
        assert metric(client, 'model_changes_total{outcome="removed"}') == SWAPS
        assert client.get("/health/ready").status_code == 200


def test_refused_version_is_told_and_the_one_before_answers(tmp_path: Path) -> None:
    write_all(tmp_path)
    with running_server(tmp_path) as server, server.client() as client, load(server) as clients:
        (tmp_path / "reviews" / "1" / MANIFEST).write_text("{}")
        write_topics(tmp_path, name="news")
        reload(server, client)
        listed = {one["id"]: one for one in client.get("/v1/models").json()["data"]}
        assert set(listed) == {"reviews@1", "topics@1", "news@1"}
        assert listed["reviews@1"]["state"] == "ready"
        assert listed["reviews@1"]["reason"] == "reviews/1/manifest.json: name: Field required"
        assert client.get("/v1/models").json()["reload"]["loaded"] == ["news@1"]
        assert metric(client, 'bundle_refused{model="reviews",version="1"}') == 1
        assert metric(client, 'model_loaded{model="reviews",version="1"}') == 1
        asked = len(clients.statuses)
        until(lambda: len(clients.statuses) > asked + 5)
        assert set(clients.statuses) == {200}


def test_reload_over_http_needs_a_key_of_the_scope_admin(tmp_path: Path) -> None:
    root = write_all(tmp_path / "bundles")
    texts, keys = zip(*(make_key(scope, (scope,), None) for scope in ("classify", "admin")), strict=True)
    write_keys(tmp_path / "keys.json", keys)
    caller, admin = ({"authorization": f"Bearer {text}"} for text in texts)
    with running_server(root, keys=str(tmp_path / "keys.json")) as server, server.client() as client:
        write_reviews(root, version="2")
        for headers, status in (({}, 401), (caller, 403)):
            assert client.post("/v1/models/reload", headers=headers).status_code == status
        done = client.post("/v1/models/reload", headers=admin).json()
        assert (done["object"], done["loaded"], done["failed"]) == ("reload", ["reviews@2"], None)
        answer = client.post("/classify", json={"input": "good"}, headers=caller)
        assert answer.json()["model"] == "reviews@2"
        shutil.rmtree(root)
        failed = client.post("/v1/models/reload", headers=admin)
        assert_problem(failed, 409, "reload-failed", "expected a folder of bundles")


def test_reload_over_http_is_closed_where_there_are_no_keys(client: httpx.Client) -> None:
    assert_problem(client.post("/v1/models/reload"), 403, "forbidden", "READTRACE_KEYS")


def test_folder_that_is_gone_changes_nothing(tmp_path: Path) -> None:
    root = write_all(tmp_path / "bundles")
    with running_server(root) as server, server.client() as client:
        shutil.rmtree(root)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: metric(client, 'reloads_total{outcome="failed"}') == 1)
        assert "expected a folder of bundles" in client.get("/v1/models").json()["reload"]["failed"]
        assert client.post("/classify", json={"input": "good"}).status_code == 200


def test_sigterm_under_load_answers_every_request_that_was_sent(bundles: Path) -> None:
    with running_server(bundles) as server, load(server, ["good bad film " * 2000] * 8) as clients:
        until(lambda: len(clients.statuses) > CLIENTS)
        clients.ask_no_more()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
    assert not clients.failures
    assert set(clients.statuses) <= {200, 503}
    assert len(clients.statuses) == clients.sent


def test_sigterm_ends_the_process_while_a_graph_that_does_not_end_is_loaded(tmp_path: Path) -> None:
    write_reviews(tmp_path)
    with (
        running_server(tmp_path, run_limit_seconds="600", drain_seconds="2") as server,
        server.client() as client,
    ):
        make_endless(write_reviews(tmp_path, name="endless"))
        server.process.send_signal(signal.SIGHUP)
        until(lambda: any("bundle_loading" in line and "endless" in line for line in server.log))
        assert client.post("/classify", json={"input": "good"}).status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0


@pytest.mark.parametrize("why", ["died", "stuck"])
def test_engine_that_keeps_losing_its_threads_ends_the_process(bundles: Path, why: str) -> None:
    """Every request is answered; one loss more than may be replaced, and the process says so and ends."""
    restarts = 2
    lossy = running_server(
        bundles,
        program=("tests.app.lost_threads", why),
        worker_threads="1",
        max_engine_restarts=str(restarts),
        run_limit_seconds="0.2",
    )
    with lossy as server, server.client() as client:
        for loss in range(restarts + 1):
            # One thread runs, one prepares a batch; the answer may be here before the lost one is replaced.
            until(lambda: metric(client, "engine_threads") == 2)
            assert metric(client, "engine_restarts_total") == loss
            answer = client.post("/classify", json={"input": "good"})
            assert_problem(answer, 500, "engine-failed")
        assert server.process.wait(20) == ENGINE_LOST
    assert (
        sum(f'"why":"{why}"' in line and "engine_thread_lost" in line for line in server.log) == restarts + 1
    )
    assert (
        f"readtrace: engine threads were lost {restarts + 1} times within an hour, last: " in server.log[-1]
    )


def test_killed_server_starts_again_on_its_port(tmp_path: Path) -> None:
    root = write_all(tmp_path)
    with running_server(root) as server, load(server) as clients:
        until(lambda: len(clients.statuses) > 5)
        server.process.kill()
        assert server.process.wait(10) == -signal.SIGKILL
    with running_server(root, port=int(server.url.rsplit(":", 1)[1])) as again, again.client() as client:
        assert again.url == server.url
        assert client.get("/health/ready").status_code == 200
        assert client.post("/classify", json={"input": "good"}).status_code == 200
    assert set(clients.statuses) == {200}


def test_log_that_cannot_be_written_fails_no_request(bundles: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "app", "serve", "--bundles", str(bundles), "--port", str(port)]
    with Path("/dev/full").open("w") as full:  # every write says that the disk is full
        process = subprocess.Popen(command, stdout=full, stderr=full)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            until(lambda: listens(port), 60)
            assert client.post("/classify", json={"input": "good"}).status_code == 200
            assert client.get("/nowhere").status_code == 404
            process.send_signal(signal.SIGHUP)
            until(lambda: metric(client, 'reloads_total{outcome="done"}') == 1)
            assert client.post("/classify", json={"input": "good"}).status_code == 200
    finally:
        process.terminate()
        assert process.wait(10) == 0


def test_reader_of_the_log_that_stalls_holds_up_no_request_and_no_end(bundles: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "app", "serve", "--bundles", str(bundles), "--port", str(port)]
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen(command, stdout=writer, stderr=writer)
    os.close(writer)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            until(lambda: listens(port), 60)
            for _ in range(100):  # each is an event of some hundred bytes
                assert client.post("/classify", json={"input": "good"}).status_code == 200
            assert client.get("/health/live").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait(10)
        os.close(reader)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
