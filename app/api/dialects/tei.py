"""``POST /predict`` of text-embeddings-inference."""

from __future__ import annotations

from typing import Annotated

import orjson
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from app.api.exchange import Exchange, exchange
from app.api.schema import parse_body
from app.errors import InvalidRequest
from app.reading.answer import Answer
from app.text.tokens import Truncate


class PredictRequest(BaseModel):
    """One text, or a batch as a list of lists; fields of others are passed over, as there."""

    model_config = ConfigDict(frozen=True, strict=True)

    inputs: (
        str | Annotated[list[str], Field(fail_fast=True)] | Annotated[list[list[str]], Field(fail_fast=True)]
    ) = Field(description='One text, or several as `[["first"], ["second"]]`. Pairs are refused.')
    raw_scores: bool = Field(False, description="Logits instead of probabilities.")
    truncate: bool = Field(False, description="Cut what is too long instead of refusing it.")
    truncation_direction: str = Field(
        "Right", pattern="^(Left|Right|left|right)$", description="Where to cut."
    )


class _Asked:
    """A request with its batch laid out."""

    model = None
    deadline_ms = None

    def __init__(self, request: PredictRequest) -> None:
        self.raw_scores = request.raw_scores
        direction: Truncate = "left" if request.truncation_direction.lower() == "left" else "right"
        self.truncate: Truncate = direction if request.truncate else "error"
        self.texts = _texts(request.inputs)
        inputs = request.inputs
        self.single = isinstance(inputs, str) or isinstance(inputs[0], str)


async def predict(request: Request) -> Response:
    """Classify one text or a batch; labels come with the most probable first."""
    return await exchange(request, _parse, _encode)


def _parse(body: bytes) -> _Asked:
    return _Asked(parse_body(PredictRequest, body))


def _texts(inputs: str | list[str] | list[list[str]]) -> list[str]:
    """The texts; a list of one string is that string, a list of two strings is a pair."""
    if isinstance(inputs, str):
        return [inputs]
    if not inputs or not inputs[0]:
        raise InvalidRequest("Field 'inputs': expected at least one text, got an empty list.")
    sequences = [[one] if isinstance(one, str) else one for one in inputs]
    if isinstance(inputs[0], str):
        sequences = [[text for sequence in sequences for text in sequence]]
    for sequence in sequences:
        if len(sequence) == 2:
            raise InvalidRequest(
                "Field 'inputs': expected single texts, got a pair, which no model here reads. "
                'A batch is a list of lists: [["first"], ["second"]].'
            )
        if len(sequence) != 1:
            raise InvalidRequest(f"Field 'inputs': expected one text in each list, got {len(sequence)}.")
    return [sequence[0] for sequence in sequences]


def _encode(answered: Exchange[_Asked]) -> bytes:
    asked = answered.asked
    predictions = [_predictions(answer, asked.raw_scores) for answer in answered.all_read]
    found = predictions[0] if asked.single else predictions
    return orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY)


def _predictions(answer: Answer, raw_scores: bool) -> list[dict[str, object]]:
    scores = answer.reading.steps["logits"][-1] if raw_scores else answer.probabilities
    labels = answer.model.manifest.labels
    return [{"score": scores[one], "label": labels[one]} for one in (-scores).argsort(kind="stable").tolist()]
