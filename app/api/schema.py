"""The request and the answer of ``POST /classify``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.api.body import check_values
from app.errors import InvalidRequest

Explain = Literal["steps", "summary", "none"]
SchemaT = TypeVar("SchemaT", bound=BaseModel)
Texts = Annotated[list[str], Field(min_length=1, fail_fast=True)]  # thousands of wrong ones are one error
DEADLINE_HEADER = "x-request-deadline-ms"
LONGEST_DEADLINE_MS = 3_600_000
_MOST_ERRORS = 1000  # that are looked through for the most telling one: five milliseconds
_SHOWN = 100  # characters of a wrong number that an error repeats
_NAME = re.compile(r"[A-Za-z0-9_.@/-]{1,64}")


class ClassifyRequest(BaseModel):
    """One document or several, who reads them, and what to tell about the reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    input: str | Texts = Field(description="One document, or several.")
    model: str | None = Field(
        None,
        description=(
            "`name` (its stable version where one was chosen, else its newest), `name@latest`, `name@stable` "
            "or `name@version`."
        ),
    )
    explain: Explain = Field("steps", description="What to tell about the reading.")
    top_k: int | None = Field(None, ge=1, description="Adds `top`: so many labels, the most probable first.")
    raw_scores: bool = Field(False, description="Adds `raw_scores`: the logits.")
    truncate: Literal["error", "right", "left"] = Field(
        "error", description="For a document beyond the limit: refuse it, or cut its right or left end off."
    )
    deadline_ms: int | None = Field(
        None,
        ge=1,
        le=LONGEST_DEADLINE_MS,
        description=f"How long the answer may take; the header `{DEADLINE_HEADER}` counts where it is less.",
    )
    partial: bool = Field(
        False, description="At the deadline answer with what was read so far, where there is a first part."
    )
    state: str | None = Field(
        None,
        description="The `state` of an earlier answer: `input`, one text, goes on where that document ended.",
    )
    return_state: bool = Field(
        False, description="Adds `state`, with which the document may be continued, where the model can."
    )

    @property
    def texts(self) -> list[str]:
        """The documents."""
        return [self.input] if isinstance(self.input, str) else self.input

    @property
    def tells_steps(self) -> bool:
        """Whether the answer has the steps."""
        return self.explain == "steps"


class StreamRequest(ClassifyRequest):
    """One document, who reads it, and what to tell about the reading besides its steps, which are always told."""

    input: str = Field(description="One document.")
    return_state: bool = Field(
        True, description="Adds `state`, with which the document may be continued, where the model can."
    )

    @property
    def tells_steps(self) -> bool:
        """They were told before, as they came."""
        return False


class Steps(BaseModel):
    """The answer after every token."""

    tokens: list[str]
    offsets: list[tuple[int, int]] = Field(
        description="Character offsets into the caller's text; empty spans for tokens that the model adds, as [CLS]."
    )
    probs: list[list[float]] = Field(description="Per token; the last equals the document's.")
    sentiment: list[float] | None = Field(None, description="Expected polarity in [-1, 1], per token.")
    unknown: list[int] | None = Field(
        None,
        description="Indices of the tokens outside the model's vocabulary, which it reads all as one word.",
    )
    causal: bool = Field(description="Whether a step is the answer for the words up to it.")


class TurningPoint(BaseModel):
    """A word after which another label was the most probable one."""

    index: int
    token: str
    offset: tuple[int, int] = Field(description="Character offsets into the caller's text.")
    from_: str = Field(alias="from", description="The label before it.")
    to: str = Field(description="The label after it.")


class Mover(BaseModel):
    """A word and what it changed."""

    index: int
    token: str
    offset: tuple[int, int] = Field(description="Character offsets into the caller's text.")
    change: float = Field(
        description="Of the answer's probability. The first word of a document changes it from that of equal chance, "
        "that of a continued one from the earlier answer's."
    )


class Summary(BaseModel):
    """How the answer came about, with `explain: summary`."""

    turning_points: list[TurningPoint]
    moved_most: list[Mover] = Field(description="The words that changed the answer most; at most 5.")


class SkipMap(BaseModel):
    """The words that the model skipped; the arrays only with `explain: steps`."""

    skipped: list[bool] | None = None
    keep_probability: list[float] | None = Field(
        None, description="Of reading each token; absent for models that decide by jumps."
    )
    skip_rate: float


class SkimMap(BaseModel):
    """The words that the model read with its small cell, which changes a few units of the state; the arrays only with
    `explain: steps`."""

    skimmed: list[bool] | None = None
    read_probability: list[float] | None = Field(
        None, description="Of reading each token with the large cell."
    )
    skim_rate: float


class Groups(BaseModel):
    """Memory groups, fast to slow."""

    sizes: list[int]
    periods: list[int]
    updates: list[int]


class Forgetting(BaseModel):
    """Forgetting rates of the memory groups, slowest first, of a model of both directions those of the forward one; the
    array per token only with `explain: steps`."""

    rates: list[list[float]] | None = Field(
        None, description="Per token and group; the higher, the sooner forgotten."
    )
    mean_rates: list[float] = Field(description="Per group, over the text.")


class AttendedWord(BaseModel):
    """A word and the attention paid to it."""

    index: int
    token: str
    offset: tuple[int, int] = Field(description="Character offsets into the caller's text.")
    weight: float


