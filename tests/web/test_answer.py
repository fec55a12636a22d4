"""The classes, the facts, the examples, and what is shown when something fails."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.web.actions import REVIEW, TOPIC, ask, classify, model_id, percent, words


def test_ready_models_are_offered_and_the_default_is_chosen(page: Page, url: str) -> None:
    listed = httpx.get(f"{url}/v1/models").json()["data"]
    ready = [model["id"] for model in listed if model["state"] == "ready"]
    assert page.locator("#model option").all_inner_texts() == ready
    assert page.locator("#model").input_value() == next(
        model["id"] for model in listed if model.get("default")
    )


def test_refused_model_is_named_with_its_reason_and_not_offered(page: Page) -> None:
    page.get_by_text("1 model refused").click()
    expect(page.locator("#refused li")).to_contain_text(re.compile("broken.*sha256"))
    assert not any("broken" in text for text in page.locator("#model option").all_inner_texts())


@pytest.mark.parametrize(("model", "text"), [("reviews", REVIEW), ("topics", TOPIC)])
def test_every_class_is_shown_with_its_probability(page: Page, url: str, model: str, text: str) -> None:
    classify(page, text, model)
    answer = ask(url, text, model)
    expect(page.locator("#answer-label")).to_have_text(answer["label"])
    shown = page.locator("#classes .number").all_inner_texts()
    assert shown == [percent(probability) for probability in answer["probs"]]
    assert page.locator("#classes .winner .label").inner_text() == answer["label"]


def test_bar_is_as_long_as_its_probability(page: Page, url: str) -> None:
    classify(page, REVIEW, "reviews")
    widths = page.locator("#classes .bar").evaluate_all(
        "(bars) => bars.map((bar) => bar.getBoundingClientRect().width / bar.parentNode.clientWidth)"
    )
    assert widths == pytest.approx(ask(url, REVIEW, "reviews")["probs"], abs=0.01)


def test_facts_tell_words_skips_and_time_by_stage(page: Page, url: str) -> None:
    classify(page, TOPIC, "topics")
    skips = ask(url, TOPIC, "topics")["skip_map"]
    facts = page.locator("#facts")
    expect(facts).to_contain_text(f"{percent(skips['skip_rate'])} ({sum(skips['skipped'])} words)")
    expect(facts).to_contain_text(f"Words{words(page).count()}")
    for stage in ("tokenize", "queue", "run"):
        expect(facts).to_contain_text(re.compile(rf"{stage} \d+\.\d"))


def test_memory_groups_are_counted(page: Page) -> None:
    classify(page, "a b c d e f g", "reviews")
    expect(page.locator("#facts")).to_contain_text("Updates by memory group7 · 3")


def test_control_enter_classifies(page: Page) -> None:
    page.get_by_label("Model").select_option(model_id(page, "reviews"))
    page.get_by_label("Text", exact=True).fill(REVIEW)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#answer-label")).to_have_text(re.compile("negative|positive"))


def test_example_of_a_shipped_model_is_read_at_one_click(page: Page) -> None:
    page.get_by_label("Model").select_option(model_id(page, "sst2"))
    page.get_by_role("button", name="Faint praise").click()
    expect(words(page).first).to_have_text("Handsome")


def test_model_without_fitting_examples_offers_none(page: Page) -> None:
    page.get_by_label("Model").select_option(model_id(page, "topics"))
    expect(page.locator("#examples")).to_be_hidden()
    page.get_by_label("Model").select_option(model_id(page, "reviews"))
    expect(page.locator("#examples")).to_be_visible()


def test_refusal_is_shown_in_place_of_the_old_result(page: Page, url: str) -> None:
    classify(page, REVIEW)
    page.get_by_label("Text", exact=True).fill("  \n ")
    page.get_by_role("button", name="Classify").click()
    alert = page.get_by_role("alert")
    response = httpx.post(f"{url}/classify", json={"input": "  \n "})
    expect(alert).to_contain_text(response.json()["title"])
    expect(alert).to_contain_text(response.json()["detail"])
    expect(alert).to_contain_text(re.compile(rf"Status {response.status_code} · request \S+"))
    expect(page.locator("#result")).to_be_hidden()


def test_next_good_answer_replaces_the_refusal(page: Page) -> None:
    page.get_by_role("button", name="Classify").click()
    expect(page.get_by_role("alert")).to_be_visible()
    classify(page, REVIEW)
    expect(page.get_by_role("alert")).to_be_hidden()


def test_overload_says_when_to_come_back(page: Page) -> None:
    page.route(
        "**/classify",
        lambda route: route.fulfill(
            status=503,
            headers={"content-type": "application/problem+json", "retry-after": "3"},
            body='{"title": "Too much waits", "detail": "Expected room for 5 tokens."}',
        ),
    )
    page.get_by_label("Text", exact=True).fill(REVIEW)
    page.get_by_role("button", name="Classify").click()
    expect(page.get_by_role("alert")).to_contain_text("Try again in 3 seconds.")


def test_unreachable_service_is_said_so(page: Page) -> None:
    page.context.set_offline(True)
    page.get_by_role("button", name="Classify").click()
    expect(page.get_by_role("alert")).to_contain_text("The service cannot be reached")
    expect(page.get_by_role("button", name="Classify")).to_be_enabled()


def test_second_click_drops_the_first_request(page: Page) -> None:
    page.route("**/classify", lambda route: None, times=1)  # never answered
    page.get_by_label("Text", exact=True).fill("first text")
    page.get_by_role("button", name="Classify").click()
    page.get_by_label("Text", exact=True).fill("second text")
    with page.expect_event("requestfailed"):
        page.locator("#classify").click()
    expect(page.locator("#document")).to_have_text("second text")
