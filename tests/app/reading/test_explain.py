from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from app.api.classify import describe
from app.api.schema import ClassifyRequest
from app.engine.golden import read_alone
from app.engine.registry import Registry
from app.manifest import WindowSpec
from app.reading import explain
from app.reading.answer import Answer
from app.scheduler.document import Array, Reading
from app.text.tokens import TokenizedText, tokenize

_DTYPES = {"skipped": np.bool_, "skimmed": np.bool_, "last_word": np.int64}
_RESULTS = ("last_word", "feature_weight", "attention_largest", "attention_sum")


def answer(registry: Registry, name: str, text: str, **steps: Sequence[object]) -> Answer:
    model = registry.find(name)
    arrays: dict[str, Array] = {
        key: np.array(value, _DTYPES.get(key, np.float32)) for key, value in steps.items()
    }
    results: dict[str, Array] = {key: arrays.pop(key) for key in _RESULTS if key in arrays}
    return Answer(
        model, tokenize(model.tokenizer, text, 100, "error"), Reading(arrays, 0.0, 0.0, results), 0.0
    )


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
    assert [mover["token"] for mover in found["moved_most"]] == ["bad", "good", "a", "film"]
    assert found["moved_most"][0]["offset"] == [12, 15]
    changes = [mover["change"] for mover in found["moved_most"]]
    np.testing.assert_allclose(changes, [0.65, -0.3, 0.1, -0.05], atol=1e-6)


def test_summary_of_one_word_says_that_it_decided(registry: Registry) -> None:
    """Without a word both labels are as probable, and none leads."""
    found = explain.summary(answer(registry, "reviews", "bad", probabilities=[[0.9, 0.1]]))
    assert found["turning_points"] == []
    assert np.isclose(found["moved_most"][0]["change"], 0.4)


def test_summary_of_a_continued_document_begins_with_the_earlier_answer(registry: Registry) -> None:
    further = answer(registry, "reviews", "bad film", probabilities=[[0.9, 0.1], [0.8, 0.2]])
    before = np.array([0.25, 0.75], np.float32)
    found = explain.summary(replace(further, words_before=4, probabilities_before=before))
    turns = [(turn["index"], turn["token"], turn["from"], turn["to"]) for turn in found["turning_points"]]
    assert turns == [(0, "bad", "positive", "negative")]
    np.testing.assert_allclose([mover["change"] for mover in found["moved_most"]], [0.65, -0.1], atol=1e-6)


def test_skip_rate_is_the_share_of_skipped_words(registry: Registry) -> None:
    read = answer(
        registry,
        "topics",
        "win a loss .",
        skipped=[False, True, False, False],
        keep_probability=[0.9, 0.1, 0.8, 0.7],
    )
    assert explain.skip_map(read)["skip_rate"] == 0.25


def test_model_that_jumps_tells_no_keep_probability(registry: Registry) -> None:
    read = answer(registry, "topics", "win a loss .", skipped=[False, True, True, False])
    assert set(explain.skip_map(read)) == {"skipped", "skip_rate"}


def test_skim_rate_is_the_share_of_skimmed_words(registry: Registry) -> None:
    skimmed, probability = [True, True, False, True], [0.1, 0.2, 0.75, 0.4]
    read = answer(registry, "topics", "win a loss .", skimmed=skimmed, read_probability=probability)
    found = explain.skim_map(read)
    assert found["skim_rate"] == 0.75
    assert found["skimmed"].tolist() == skimmed
    assert found["read_probability"].tolist() == np.array(probability, np.float32).tolist()


def test_forgetting_rates_are_averaged_over_the_words(registry: Registry) -> None:
    read = answer(registry, "reviews", "good film", forgetting_rates=[[0.1, 0.5, 0.9], [0.3, 0.5, 0.7]])
    found = explain.forgetting(read)
    assert found["rates"].shape == (2, 3)
    np.testing.assert_allclose(found["mean_rates"], [0.2, 0.5, 0.8], rtol=1e-6)


