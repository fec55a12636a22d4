"""The page of a service that asks for API keys."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from app.keys import Key, make_key, write_keys
from tests.app.test_lifecycle import until
from tests.app.tiny import write_reviews
from tests.service import Server, running_server
from tests.web.actions import REVIEW, classify
from tests.web.conftest import watched_page


@dataclass
class Guarded:
    """A service with keys, and the keys by name."""

    server: Server
    file: Path
    texts: dict[str, str]
    keys: dict[str, Key]

    def withdraw(self, name: str) -> None:
        """Take a key back while the service runs."""
        del self.keys[name]
        write_keys(self.file, self.keys.values())
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: any("keys_reloaded" in line for line in self.server.log))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    root = tmp_path_factory.mktemp("guarded")
    texts: dict[str, str] = {}
    keys: dict[str, Key] = {}
    for name, scope in (("shop", "classify"), ("guest", "classify"), ("ops", "admin")):
        texts[name], keys[name] = make_key(name, (scope,), None)
    write_keys(root / "keys.json", keys.values())
    write_reviews(root / "bundles")
    with running_server(root / "bundles", keys=str(root / "keys.json")) as server:
        yield Guarded(server, root / "keys.json", texts, keys)


@pytest.fixture
def locked(browser: Browser, guarded: Guarded) -> Iterator[Page]:
    """Its page, opened without a key."""
    with watched_page(browser, guarded.server.url) as page:
        page.goto(guarded.server.url)
        yield page


def enter(page: Page, key: str) -> None:
    page.get_by_label("API key", exact=True).fill(key)
    page.get_by_role("button", name="Use key").click()


def test_page_asks_for_the_key_that_the_service_asks_for(locked: Page, guarded: Guarded) -> None:
    expect(locked.get_by_label("API key", exact=True)).to_be_focused()
    alert = locked.get_by_role("alert")
    expect(alert).to_contain_text("An API key is needed")
    expect(alert).to_contain_text("Enter a key of this service under “API key”.")
    expect(locked.get_by_role("button", name="Classify")).to_be_disabled()
    locked.keyboard.type(guarded.texts["shop"])
    locked.keyboard.press("Enter")
    expect(alert).to_be_hidden()
    expect(locked.get_by_label("API key", exact=True)).to_be_hidden()
    expect(locked.get_by_label("Text", exact=True)).to_be_focused()
    classify(locked, REVIEW, "reviews")
    expect(locked.locator("#answer-label")).not_to_be_empty()


@pytest.mark.parametrize(
    ("key", "title", "detail"),
    [
        ("rt_00000000_guessed", "An API key is needed", "Expected a key that the service knows."),
        ("ключ", "This is no API key", "Expected letters, digits,"),
        ("", "An API key is needed", "Expected the header `Authorization: Bearer KEY`."),
    ],
)
def test_wrong_key_is_said_so(locked: Page, key: str, title: str, detail: str) -> None:
    expect(locked.get_by_role("alert")).to_contain_text("Status 401")
    enter(locked, key)
    expect(locked.get_by_role("alert")).to_contain_text(detail)
    expect(locked.get_by_role("alert")).to_contain_text(title)
    expect(locked.get_by_label("API key", exact=True)).to_be_visible()


def test_key_of_another_scope_is_said_so(locked: Page, guarded: Guarded) -> None:
    enter(locked, guarded.texts["ops"])
    expect(locked.get_by_role("alert")).to_contain_text("Expected a key of the scope classify.")
    expect(locked.get_by_label("API key", exact=True)).to_be_focused()


def test_key_is_in_no_storage_and_no_address(locked: Page, guarded: Guarded) -> None:
    addresses: list[str] = []
    locked.on("request", lambda request: addresses.append(request.url))
    enter(locked, guarded.texts["shop"])
    classify(locked, REVIEW, "reviews")
    assert locked.get_by_label("API key", exact=True).get_attribute("type") == "password"
    assert locked.context.storage_state() == {"cookies": [], "origins": []}
    assert locked.evaluate("sessionStorage.length") == 0
    secret = guarded.texts["shop"].rsplit("_", 1)[1]
    assert addresses
    assert not any(secret in address for address in (*addresses, locked.url))
    locked.reload()
    expect(locked.get_by_role("alert")).to_contain_text("An API key is needed")
    assert locked.get_by_label("API key", exact=True).input_value() == ""


def test_key_that_is_withdrawn_is_asked_for_anew(locked: Page, guarded: Guarded) -> None:
    enter(locked, guarded.texts["guest"])
    classify(locked, REVIEW, "reviews")
    guarded.withdraw("guest")
    locked.get_by_role("button", name="Classify").click()
    expect(locked.get_by_role("alert")).to_contain_text("Expected a key that the service knows.")
    expect(locked.get_by_label("API key", exact=True)).to_be_focused()
    enter(locked, guarded.texts["shop"])
    expect(locked.get_by_role("alert")).to_be_hidden()
    classify(locked, REVIEW, "reviews")


def test_service_without_keys_asks_for_none_and_is_sent_none(page: Page) -> None:
    expect(page.get_by_label("API key", exact=True)).to_be_hidden()
    with page.expect_request("**/classify") as request:
        classify(page, REVIEW, "reviews")
    assert "authorization" not in request.value.all_headers()
    page.get_by_text("API key", exact=True).click()
    expect(page.get_by_label("API key", exact=True)).to_be_visible()
