"""Who takes part in the comparison: how each is started, and how it is asked for one text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PEERS = Path(__file__).parent / "peers"
_COMMON = ("onnxruntime==1.31.1", "tokenizers", "numpy")


@dataclass(frozen=True)
class Contender:
    """A server of one bundle."""

    name: str
    requirement: str | None  # installed into an environment of its own; None: this one
    command: Callable[[Path, Path, int], list[str]]  # environment, folder of bundles, port
    path: str
    body: Callable[[str], dict[str, object]]
    ready: str
    health: str


def python_of(contender: Contender, environments: Path) -> Path:
    """The interpreter that the contender runs in; its environment is made where it is not there."""
    if contender.requirement is None:
        return Path(sys.executable)
    folder = environments / contender.requirement.partition("==")[0]
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", contender.requirement, *_COMMON], check=True)
    return python


def variables_of(contender: Contender, python: Path, bundle: Path) -> dict[str, str]:
    """What its process finds in its environment."""
    variables = {"BUNDLE": str(bundle), "OMP_NUM_THREADS": "1"}
    if contender.requirement is None:
        return variables
    return variables | {
        "PYTHONPATH": str(_PEERS),
        "BENTOML_DO_NOT_TRACK": "True",
        "PATH": f"{python.parent}:{os.environ['PATH']}",
    }


def write_mlserver_settings(folder: Path, port: int) -> None:
    """MLServer reads its settings from files of its working folder."""
    settings = {
        "host": "127.0.0.1",
        "http_port": port,
        "grpc_port": port + 1,
        "metrics_port": port + 2,
        "parallel_workers": 0,
    }
    model = {
        "name": "fragile",
        "implementation": "mlserver_model.Classifier",
        "max_batch_size": 64,
        "max_batch_time": 0.01,
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "model-settings.json").write_text(json.dumps(model))


def _readtrace(python: Path, bundles: Path, port: int) -> list[str]:
    return [str(python), "-m", "app", "serve", "--bundles", str(bundles), "--port", str(port)]


def _litserve(python: Path, _: Path, port: int) -> list[str]:
    return [str(python), str(_PEERS / "litserve_server.py"), str(port)]


def _bentoml(python: Path, _: Path, port: int) -> list[str]:
    command = [str(python), "-m", "bentoml", "serve", "bentoml_server:Classifier"]
    return [*command, "--working-dir", str(_PEERS), "--host", "127.0.0.1", "--port", str(port)]


def _mlserver(python: Path, bundles: Path, port: int) -> list[str]:
    write_mlserver_settings(bundles, port)
    return [str(python.parent / "mlserver"), "start", str(bundles)]


def _infer(text: str) -> dict[str, object]:
    return {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [text]}]}


CONTENDERS = (
    Contender(
        "Readtrace",
        None,
        _readtrace,
        "/classify",
        lambda text: {"input": text, "explain": "none"},
        "/health/ready",
        "/health/ready",
    ),
    Contender(
        "LitServe 0.2.19",
        "litserve==0.2.19",
        _litserve,
        "/predict",
        lambda text: {"input": text},
        "/health",
        "/health",
    ),
    Contender(
        "BentoML 1.4.39",
        "bentoml==1.4.39",
        _bentoml,
        "/classify",
        lambda text: {"texts": [text]},
        "/readyz",
        "/readyz",
    ),
    Contender(
        "MLServer 1.7.1",
        "mlserver==1.7.1",
        _mlserver,
        "/v2/models/fragile/infer",
        _infer,
        "/v2/models/fragile/ready",
        "/v2/health/ready",
    ),
)
