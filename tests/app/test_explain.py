from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app import explain
from app.answer import Answer
from app.engine.registry import Registry
from app.scheduler.document import Reading
from app.text import tokenize


def answer(registry: Registry, name: str, text: str, **steps: Sequence[object]) -> Answer:
    model = registry.find(name)
    arrays = {
        key: np.array(value, np.bool_ if key == "skipped" else np.float32) for key, value in steps.items()
    }
    return Answer(model, tokenize(model.tokenizer, text, 100, "error"), Reading(arrays, 0.0, 0.0), 0.0)


def test_sentiment_is_the_expected_polarity(registry: Registry) -> None:
    found = explain.steps(answer(registry, "reviews", "good film", probabilities=[[0.25, 0.75], [1, 0]]))
    assert found["sentiment"].tolist() == [0.5, -1.0]
    assert found["causal"] is True


def test_model_without_polarity_has_no_sentiment(registry: Registry) -> None:
    found = explain.steps(answer(registry, "topics", "win", probabilities=[[0.2, 0.3, 0.5]]))
    assert "sentiment" not in found


def test_summary_names_turning_points_and_movers(registry: Registry) -> None:
    read = [[0.6, 0.4], [0.3, 0.7], [0.25, 0.75], [0.9, 0.1]]
    found = explain.summary(answer(registry, "reviews", "a good film bad", probabilities=read))
    turns = [(turn["token"], turn["from"], turn["to"]) for turn in found["turning_points"]]
    assert turns == [("good", "negative", "positive"), ("bad", "positive", "negative")]
    assert [mover["token"] for mover in found["moved_most"]] == ["bad", "good", "film", "a"]
    assert found["moved_most"][0]["offset"] == [12, 15]
    assert np.isclose(found["moved_most"][0]["change"], 0.65)


def test_skip_rate_is_the_share_of_skipped_words(registry: Registry) -> None:
    read = answer(
        registry,
        "topics",
        "win a loss .",
        skipped=[False, True, False, False],
        keep_probability=[0.9, 0.1, 0.8, 0.7],
    )
    assert explain.skip_map(read)["skip_rate"] == 0.25


def test_forgetting_rates_are_averaged_over_the_words(registry: Registry) -> None:
    read = answer(registry, "reviews", "good film", forgetting_rates=[[0.1, 0.5, 0.9], [0.3, 0.5, 0.7]])
    found = explain.forgetting(read)
    assert found["rates"].shape == (2, 3)
    np.testing.assert_allclose(found["mean_rates"], [0.2, 0.5, 0.8], rtol=1e-6)


def test_groups_count_their_updates(registry: Registry) -> None:
    found = explain.groups(registry.find("reviews").manifest, 7)
    assert found == {"sizes": [5, 3], "periods": [1, 2], "updates": [7, 3]}
