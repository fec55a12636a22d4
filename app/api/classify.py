"""``POST /classify``: read the body, classify, answer.

The route is documented like any other, but is called with the plain request: solving dependencies and
validating the answer would cost more than reading a short text.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from app import explain
from app.answer import Answer
from app.api.body import read_body
from app.api.middleware import CLIENT_GONE
from app.api.schema import ClassifyRequest, parse_request
from app.engine.model import Model
from app.errors import Problem, Refused, TooManyDocuments
from app.service import Service

_LARGE_BYTES = 64 * 1024  # of a body: from here on parsing it is noticed by others on the event loop
_MANY_TOKENS = 2_000  # of an answer: likewise for encoding it
_JSON = orjson.OPT_SERIALIZE_NUMPY

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


async def classify(request: Request) -> Response:
    """Classify one document or several and tell how they were read."""
    service: Service = request.app.state.service
    try:
        return await _classify(service, request)
    except Refused as refusal:
        service.metrics.refused_total.labels(refusal.slug).inc()
        raise
    except ClientDisconnect:
        service.metrics.disconnects_total.inc()
        return Response(status_code=CLIENT_GONE)


async def _classify(service: Service, request: Request) -> Response:
    body = await read_body(request, service.settings.max_body_bytes)
    asked = await _off_loop(len(body) > _LARGE_BYTES, parse_request, body)
    texts = asked.texts
    if len(texts) > service.settings.max_documents:
        raise TooManyDocuments(
            f"Expected at most {service.settings.max_documents} documents, got {len(texts)}."
        )
    model = service.registry.find(asked.model)
    deadline_seconds = None if asked.deadline_ms is None else asked.deadline_ms / 1000
    answers = await _while_connected(
        request, service.classify(model, texts, asked.truncate, deadline_seconds)
    )
    _raise_if_all_failed(answers)
    started = time.perf_counter()
    tokens = sum(len(answer.text.token_ids) for answer in answers if isinstance(answer, Answer))
    encoded = await _off_loop(
        tokens > _MANY_TOKENS, encode, request.state.request_id, model, asked, answers, tokens
    )
    encode_seconds = time.perf_counter() - started
    service.metrics.stage_seconds.labels(model.manifest.name, "encode").observe(encode_seconds)
    headers = {"server-timing": server_timing(answers, encode_seconds)}
    return Response(encoded, headers=headers, media_type="application/json")


async def _off_loop(
    large: bool, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    return await asyncio.to_thread(function, *args, **kwargs) if large else function(*args, **kwargs)


async def _while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Await ``work``; cancel it as soon as the client is gone.

    Raises:
        ClientDisconnect: the client left first.
    """
    answering = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientDisconnect
        return await answering
    finally:
        answering.cancel()
        leaving.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _raise_if_all_failed(answers: Sequence[Answer | Problem]) -> None:
    """Where nothing was answered, the first document's problem is the request's."""
    if all(isinstance(answer, Problem) for answer in answers):
        first = answers[0]
        assert isinstance(first, Problem)
        raise first


def encode(
    request_id: str,
    model: Model,
    asked: ClassifyRequest,
    answers: Sequence[Answer | Problem],
    tokens: int,
) -> bytes:
    """The body of the answer."""
    return orjson.dumps(
        {
            "id": request_id,
            "object": "list",
            "created": int(time.time()),
            "model": model.id,
            "labels": model.manifest.labels,
            "data": [
                {"index": index, "error": answer.body()}
                if isinstance(answer, Problem)
                else {"index": index, **describe(answer, asked)}
                for index, answer in enumerate(answers)
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
    if asked.top_k is not None:
        order = (-probabilities).argsort(kind="stable")[: asked.top_k].tolist()
        found["top"] = [{"label": manifest.labels[one], "score": probabilities[one]} for one in order]
    if asked.raw_scores:
        found["raw_scores"] = answer.reading.steps["logits"][-1]
    if asked.explain == "steps":
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
    if manifest.windows:
        found["ngrams"] = explain.ngrams(answer, whole)
    if manifest.attends:
        found["attention"] = explain.attention(answer, whole)
    if manifest.forgets:
        forgetting = explain.forgetting(answer)
        found["forgetting"] = forgetting if whole else {"mean_rates": forgetting["mean_rates"]}
    if manifest.groups:
        found["groups"] = explain.groups(manifest, len(answer.text.token_ids))
    return found


def server_timing(answers: Sequence[Answer | Problem], encode_seconds: float) -> str:
    """``Server-Timing`` in milliseconds: cutting all texts, then queue and runs of the slowest document."""
    read = [answer for answer in answers if isinstance(answer, Answer)]
    slowest = max(read, key=lambda answer: answer.reading.queue_seconds + answer.reading.run_seconds)
    stages = {
        "tokenize": sum(answer.tokenize_seconds for answer in read),
        "queue": slowest.reading.queue_seconds,
        "run": slowest.reading.run_seconds,
        "encode": encode_seconds,
    }
    return ", ".join(f"{stage};dur={seconds * 1000:.3f}" for stage, seconds in stages.items())
