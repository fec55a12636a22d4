from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.app.tiny import write_all, write_halves, write_memories, write_phrases, write_reviews
from tests.service import running_server
from tests.web.actions import open_page
from tests.web.browser import running_browser


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with tiny models, one under a shipped model's name, and one that must be refused."""
    root = write_all(tmp_path_factory.mktemp("bundles"))
    write_reviews(root, name="sst2")
    write_phrases(root)
    write_memories(root)
    write_halves(root)
    broken = write_reviews(root, name="broken")
    (broken / "read.onnx").write_bytes(b"not what was hashed")
    with running_server(root) as server:
        yield server.url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed with its module: its open event loop counts as running, and `asyncio.run` of other tests fails."""
    with running_browser() as chromium:
        yield chromium


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """The page, opened, of a service without keys."""
    with watched_page(browser, url) as watched:
        open_page(watched, url)
        yield watched


@contextmanager
def watched_page(browser: Browser, url: str) -> Iterator[Page]:
    """An empty page. Whatever the test does, only the service is asked and the console stays clean."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, color_scheme="light")
    opened = context.new_page()
    faults: list[str] = []
    requested: list[str] = []
    opened.on("console", lambda message: faults.append(message.text) if is_fault(message) else None)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("request", lambda request: requested.append(request.url))
    yield opened
    context.close()
    assert faults == []
    assert [address for address in requested if not address.startswith(f"{url}/")] == []


def is_fault(message: ConsoleMessage) -> bool:
    """Warnings and errors, besides the browser's own line about an answer of status 4xx or 5xx."""
    return message.type in ("error", "warning") and not message.text.startswith("Failed to load resource")
