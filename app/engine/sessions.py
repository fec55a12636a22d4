"""ONNX Runtime sessions: on the device that was asked for, with the signature that the manifest declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnxruntime as ort

from app.bundle import BundleError, read_file
from app.engine.graph_guard import check_graph
from app.errors import MissingDeviceError
from app.manifest import Manifest, PassSpec
from app.scheduler.document import Array
from app.scheduler.watch import RunControl
from app.settings import Device

CPU_PROVIDER = "CPUExecutionProvider"
CUDA_PROVIDER = "CUDAExecutionProvider"
_ONNX_TYPES = {"float32": "tensor(float)", "int64": "tensor(int64)", "bool": "tensor(bool)"}
_FATAL = 4  # ONNX Runtime's own messages go past our log; what matters is raised

Signature = dict[str, tuple[str, int]]  # tensor name -> (type, number of axes)


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """An open session of one pass."""

    session: ort.InferenceSession
    outputs: tuple[str, ...]

    @property
    def provider(self) -> str:
        """The provider that the session really runs on: what is available is not always what works."""
        return str(self.session.get_providers()[0])

    def run(self, arrays: Mapping[str, Array], control: RunControl | None = None) -> dict[str, Array]:
        """Run the graph; may be called from many threads. It raises where ``control`` stops it."""
        options = None
        if control is not None:
            options = ort.RunOptions()
            control.stops_by(partial(setattr, options, "terminate", True))
        found = self.session.run(self.outputs, dict(arrays), options)
        return dict(zip(self.outputs, found, strict=True))


def open_graph(
    folder: Path, manifest: Manifest, reading: PassSpec, device: Device, allow_cpu_fallback: bool = False
) -> Graph:
    """Load the graph of a pass on a device and check its signature.

    Raises:
        MissingDeviceError: ``cuda`` was asked for and the session runs on the CPU.
        BundleError: ONNX Runtime does not take the graph, or it is not what the manifest says.
    """
    session = _open_session(folder / reading.graph, read_file(folder, manifest, reading.graph), device)
    graph = Graph(session, tuple(output.name for output in session.get_outputs()))
    if device == "cuda" and graph.provider != CUDA_PROVIDER and not allow_cpu_fallback:
        raise MissingDeviceError(
            "device=cuda was asked for, but ONNX Runtime runs on the CPU. Install the `gpu` extra (never "
            "beside `cpu`), check with `readtrace doctor`, or set READTRACE_ALLOW_CPU_FALLBACK=true."
        )
    check_signature(session, manifest, reading)
    return graph


def _open_session(path: Path, serialized: bytes, device: Device) -> ort.InferenceSession:
    """Open the bytes that were checked: the file may be another by now."""
    try:
        check_graph(serialized)
    except BundleError as error:
        raise BundleError(f"{path}: {error}") from error
    options = ort.SessionOptions()
    # The threads of the service run one batch each: threads inside of a run would compete with them.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL
    options.add_session_config_entry("session.load_model_format", "ONNX")  # the format that was looked into
    try:
        return ort.InferenceSession(serialized, options, providers=_wanted_providers(device))
    except Exception as error:  # ONNX Runtime's errors have no common class
        raise BundleError(f"{path}: ONNX Runtime does not load it: {type(error).__name__}") from error


def check_signature(session: ort.InferenceSession, manifest: Manifest, reading: PassSpec) -> None:
    """Compare names, types and axes of a graph with the manifest.

    Raises:
        BundleError: they differ.
    """
    for kind, expected, nodes in (
        ("inputs", _expected_inputs(manifest, reading), session.get_inputs()),
        ("outputs", _expected_outputs(reading), session.get_outputs()),
    ):
        found = _signature(nodes)
        if found != expected:
            raise BundleError(f"{reading.graph}: expected {kind} {_show(expected)}, found {_show(found)}")


def _wanted_providers(device: Device) -> list[str]:
    available = ort.get_available_providers()
    if device != "cpu" and CUDA_PROVIDER in available:
        ort.preload_dlls()  # CUDA and cuDNN where the gpu extra installed them; nothing where they are the system's
        return [CUDA_PROVIDER, CPU_PROVIDER]
    return [CPU_PROVIDER]


def _expected_inputs(manifest: Manifest, reading: PassSpec) -> Signature:
    expected = {"token_ids": (_ONNX_TYPES["int64"], 2), "lengths": (_ONNX_TYPES["int64"], 1)}
    written = {step.name: step for earlier in manifest.passes for step in earlier.steps}
    for name in reading.reads:
        expected[name] = (_ONNX_TYPES[written[name].dtype], 2 + len(written[name].shape))
    for state in reading.states:
        expected[state.name] = (_ONNX_TYPES[state.dtype], 1 + len(state.shape))
    return expected


def _expected_outputs(reading: PassSpec) -> Signature:
    expected = {step.name: (_ONNX_TYPES[step.dtype], 2 + len(step.shape)) for step in reading.steps}
    for result in reading.results:
        expected[result.name] = (_ONNX_TYPES[result.dtype], 1 + len(result.shape))
    for state in reading.states:
        expected[f"{state.name}_next"] = (_ONNX_TYPES[state.dtype], 1 + len(state.shape))
    return expected


def _signature(nodes: Iterable[ort.NodeArg]) -> Signature:
    return {node.name: (node.type, len(node.shape)) for node in nodes}


def _show(signature: Signature) -> str:
    return ", ".join(f"{name}: {type_} of {axes} axes" for name, (type_, axes) in sorted(signature.items()))
