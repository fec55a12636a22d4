"""A browser for the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

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
