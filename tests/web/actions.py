"""What a person does on the page, and what the service answers to the same text."""

from __future__ import annotations

import re
from typing import Any

import httpx
from playwright.sync_api import Locator, Page

REVIEW = "A good <i>film</i> , not dull !\n\nThe team was  great — 🎬 and it was bad ."
TOPIC = "The market was down , the team win was great , the space team score is not dull . Stocks end !"


def open_page(page: Page, url: str) -> None:
    """Open the page and wait until it knows the models."""
    page.goto(url)
    page.wait_for_selector("#model:enabled")


def classify(page: Page, text: str, model: str | None = None) -> None:
    """Choose a model by name, paste the text, press the button, and wait for the reading."""
    if model is not None:
        page.get_by_label("Model").select_option(model_id(page, model))
    page.get_by_label("Text", exact=True).fill(text)
    with page.expect_response("**/classify"):
        page.get_by_role("button", name="Classify").click()
    page.wait_for_selector("[aria-busy=false] #document .word")


def model_id(page: Page, name: str) -> str:
    """The ``name@version`` that the page offers for a name, once it does."""
    option = page.locator("#model option").filter(has_text=re.compile(rf"^{name}@")).first
    option.wait_for(state="attached")
    found: str = option.inner_text()
    return found


def ask(url: str, text: str, model: str) -> dict[str, Any]:
    """The service's own answer for one text."""
    response = httpx.post(f"{url}/classify", json={"input": text, "model": model}, timeout=30)
    response.raise_for_status()
    answer: dict[str, Any] = response.json()["data"][0]
    return answer


def words(page: Page) -> Locator:
    """The words of the text as it was read."""
    return page.locator("#document .word")


def style(locator: Locator, name: str) -> list[str]:
    """A computed style property of every element."""
    values: list[str] = locator.evaluate_all(
        "(nodes, name) => nodes.map((node) => getComputedStyle(node).getPropertyValue(name))", name
    )
    return values


def curve_points(page: Page, index: int = 0) -> list[tuple[float, float]]:
    """The corners of a drawn curve in pixels."""
    drawn = page.locator("#curve polyline").nth(index).get_attribute("points") or ""
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in drawn.split())]


def percent(share: float) -> str:
    """A share as the page writes it."""
    return f"{share * 100:.1f}\u00a0%"
