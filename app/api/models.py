"""``GET /v1/models``: what is served, what was refused and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from app.api.access import service_of
from app.api.documentation import problem_responses
from app.engine.registry import Catalogue, LoadedModel, RefusedBundle
from app.scheduler.segments import continues

router = APIRouter(prefix="/v1/models", tags=["models"], responses=problem_responses(401, 403, 404))


@router.get("", summary="Models that are served, and bundles that were refused")
async def list_models(request: Request) -> dict[str, Any]:
    """Every bundle of the folder, with its state; `reason` says why what is in the folder was refused.

    A `ready` model with a `reason` is the one loaded before; a `retiring` one only ends its work.
    """
    service = service_of(request)
    catalogue = service.registry.catalogue
    served = [_summary(catalogue, one) for one in catalogue.loaded.values()]
    refused = [_refused(one) for one in catalogue.refused if one.id not in catalogue.loaded]
    retiring = [_identity(one, "retiring") for one in service.registry.retiring]
    return {"object": "list", "data": [*served, *refused, *retiring], "reload": service.reloader.last}


@router.get("/{name}", summary="One model: card, manifest, calibration")
async def show_model(request: Request, name: str) -> dict[str, Any]:
    """All that is known of a model, by one of its names (`name`, `name@latest`, `name@stable`, `name@version`)."""
    catalogue = service_of(request).registry.catalogue
    loaded = catalogue.find(name)
    return {
        **_summary(catalogue, loaded),
        "card": loaded.card,
        "manifest": loaded.manifest.model_dump(mode="json", exclude={"golden"}),
        "rows": [
            {"reading": reading, "bucket": bucket, "row_counts": list(costs.row_counts)}
            for (reading, bucket), costs in loaded.calibration.costs.items()
        ],
    }


@router.post(
    "/reload",
    summary="Read the folder of bundles anew (needs a key of the scope admin)",
    responses=problem_responses(409),
)
async def reload_models(request: Request) -> dict[str, Any]:
    """Load what is new, swap, let go of what is gone; a bundle that is refused leaves the version before it."""
    return {"object": "reload", **asdict(await service_of(request).reloader.reload())}


def _identity(model: LoadedModel, state: str) -> dict[str, Any]:
    return {
        "id": model.id,
        "object": "model",
        "name": model.manifest.name,
        "version": model.manifest.version,
        "state": state,
        "default": False,
    }


def _summary(catalogue: Catalogue, model: LoadedModel) -> dict[str, Any]:
    manifest = model.manifest
    refused = next((one for one in catalogue.refused if one.id == model.id), None)
    return {
        **_identity(model, "ready"),
        **({} if refused is None else {"reason": refused.reason}),
        "default": catalogue.default is model,
        "aliases": catalogue.aliases(model),
        "architecture": manifest.architecture,
        "labels": list(manifest.labels),
        "polarity": None if manifest.polarity is None else list(manifest.polarity),
        "explains": {
            "trace": manifest.trace.model_dump(),
            "skip_map": manifest.skips,
            "skim_map": manifest.skims,
            "groups": manifest.groups is not None,
            "forgetting": manifest.forgets,
            "attention": manifest.attends,
            "ngrams": manifest.windows is not None,
            "halves": manifest.halves is not None,
        },
        "continues": continues(manifest),
        "longest_document": manifest.longest_document,
        "length_buckets": list(manifest.length_buckets),
        "used_buckets": list(model.calibration.buckets),
        "provider": model.provider,
        "file_bytes": model.file_bytes,
    }


def _refused(bundle: RefusedBundle) -> dict[str, Any]:
    return {
        "id": bundle.id,
        "object": "model",
        "name": bundle.name,
        "version": bundle.version,
        "state": "refused",
        "default": False,
        "reason": bundle.reason,
    }
