"""The bundles that ship, and what README.md says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.bundle import CARD, find_bundles, read_manifest
from benchmarks.shipped import BUNDLES, newest
from tests.readme import README, ask, block, models_table
from tests.service import running_server

_LARGEST_BYTES, _ALL_BYTES = 8_000_000, 25_000_000
_FLOORS = {
    "sst2": 0.84,
    "imdb": 0.90,
    "ag-news": 0.90,
    "trec": 0.89,
}  # test accuracy below which a model does not ship
_TEXTS = ["Is this progress ?", "He 'd create a movie better than this ."]


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running_server(BUNDLES) as server, server.client() as client:
        yield client


def classify(client: httpx.Client, model: str) -> dict[str, Any]:
    answer: dict[str, Any] = (
        client.post("/classify", json={"input": _TEXTS, "model": model}).raise_for_status().json()
    )
    return answer


def test_bundles_are_small() -> None:
    sizes = {folder: size(folder) for folder in find_bundles(BUNDLES)}
    assert max(sizes.values()) <= _LARGEST_BYTES
    assert sum(sizes.values()) <= _ALL_BYTES


@pytest.mark.parametrize("name", _FLOORS)
def test_card_tells_data_terms_recipe_seed_and_measures(name: str) -> None:
    manifest = read_manifest(newest(name))
    card = (newest(name) / CARD).read_text(encoding="utf-8")
    training = manifest.training
    for told in (
        training.data,
        training.terms,
        f"`{training.recipe}`",
        f"seed {training.seed}",
        "Beside other",
    ):
        assert told in card
    for split in ("dev", "test"):
        assert f"{training.metrics[split]['accuracy']:.4f}" in card
    assert training.metrics["test"]["accuracy"] >= _FLOORS[name]


@pytest.mark.parametrize("name", _FLOORS)
def test_answers_are_as_documented(client: httpx.Client, name: str) -> None:
    answer = classify(client, name)
    for text, document in zip(_TEXTS, answer["data"], strict=True):
        assert sum(document["probs"]) == pytest.approx(1, abs=1e-5)
        assert document["steps"]["probs"][-1] == document["probs"]
        assert (
            [text[a:b] for a, b in document["steps"]["offsets"]]
            == document["steps"]["tokens"]
            == text.split()
        )
        assert ("sentiment" in document["steps"]) == (name in ("sst2", "imdb"))
        assert all(-1 <= value <= 1 for value in document["steps"].get("sentiment", []))


def test_the_question_model_tells_the_phrases_that_decided(client: httpx.Client) -> None:
    question = "How many bridges cross the river in Prague ?"
    (document,) = (
        client.post("/classify", json={"input": question, "model": "trec"}).raise_for_status().json()["data"]
    )
    assert document["label"] == "NUM"
    assert document["steps"]["causal"]
    told = [ngram["text"] for ngram in document["ngrams"]["top"] if ngram["weight"] > 0]
    assert any("How many" in phrase for phrase in told), told


def test_the_news_model_skips_at_its_target(client: httpx.Client) -> None:
    rate = read_manifest(newest("ag-news")).training.metrics["test"]["skip_rate"]
    assert 0.5 <= rate <= 0.7
    (document, _) = classify(client, "ag-news")["data"]
    assert len(document["skip_map"]["skipped"]) == len(document["steps"]["tokens"])


def assert_close(found: Any, told: Any) -> None:
    """Equal but for the last digits of numbers, which differ between processors."""
    assert type(found) is type(told)
    if isinstance(found, dict):
        assert found.keys() == told.keys()
        for name in found.keys() - {"id", "created"}:
            assert_close(found[name], told[name])
    elif isinstance(found, list):
        for one, other in zip(found, told, strict=True):
            assert_close(one, other)
    else:
        assert found == (pytest.approx(told, abs=1e-4) if isinstance(told, float) else told)


def test_readme_shows_the_models_and_a_real_answer() -> None:
    text = README.read_text(encoding="utf-8")
    assert block(text, "models") == models_table()
    assert_close(ask(), json.loads(block(text, "answer")))
