"""What every route that classifies does alike: read the body, let the service read, answer.

A dialect brings a function that parses its body and one that writes its answer. Such a route is documented
like any other, but is called with the plain request: solving dependencies and validating the answer would
cost more than reading a short text.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, ParamSpec, Protocol, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from app.api.access import caller_of, service_of
from app.api.body import BodyRoom, read_body
from app.api.middleware import CLIENT_GONE
from app.api.schema import DEADLINE_HEADER, LONGEST_DEADLINE_MS
from app.engine.registry import LoadedModel
from app.errors import STATE_PROBLEMS, InvalidRequest, Problem, Refused, TooManyDocuments
from app.keys import Caller
from app.lag import WAITED
from app.observability.tracing import RequestSpan
from app.reading.answer import Answer
from app.reading.read_request import Wanted
from app.service import Service
from app.text.tokens import Truncate

_MOST_DIGITS = 10  # leading zeros with them: Python converts no number of thousands of digits
_MOMENT_SECONDS = 0.05
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
Wish = Callable[[AskedT], "Wishes"]
Serve = Callable[[Service, Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What only some dialects can ask for."""

    partial: bool = False  # at the deadline what was read so far
    state: str | None = None  # of an earlier answer, to go on from
    return_state: bool = False


@dataclass(frozen=True, slots=True)
class Accepted(Generic[AskedT]):
    """A request that was read and whose model is known."""

    service: Service
    request: Request
    asked: AskedT
    model: LoadedModel
    wanted: Wanted
    patience_seconds: float | None

    @property
    def caller(self) -> Caller | None:
        """Who asks."""
        return caller_of(self.request)

    def answered(self, answers: Sequence[Answer | Problem]) -> Exchange[AskedT]:
        """The request with its answers."""
        return Exchange(self.request.state.request_id, self.model, self.asked, answers)

    async def encode(
        self, answered: Exchange[AskedT], encode: Encode[AskedT]
    ) -> tuple[bytes, dict[str, float]]:
        """The body of the answer, and the seconds of the request's stages, which are accounted for."""
        started = time.perf_counter()
        encoded = await _off_loop(answered.tokens > _MANY_TOKENS, encode, answered)
        encode_seconds = time.perf_counter() - started
        self.service.metrics.stage_seconds.labels(self.model.manifest.name, "encode").observe(encode_seconds)
        stages = stage_seconds(answered.answers, encode_seconds)
        span: RequestSpan | None = self.request.state.span
        if span is not None:
            span.add_stages(
                stages,
                {
                    "readtrace.model": self.model.id,
                    "readtrace.documents": len(answered.answers),
                    "readtrace.tokens": answered.tokens,
                },
            )
        return encoded, stages


async def exchange(
    request: Request,
    parse: Parse[AskedT],
    encode: Encode[AskedT],
    wish: Wish[AskedT] = lambda _: Wishes(),
) -> Response:
    """Serve one request with one answer.

    Raises:
        Problem: it is refused, or none of its documents could be read.
    """

    async def serve(service: Service, request: Request) -> Response:
        accepted = await accept(service, request, parse, wish)
        work = service.classify(
            accepted.model, accepted.asked.texts, accepted.wanted, accepted.patience_seconds, accepted.caller
        )
        answered = accepted.answered(await while_connected(request, work))
        _raise_if_all_failed(answered.answers)
        encoded, stages = await accepted.encode(answered, encode)
        headers = {"server-timing": server_timing(stages)}
        return Response(encoded, headers=headers, media_type="application/json")

    return await counted(request, serve)


async def counted(request: Request, serve: Serve) -> Response:
    """Serve one request, and count refusals and clients that leave before their answer begins.

    Raises:
        Problem: what ``serve`` raises.
    """
    service = service_of(request)
    try:
        return await serve(service, request)
    except Refused as refusal:
        service.metrics.refused_total.labels(refusal.slug).inc()
        raise
    except STATE_PROBLEMS as problem:
        service.metrics.refused_states_total.labels(problem.slug).inc()
        raise
    except ClientDisconnect:
        service.metrics.disconnects_total.inc()
        return Response(status_code=CLIENT_GONE)


async def accept(
    service: Service, request: Request, parse: Parse[AskedT], wish: Wish[AskedT]
) -> Accepted[AskedT]:
    """Read a request.

    Raises:
        Problem: it is refused.
        ClientDisconnect: the client left before its end.
    """
    arrived_seconds = time.monotonic() - request.scope["state"].get(WAITED, 0.0)
    service.check_quota(caller_of(request))  # before its body is paid for, and again when it is queued
    header_ms = _deadline_ms(request)
    bodies: BodyRoom = request.app.state.bodies
    with bodies.body() as hold:
        body = await read_body(request, service.settings.max_body_bytes, hold)
        asked = await _off_loop(len(body) > _LARGE_BYTES, parse, body)
        del body
    if len(asked.texts) > service.settings.max_documents:
        raise TooManyDocuments(
            f"Expected at most {service.settings.max_documents} documents, got {len(asked.texts)}."
        )
    wishes = wish(asked)
    model, continued = service.resolve(asked.model, wishes.state)
    wanted = Wanted(asked.truncate, wishes.partial, continued, wishes.return_state)
    patience_seconds = _patience_seconds(arrived_seconds, (asked.deadline_ms, header_ms))
    return Accepted(service, request, asked, model, wanted, patience_seconds)


def _deadline_ms(request: Request) -> int | None:
    given = request.headers.get(DEADLINE_HEADER)
    if given is None:
        return None
    digits = given.isascii() and given.isdigit() and len(given) <= _MOST_DIGITS
    if not (digits and 1 <= int(given) <= LONGEST_DEADLINE_MS):
        raise InvalidRequest(
            f"Header {DEADLINE_HEADER!r}: expected milliseconds from 1 to {LONGEST_DEADLINE_MS}, "
            f"got {given if digits else 'a string'}."
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


async def while_connected(request: Request, work: Awaitable[Result]) -> Result:
    """Await ``work``; cancel it when the client is gone.

    Nobody looks for that in the first moment, in which most requests are answered: it takes a task of its own.

    Raises:
        ClientDisconnect: the client left first.
    """
    here = asyncio.current_task()
    assert here is not None
    left = False
    leaving: asyncio.Future[None] | None = None

    def leave(_: asyncio.Future[None]) -> None:
        nonlocal left
        if leaving is not None:  # or the work ended in this very turn of the loop
            left = True
            here.cancel()

    def look() -> None:
        nonlocal leaving
        leaving = asyncio.ensure_future(_disconnected(request))
        leaving.add_done_callback(leave)

    timer = asyncio.get_running_loop().call_later(_MOMENT_SECONDS, look)
    try:
        return await work
    except asyncio.CancelledError:
        if left and not here.uncancel():
            raise ClientDisconnect from None
        raise
    finally:
        timer.cancel()
        if leaving is not None:
            leaving.cancel()
            leaving = None


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
