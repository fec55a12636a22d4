"""Keyboard, contrast, small screens, long texts, and what the page may load."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.actions import REVIEW, TOPIC, ask, classify, curve_points, open_page, style, words

LONG_WORDS = 20_000
LEAST_CONTRAST = 4.5  # WCAG 2.2, AA, text of normal size


def test_curve_is_a_slider_over_the_words(page: Page, url: str) -> None:
    classify(page, REVIEW, "reviews")
    slider = page.get_by_role("slider", name="Reading position")
    tokens = ask(url, REVIEW, "reviews")["steps"]["tokens"]
    slider.focus()
    for key, position in [
        ("Home", 1),
        ("ArrowRight", 2),
        ("ArrowUp", 3),
        ("ArrowLeft", 2),
        ("End", len(tokens)),
    ]:
        page.keyboard.press(key)
        assert slider.get_attribute("aria-valuenow") == str(position)
        expect(page.locator("#document .selected")).to_have_text(tokens[position - 1])
    assert re.match(
        rf"word {len(tokens)}, \.: (negative|positive) \d", slider.get_attribute("aria-valuetext") or ""
    )


def test_arrow_keys_move_through_the_words(page: Page) -> None:
    classify(page, REVIEW, "reviews")
    page.locator("#document .selected").focus()
    for key, index in [("Home", 0), ("ArrowRight", 1), ("PageDown", 11), ("ArrowLeft", 10), ("PageUp", 0)]:
        page.keyboard.press(key)
        expect(words(page).nth(index)).to_be_focused()
        assert page.get_by_role("slider").get_attribute("aria-valuenow") == str(index + 1)


def test_text_is_one_tab_stop_after_the_curve(page: Page) -> None:
    classify(page, REVIEW, "reviews")
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    expect(words(page).first).to_be_focused()
    assert page.locator("#document [tabindex]").count() == 1


def test_answer_is_announced(page: Page) -> None:
    classify(page, REVIEW, "reviews")
    expect(page.get_by_role("status")).to_have_text(re.compile(r"(negative|positive), after \d+ words"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stays_readable_on_every_tint(browser: Browser, url: str, scheme: str) -> None:
    context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
    page = context.new_page()
    open_page(page, url)
    classify(page, TOPIC, "topics")
    ink = parse_colour(style(words(page), "color")[TOPIC.split().index("market")])
    card = parse_colour(style(page.locator(".reading"), "background-color")[0])
    sample = words(page).last
    sample.evaluate("(word) => { word.className = 'word'; word.style.setProperty('--strength', 1); }")
    for name in ["positive", "negative", *(f"class-{index}" for index in range(8))]:
        sample.evaluate("(word, name) => word.style.setProperty('--colour', `var(--${name})`)", name)
        tint = over(parse_colour(style(sample, "background-color")[0]), card)
        assert contrast(parse_colour(style(sample, "color")[0]), tint) >= LEAST_CONTRAST, name
    assert contrast(ink, card) >= LEAST_CONTRAST
    context.close()


def parse_colour(text: str) -> list[float]:
    """Red, green, blue and alpha in [0, 1] from ``rgb(…)``, ``rgba(…)`` or ``color(srgb …)``."""
    numbers = [float(number) for number in re.findall(r"[\d.]+", text)]
    scale = 1.0 if text.startswith("color") else 255.0
    return [*(number / scale for number in numbers[:3]), numbers[3] if len(numbers) > 3 else 1.0]


def over(top: list[float], bottom: list[float]) -> list[float]:
    """A translucent colour laid over an opaque one."""
    alpha = top[3]
    return [alpha * a + (1 - alpha) * b for a, b in zip(top[:3], bottom[:3], strict=True)]


def contrast(one: list[float], other: list[float]) -> float:
    """The contrast ratio of WCAG 2.2, 1 to 21."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: list[float]) -> float:
    """The relative luminance of WCAG 2.2."""
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in colour[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_narrow_screen_needs_no_sideways_scrolling_and_shows_the_result(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    for model in ("reviews", "topics", "phrases", "memories", "halves"):
        classify(page, f"{TOPIC} {'x' * 200}", model)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        expect(page.locator("#answer-label")).to_be_in_viewport()


def test_curve_follows_the_width_of_the_window(page: Page) -> None:
    classify(page, REVIEW, "reviews")
    page.set_viewport_size({"width": 1000, "height": 860})
    width = page.locator("#curve").evaluate("(node) => node.clientWidth")
    expect(page.locator("#curve svg")).to_have_attribute("width", str(width))
    assert width - 20 < curve_points(page)[-1][0] < width


def test_text_does_not_move_while_the_pointer_goes_over_it(page: Page) -> None:
    classify(page, TOPIC, "topics")
    tops = set()
    for index in range(words(page).count()):
        words(page).nth(index).hover()
        tops.add(page.locator("#document").evaluate("(node) => node.getBoundingClientRect().top + scrollY"))
    assert len(tops) == 1


def test_long_text_is_shown_without_a_point_per_word(page: Page) -> None:
    classify(page, "good bad dull great " * (LONG_WORDS // 4), "reviews")
    assert words(page).count() == LONG_WORDS
    assert len(curve_points(page)) < 2 * page.locator("#curve").evaluate("(node) => node.clientWidth") + 3
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    expect(words(page).first).to_be_in_viewport()


def test_page_has_a_strict_policy(page: Page, url: str) -> None:
    policy = page.request.get(url).headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self';" in policy
    assert "unsafe" not in policy
