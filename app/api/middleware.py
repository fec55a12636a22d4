"""Around every request: its id, metrics, access log, security headers, and the last net for bugs."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable

from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import problem_response
from app.errors import InternalError
from app.keys import Caller
from app.logs import get_logger, where
from app.observability.metrics import OTHER_ROUTE, ROUTE_STATUSES, Metrics
from app.observability.tracing import TRACEPARENT, TRACERESPONSE, Tracing, trace_id_of

REQUEST_ID = "x-request-id"
CLIENT_GONE = 499  # the status that proxies log for a client that left
_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}
_RAW_SECURITY_HEADERS = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_QUIET = {"/health/live", "/health/ready", "/metrics"}  # asked every few seconds by machines

_log = get_logger("readtrace.access")


class ObserveRequests:
    """Pure ASGI: a wrapper of ``send``, no task and no copy of the body."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, draining: Callable[[], bool], tracing: Tracing | None
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._draining = draining
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request and account for it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Request(scope).headers
        request_id = _request_id(headers.get(REQUEST_ID, ""))
        traceparent = headers.get(TRACEPARENT, "")
        span = None
        if self._tracing is not None and scope["path"] not in _QUIET:
            span = self._tracing.begin(scope["method"], traceparent)
        trace_id = trace_id_of(traceparent) if span is None else span.trace_id
        scope.setdefault("state", {}).update(request_id=request_id, span=span)
        status = CLIENT_GONE
        started = time.perf_counter()

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    *_RAW_SECURITY_HEADERS,
                    (REQUEST_ID.encode(), request_id.encode()),
                ]
                if span is not None:
                    message["headers"].append((TRACERESPONSE.encode(), span.traceresponse.encode()))
                if self._draining():  # the client asks elsewhere, and not on a connection that ends
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        with self._metrics.in_flight_requests.track_inprogress():
            try:
                await self._app(scope, receive, observed_send)
            except Exception as error:
                _log.error(
                    "bug", request_id=request_id, error=type(error).__name__, at=where(error.__traceback__)
                )
                if status == CLIENT_GONE:  # nothing was sent yet
                    response = problem_response(
                        InternalError("The log has more under the request id."), scope["path"]
                    )
                    await response(scope, receive, observed_send)
        route = _route(scope)
        if span is not None:
            span.end(route, status)
        names = {"request_id": request_id} | ({} if trace_id is None else {"trace_id": trace_id})
        self._account(scope, route, status, time.perf_counter() - started, names)

    def _account(self, scope: Scope, route: str, status: int, seconds: float, names: dict[str, str]) -> None:
        self._metrics.observe_request(route, status, seconds)
        log = _log.debug if route in _QUIET else _log.info
        log(
            "request",
            **names,
            method=scope["method"],
            route=route,
            status=status,
            seconds=round(seconds, 6),
            **_caller(scope),
        )


def _caller(scope: Scope) -> dict[str, str]:
    caller: Caller | None = scope["state"].get("caller")
    return {} if caller is None else {"key": caller.key.name}


def _request_id(given: str) -> str:
    return given if _SANE_ID.fullmatch(given) else f"{random.getrandbits(128):032x}"


def _route(scope: Scope) -> str:
    """The route's template; never the path, which a caller could make endless series of."""
    route = scope.get("route")
    if isinstance(route, BaseRoute):
        return str(getattr(route, "path", OTHER_ROUTE))
    path: str = scope["path"]
    if path.startswith("/static/"):
        return "/static"
    return path if path in ROUTE_STATUSES else OTHER_ROUTE
