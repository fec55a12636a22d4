"""Where the dialects are found, and how they stand in the documentation."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from app.api.dialects import hugging_face, moderations, open_inference, tei
from app.api.documentation import classifying

_TEXT = "Is this progress ?"
_LABELS = [{"label": "positive", "score": 0.9}, {"label": "negative", "score": 0.1}]
_BATCH = {"type": "array", "items": {"type": "array", "items": {"type": "object"}}}

_PREDICT = classifying(
    "Classify as text-embeddings-inference does",
    "text-embeddings-inference",
    tei.PredictRequest,
    {"inputs": [[_TEXT], ["A film to remember ."]]},
    {"type": "array", "example": _LABELS},
)
_HUGGING_FACE = classifying(
    "Classify as Hugging Face's text classification does",
    "hugging face",
    hugging_face.InferenceRequest,
    {"inputs": _TEXT, "parameters": {"top_k": 2}},
    {**_BATCH, "example": [_LABELS]},
)
_MODERATIONS = classifying(
    "Classify as OpenAI's moderations do",
    "openai",
    moderations.ModerationRequest,
    {"input": _TEXT},
    {"type": "object", "required": ["id", "model", "results"]},
)
_INFER = classifying(
    "Classify as the Open Inference Protocol does",
    "open inference protocol",
    open_inference.InferenceRequest,
    {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [_TEXT]}]},
    {"type": "object", "required": ["model_name", "outputs"]},
)


def add_dialects(app: FastAPI, direct: type[APIRoute]) -> None:
    """Add every dialect; ``direct`` is the kind of route that is called with the plain request."""

    def post(path: str, handler: Any, documentation: dict[str, Any]) -> None:
        app.router.add_api_route(
            path, handler, methods=["POST"], route_class_override=direct, **documentation
        )

    post("/predict", tei.predict, _PREDICT)
    post("/", hugging_face.classify_text, _HUGGING_FACE)
    post("/models/{name}", hugging_face.classify_text, _with("name", _HUGGING_FACE))
    post("/v1/moderations", moderations.moderate, _MODERATIONS)
    post("/v2/models/{name}/infer", open_inference.infer, _with("name", _INFER))
    versioned = _with("version", _with("name", _INFER))
    post("/v2/models/{name}/versions/{version}/infer", open_inference.infer, versioned)
    app.include_router(open_inference.router)


def _with(name: str, documentation: dict[str, Any]) -> dict[str, Any]:
    """The documentation of a route that has one more part of its path to name."""
    extra = documentation["openapi_extra"]
    parameter = {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    parameters = [*extra.get("parameters", []), parameter]
    return {**documentation, "openapi_extra": {**extra, "parameters": parameters}}
