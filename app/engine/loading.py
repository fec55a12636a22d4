"""From the folder of bundles to a catalogue: at start, and again when the folder has changed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path

from app.bundle import (
    ANY,
    STABLE,
    BundleError,
    bundle_bytes,
    find_bundles,
    is_gone,
    printable,
    read_hashed_manifest,
    read_stable,
)
from app.engine.calibration import calibrate
from app.engine.golden import check_golden
from app.engine.load_watch import LoadWatch
from app.engine.model import Model, open_model
from app.engine.registry import Catalogue, LoadedModel, RefusedBundle, Registry
from app.errors import Problem, StartError, UnknownModel
from app.logs import get_logger
from app.settings import Settings

_log = get_logger("readtrace.bundles")


@dataclass(frozen=True, slots=True)
class Serving:
    """What serves while the folder is read again."""

    loaded: Sequence[LoadedModel] = ()
    stable: Mapping[str, str] = field(default_factory=dict)
    retiring_bytes: int = 0  # of models that left the catalogue and still end their work
    closing: Future[None] | None = None  # done when the service ends, and with it what loads


@dataclass(slots=True)
class _Shelf:
    """What was found in the folder so far."""

    settings: Settings
    serving: Serving
    loaded: list[LoadedModel] = field(default_factory=list)
    refused: list[RefusedBundle] = field(default_factory=list)

    def refuse(self, name: str, version: str, error: BundleError) -> None:
        # Clients see the reason: they need the bundle's files, not where the server keeps them.
        reason = str(error).replace(f"{self.settings.bundles}/", "")
        refused = RefusedBundle(printable(name), printable(version), reason)
        self.refused.append(refused)
        _log.error("bundle_refused", bundle=f"{refused.name}/{refused.version}", reason=reason)


def load_registry(settings: Settings) -> Registry:
    """Load every bundle below ``settings.bundles``; a bad one is refused, the others serve.

    Raises:
        StartError: no bundle can be served, or the device that was asked for is not there.
    """
    return Registry(load_catalogue(settings))


def load_catalogue(settings: Settings, serving: Serving | None = None) -> Catalogue:
    """Read the folder; what serves and has not changed is taken over, what cannot be replaced stays.

    Raises:
        StartError: no bundle can be served, the default model would be none, the device that was asked
            for is not there, or the service ends meanwhile.
    """
    serving = serving or Serving()
    shelf = _Shelf(settings, serving)
    try:
        found = find_bundles(settings.bundles, lambda name, error: shelf.refuse(name.name, ANY, error))
    except BundleError as error:
        raise StartError(str(error)) from error
    # What serves leaves with its folder and not before, whatever became of that.
    kept = {one.folder for one in serving.loaded if not is_gone(one.folder)}
    folders = sorted({*found, *kept})
    for folder in folders:
        _load_onto(shelf, folder)
    stable = _choose_stable(shelf, {folder.parent for folder in folders if folder != settings.bundles})
    if not shelf.loaded:
        reasons = "; ".join(bundle.reason for bundle in shelf.refused)
        raise StartError(f"No bundle can be served: {reasons}")
    try:
        return Catalogue(shelf.loaded, shelf.refused, stable, settings.default_model)
    except UnknownModel as error:
        raise StartError(f"setting default_model: {error.detail}") from error


def _load_onto(shelf: _Shelf, folder: Path) -> None:
    served = next((one for one in shelf.serving.loaded if one.folder == folder), None)
    settings = shelf.settings
    watch = LoadWatch(folder, settings.run_limit_seconds, settings.load_limit_seconds, shelf.serving.closing)
    try:
        loaded = watch.load(partial(_load, shelf, folder, served, watch))
    except BundleError as error:
        shelf.refuse(folder.parent.name, folder.name, error)
        if served is not None:
            shelf.loaded.append(served)
        return
    shelf.loaded.append(loaded)
    if loaded is not served:
        seconds = round(loaded.load_seconds, 3)
        _log.info("bundle_loaded", model=loaded.id, provider=loaded.provider, seconds=seconds)


def _load(shelf: _Shelf, folder: Path, served: LoadedModel | None, watch: LoadWatch) -> LoadedModel:
    """Changes nothing: its thread may be left behind."""
    try:
        if served is not None and _is_unchanged(served, shelf.settings):
            return served
        _check_room(shelf, folder)
        return _load_model(folder, shelf.settings, watch)
    except OSError as error:
        raise BundleError(f"{folder}: cannot be read: {error.strerror}") from error


def _is_unchanged(served: LoadedModel, settings: Settings) -> bool:
    _, sha256 = read_hashed_manifest(served.folder, settings.bundles)
    return sha256 == served.manifest_sha256


def _check_room(shelf: _Shelf, folder: Path) -> None:
    """Compare with the limit before anything is opened.

    What is replaced or removed counts too: it serves until the new one is ready.
    """
    limit = shelf.settings.max_models_bytes
    if limit is None:
        return
    held = {one.key: one.file_bytes for one in (*shelf.serving.loaded, *shelf.loaded)}
    taken = sum(held.values()) + shelf.serving.retiring_bytes
    needed = bundle_bytes(folder)
    if taken + needed > limit:
        raise BundleError(
            f"{folder}: has {needed} bytes beside {taken} of the models that are loaded; "
            f"setting max_models_bytes allows {limit}"
        )


def _choose_stable(shelf: _Shelf, name_folders: set[Path]) -> dict[str, str]:
    """The stable version of every name that has one; a bad choice leaves the one before."""
    served = {one.id for one in shelf.loaded}
    chosen: dict[str, str] = {}
    for folder in sorted(name_folders):
        name = folder.name
        try:
            version = read_stable(folder)
            if version is not None and f"{name}@{version}" not in served:
                raise BundleError(f"{folder / STABLE}: version {version} is not served")
        except BundleError as error:
            shelf.refuse(name, STABLE, error)
            version = shelf.serving.stable.get(name)
        if version is not None and f"{name}@{version}" in served:
            chosen[name] = version
    return chosen


def _load_model(folder: Path, settings: Settings, watch: LoadWatch) -> LoadedModel:
    """Open, prove and calibrate one bundle.

    Raises:
        BundleError: it must not be served.
        StartError: the device that was asked for is not there.
    """
    _log.info("bundle_loading", bundle=printable(f"{folder.parent.name}/{folder.name}"))
    started = time.perf_counter()
    try:
        model = open_model(folder, settings)
        watched = watch.watched(model)
        check_golden(watched)
        calibration = calibrate(watched, settings.max_run_seconds)
    except (BundleError, StartError):
        raise
    except Exception as error:  # a graph may raise anything when it runs
        reason = error.detail if isinstance(error, Problem) else type(error).__name__
        raise BundleError(f"{folder}: reading a document failed: {reason}") from error
    return LoadedModel(
        **{one.name: getattr(model, one.name) for one in fields(Model)},
        folder=folder,
        calibration=calibration,
        load_seconds=time.perf_counter() - started,
        file_bytes=bundle_bytes(folder),
    )
