"""Who may ask for what. Where keys are configured every path needs one, besides those that are open here."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import problem_response
from app.errors import Forbidden, Problem, Unauthenticated
from app.keys import Caller, KeyRing
from app.keys import Scope as KeyScope
from app.service import Service

# What probes and scrapers ask, who carry no keys, and the page, which asks its reader for one.
_OPEN = {
    "/",
    "/docs",
    "/openapi.json",
    "/metrics",
    "/health/live",
    "/health/ready",
    "/v2/health/live",
    "/v2/health/ready",
}
_OPEN_BELOW = ("/static/", "/problems/")
_ADMIN = {"/v1/models/reload"}
_NO_KEYS = "Expected a key of the scope admin, but the service has no keys; READTRACE_KEYS names their file."


class RequireKey:
    """Pure ASGI: finds the caller, or answers in the application's place."""

    def __init__(self, app: ASGIApp, keys: KeyRing | None) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of a caller who may ask."""
        if scope["type"] == "http":
            try:
                scope["state"]["caller"] = self._caller(scope)
            except Problem as problem:
                await problem_response(problem, scope["path"])(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _caller(self, scope: Scope) -> Caller | None:
        needed: KeyScope = "admin" if scope["path"] in _ADMIN else "classify"
        if self._keys is None:
            if needed == "admin":
                raise Forbidden(_NO_KEYS, needed)
            return None
        if _is_open(scope):
            return None
        kind, _, key = Request(scope).headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise Unauthenticated("Expected the header `Authorization: Bearer KEY`.")
        caller = self._keys.find(key.strip())
        if caller is None:
            raise Unauthenticated("Expected a key that the service knows.")
        if needed not in caller.key.scopes:
            raise Forbidden(f"Expected a key of the scope {needed}.", needed)
        return caller


def caller_of(request: Request) -> Caller | None:
    """Who sent the request; None where the service has no keys."""
    caller: Caller | None = request.scope["state"].get("caller")
    return caller


def service_of(request: Request) -> Service:
    """Who answers the request."""
    service: Service = request.app.state.service
    return service


def _is_open(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["method"] in ("GET", "HEAD") and (path in _OPEN or path.startswith(_OPEN_BELOW))
