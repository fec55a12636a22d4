"""``POST /classify/stream``: the way a document is read, told while it is read, as server-sent events.

``steps`` for every segment, then ``answer``, or ``error`` with problem details. What goes wrong before the first
event is answered like everywhere else, with a status of its own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import orjson
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.classify import encode, wishes
from app.api.exchange import Accepted, accept, counted, while_connected
from app.api.schema import ClassifyRequest, parse_stream_request
from app.errors import InternalError, Problem
from app.reading import explain
from app.reading.answer import Answer
from app.service import Service

# Proxies that hold answers back to fill their buffers would undo the purpose.
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


async def stream(request: Request) -> Response:
    """Classify one document and tell after each segment how it was read."""
    return await counted(request, _begin)


async def _begin(service: Service, request: Request) -> Response:
    accepted: Accepted[ClassifyRequest] = await accept(service, request, parse_stream_request, wishes)
    (text,) = accepted.asked.texts
    answers = service.follow(
        accepted.model, text, accepted.wanted, accepted.patience_seconds, accepted.caller
    )
    first = await while_connected(request, anext(answers))
    return _Stream(accepted, first, answers)


class _Stream(EventSourceResponse):
    """Tells what comes; a client that leaves ends the reading at its next border."""

    def __init__(
        self, accepted: Accepted[ClassifyRequest], first: Answer, further: AsyncGenerator[Answer]
    ) -> None:
        super().__init__(self._events(first), headers=_HEADERS)
        self._accepted = accepted
        self._further = further
        self._ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events as they come."""
        metrics = self._accepted.service.metrics
        with metrics.open_streams.track_inprogress():
            try:
                await super().__call__(scope, receive, send)
            finally:
                await self._further.aclose()
        if not self._ended:
            metrics.disconnects_total.inc()

    async def _events(self, answer: Answer) -> AsyncIterator[bytes]:
        tokens = 0
        try:
            yield _steps(answer, tokens)
            async for further in self._further:
                tokens, answer = len(answer.text.token_ids), further
                if len(answer.text.token_ids) > tokens:
                    yield _steps(answer, tokens)
            body, _ = await self._accepted.encode(self._accepted.answered([answer]), encode)
            yield _event("answer", body)
        except Problem as problem:
            yield _event("error", orjson.dumps(problem.body()))
        except Exception:
            yield _event(
                "error", orjson.dumps(InternalError("The log has more under the request id.").body())
            )
            self._ended = True
            raise
        self._ended = True


def _steps(answer: Answer, first: int) -> bytes:
    """The event of the tokens from ``first`` on; ``first`` counts those of this request."""
    content: dict[str, Any] = {"first": first, **explain.steps(answer.since(first))}
    return _event("steps", orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY))


def _event(name: str, data: bytes) -> bytes:
    return format_sse_event(event=name, data_str=data.decode())
