"""``POST /v1/moderations`` of OpenAI, for models whose labels map to its categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from app.api.access import service_of
from app.api.exchange import Exchange, exchange
from app.api.schema import Texts, parse_body, show_name
from app.errors import NoCategories
from app.reading.answer import Answer
from app.settings import ModerationCategory

Categories = Mapping[str, ModerationCategory]  # by label
_CATEGORIES: tuple[ModerationCategory, ...] = get_args(ModerationCategory)
_THEIR_MODELS = ("omni-moderation", "text-moderation")  # what their clients send where nothing was chosen
_FLAGGED = 0.5  # from this probability of a category on


class TextPart(BaseModel):
    """A text among other kinds of input, of which no model here reads any."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    type: Literal["text"]
    text: str


class ModerationRequest(BaseModel):
    """One text or several, and who reads them."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    input: str | Texts | Annotated[list[TextPart], Field(min_length=1, fail_fast=True)] = Field(
        description="One text, or several; parts of the type `text` are one text."
    )
    model: str | None = Field(None, description="A model that has categories; not needed where one has.")


@dataclass(frozen=True, slots=True)
class _Asked:
    texts: Sequence[str]
    model: str
    categories: Categories
    truncate: Literal["error"] = "error"
    deadline_ms: None = None


async def moderate(request: Request) -> Response:
    """Say which categories a text falls into; those that the model does not judge apply to no input type."""
    return await exchange(request, partial(_parse, service_of(request).settings.moderation), _encode)


def _parse(moderation: Mapping[str, Categories], body: bytes) -> _Asked:
    asked = parse_body(ModerationRequest, body)
    model = _choose(moderation, asked.model)
    return _Asked(_texts(asked.input), model, moderation[model.partition("@")[0]])


def _choose(moderation: Mapping[str, Categories], asked: str | None) -> str:
    model = asked
    if (model is None or model.startswith(_THEIR_MODELS)) and len(moderation) == 1:
        (model,) = moderation
    if model is None or model.partition("@")[0] not in moderation:
        names = ", ".join(sorted(moderation)) or "a model in READTRACE_MODERATION, which has none"
        raise NoCategories(f"Expected {names}, got {'none' if asked is None else show_name(asked)}.")
    return model


def _texts(given: str | list[str] | list[TextPart]) -> list[str]:
    if isinstance(given, str):
        return [given]
    parts = [one for one in given if isinstance(one, TextPart)]
    return (
        ["\n".join(part.text for part in parts)] if parts else [one for one in given if isinstance(one, str)]
    )


def _encode(answered: Exchange[_Asked]) -> bytes:
    results = [_result(answer, answered.asked.categories) for answer in answered.all_read]
    return orjson.dumps({"id": f"modr-{answered.request_id}", "model": answered.model.id, "results": results})


def _result(answer: Answer, categories: Categories) -> dict[str, object]:
    scores: dict[ModerationCategory, float] = dict.fromkeys(_CATEGORIES, 0.0)
    for label, probability in zip(answer.model.manifest.labels, answer.probabilities.tolist(), strict=True):
        if label in categories:
            scores[categories[label]] += probability
    judged = {categories[label] for label in answer.model.manifest.labels if label in categories}
    return {
        "flagged": any(score >= _FLAGGED for score in scores.values()),
        "categories": {category: score >= _FLAGGED for category, score in scores.items()},
        "category_scores": {category: min(1.0, score) for category, score in scores.items()},
        "category_applied_input_types": {
            category: ["text"] if category in judged else [] for category in _CATEGORIES
        },
    }
