"""``readtrace doctor``: checks what serving needs and says what to do next."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.text import Text

from app.bundle import BundleError, bundle_bytes, find_bundles
from app.commands.options import USER_ERROR, Bundles, DeviceOption, user_errors
from app.engine.loading import load_registry
from app.errors import MissingDeviceError, StartError
from app.logs import configure_logs
from app.machine import usable_cpus
from app.server import bind
from app.settings import Settings, read_settings

_OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's result; ``advice`` is what to do where it is bad."""

    name: str
    good: bool
    detail: str
    advice: str = ""


def doctor(bundles: Bundles = None, device: DeviceOption = None) -> None:
    """Check Python, ONNX Runtime, the bundles, the disk, the port and the CPUs. Exit code 2 when something is wrong."""
    with user_errors():
        settings = read_settings(bundles=bundles, device=device, log_format="console", log_level="error")
        configure_logs(settings)
    console = Console()
    checks: tuple[Callable[[Settings], Finding], ...] = (
        check_python,
        check_runtime,
        check_bundles,
        check_disk,
        check_port,
        check_cpus,
    )
    findings = [check(settings) for check in checks]
    for finding in findings:
        mark = Text("good", "green") if finding.good else Text("bad ", "red")
        console.print(mark.append(f" {finding.name}: {finding.detail}", "default"), soft_wrap=True)
        if finding.advice:
            console.print(Text(f"     → {finding.advice}"), soft_wrap=True)
    if not all(finding.good for finding in findings):
        raise typer.Exit(USER_ERROR)


def check_python(_: Settings) -> Finding:
    """The interpreter's version."""
    good = sys.version_info[:2] >= _OLDEST_PYTHON
    return Finding("python", good, platform.python_version(), "" if good else "Install Python 3.11 or newer.")


def check_runtime(_: Settings) -> Finding:
    """Exactly one package of ONNX Runtime: two overwrite each other's files."""
    found = [name for name in ("onnxruntime", "onnxruntime-gpu") if _version(name)]
    detail = ", ".join(f"{name} {_version(name)}" for name in found) or "not installed"
    if len(found) == 1:
        return Finding("onnxruntime", True, detail)
    advice = (
        "Uninstall both, then install one of the extras cpu and gpu."
        if found
        else "Install the extra cpu or gpu."
    )
    return Finding("onnxruntime", False, detail, advice)


def check_bundles(settings: Settings) -> Finding:
    """Every bundle loads, answers its golden documents, on the device that was asked for."""
    try:
        registry = load_registry(settings)
    except MissingDeviceError as error:
        return Finding("bundles", False, f"not loaded: {error}")
    except StartError as error:
        return Finding(
            "bundles", False, str(error), "Name a folder of bundles with --bundles, or export one."
        )
    served = ", ".join(f"{one.id} on {one.provider}" for one in registry.loaded.values())
    if not registry.refused:
        return Finding("bundles", True, served)
    reasons = "; ".join(bundle.reason for bundle in registry.refused)
    return Finding("bundles", False, f"{served}; refused: {reasons}", "Export the refused bundles again.")


def check_disk(settings: Settings) -> Finding:
    """Room for another version of the largest bundle; serving itself writes nothing but its log."""
    try:
        place = os.statvfs(settings.bundles)
        needed = max((bundle_bytes(folder) for folder in find_bundles(settings.bundles)), default=0)
    except (OSError, BundleError) as error:
        return Finding("disk", False, str(error), "Name a folder of bundles with --bundles.")
    free = place.f_bavail * place.f_frsize
    detail = f"{free / 1e6:,.0f} MB free beside the bundles"
    if place.f_flag & os.ST_RDONLY:
        return Finding("disk", True, f"{settings.bundles} is read-only, which is enough for serving")
    if free >= needed:
        return Finding("disk", True, detail)
    advice = f"A new version of the largest bundle needs {needed / 1e6:,.1f} MB: make room."
    return Finding("disk", False, detail, advice)


def check_port(settings: Settings) -> Finding:
    """The address can be listened on."""
    try:
        bind(settings.host, settings.port).close()
    except StartError as error:
        return Finding("port", False, str(error))
    return Finding("port", True, f"{settings.host}:{settings.port} is free")


def check_cpus(settings: Settings) -> Finding:
    """More engine threads than CPUs only compete."""
    cpus = usable_cpus()
    detail = f"{cpus} usable, {settings.worker_threads} engine threads"
    if settings.worker_threads <= cpus:
        return Finding("cpus", True, detail)
    return Finding("cpus", False, detail, f"Set READTRACE_WORKER_THREADS to at most {cpus}.")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