def test_attention_is_the_mean_of_the_hops(registry: Registry) -> None:
    read = answer(
        registry,
        "reviews",
        "a good  film",
        attention_score=np.log([[1, 5], [2, 5], [5, 10]]).tolist(),
        attention_largest=np.log([5, 10]).tolist(),
        attention_sum=[8 / 5, 2],
    )
    found = explain.attention(read, whole=True)
    np.testing.assert_allclose(found["weights"], [(1 / 8 + 1 / 4) / 2, 1 / 4, (5 / 8 + 1 / 2) / 2], rtol=1e-6)
    assert [(one["token"], one["offset"]) for one in found["top"]] == [
        ("film", [8, 12]),
        ("good", [2, 6]),
        ("a", [0, 1]),
    ]
    assert found["top"][0]["weight"] == found["weights"][2]
    assert set(explain.attention(read, whole=False)) == {"top"}


def test_groups_count_their_updates(registry: Registry) -> None:
    found = explain.groups(registry.find("reviews").manifest, 7)
    assert found == {"sizes": [5, 3], "periods": [1, 2], "updates": [7, 3]}


def test_ngrams_are_the_windows_that_won_by_their_weight(phrase_registry: Registry) -> None:
    read = answer(
        phrase_registry,
        "phrases",
        "it was a  good film",
        last_word=[0, 4, 4, 2, 4, 2, 4, 3],
        feature_weight=[0.125, 0.25, 0.25, -1, 0.25, -0.5, 0.5, -0.0625],
    )
    found = explain.ngrams(read, whole=True)
    assert found["share"].tolist() == [0.125, 0.0, 0.25, 0.125, 0.5]
    assert found["top"] == [
        {"first": 1, "last": 2, "text": "was a", "offset": [3, 8], "share": 0.25, "weight": -1.5},
        {"first": 3, "last": 4, "text": "good film", "offset": [10, 19], "share": 0.5, "weight": 1.25},
        {"first": 0, "last": 0, "text": "it", "offset": [0, 2], "share": 0.125, "weight": 0.125},
        {"first": 2, "last": 3, "text": "a  good", "offset": [7, 14], "share": 0.125, "weight": -0.0625},
    ]
    assert "share" not in explain.ngrams(read, whole=False)


def test_ngrams_hold_the_words_that_were_read_and_added_tokens_by_name(phrase_registry: Registry) -> None:
    """The first two words were cut off; [CLS] stands before the third."""
    read = answer(
        phrase_registry,
        "phrases",
        "it was good",
        last_word=[0, 1, 1, 1, 1, 1, 1, 0],
        feature_weight=[0.5, 0.25, 0, 0, 0, 0, 0, 0.5],
    )
    text = TokenizedText("it was good", np.array([1, 4]), np.array([[7, 7], [7, 11]]), True, {0: "[CLS]"})
    (first, second) = explain.ngrams(replace(read, text=text), whole=False)["top"]
    assert (first["text"], first["offset"], first["weight"]) == ("[CLS]", [7, 7], 1.0)
    assert (second["text"], second["offset"], second["first"]) == ("good", [7, 11], 0)


def test_ngrams_of_several_widths_are_added_up_and_bounded(phrase_registry: Registry) -> None:
    model = phrase_registry.find("phrases")
    windows = tuple(WindowSpec(words=words, features=2) for words in (1, 2, 3, 4))
    wider = replace(model, manifest=model.manifest.model_copy(update={"windows": windows}))
    read = answer(
        phrase_registry,
        "phrases",
        "a good film .",
        last_word=[3, 3, 3, 0, 3, 0, 3, 2],
        feature_weight=[8, 0, 7, 6, 5, 4, 3, 2],
    )
    found = explain.ngrams(replace(read, model=wider), whole=False)
    assert [(one["first"], one["last"]) for one in found["top"]] == [(0, 0), (3, 3), (2, 3), (1, 3), (0, 3)]


def test_describe_tells_the_ngrams_of_a_model_of_windows(phrase_registry: Registry) -> None:
    model = phrase_registry.find("phrases")
    text = tokenize(model.tokenizer, "the good film was not dull !", 100, "error")
    written = read_alone(model, text.text)
    results = {name: written[name] for name in ("last_word", "feature_weight")}
    read = Answer(model, text, Reading(written, 0.0, 0.0, results), 0.0)
    steps = describe(read, ClassifyRequest(input=text.text))
    short = describe(read, ClassifyRequest(input=text.text, explain="summary"))
    assert sum(steps["ngrams"]["share"]) == pytest.approx(1)
    assert len(steps["ngrams"]["share"]) == 7
    assert short["ngrams"] == {"top": steps["ngrams"]["top"]}
    assert "ngrams" not in describe(read, ClassifyRequest(input=text.text, explain="none"))
