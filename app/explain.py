"""How a text was read: the answer after every word, skipped words, memory groups; or a summary of these.

All functions give plain values and NumPy arrays that ``orjson`` writes. Numbers stay float32, so that the
last step's probabilities are the answer's, digit for digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.answer import Answer
from app.bundle import Manifest

_MOVERS = 5  # a summary fits on a screen


def steps(answer: Answer) -> dict[str, Any]:
    """Tokens, character offsets, and per token the probabilities ``[tokens, classes]`` and the sentiment."""
    probabilities = np.ascontiguousarray(answer.reading.steps["probabilities"])
    found: dict[str, Any] = {
        "tokens": answer.text.tokens,
        "offsets": answer.text.offsets,
        "probs": probabilities,
    }
    if answer.model.manifest.polarity is not None:
        found["sentiment"] = sentiment(answer.model.manifest, probabilities)
    found["causal"] = answer.model.manifest.trace.causal
    return found


def sentiment(manifest: Manifest, probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Expected polarity in [-1, 1] per token, ``[tokens]``; the manifest must have polarities."""
    polarity = np.asarray(manifest.polarity, np.float32)
    expected: NDArray[np.float32] = np.clip(probabilities @ polarity, -1, 1)
    return expected


def skip_map(answer: Answer) -> dict[str, Any]:
    """Which words a skipping model passed over, and how probable keeping each was."""
    written = answer.reading.steps
    return {
        "skipped": np.ascontiguousarray(written["skipped"]),
        "keep_probability": np.ascontiguousarray(written["keep_probability"]),
        "skip_rate": skip_rate(answer),
    }


def skip_rate(answer: Answer) -> float:
    """The share of words that were skipped."""
    return float(answer.reading.steps["skipped"].mean())


def groups(manifest: Manifest, tokens: int) -> dict[str, list[int]]:
    """Sizes and periods of the memory groups, and the updates of each in a text of ``tokens`` words."""
    found = manifest.groups or ()
    return {
        "sizes": [group.size for group in found],
        "periods": [group.period for group in found],
        "updates": [tokens // group.period for group in found],
    }


def forgetting(answer: Answer) -> dict[str, Any]:
    """Forgetting rates of the memory groups, slowest first: per token ``[tokens, groups]``, and their means."""
    rates = np.ascontiguousarray(answer.reading.steps["forgetting_rates"])
    return {"rates": rates, "mean_rates": rates.mean(axis=0)}


def summary(answer: Answer) -> dict[str, Any]:
    """Turning points, where another label took the lead, and the words that moved the answer most."""
    probabilities = answer.reading.steps["probabilities"]
    leaders = probabilities.argmax(axis=1)
    turns = np.flatnonzero(leaders[1:] != leaders[:-1]) + 1
    labels = answer.model.manifest.labels
    moves = _moves(probabilities[:, answer.winner])
    movers = np.argsort(-np.abs(moves), kind="stable")[:_MOVERS]
    return {
        "turning_points": [
            {**_word(answer, index), "from": labels[leaders[index - 1]], "to": labels[leaders[index]]}
            for index in turns.tolist()
        ],
        "moved_most": [{**_word(answer, index), "change": moves[index]} for index in movers.tolist()],
    }


def _moves(winning: NDArray[np.float32]) -> NDArray[np.float32]:
    """How each word changed the winning label's probability; before the first there is nothing to change."""
    return np.diff(winning, prepend=winning[:1])


def _word(answer: Answer, index: int) -> dict[str, Any]:
    start, end = answer.text.offsets[index].tolist()
    return {"index": index, "token": answer.text.text[start:end], "offset": [start, end]}
