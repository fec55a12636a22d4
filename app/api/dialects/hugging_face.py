"""``inputs`` and ``parameters`` of Hugging Face's text classification, at ``/`` and at ``/models/NAME``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from app.api.exchange import Exchange, exchange
from app.api.schema import Texts, parse_body
from app.reading.answer import Answer

Function = Literal["softmax", "sigmoid", "none"]


class Parameters(BaseModel):
    """How scores are made of logits, and how many labels to tell."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    function_to_apply: Function | None = Field(None, description="`softmax` where it is not given.")
    top_k: int | None = Field(None, ge=1, description="So many labels; all where it is not given.")


class InferenceRequest(BaseModel):
    """The request of the task; `options` concern a hosted service and are passed over."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    inputs: str | Texts = Field(description="One text, or several.")
    parameters: Parameters | None = Field(None, description="`function_to_apply` and `top_k`.")
    options: dict[str, Any] | None = Field(None, description="Passed over.")


@dataclass(frozen=True, slots=True)
class _Asked:
    texts: list[str]
    parameters: Parameters
    model: str | None
    truncate: Literal["error"] = "error"
    deadline_ms: None = None


async def classify_text(request: Request) -> Response:
    """Classify one text or several: for each a list of labels, the most probable first."""
    return await exchange(request, partial(_parse, request.path_params.get("name")), _encode)


def _parse(model: str | None, body: bytes) -> _Asked:
    asked = parse_body(InferenceRequest, body)
    texts = [asked.inputs] if isinstance(asked.inputs, str) else asked.inputs
    return _Asked(texts, asked.parameters or Parameters(function_to_apply=None, top_k=None), model)


def _encode(answered: Exchange[_Asked]) -> bytes:
    found = [_labels(answer, answered.asked.parameters) for answer in answered.all_read]
    return orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY)


def _labels(answer: Answer, parameters: Parameters) -> list[dict[str, object]]:
    scores = _scores(answer, parameters.function_to_apply)
    labels = answer.model.manifest.labels
    order = (-scores).argsort(kind="stable")[: parameters.top_k].tolist()
    return [{"label": labels[one], "score": scores[one]} for one in order]


def _scores(answer: Answer, function: Function | None) -> NDArray[np.float32]:
    if function in (None, "softmax"):
        return answer.probabilities
    logits: NDArray[np.float32] = answer.reading.steps["logits"][-1]
    if function == "none":
        return logits
    return np.exp(-np.logaddexp(np.float32(0), -logits))  # the sigmoid, without overflow
