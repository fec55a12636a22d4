"""The manifest of a bundle: its schema, and which values of it fit together.

The tensors that it names are described in docs/architecture.md. `app.bundle` reads it from a folder; these two modules
are the only part of ``app`` that ``export`` may import, and need neither torch nor ONNX Runtime.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

TOKENIZER = "tokenizer.json"
UNKNOWN_ID = 1
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,2}")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST_VALUES = 2**22  # of a row in one run: calibration tries 64 rows, which then take a gigabyte
_MOST_TOKENS = 2**24  # of a document: some books
LARGEST_TOLERANCE = 1e-2  # of a golden document's probability: beyond it, the check would say little

Name = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
Version = Annotated[str, Field(pattern=f"^{VERSION.pattern}$")]
FileName = Annotated[str, Field(pattern=f"^{_FILE_NAME.pattern}$", max_length=128)]
TensorName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
DType = Literal["float32", "int64", "bool"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TensorSpec(_Model):
    """A named tensor; ``shape`` leaves out the leading rows, and the length of steps."""

    name: TensorName
    dtype: DType = "float32"
    shape: tuple[Annotated[int, Field(gt=0, le=_MOST_VALUES)], ...] = ()

    @property
    def values(self) -> int:
        """Numbers per row, or per word of a row."""
        return math.prod(self.shape)


class PassSpec(_Model):
    """One reading of the document, segment by segment, by one graph."""

    name: TensorName
    graph: FileName
    direction: Literal["forward", "backward"] = "forward"
    whole: bool = (
        False  # looks at the whole document at once: never cut, so the largest bucket bounds documents
    )
    reads: tuple[TensorName, ...] = ()
    states: tuple[TensorSpec, ...] = ()
    steps: tuple[TensorSpec, ...] = ()
    results: tuple[TensorSpec, ...] = ()


class TraceSpec(_Model):
    """What the probabilities after each word mean."""

    causal: bool
    meaning: str


class GroupSpec(_Model):
    """A memory group of a periodic model: its units run at every ``period``-th word, counted from 1."""

    size: Annotated[int, Field(gt=0)]
    period: Annotated[int, Field(gt=0)]


class WindowSpec(_Model):
    """Windows of one width, whose features are pooled over the document."""

    words: Annotated[int, Field(gt=0)]
    features: Annotated[int, Field(gt=0)]


class HalfSpec(_Model):
    """The fast or the slow units of a model, and their trained timescale τ."""

    units: Annotated[int, Field(gt=0)]
    tau: Annotated[float, Field(ge=1)]


class GoldenDocument(_Model):
    """A text with the answer it must get before the bundle may serve."""

    text: str
    probabilities: tuple[float, ...]
    skipped: tuple[bool, ...] | None = None


class Training(_Model):
    """Where the weights come from; the card says the same in prose."""

    data: str
    terms: str
    recipe: str
    seed: int
    metrics: dict[str, dict[str, float]]  # split name -> metric name -> value


class Manifest(_Model):
    """``manifest.json``; every field is needed by the service or shown to its users."""

    format: Literal[1] = 1
    name: Name
    version: Version
    architecture: str
    sizes: dict[str, int | float | str | bool | list[int]]
    labels: Annotated[tuple[str, ...], Field(min_length=2)]
    polarity: tuple[Annotated[float, Field(ge=-1, le=1)], ...] | None = None
    trace: TraceSpec
    groups: tuple[GroupSpec, ...] | None = None
    windows: Annotated[tuple[WindowSpec, ...], Field(min_length=1)] | None = None
    halves: tuple[HalfSpec, HalfSpec] | None = None  # fast, slow
    passes: Annotated[tuple[PassSpec, ...], Field(min_length=1)]
    length_buckets: Annotated[tuple[Annotated[int, Field(gt=0, le=_MOST_VALUES)], ...], Field(min_length=1)]
    longest_document: Annotated[int, Field(gt=0, le=_MOST_TOKENS)]
    unknown_id: Annotated[int, Field(ge=-1)] = (
        UNKNOWN_ID  # of tokens outside the vocabulary; -1: there are none
    )
    opset: int
    training: Training
    golden: Annotated[tuple[GoldenDocument, ...], Field(min_length=1)]
    golden_tolerance: Annotated[float, Field(gt=0, le=LARGEST_TOLERANCE)]
    sha256: dict[FileName, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]

    @property
    def skips(self) -> bool:
        """Whether the model gives a skip map."""
        return any(step.name == "skipped" for step in self.passes[-1].steps)

    @property
    def skims(self) -> bool:
        """Whether the model reads some words with a small part of it, and tells which."""
        return any(step.name == "skimmed" for step in self.passes[-1].steps)

    @property
    def forgets(self) -> bool:
        """Whether the model tells the forgetting rates of its memory groups."""
        return any(step.name == "forgetting_rates" for step in self.passes[-1].steps)

    @property
    def attends(self) -> bool:
        """Whether the model tells how much it attended to each word."""
        return any(step.name == "attention_score" for step in self.passes[-1].steps)

    @model_validator(mode="after")
    def _labels_fit(self) -> Self:
        classes = len(self.labels)
        if len(set(self.labels)) != classes:
            raise ValueError(f"labels are not distinct: {list(self.labels)}")
        if self.polarity is not None and len(self.polarity) != classes:
            raise ValueError(f"polarity has {len(self.polarity)} values for {classes} labels")
        for document in self.golden:
            if len(document.probabilities) != classes:
                raise ValueError(f"a golden document has {len(document.probabilities)} probabilities")
        return self

    @model_validator(mode="after")
    def _buckets_fit(self) -> Self:
        if list(self.length_buckets) != sorted(set(self.length_buckets)):
            raise ValueError(f"length buckets must rise: {list(self.length_buckets)}")
        for reading in self.passes:
            per_word = sum(step.values for step in reading.steps)
            per_row = sum(tensor.values for tensor in (*reading.states, *reading.results))
            if (values := self.length_buckets[-1] * per_word + per_row) > _MOST_VALUES:
                raise ValueError(f"pass {reading.name} writes {values} values per row, above {_MOST_VALUES}")
        largest = self.length_buckets[-1]
        if self.longest_document > largest and any(reading.whole for reading in self.passes):
            raise ValueError(
                f"longest_document is {self.longest_document}, but a pass that reads documents whole takes at most "
                f"the largest bucket, {largest}"
            )
        for group in self.groups or ():
            if any(bucket % group.period for bucket in self.length_buckets):
                raise ValueError(f"length buckets must be multiples of the period {group.period}")
        return self

    @model_validator(mode="after")
    def _passes_fit(self) -> Self:
        written: set[str] = set()
        for reading in self.passes:
            if missing := set(reading.reads) - written:
                raise ValueError(f"pass {reading.name} reads {sorted(missing)}, which no earlier pass writes")
            if reading.graph not in self.sha256:
                raise ValueError(f"pass {reading.name} names {reading.graph}, which has no sha256")
            written |= {step.name for step in reading.steps}
        answer = {step.name: step for step in self.passes[-1].steps}
        for needed in ("logits", "probabilities"):
            if needed not in answer or answer[needed].shape != (len(self.labels),):
                raise ValueError(f"the last pass must write {needed} of shape ({len(self.labels)},) per word")
        if "keep_probability" in answer and "skipped" not in answer:
            raise ValueError("keep_probability needs skipped")
        if ("skimmed" in answer) != ("read_probability" in answer):
            raise ValueError("skimmed and read_probability come together")
        if (rates := answer.get("forgetting_rates")) is not None and len(rates.shape) != 1:
            raise ValueError(f"forgetting_rates must have the shape (groups,) per word, found {rates.shape}")
        halves = answer["half_logits"].shape if "half_logits" in answer else None
        if halves != (expected := (2, len(self.labels)) if self.halves else None):
            raise ValueError(f"for these halves the step half_logits must be {expected}, found {halves}")
        if (score := answer.get("attention_score")) is not None:
            results = {result.name: result.shape for result in self.passes[-1].results}
            shapes = [score.shape, *(results.get(f"attention_{name}") for name in ("largest", "sum"))]
            if len(score.shape) != 1 or len(set(shapes)) != 1:
                raise ValueError(
                    "attention_score and the results attention_largest and attention_sum must have the shape "
                    f"(hops,), found {', '.join(map(str, shapes))}"
                )
        if TOKENIZER not in self.sha256:
            raise ValueError(f"{TOKENIZER} has no sha256")
        return self

    @model_validator(mode="after")
    def _windows_fit(self) -> Self:
        if any(reading.results for reading in self.passes[:-1]):
            raise ValueError("only the last pass may write results")
        features = sum(window.features for window in self.windows or ())
        for needed, dtype in (("last_word", "int64"), ("feature_weight", "float32")):
            expected = [(dtype, (features,))] if self.windows else []
            written = self.passes[-1].results
            found = [(result.dtype, result.shape) for result in written if result.name == needed]
            if found != expected:
                raise ValueError(f"for these windows the result {needed} must be {expected}, found {found}")
        return self


def version_key(version: str) -> tuple[int, ...]:
    """Order versions by number: ``1.10`` comes after ``1.9``."""
    return tuple(int(part) for part in version.split("."))
