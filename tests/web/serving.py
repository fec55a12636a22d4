"""A service process and a browser for it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, sync_playwright

START_SECONDS = 60  # loading, checking and calibrating bundles on a busy machine
STOP_SECONDS = 30
BROWSER_NAMES = ("chromium", "chromium-browser", "google-chrome")
# A browser that runs as root, without a display, and sends nothing of its own.
BROWSER_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


@contextmanager
def running_service(bundles: Path, log: Path) -> Iterator[str]:
    """Run ``readtrace serve`` on a free port; yields its address once it is ready to classify.

    Raises:
        RuntimeError: the service ended, or was not ready in time; the message has its log.
    """
    port = _free_port()
    command = [sys.executable, "-c", "from app.cli import main; main()", "serve"]
    options = ["--bundles", str(bundles), "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *options], stdout=output, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_ready(process, url, log)
            yield url
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(f"{url}/health/ready", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"the service was not ready in {START_SECONDS} s; its log:\n{log.read_text()}")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start the system's Chromium without a window.

    Raises:
        RuntimeError: none is installed.
    """
    path = next(filter(None, map(shutil.which, BROWSER_NAMES)), None)
    if path is None:
        raise RuntimeError(
            f"expected one of {', '.join(BROWSER_NAMES)} on PATH, found none; install chromium"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(BROWSER_ARGUMENTS))
        yield browser
        browser.close()
