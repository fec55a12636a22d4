"""Liveness, readiness and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from app.api.access import service_of
from app.api.documentation import problem_responses

router = APIRouter(tags=["operation"], responses=problem_responses(503))


@router.get("/health/live", summary="The process answers; green also while it drains")
async def live() -> dict[str, str]:
    """Say that the event loop turns."""
    return {"status": "live"}


@router.get(
    "/health/ready",
    summary="A document of every model was read, through the real queue, with the right answer",
)
async def ready(request: Request) -> dict[str, str]:
    """Read golden documents and compare."""
    await service_of(request).check_ready()
    return {"status": "ready"}


@router.get("/metrics", summary="Metrics in Prometheus' text format", response_class=Response)
async def metrics(request: Request) -> Response:
    """Everything of docs/metrics.md."""
    return Response(await service_of(request).exposition(), media_type=CONTENT_TYPE_LATEST)
