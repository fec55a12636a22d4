"""N-grams, attention, forgetting rates, halves, skimmed words and memory groups, as the page shows them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.app.tiny import START
from tests.web.actions import REVIEW, TOPIC, ask, classify, curve_points, percent, style, words


def rows(page: Page) -> Locator:
    return page.locator("#evidence li button")


def signed(value: float) -> str:
    """A weight as the page writes it."""
    size = f"{abs(value):.2f}"
    sign = "\N{MINUS SIGN}" if value < 0 else "+"
    return size if float(size) == 0 else sign + size


def test_ngrams_are_listed_with_weight_and_share(page: Page, url: str) -> None:
    classify(page, REVIEW, "phrases")
    top = ask(url, REVIEW, "phrases")["ngrams"]["top"]
    expect(page.locator("#evidence")).to_be_visible()
    expect(page.locator("#evidence-title")).to_have_text("The n-grams that weighed most")
    assert rows(page).locator(".ngram").all_inner_texts() == [" ".join(one["text"].split()) for one in top]
    assert rows(page).locator(".number:not(.share)").all_inner_texts() == [
        signed(one["weight"]) for one in top
    ]
    assert rows(page).locator(".share").all_inner_texts() == [percent(one["share"]) for one in top]


def test_words_of_the_ngrams_are_underlined_by_the_strongest_one(page: Page, url: str) -> None:
    classify(page, TOPIC, "phrases")
    top = ask(url, TOPIC, "phrases")["ngrams"]["top"]
    deciding: dict[int, float] = {}
    for one in top:
        for index in range(one["first"], one["last"] + 1):
            deciding.setdefault(index, one["weight"])
    lines = style(words(page), "text-decoration-line")
    assert lines == ["underline" if index in deciding else "none" for index in range(len(lines))]
    styles = style(words(page), "text-decoration-style")
    for index, weight in deciding.items():
        assert styles[index] == ("dotted" if weight < 0 else "solid")


def test_pointing_at_an_ngram_frames_its_words(page: Page, url: str) -> None:
    classify(page, REVIEW, "phrases")
    top = ask(url, REVIEW, "phrases")["ngrams"]["top"]
    rows(page).nth(1).hover()
    framed = [
        int(node.get_attribute("data-index") or -1) for node in page.locator("#document .highlighted").all()
    ]
    assert framed == list(range(top[1]["first"], top[1]["last"] + 1))
    expect(page.locator("#document .selected")).to_have_attribute("data-index", str(top[1]["last"]))
    page.locator("#answer-label").hover()
    expect(page.locator("#document .highlighted")).to_have_count(0)


def test_ngram_is_reached_by_the_keyboard(page: Page) -> None:
    classify(page, REVIEW, "phrases")
    rows(page).first.focus()
    assert page.locator("#document .highlighted").count() > 0


def test_word_tells_what_the_windows_ending_there_won(page: Page, url: str) -> None:
    classify(page, REVIEW, "phrases")
    share = ask(url, REVIEW, "phrases")["ngrams"]["share"]
    words(page).nth(3).hover()
    expect(page.locator("#readout")).to_contain_text(f"features won here {percent(share[3])}")


def test_words_attended_to_most_are_listed(page: Page, url: str) -> None:
    classify(page, REVIEW, "memories")
    attention = ask(url, REVIEW, "memories")["attention"]
    assert sum(attention["weights"]) == pytest.approx(1, abs=1e-5)
    expect(page.locator("#evidence-title")).to_have_text("The words attended to most")
    assert rows(page).locator(".ngram").all_inner_texts() == [one["token"] for one in attention["top"]]
    assert rows(page).locator(".number").all_inner_texts() == [
        percent(one["weight"]) for one in attention["top"]
    ]
    words(page).nth(2).hover()
    expect(page.locator("#readout")).to_contain_text(f"attention {percent(attention['weights'][2])}")


def check_curves(chart: Locator, rows: list[list[float]], lowest: float, highest: float) -> None:
    """A chart has a curve of its own colour for every column, between the levels of the lowest and highest value."""
    curves = chart.locator("polyline")
    assert curves.count() == len(rows[0])
    assert len(set(style(curves, "stroke"))) == len(rows[0])
    lines = chart.locator(".grid line")
    bottom, top = (float(lines.nth(index).get_attribute("y1") or 0) for index in (0, 2))
    for column in range(len(rows[0])):
        drawn = curves.nth(column).get_attribute("points") or ""
        shares = [(float(pair.split(",")[1]) - bottom) / (top - bottom) for pair in drawn.split()]
        values = [lowest + share * (highest - lowest) for share in shares]
        assert values == pytest.approx([row[column] for row in rows], abs=0.002 * (highest - lowest))


def test_forgetting_rates_have_a_curve_per_group(page: Page, url: str) -> None:
    classify(page, REVIEW, "memories")
    rates = ask(url, REVIEW, "memories")["forgetting"]["rates"]
    check_curves(page.locator("#forgetting-curve"), rates, lowest=0, highest=1)
    words(page).nth(4).hover()
    expect(page.locator("#readout")).to_contain_text(f"group 2 forgets {percent(rates[4][1])}")
    expect(page.get_by_role("list", name="Legend")).to_contain_text("memory group 1, the slowest")


def test_forgetting_chart_moves_the_reading_position(page: Page) -> None:
    classify(page, REVIEW, "memories")
    page.get_by_role("slider", name="Forgetting rates").focus()
    page.keyboard.press("Home")
    expect(page.locator("#document .selected")).to_have_attribute("data-index", "0")
    position = page.get_by_role("slider", name="Reading position")
    expect(position).to_have_attribute("aria-valuenow", "1")
    marker = page.locator("#curve .marker circle")
    assert float(marker.get_attribute("cx") or 0) == pytest.approx(curve_points(page)[0][0], abs=0.1)


def test_each_half_has_a_curve_of_what_it_adds_to_the_answer(page: Page, url: str) -> None:
    classify(page, TOPIC, "halves")
    halves = ask(url, TOPIC, "halves")["halves"]
    weights = halves["weights"]
    largest = max(abs(weight) for row in weights for weight in row)
    check_curves(page.locator("#halves-curve"), weights, lowest=-largest, highest=largest)
    levels = page.locator("#halves-curve .grid text").all_text_contents()[:3]
    assert levels == [signed(-largest), "0", signed(largest)]
    words(page).nth(5).hover()
    for half, weight in zip(("fast half", "slow half"), weights[5], strict=True):
        expect(page.locator("#readout")).to_contain_text(f"{half} {signed(weight)}")
    for half, tau in zip(("fast half", "slow half"), ("1.25", "4.00"), strict=True):
        expect(page.get_by_role("list", name="Legend")).to_contain_text(f"{half}, τ {tau}")
    fast, slow = map(signed, halves["final_weights"])
    expect(page.locator("#facts")).to_contain_text(f"Said by the fast and the slow half{fast} · {slow}")


def test_chart_of_the_halves_moves_the_reading_position(page: Page, url: str) -> None:
    classify(page, TOPIC, "halves")
    slider = page.get_by_role("slider", name="Fast and slow half")
    slider.focus()
    page.keyboard.press("Home")
    expect(words(page).first).to_have_class("word added selected")
    fast, slow = map(signed, ask(url, TOPIC, "halves")["halves"]["weights"][0])
    told = slider.get_attribute("aria-valuetext")
    assert told == f"word 1, {START}: fast half {fast}, slow half {slow}"


def test_token_that_stands_nowhere_in_the_text_is_named(page: Page) -> None:
    classify(page, TOPIC, "halves")
    words(page).first.hover()
    expect(page.locator("#readout")).to_contain_text(f"After {START}")
    assert page.locator("#document").evaluate("(node) => node.textContent") == TOPIC


def test_skimmed_words_are_slanted_and_counted(page: Page, url: str) -> None:
    classify(page, REVIEW, "memories")
    skims = ask(url, REVIEW, "memories")["skim_map"]
    assert 0 < sum(skims["skimmed"]) < len(skims["skimmed"])
    assert style(words(page), "font-style") == ["italic" if skim else "normal" for skim in skims["skimmed"]]
    expect(page.locator("#facts")).to_contain_text(
        f"{percent(skims['skim_rate'])} ({sum(skims['skimmed'])} word"
    )
    index = skims["skimmed"].index(True)
    words(page).nth(index).hover()
    expect(page.locator("#readout .badge").first).to_have_text("skimmed")
    expect(page.locator("#readout")).to_contain_text(f"read {percent(skims['read_probability'][index])}")


def test_word_tells_which_memory_groups_it_updates(page: Page) -> None:
    """Two groups: one runs at every word, one at every second."""
    classify(page, REVIEW, "reviews")
    for index, updated in ((0, ["1"]), (1, ["1", "2"])):
        words(page).nth(index).hover()
        assert page.locator("#readout .runs").all_inner_texts() == updated


def test_model_that_tells_none_of_this_shows_none(page: Page) -> None:
    for told in ("memories", "halves", "topics"):
        classify(page, TOPIC, told)
    for hidden in ("#evidence", "#forgetting", "#halves"):
        expect(page.locator(hidden)).to_be_hidden()
    assert page.locator("#document .evident, #document .skimmed").count() == 0
