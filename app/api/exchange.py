"""What every route that classifies does alike: read the body, let the service read, answer.

A dialect brings a function that parses its body and one that writes its answer. Such a route is documented
like any other, but is called with the plain request: solving dependencies and validating the answer would
cost more than reading a short text.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from app.answer import Answer
from app.api.access import caller_of
from app.api.body import read_body
from app.api.middleware import CLIENT_GONE
from app.engine.registry import LoadedModel
from app.errors import InvalidRequest, Problem, Refused, TooManyDocuments
from app.service import Service
from app.text import Truncate
from app.tracing import RequestSpan

DEADLINE_HEADER = "x-request-deadline-ms"
LONGEST_DEADLINE_MS = 3_600_000
_LARGE_BYTES = 64 * 1024  # of a body: from here on parsing it is noticed by others on the event loop
_MANY_TOKENS = 2_000  # of an answer: likewise for encoding it

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Asked(Protocol):
    """A request, whatever its dialect."""

    @property
    def texts(self) -> Sequence[str]:
        """The documents."""

    @property
    def model(self) -> str | None:
        """Who reads; None is the default."""

    @property
    def truncate(self) -> Truncate:
        """What happens to documents beyond the limit."""

    @property
    def deadline_ms(self) -> int | None:
        """How long the answer may take; None leaves it to the header and the settings."""


AskedT = TypeVar("AskedT", bound=Asked)


@dataclass(frozen=True, slots=True)
class Exchange(Generic[AskedT]):
    """A request with its answers."""

    request_id: str
    model: LoadedModel
    asked: AskedT
    answers: Sequence[Answer | Problem]

    @property
    def tokens(self) -> int:
        """Tokens that were read."""
        return sum(len(answer.text.token_ids) for answer in self.answers if isinstance(answer, Answer))

    @property
    def all_read(self) -> Sequence[Answer]:
        """The answers, for dialects that know none that fails beside others.

        Raises:
            Problem: the first document's that failed.
        """
        for answer in self.answers:
            if isinstance(answer, Problem):
                raise answer
        return [answer for answer in self.answers if isinstance(answer, Answer)]


Parse = Callable[[bytes], AskedT]
Encode = Callable[[Exchange[AskedT]], bytes]


async def exchange(request: Request, parse: Parse[AskedT], encode: Encode[AskedT]) -> Response:
    """Serve one request.

    Raises:
        Problem: it is refused, or none of its documents could be read.
    """
    service: Service = request.app.state.service
    try:
        return await _exchange(service, request, parse, encode)
    except Refused as refusal:
        service.metrics.refused_total.labels(refusal.slug).inc()
        raise
    except ClientDisconnect:
        service.metrics.disconnects_total.inc()
        return Response(status_code=CLIENT_GONE)


async def _exchange(
    service: Service, request: Request, parse: Parse[AskedT], encode: Encode[AskedT]
) -> Response:
    arrived_seconds = time.monotonic()
    caller = caller_of(request)
    if caller is not None and caller.quota is not None:
        caller.quota.check()
    header_ms = _deadline_ms(request)
    body = await read_body(request, service.settings.max_body_bytes)
    asked = await _off_loop(len(body) > _LARGE_BYTES, parse, body)
    if len(asked.texts) > service.settings.max_documents:
        raise TooManyDocuments(
            f"Expected at most {service.settings.max_documents} documents, got {len(asked.texts)}."
        )
    model = service.registry.find(asked.model)
    patience_seconds = _patience_seconds(arrived_seconds, (asked.deadline_ms, header_ms))
    work = service.classify(model, asked.texts, asked.truncate, patience_seconds, caller)
    exchanged = Exchange(request.state.request_id, model, asked, await _while_connected(request, work))
    _raise_if_all_failed(exchanged.answers)
    started = time.perf_counter()
    encoded = await _off_loop(exchanged.tokens > _MANY_TOKENS, encode, exchanged)
    encode_seconds = time.perf_counter() - started
    service.metrics.stage_seconds.labels(model.manifest.name, "encode").observe(encode_seconds)
    stages = stage_seconds(exchanged.answers, encode_seconds)
    span: RequestSpan | None = request.state.span
    if span is not None:
        span.add_stages(
            stages,
            {
                "readtrace.model": model.id,
                "readtrace.documents": len(exchanged.answers),
                "readtrace.tokens": exchanged.tokens,
            },
        )
    headers = {"server-timing": server_timing(stages)}
    return Response(encoded, headers=headers, media_type="application/json")


def _deadline_ms(request: Request) -> int | None:
    given = request.headers.get(DEADLINE_HEADER)
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and 1 <= int(given[:10]) <= LONGEST_DEADLINE_MS):
        raise InvalidRequest(
            f"Header {DEADLINE_HEADER!r}: expected milliseconds from 1 to {LONGEST_DEADLINE_MS}, "
            f"got {given[:20]!r}."
        )
    return int(given)


def _patience_seconds(arrived_seconds: float, given_ms: Sequence[int | None]) -> float | None:
    """What is left of the least that was given since the request arrived."""
    ms = min((one for one in given_ms if one is not None), default=None)
    return None if ms is None else max(0.001, arrived_seconds + ms / 1000 - time.monotonic())


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


def stage_seconds(answers: Sequence[Answer | Problem], encode_seconds: float) -> dict[str, float]:
    """The seconds of a request's stages: cutting all texts, then queue and runs of the slowest document."""
    read = [answer for answer in answers if isinstance(answer, Answer)]
    slowest = max(read, key=lambda answer: answer.reading.queue_seconds + answer.reading.run_seconds)
    return {
        "tokenize": sum(answer.tokenize_seconds for answer in read),
        "queue": slowest.reading.queue_seconds,
        "run": slowest.reading.run_seconds,
        "encode": encode_seconds,
    }


def server_timing(stages: Mapping[str, float]) -> str:
    """The header ``Server-Timing``, in milliseconds."""
    return ", ".join(f"{stage};dur={seconds * 1000:.3f}" for stage, seconds in stages.items())
