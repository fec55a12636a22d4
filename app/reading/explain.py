"""How a text was read: the answer after every word, skips, memory groups, attention, n-grams, and so on; or a summary.

All functions give plain values and NumPy arrays that ``orjson`` writes. Numbers stay float32, so that the
last step's probabilities are the answer's, digit for digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.manifest import Manifest
from app.reading.answer import Answer

_MOVERS = 5  # a summary fits on a screen
_NGRAMS = 5  # likewise


def steps(answer: Answer) -> dict[str, Any]:
    """Tokens, character offsets, unknown words, and per token probabilities ``[tokens, classes]`` and sentiment."""
    probabilities = np.ascontiguousarray(answer.reading.steps["probabilities"])
    found: dict[str, Any] = {
        "tokens": answer.text.tokens,
        "offsets": answer.text.offsets,
        "probs": probabilities,
    }
    if answer.model.manifest.polarity is not None:
        found["sentiment"] = sentiment(answer.model.manifest, probabilities)
    if answer.model.manifest.unknown_id >= 0:
        found["unknown"] = np.flatnonzero(answer.text.token_ids == answer.model.manifest.unknown_id)
    found["causal"] = answer.model.manifest.trace.causal
    return found


def sentiment(manifest: Manifest, probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Expected polarity in [-1, 1] per token, ``[tokens]``; the manifest must have polarities."""
    polarity = np.asarray(manifest.polarity, np.float32)
    expected: NDArray[np.float32] = np.clip(probabilities @ polarity, -1, 1)
    return expected


def skip_map(answer: Answer) -> dict[str, Any]:
    """Which words a skipping model passed over, and how probable keeping each was where it decides word by word."""
    written = answer.reading.steps
    found: dict[str, Any] = {"skipped": np.ascontiguousarray(written["skipped"])}
    if "keep_probability" in written:
        found["keep_probability"] = np.ascontiguousarray(written["keep_probability"])
    return {**found, "skip_rate": skip_rate(answer)}


def skip_rate(answer: Answer) -> float:
    """The share of words that were skipped."""
    return float(answer.reading.steps["skipped"].mean())


def skim_map(answer: Answer) -> dict[str, Any]:
    """Which words were read with the small cell, and how probable reading each with the large one was."""
    written = answer.reading.steps
    return {
        "skimmed": np.ascontiguousarray(written["skimmed"]),
        "read_probability": np.ascontiguousarray(written["read_probability"]),
        "skim_rate": skim_rate(answer),
    }


def skim_rate(answer: Answer) -> float:
    """The share of words that were skimmed."""
    return float(answer.reading.steps["skimmed"].mean())


def groups(manifest: Manifest, tokens: int, words_before: int = 0) -> dict[str, list[int]]:
    """Sizes and periods of the memory groups, and the updates of each by ``tokens`` words after so many others."""
    found = manifest.groups or ()
    return {
        "sizes": [group.size for group in found],
        "periods": [group.period for group in found],
        "updates": [
            (words_before + tokens) // group.period - words_before // group.period for group in found
        ],
    }


def forgetting(answer: Answer) -> dict[str, Any]:
    """Forgetting rates of the memory groups, slowest first: per token ``[tokens, groups]``, and their means."""
    rates = np.ascontiguousarray(answer.reading.steps["forgetting_rates"])
    return {"rates": rates, "mean_rates": rates.mean(axis=0)}


def attention(answer: Answer, whole: bool) -> dict[str, Any]:
    """How much the model attended to each word, the mean of its hops; over the text it adds up to 1.

    Args:
        answer: of a model that attends.
        whole: also tell it for every token, ``[tokens]``.
    """
    score, results = answer.reading.steps["attention_score"], answer.reading.results
    weights = (np.exp(score - results["attention_largest"]) / results["attention_sum"]).mean(axis=1)
    most = np.argsort(-weights, kind="stable")[:_MOVERS]
    found: dict[str, Any] = {"weights": weights} if whole else {}
    found["top"] = [{**_word(answer, index), "weight": weights[index]} for index in most.tolist()]
    return found


def ngrams(answer: Answer, whole: bool) -> dict[str, Any]:
    """Which n-grams won the pooled features, and with how much weight.

    Windows that begin before the text are n-grams of the words that they hold.

    Args:
        answer: of a model of windows.
        whole: also tell, per token, the share of the features that were won by windows ending there.
    """
    tokens, windows = len(answer.text.token_ids), answer.model.manifest.windows or ()
    last = answer.reading.results["last_word"]
    words = np.repeat([window.words for window in windows], [window.features for window in windows])
    first = np.maximum(0, last - words + 1)
    won, place, counts = np.unique(first * tokens + last, return_inverse=True, return_counts=True)
    weights = np.bincount(place, answer.reading.results["feature_weight"])
    strongest = np.argsort(-np.abs(weights), kind="stable")[:_NGRAMS]
    found: dict[str, Any] = {}
    if whole:
        found["share"] = (np.bincount(last, minlength=tokens) / len(last)).astype(np.float32)
    found["top"] = [
        {
            **_ngram(answer, *divmod(int(won[index]), tokens)),
            "share": counts[index] / len(last),
            "weight": weights[index],
        }
        for index in strongest.tolist()
    ]
    return found


def halves(answer: Answer, whole: bool) -> dict[str, Any]:
    """What the fast and the slow units add to the label's logit over the mean of all labels.

    Args:
        answer: of a model that has them.
        whole: also tell it per token, ``[tokens, 2]``.
    """
    logits = answer.reading.steps["half_logits"]  # (tokens, 2, classes)
    weights = logits[..., answer.winner] - logits.mean(axis=-1)
    specs = answer.model.manifest.halves or ()
    found: dict[str, Any] = {"units": [half.units for half in specs], "tau": [half.tau for half in specs]}
    if whole:
        found["weights"] = np.ascontiguousarray(weights)
    found["final_weights"] = np.ascontiguousarray(weights[-1])
    return found


def summary(answer: Answer) -> dict[str, Any]:
    """Turning points, where another label took the lead, and the words that moved the answer most.

    Before the first word of a document no label leads, and each is as probable as the others.
    """
    labels = answer.model.manifest.labels
    before = answer.probabilities_before
    start = np.full(len(labels), 1 / len(labels), np.float32) if before is None else before
    probabilities = np.vstack([start, answer.reading.steps["probabilities"]])
    leaders = probabilities.argmax(axis=1)
    turns = np.flatnonzero(leaders[1:] != leaders[:-1])
    if before is None:
        turns = turns[turns > 0]
    moves = np.diff(probabilities[:, answer.winner])
    movers = np.argsort(-np.abs(moves), kind="stable")[:_MOVERS]
    return {
        "turning_points": [
            {**_word(answer, index), "from": labels[leaders[index]], "to": labels[leaders[index + 1]]}
            for index in turns.tolist()
        ],
        "moved_most": [{**_word(answer, index), "change": moves[index]} for index in movers.tolist()],
    }


def _word(answer: Answer, index: int) -> dict[str, Any]:
    start, end = answer.text.offsets[index].tolist()
    token = answer.text.added.get(index) or answer.text.text[start:end]
    return {"index": index, "token": token, "offset": [start, end]}


def _ngram(answer: Answer, first: int, last: int) -> dict[str, Any]:
    start, end = int(answer.text.offsets[first, 0]), int(answer.text.offsets[last, 1])
    text = answer.text.text[start:end] or answer.text.added.get(first, "")  # [CLS] alone has an empty span
    return {"first": first, "last": last, "text": text, "offset": [start, end]}
