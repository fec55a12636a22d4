"""What the page shows while texts, models and the service change under it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.app.test_lifecycle import until
from tests.app.tiny import write_all
from tests.service import Server, running_server
from tests.web.actions import REVIEW, ask, classify, model_id, open_page, style, words
from tests.web.conftest import watched_page


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    """A service of its own, which reads short texts only, and its folder."""
    root = write_all(tmp_path / "bundles")
    with running_server(root, max_document_tokens="4") as server:
        yield server, root


@pytest.fixture
def opened(browser: Browser, served: tuple[Server, Path]) -> Iterator[Page]:
    """Its page."""
    with watched_page(browser, served[0].url) as page:
        open_page(page, served[0].url)
        yield page


def press(page: Page) -> None:
    page.get_by_role("button", name="Classify").click()


def test_unknown_words_are_marked_and_counted(page: Page, url: str) -> None:
    text = "good xylophone film"
    assert ask(url, text, "reviews")["steps"]["unknown"] == [1]
    classify(page, text, "reviews")
    assert style(words(page), "border-bottom-style") == ["none", "dotted", "none"]
    words(page).nth(1).hover()
    expect(page.locator("#readout .badge").first).to_have_text("unknown")
    expect(page.locator("#facts")).to_contain_text("Not in the vocabulary33.3\u00a0% (1 word)")
    expect(page.locator("#legend")).to_contain_text("reads all such words as one and the same")


def test_groups_that_rest_are_not_read_out(page: Page) -> None:
    classify(page, REVIEW, "reviews")
    words(page).nth(0).hover()
    expect(page.locator("#readout .rests")).to_have_attribute("aria-hidden", "true")


def test_result_of_another_text_or_model_is_said_to_be_so(page: Page) -> None:
    stale = page.locator("#stale")
    classify(page, REVIEW, "reviews")
    expect(stale).to_be_hidden()
    page.get_by_label("Text", exact=True).fill("another text")
    expect(stale).to_be_visible()
    press(page)
    expect(stale).to_be_hidden()
    page.get_by_label("Model").select_option(model_id(page, "topics"))
    expect(stale).to_be_visible()


def test_models_can_be_asked_for_again(browser: Browser, url: str) -> None:
    with watched_page(browser, url) as page:
        page.route("**/v1/models", lambda route: route.fulfill(status=502, body="bad gateway"), times=1)
        page.goto(url)
        expect(page.get_by_role("alert")).to_contain_text(
            "Try again; where it stays, the service's log tells more."
        )
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_role("alert")).to_be_hidden()
        classify(page, REVIEW, "reviews")


def test_request_that_takes_long_can_be_given_up(page: Page) -> None:
    stop = page.get_by_role("button", name="Stop")
    page.route("**/classify", lambda route: None, times=1)  # never answered
    page.get_by_label("Text", exact=True).fill(REVIEW)
    press(page)
    with page.expect_event("requestfailed"):
        stop.click()
    expect(stop).to_be_hidden()
    expect(page.locator("[aria-busy=false]")).to_be_visible()
    expect(page.get_by_label("Text", exact=True)).to_be_focused()
    classify(page, REVIEW, "reviews")
    expect(stop).to_be_hidden()


def test_late_failure_of_an_older_question_changes_nothing(browser: Browser, url: str) -> None:
    with watched_page(browser, url) as page:
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        page.route("**/v1/models", hold, times=1)
        page.goto(url)
        page.locator("#key-field summary").click()
        page.get_by_role("button", name="Use key").click()  # asks for the models again
        classify(page, REVIEW, "reviews")
        held[0].fulfill(status=401, body="{}")
        page.wait_for_timeout(100)
        expect(page.locator("#result")).to_be_visible()
        expect(page.get_by_role("alert")).to_be_hidden()


def test_chosen_model_stays_chosen(page: Page, url: str) -> None:
    chosen = model_id(page, "topics")
    page.get_by_label("Model").select_option(chosen)
    page.locator("#key-field summary").click()
    with page.expect_response("**/v1/models"):
        page.get_by_role("button", name="Use key").click()
    expect(page.get_by_label("Model")).to_have_value(chosen)
    page.goto(f"{url}/docs")
    page.go_back()
    page.wait_for_selector("#model:enabled")
    expect(page.get_by_label("Model")).to_have_value(chosen)


def test_model_that_is_gone_is_offered_no_more(opened: Page, served: tuple[Server, Path]) -> None:
    server, root = served
    opened.get_by_label("Model").select_option(model_id(opened, "topics"))
    shutil.rmtree(root / "topics")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: any('"reloaded"' in line for line in server.log))
    opened.get_by_label("Text", exact=True).fill("good film")
    press(opened)
    expect(opened.get_by_role("alert")).to_contain_text("No such model")
    assert "topics" not in opened.locator("#model").inner_text()


def test_model_that_was_refused_while_the_one_before_stays_is_named(
    opened: Page, served: tuple[Server, Path]
) -> None:
    server, root = served
    (next((root / "topics").iterdir()) / "read.onnx").write_bytes(b"not what was hashed")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: any('"reloaded"' in line for line in server.log))
    opened.reload()
    opened.locator("#refused summary").click()
    expect(opened.locator("#refused li")).to_contain_text("the one loaded before answers")


def test_text_that_is_too_long_can_be_read_in_part(opened: Page) -> None:
    opened.get_by_label("Text", exact=True).fill("good film and good team")
    press(opened)
    opened.get_by_role("button", name="Read only its beginning").click()
    expect(words(opened)).to_have_text(["good", "film", "and", "good"])
    expect(opened.locator("#facts")).to_contain_text("the rest of the text was not read")
    expect(opened.locator("#document")).to_have_text("good film and good team")


def test_text_from_right_to_left_stands_so(page: Page) -> None:
    classify(page, "סרט טוב .", "reviews")
    first, last = (words(page).nth(index).bounding_box() for index in (0, -1))
    assert first is not None
    assert last is not None
    assert first["x"] > last["x"]


@pytest.mark.parametrize("height", [600, 700])
def test_button_is_reached_in_a_low_window(page: Page, height: int) -> None:
    page.set_viewport_size({"width": 1280, "height": height})
    classify(page, REVIEW, "sst2")
    button = page.get_by_role("button", name="Classify")
    button.scroll_into_view_if_needed()
    expect(button).to_be_in_viewport(ratio=0.95)
