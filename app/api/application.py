"""The ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

import app as package
from app.api import health, models
from app.api.access import RequireKey
from app.api.body import BodyRoom
from app.api.classify import classify
from app.api.dialects.routes import add_dialects
from app.api.documentation import CLASSIFY_DOCUMENTATION, STREAM_DOCUMENTATION, add_reference
from app.api.middleware import REQUEST_ID, ObserveRequests
from app.api.problems import install_problem_handlers
from app.api.schema import DEADLINE_HEADER
from app.api.stream import stream
from app.observability.tracing import TRACEPARENT, TRACERESPONSE, Tracing
from app.service import Service

_WEB = Path(package.__file__).parent / "web"
_REVALIDATE = {"cache-control": "no-cache"}  # or a browser mixes the page's files of two releases

_CORS: dict[str, Any] = {
    "allow_methods": ["GET", "POST"],
    "allow_headers": ["authorization", "content-type", REQUEST_ID, DEADLINE_HEADER, TRACEPARENT],
    "expose_headers": [REQUEST_ID, "retry-after", "server-timing", TRACERESPONSE],
    "max_age": 600,
}


class DirectRoute(APIRoute):
    """A route that stands in the documentation like any other and is called with the plain request.

    Dependencies, validation and serialisation are skipped, and what is around them: a tenth of a short text's time.
    What it raises is answered by the application's exception handlers.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.app = self._serve

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        response: Response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


def create_app(service: Service, tracing: Tracing | None = None) -> FastAPI:
    """The application on loaded models; its lifespan starts and stops the engine, and ends the tracing."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.stop()
        if tracing is not None:
            await asyncio.to_thread(tracing.close)

    app = FastAPI(
        title="Readtrace",
        description="Classifies documents and shows how they were read.",
        lifespan=lifespan,
        docs_url=None,  # the usual page loads scripts from elsewhere; ours needs none
        redoc_url=None,
    )
    app.state.service = service
    app.state.bodies = BodyRoom(service.settings.max_bodies_bytes, service.metrics.body_bytes)
    app.router.add_api_route(
        "/classify", classify, methods=["POST"], route_class_override=DirectRoute, **CLASSIFY_DOCUMENTATION
    )
    app.router.add_api_route(
        "/classify/stream", stream, methods=["POST"], route_class_override=DirectRoute, **STREAM_DOCUMENTATION
    )
    add_dialects(app, DirectRoute)
    app.include_router(models.router)
    app.include_router(health.router)
    add_reference(app)
    _add_page(app)
    install_problem_handlers(app)
    app.add_middleware(RequireKey, keys=service.keys)
    if service.settings.cors_origins:
        app.add_middleware(CORSMiddleware, allow_origins=service.settings.cors_origins, **_CORS)
    app.add_middleware(  # around all others
        ObserveRequests, metrics=service.metrics, draining=lambda: service.draining, tracing=tracing
    )
    return app


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(_WEB / "index.html", headers=_REVALIDATE)

    app.mount("/static", _PageFiles(directory=_WEB))


class _PageFiles(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(_REVALIDATE)
        return response
