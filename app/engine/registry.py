"""All bundles of the folder: those that may answer, and those refused with their reason."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.bundle import BundleError, find_bundles, version_key
from app.engine.calibration import Calibration, calibrate
from app.engine.golden import check_golden
from app.engine.model import Model, open_model
from app.errors import StartError, UnknownModel
from app.logs import get_logger
from app.scheduler.costs import RunCosts
from app.scheduler.document import Array
from app.scheduler.segments import Lane
from app.settings import Settings

_log = get_logger("readtrace.bundles")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that passed its golden documents, with its calibration."""

    model: Model
    calibration: Calibration
    load_seconds: float


@dataclass(frozen=True, slots=True)
class RefusedBundle:
    """A bundle that must not answer."""

    name: str
    version: str
    reason: str


class Registry:
    """The models by ``name@version``; runs their batches for the scheduler."""

    def __init__(
        self, loaded: Sequence[LoadedModel], refused: Sequence[RefusedBundle], default: str | None = None
    ) -> None:
        """Index the models; ``default`` names the model of requests that name none.

        Raises:
            StartError: there is no model at all, or none of that name.
        """
        self.loaded: Mapping[str, LoadedModel] = {one.model.id: one for one in loaded}
        self.refused = tuple(refused)
        self._newest: dict[str, Model] = {}
        for one in sorted(loaded, key=lambda one: version_key(one.model.manifest.version)):
            self._newest[one.model.manifest.name] = one.model
        if not loaded:
            reasons = "; ".join(bundle.reason for bundle in refused)
            raise StartError(f"No bundle can be served: {reasons}")
        try:
            self.default = self.find(default or min(self._newest))
        except UnknownModel as error:
            raise StartError(f"setting default_model: {error.detail}") from error

    def find(self, name: str | None) -> Model:
        """The model of a request.

        ``name`` is its newest version, ``name@version`` exactly that one, None the default.

        Raises:
            UnknownModel: there is none.
        """
        if name is None:
            return self.default
        if found := self._newest.get(name):
            return found
        if found_exactly := self.loaded.get(name):
            return found_exactly.model
        raise UnknownModel(
            f"Expected one of {', '.join(sorted(self._newest))} (or NAME@VERSION), got {name[:128]!r}."
        )

    def costs(self, lane: Lane) -> RunCosts:
        """The row counts that were warmed up for the lane, and what a run of each costs."""
        return self.loaded[lane.model].calibration.costs[lane.reading, lane.bucket]

    def run(self, lane: Lane, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run one batch of the lane."""
        return self.loaded[lane.model].model.run(lane.reading, arrays)


def load_registry(settings: Settings) -> Registry:
    """Load every bundle below ``settings.bundles``; a bad one is refused, the others serve.

    Raises:
        StartError: no bundle can be served, or the device that was asked for is not there.
    """
    try:
        folders = find_bundles(settings.bundles)
    except BundleError as error:
        raise StartError(str(error)) from error
    loaded: list[LoadedModel] = []
    refused: list[RefusedBundle] = []
    for folder in folders:
        try:
            loaded.append(load_model(folder, settings))
        except BundleError as error:
            # Clients see the reason: they need the bundle's files, not where the server keeps them.
            reason = str(error).replace(f"{settings.bundles}/", "")
            refused.append(RefusedBundle(folder.parent.name, folder.name, reason))
            _log.error("bundle_refused", bundle=f"{folder.parent.name}/{folder.name}", reason=reason)
    return Registry(loaded, refused, settings.default_model)


def load_model(folder: Path, settings: Settings) -> LoadedModel:
    """Open, prove and calibrate one bundle.

    Raises:
        BundleError: it must not be served.
        StartError: the device that was asked for is not there.
    """
    started = time.perf_counter()
    model = open_model(folder, settings)
    try:
        check_golden(model)
        calibration = calibrate(model, settings.max_run_seconds)
    except BundleError:
        raise
    except Exception as error:  # a graph may raise anything when it runs
        raise BundleError(f"{model.id}: reading a document failed: {type(error).__name__}") from error
    seconds = time.perf_counter() - started
    _log.info("bundle_loaded", model=model.id, provider=model.provider, seconds=round(seconds, 3))
    return LoadedModel(model, calibration, seconds)
