"""The text, its colours, the curve, and the way they point at each other."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.web.actions import REVIEW, TOPIC, ask, classify, curve_points, percent, style, words

TOLERANCE_PIXELS = 0.6  # the page writes tenths of a pixel


def test_text_stands_as_it_was_pasted(page: Page) -> None:
    classify(page, REVIEW, "reviews")
    assert page.locator("#document").evaluate("(node) => node.textContent") == REVIEW


def test_words_are_the_tokens_of_the_service(page: Page, url: str) -> None:
    classify(page, REVIEW, "reviews")
    assert words(page).all_text_contents() == ask(url, REVIEW, "reviews")["steps"]["tokens"]


def test_words_take_the_side_and_strength_of_the_sentiment(page: Page, url: str) -> None:
    classify(page, REVIEW, "reviews")
    sentiment = ask(url, REVIEW, "reviews")["steps"]["sentiment"]
    sides = ["var(--positive)" if value > 0 else "var(--negative)" for value in sentiment]
    assert (
        words(page).evaluate_all("(nodes) => nodes.map((n) => n.style.getPropertyValue('--colour'))") == sides
    )
    strengths = [float(value) for value in style(words(page), "--strength")]
    assert strengths == pytest.approx([abs(value) for value in sentiment], abs=1e-3)
    assert len(set(style(words(page), "background-color"))) == len({f"{value:.3f}" for value in sentiment})


def test_words_of_a_model_without_polarity_take_the_leading_class(page: Page, url: str) -> None:
    classify(page, TOPIC, "topics")
    answer = ask(url, TOPIC, "topics")
    for index, row in enumerate(answer["steps"]["probs"]):
        if not answer["skip_map"]["skipped"][index]:
            colour = words(page).nth(index).evaluate("(node) => node.style.getPropertyValue('--colour')")
            assert colour == f"var(--class-{row.index(max(row))})"


def test_skipped_words_are_greyed_and_struck(page: Page, url: str) -> None:
    classify(page, TOPIC, "topics")
    skipped = ask(url, TOPIC, "topics")["skip_map"]["skipped"]
    assert 0 < sum(skipped) < len(skipped)
    lines = style(words(page), "text-decoration-line")
    assert lines == ["line-through" if skip else "none" for skip in skipped]
    colours = style(words(page), "color")
    grey, ink = colours[skipped.index(True)], colours[skipped.index(False)]
    assert grey != ink
    assert colours == [grey if skip else ink for skip in skipped]
    expect(page.get_by_role("list", name="Legend")).to_contain_text("skipped")


def test_sentiment_curve_has_a_point_per_word_and_the_border_at_zero(page: Page, url: str) -> None:
    classify(page, REVIEW, "reviews")
    sentiment = ask(url, REVIEW, "reviews")["steps"]["sentiment"]
    points = curve_points(page)
    levels = [float(y or 0) for y in style_y(page)]
    top, border, bottom = sorted(levels)
    assert page.locator("#curve .border").get_attribute("y1") == f"{border:g}"
    expected = [border - value * (bottom - top) / 2 for value in sentiment]
    assert [y for _, y in points] == pytest.approx(expected, abs=TOLERANCE_PIXELS)
    assert [x for x, _ in points] == sorted({x for x, _ in points})


def style_y(page: Page) -> list[str | None]:
    """The heights of the curve's level lines: the highest value, the middle, the lowest."""
    return [line.get_attribute("y1") for line in page.locator("#curve .grid line").all()]


def test_model_without_polarity_has_a_curve_per_class(page: Page, url: str) -> None:
    classify(page, TOPIC, "topics")
    steps = ask(url, TOPIC, "topics")["steps"]
    assert page.locator("#curve polyline").count() == len(steps["probs"][0])
    assert len(curve_points(page)) == len(steps["probs"])
    assert len(set(style(page.locator("#curve polyline"), "stroke"))) == len(steps["probs"][0])
    assert page.locator("#curve .border").count() == 0


def test_pointing_at_a_word_marks_its_point_and_shows_its_probabilities(page: Page, url: str) -> None:
    classify(page, REVIEW, "reviews")
    words(page).nth(4).hover()
    marker = page.locator("#curve .marker circle")
    assert float(marker.get_attribute("cx") or 0) == pytest.approx(curve_points(page)[4][0], abs=0.1)
    assert float(marker.get_attribute("cy") or 0) == pytest.approx(curve_points(page)[4][1], abs=0.1)
    steps = ask(url, REVIEW, "reviews")["steps"]
    readout = page.locator("#readout")
    expect(readout).to_contain_text(f"After {steps['tokens'][4]}")
    for probability in steps["probs"][4]:
        expect(readout).to_contain_text(percent(probability))


def test_pointing_at_the_curve_marks_the_word(page: Page) -> None:
    classify(page, REVIEW, "reviews")
    box = page.locator("#curve").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + curve_points(page)[6][0] + 2, box["y"] + 20)
    selected = page.locator("#document .selected")
    assert selected.get_attribute("data-index") == "6"
    assert page.locator("#document .selected").count() == 1


def test_skipped_word_tells_its_keep_probability(page: Page, url: str) -> None:
    classify(page, TOPIC, "topics")
    skips = ask(url, TOPIC, "topics")["skip_map"]
    index = skips["skipped"].index(True)
    words(page).nth(index).hover()
    expect(page.locator("#readout .badge")).to_have_text("skipped")
    expect(page.locator("#readout")).to_contain_text(percent(skips["keep_probability"][index]))


def test_readout_begins_with_the_answer(page: Page, url: str) -> None:
    classify(page, REVIEW, "reviews")
    answer = ask(url, REVIEW, "reviews")
    expect(page.locator("#readout")).to_contain_text(percent(answer["probs"][1]))
    expect(page.locator("#document .selected")).to_have_text(answer["steps"]["tokens"][-1])


@pytest.mark.parametrize(("model", "kind"), [("reviews", "Causal"), ("topics", "Not causal")])
def test_caption_says_what_the_trace_means(page: Page, url: str, model: str, kind: str) -> None:
    classify(page, TOPIC, model)
    caption = page.locator("#caption")
    expect(caption.locator(".badge")).to_have_text(kind)
    meaning = {
        "reviews": "The answer for the words so far.",
        "topics": "what is skipped depends on later ones",
    }
    expect(caption).to_contain_text(meaning[model])


def test_one_word_is_a_whole_reading(page: Page) -> None:
    classify(page, "good", "reviews")
    assert words(page).count() == 1
    assert page.locator("#curve .dot").count() == 1
