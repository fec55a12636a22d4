"""``GET /v1/models``: what is served, what was refused and why."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from app.engine.registry import LoadedModel, RefusedBundle, Registry
from app.service import Service

router = APIRouter(prefix="/v1/models", tags=["models"])


@router.get("", summary="Models that are served, and bundles that were refused")
async def list_models(request: Request) -> dict[str, Any]:
    """Every bundle of the folder, with its state."""
    registry = _registry(request)
    served = [_summary(registry, one) for one in registry.loaded.values()]
    return {"object": "list", "data": [*served, *map(_refused, registry.refused)]}


@router.get("/{name}", summary="One model: card, manifest, calibration")
async def show_model(request: Request, name: str) -> dict[str, Any]:
    """All that is known of a model; ``name`` is its newest version, ``name@version`` exactly that."""
    registry = _registry(request)
    loaded = registry.loaded[registry.find(name).id]
    return {
        **_summary(registry, loaded),
        "card": loaded.model.card,
        "manifest": loaded.model.manifest.model_dump(mode="json", exclude={"golden"}),
        "rows": [
            {"reading": reading, "bucket": bucket, "row_counts": list(costs.row_counts)}
            for (reading, bucket), costs in loaded.calibration.costs.items()
        ],
    }


def _registry(request: Request) -> Registry:
    service: Service = request.app.state.service
    return service.registry


def _summary(registry: Registry, loaded: LoadedModel) -> dict[str, Any]:
    model, manifest = loaded.model, loaded.model.manifest
    return {
        "id": model.id,
        "object": "model",
        "name": manifest.name,
        "version": manifest.version,
        "state": "ready",
        "default": registry.default is model,
        "architecture": manifest.architecture,
        "labels": list(manifest.labels),
        "polarity": None if manifest.polarity is None else list(manifest.polarity),
        "explains": {
            "trace": manifest.trace.model_dump(),
            "skip_map": manifest.skips,
            "groups": manifest.groups is not None,
            "forgetting": manifest.forgets,
            "attention": manifest.attends,
            "ngrams": manifest.windows is not None,
        },
        "longest_document": manifest.longest_document,
        "length_buckets": list(manifest.length_buckets),
        "provider": model.provider,
    }


def _refused(bundle: RefusedBundle) -> dict[str, Any]:
    return {
        "id": f"{bundle.name}@{bundle.version}",
        "object": "model",
        "name": bundle.name,
        "version": bundle.version,
        "state": "refused",
        "default": False,
        "reason": bundle.reason,
    }
