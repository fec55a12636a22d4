"""The Open Inference Protocol, version 2, over REST: health, metadata, and inference on an input ``text``."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from app.api.access import service_of
from app.api.documentation import problem_responses
from app.api.exchange import Exchange, exchange
from app.api.schema import parse_body, show
from app.engine.registry import LoadedModel
from app.errors import InvalidRequest

_JSON_LENGTH = "inference-header-content-length"  # of Triton's extension for tensors after the JSON
_MOST_DIGITS = 12  # leading zeros with them: Python converts no number of thousands of digits
_OUTPUTS = ("probabilities", "label")

router = APIRouter(
    prefix="/v2",
    tags=["open inference protocol"],
    responses=problem_responses(401, 403, 404, 503, other_form=True),
)


class Tensor(BaseModel):
    """An input: texts in row-major order, in `data` or after the JSON."""

    model_config = ConfigDict(frozen=True, strict=True)

    name: Literal["text"]
    shape: Annotated[list[Annotated[int, Field(ge=1, lt=2**31)]], Field(min_length=1, max_length=8)]
    datatype: Literal["BYTES"]
    data: Annotated[list[str | list[str]], Field(fail_fast=True)] | None = None
    parameters: dict[str, Any] = {}


class Output(BaseModel):
    """An output that is wanted."""

    model_config = ConfigDict(frozen=True, strict=True)

    name: Literal["probabilities", "label"]


class InferenceRequest(BaseModel):
    """A request to infer; parameters of others are passed over."""

    model_config = ConfigDict(frozen=True, strict=True)

    id: str | None = Field(None, description="Comes back with the answer.")
    inputs: Annotated[list[Tensor], Field(min_length=1, max_length=1)] = Field(
        description="One tensor `text` of `BYTES`."
    )
    outputs: Annotated[list[Output], Field(fail_fast=True)] | None = Field(
        None, description="`probabilities`, `label`; both by default."
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    texts: Sequence[str]
    model: str
    id: str | None
    outputs: Sequence[str]
    truncate: Literal["error"] = "error"
    deadline_ms: None = None


@router.get("", summary="The server's name and version")
async def server(request: Request) -> dict[str, Any]:
    """Say who answers."""
    return {"name": "readtrace", "version": request.app.version, "extensions": []}


@router.get("/health/live", summary="The process answers")
async def live() -> dict[str, bool]:
    """Say that the event loop turns."""
    return {"live": True}


@router.get("/health/ready", summary="All models answer rightly")
async def ready(request: Request) -> dict[str, bool]:
    """Read golden documents and compare."""
    await service_of(request).check_ready()
    return {"ready": True}


@router.get("/models/{name}", summary="Inputs and outputs of a model")
@router.get("/models/{name}/versions/{version}", summary="Inputs and outputs of a version")
async def model(request: Request, name: str, version: str | None = None) -> dict[str, Any]:
    """Say what a model takes and gives."""
    registry = service_of(request).registry
    found = registry.find(_id(name, version))
    named = found.manifest.name
    classes = len(found.manifest.labels)
    return {
        "name": named,
        "versions": [one.manifest.version for one in registry.loaded.values() if one.manifest.name == named],
        "platform": "onnxruntime_onnx",
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}],
        "outputs": [
            {"name": "probabilities", "datatype": "FP32", "shape": [-1, classes]},
            {"name": "label", "datatype": "BYTES", "shape": [-1]},
        ],
    }


@router.get("/models/{name}/ready", summary="A model is loaded")
@router.get("/models/{name}/versions/{version}/ready", summary="A version is loaded")
async def model_ready(request: Request, name: str, version: str | None = None) -> dict[str, Any]:
    """Say that a model answers."""
    found = service_of(request).registry.find(_id(name, version))
    return {"name": found.manifest.name, "ready": True}


async def infer(request: Request) -> Response:
    """Classify texts: the probabilities of all labels, and the most probable one."""
    names = request.path_params
    parse = partial(_parse, _id(names["name"], names.get("version")), request.headers.get(_JSON_LENGTH))
    return await exchange(request, parse, _encode)


def _id(name: str, version: str | None) -> str:
    return name if version is None else f"{name}@{version}"


def _parse(model: str, json_length: str | None, body: bytes) -> _Asked:
    json, raw = _split(body, json_length)
    asked = parse_body(InferenceRequest, json)
    (tensor,) = asked.inputs
    size = tensor.parameters.get("binary_data_size")
    texts = _flat(tensor.data) if size is None else _unpack(raw, size)
    expected = int(np.prod(tensor.shape, dtype=object))
    if len(texts) != expected:
        raise InvalidRequest(
            f"Field 'inputs.0.data': expected {expected} texts for the shape {tensor.shape}, got {len(texts)}."
        )
    wanted = list(dict.fromkeys(output.name for output in asked.outputs or ())) or _OUTPUTS  # each once
    return _Asked(texts, model, asked.id, wanted)


def _split(body: bytes, json_length: str | None) -> tuple[bytes, bytes]:
    if json_length is None:
        return body, b""
    digits = json_length.isascii() and json_length.isdigit() and len(json_length) <= _MOST_DIGITS
    if not (digits and int(json_length) <= len(body)):
        raise InvalidRequest(
            f"Header {_JSON_LENGTH!r}: expected a number of at most {len(body)}, "
            f"got {json_length if digits else 'a string'}."
        )
    return body[: int(json_length)], body[int(json_length) :]


def _flat(data: list[str | list[str]] | None) -> list[str]:
    if data is None:
        raise InvalidRequest("The field 'inputs.0.data' is missing.")
    return list(chain.from_iterable([one] if isinstance(one, str) else one for one in data))


def _unpack(raw: bytes, size: object) -> list[str]:
    """Texts in UTF-8, each after its length in four bytes, the lowest first."""
    if size != len(raw):
        raise InvalidRequest(f"Parameter 'binary_data_size': expected {len(raw)}, got {show(size)}.")
    texts: list[str] = []
    at = 0
    while at < len(raw):
        if at + 4 > len(raw):
            raise InvalidRequest("Tensor 'text': expected four bytes of length, got the end.")
        (length,) = struct.unpack_from("<I", raw, at)
        text = raw[at + 4 : at + 4 + length]
        if len(text) < length:
            raise InvalidRequest(f"Tensor 'text': expected {length} bytes of a text, got {len(text)}.")
        try:
            texts.append(text.decode())
        except UnicodeDecodeError:
            raise InvalidRequest("Tensor 'text': expected UTF-8.") from None
        at += 4 + length
    return texts


def _encode(answered: Exchange[_Asked]) -> bytes:
    asked, model = answered.asked, answered.model
    outputs = [_output(name, model, answered) for name in asked.outputs]
    named = {"model_name": model.manifest.name, "model_version": model.manifest.version}
    id_ = {} if asked.id is None else {"id": asked.id}
    return orjson.dumps({**named, **id_, "outputs": outputs}, option=orjson.OPT_SERIALIZE_NUMPY)


def _output(name: str, model: LoadedModel, answered: Exchange[_Asked]) -> dict[str, object]:
    answers, labels = answered.all_read, model.manifest.labels
    if name == "label":
        data: object = [labels[answer.winner] for answer in answers]
        return {"name": name, "datatype": "BYTES", "shape": [len(answers)], "data": data}
    data = np.concatenate([answer.probabilities for answer in answers])
    return {"name": name, "datatype": "FP32", "shape": [len(answers), len(labels)], "data": data}
