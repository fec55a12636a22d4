"""What the page computes, asked of its modules in the browser."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page


def call(page: Page, module: str, function: str, *arguments: object) -> Any:
    """Call an exported function of one of the page's modules."""
    script = "async ([module, name, given]) => (await import(`/static/${module}.js`))[name](...given)"
    return page.evaluate(script, [module, function, list(arguments)])


def test_downsampling_keeps_all_values_that_fit(page: Page) -> None:
    assert call(page, "downsample", "downsample", [0.1, 0.5, 0.2], 100) == [0, 1, 2]


def test_downsampling_keeps_every_peak(page: Page) -> None:
    values = [0.0] * 5000
    values[1234], values[4321] = 1.0, -1.0
    kept = call(page, "downsample", "downsample", values, 100)
    assert {0, 1234, 4321, 4999} <= set(kept)
    assert kept == sorted(set(kept))
    assert len(kept) <= 2 * 100 + 2


def test_offsets_count_characters_beyond_the_basic_plane_once(page: Page) -> None:
    text = "a 🎬🎬 b"
    assert call(page, "reading", "utf16Spans", text, [[0, 1], [2, 4], [5, 6]]) == [[0, 1], [2, 6], [7, 8]]


def test_server_timing_is_read_stage_by_stage(page: Page) -> None:
    stages = call(page, "service", "parseServerTiming", 'cache, queue;dur=0.25, run;desc="x";dur=3')
    assert stages == [{"name": "queue", "durationMs": 0.25}, {"name": "run", "durationMs": 3}]


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("ArrowLeft", 0),
        ("ArrowRight", 2),
        ("PageDown", 11),
        ("PageUp", 0),
        ("Home", 0),
        ("End", 19),
        ("a", None),
    ],
)
def test_keys_stay_within_the_words(page: Page, key: str, word: int | None) -> None:
    assert call(page, "dom", "moveByKey", key, 1, 20) == word