class Attention(BaseModel):
    """How much was attended to each word, the mean of all hops; the array only with `explain: steps`."""

    weights: list[float] | None = Field(None, description="Per token; over the text they add up to 1.")
    top: list[AttendedWord] = Field(description="The words attended to most, at most 5.")


class NGram(BaseModel):
    """Words whose windows won pooled features."""

    first: int = Field(description="Index of its first token.")
    last: int = Field(description="Index of its last token.")
    text: str
    offset: tuple[int, int] = Field(description="Character offsets into the caller's text.")
    share: float = Field(description="Of all pooled features, those that it won.")
    weight: float = Field(
        description="What they add to the label's logit over the mean of all labels (gradient times feature)."
    )


class NGrams(BaseModel):
    """The n-grams that won the max-pooling; the array only with `explain: steps`."""

    share: list[float] | None = Field(
        None, description="Per token, the share of the pooled features won by windows that end there."
    )
    top: list[NGram] = Field(description="Those of the largest weights, for or against the label; at most 5.")


class Halves(BaseModel):
    """The fast and the slow units of a model, in this order; the array only with `explain: steps`."""

    units: list[int]
    tau: list[float] = Field(description="Their trained timescales: the larger, the slower.")
    weights: list[tuple[float, float]] | None = Field(
        None, description="Per token, what they add to the label's logit over the mean of all labels."
    )
    final_weights: tuple[float, float] = Field(description="The same at the end, where the answer is read.")


class Partial(BaseModel):
    """How far a document was read by the deadline."""

    read: float = Field(description="The share of its tokens.")
    offset: int = Field(description="The character of the caller's text at which the last token read ends.")


class ClassifiedDocument(BaseModel):
    """A document's answer, or its `error`."""

    index: int
    label: str | None = None
    score: float | None = None
    probs: list[float] | None = None
    num_classes: int | None = None
    truncated: bool | None = None
    partial: Partial | None = Field(None, description="Only where the deadline cut the reading short.")
    state: str | None = Field(None, description="Send it back with further text to continue the document.")
    top: list[dict[str, Any]] | None = None
    raw_scores: list[float] | None = None
    steps: Steps | None = None
    summary: Summary | None = None
    skip_map: SkipMap | None = None
    skim_map: SkimMap | None = None
    groups: Groups | None = None
    forgetting: Forgetting | None = None
    attention: Attention | None = None
    ngrams: NGrams | None = None
    halves: Halves | None = None
    error: dict[str, Any] | None = None


class Usage(BaseModel):
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class ClassifyResponse(BaseModel):
    """The answers in the order of the input; what a model cannot give is absent."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    labels: list[str]
    data: list[ClassifiedDocument]
    usage: Usage


class ProblemDetails(BaseModel):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str


def parse_request(body: bytes) -> ClassifyRequest:
    """Read the body of ``POST /classify``.

    Raises:
        InvalidRequest: with the first wrong field, what was expected there and what came.
    """
    return parse_body(ClassifyRequest, body)


def parse_stream_request(body: bytes) -> StreamRequest:
    """Read the body of ``POST /classify/stream``.

    Raises:
        InvalidRequest: with the first wrong field, what was expected there and what came.
    """
    return parse_body(StreamRequest, body)


def parse_body(schema: type[SchemaT], body: bytes) -> SchemaT:
    """Read a body in JSON.

    Raises:
        InvalidRequest: with the first wrong field, what was expected there and what came.
    """
    check_values(body)
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        raise InvalidRequest(_explain(schema, error)) from None


def _explain(schema: type[BaseModel], error: ValidationError) -> str:
    if (count := error.error_count()) > _MOST_ERRORS:
        return f"Expected some of {', '.join(schema.model_fields)}; {count} fields are wrong or unknown."
    problems = error.errors(include_url=False)
    # Of the branches of a union the one that came furthest tells most: `input.3` rather than `input`.
    problem = max(problems, key=lambda problem: (len(_place(problem["loc"])), problem["type"] == "too_short"))
    place, kind, value = ".".join(_place(problem["loc"])), problem["type"], problem["input"]
    if kind == "json_invalid":
        hint = " Half of a surrogate pair is no text." if "hex escape" in problem["msg"] else ""
        return f"Expected a JSON object: {problem['ctx']['error']}.{hint}"
    if kind == "extra_forbidden":
        return f"Unknown field {show_name(place)}; expected some of {', '.join(schema.model_fields)}."
    if kind == "missing":
        return f"The field {place!r} is missing."
    documents = place in ("input", "inputs") and kind != "too_short" and schema is not StreamRequest
    expected = "a string or a list of strings" if documents else problem["msg"]
    return f"Field {place or 'body'!r}: {expected}, got {show(value)}."


def _place(location: tuple[int | str, ...]) -> list[str]:
    return [str(part) for part in location if part not in ("str",) and not str(part).startswith("list[")]


def show(value: object) -> str:
    """A wrong value for an error: a number, else only its kind, since any string may be a document."""
    kinds = ((str, "a string"), (list, "a list"), (dict, "an object"))
    return next((kind for type_, kind in kinds if isinstance(value, type_)), None) or repr(value)[:_SHOWN]


def show_name(name: str) -> str:
    """A wrong name of a field or model for an error, where it is one as these have and no text."""
    return repr(name) if _NAME.fullmatch(name) else "(not a name)"
