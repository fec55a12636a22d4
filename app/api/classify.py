"""``POST /classify``: documents in, labels and the way they were read out."""

from __future__ import annotations

import time
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from app.api.exchange import Exchange, Wishes, exchange
from app.api.schema import ClassifyRequest, parse_request
from app.errors import InvalidRequest, Problem
from app.reading import explain
from app.reading.answer import Answer

_JSON = orjson.OPT_SERIALIZE_NUMPY


async def classify(request: Request) -> Response:
    """Classify one document or several and tell how they were read."""
    return await exchange(request, parse_request, encode, wishes)


def wishes(asked: ClassifyRequest) -> Wishes:
    """What is asked for beyond the plain.

    Raises:
        InvalidRequest: it cannot be had together.
    """
    if asked.state is not None and len(asked.texts) != 1:
        raise InvalidRequest(f"Field 'input': expected one document with 'state', got {len(asked.texts)}.")
    if asked.state is not None and asked.truncate == "left":
        raise InvalidRequest("Field 'truncate': expected 'error' or 'right' with 'state', got 'left'.")
    return Wishes(asked.partial, asked.state, asked.return_state)


def encode(answered: Exchange[ClassifyRequest]) -> bytes:
    """The body of the answer."""
    model, asked, tokens = answered.model, answered.asked, answered.tokens
    return orjson.dumps(
        {
            "id": answered.request_id,
            "object": "list",
            "created": int(time.time()),
            "model": model.id,
            "labels": model.manifest.labels,
            "data": [
                {"index": index, "error": answer.body()}
                if isinstance(answer, Problem)
                else {"index": index, **describe(answer, asked)}
                for index, answer in enumerate(answered.answers)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        },
        option=_JSON,
    )


def describe(answer: Answer, asked: ClassifyRequest) -> dict[str, Any]:
    """One document's part of the answer; what its model cannot give is absent."""
    manifest = answer.model.manifest
    probabilities = answer.probabilities
    found: dict[str, Any] = {
        "label": manifest.labels[answer.winner],
        "score": probabilities[answer.winner],
        "probs": probabilities,
        "num_classes": len(manifest.labels),
        "truncated": answer.text.truncated,
    }
    if answer.partial:
        found["partial"] = {"read": answer.share_read, "offset": answer.text.offsets[-1, 1]}
    if answer.state is not None:
        found["state"] = answer.state
    if asked.top_k is not None:
        order = (-probabilities).argsort(kind="stable")[: asked.top_k].tolist()
        found["top"] = [{"label": manifest.labels[one], "score": probabilities[one]} for one in order]
    if asked.raw_scores:
        found["raw_scores"] = answer.reading.steps["logits"][-1]
    if asked.tells_steps:
        found["steps"] = explain.steps(answer)
    if asked.explain == "summary":
        found["summary"] = explain.summary(answer)
    if asked.explain != "none":
        found |= _besides(answer, asked)
    return found


def _besides(answer: Answer, asked: ClassifyRequest) -> dict[str, Any]:
    manifest, whole = answer.model.manifest, asked.explain == "steps"
    found: dict[str, Any] = {}
    if manifest.skips:
        found["skip_map"] = explain.skip_map(answer) if whole else {"skip_rate": explain.skip_rate(answer)}
    if manifest.skims:
        found["skim_map"] = explain.skim_map(answer) if whole else {"skim_rate": explain.skim_rate(answer)}
    if manifest.windows and not answer.words_before:  # else they may lie in a text that is not here
        found["ngrams"] = explain.ngrams(answer, whole)
    if manifest.attends:
        found["attention"] = explain.attention(answer, whole)
    if manifest.forgets:
        forgetting = explain.forgetting(answer)
        found["forgetting"] = forgetting if whole else {"mean_rates": forgetting["mean_rates"]}
    if manifest.halves:
        found["halves"] = explain.halves(answer, whole)
    if manifest.groups:
        found["groups"] = explain.groups(manifest, len(answer.text.token_ids), answer.words_before)
    return found
