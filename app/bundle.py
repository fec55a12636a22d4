"""The bundle: everything that serving a model needs, as data, and the checks that let it in.

A bundle is a folder ``NAME/VERSION/`` with ``manifest.json``, ``tokenizer.json``, the ONNX graphs and
``card.md``. The tensors of a graph are described in docs/architecture.md. This module is the only part of
``app`` that ``export`` may import; it needs neither torch nor ONNX Runtime.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

MANIFEST = "manifest.json"
TOKENIZER = "tokenizer.json"
CARD = "card.md"
LATEST = "latest"
STABLE = "stable"  # also the file in NAME/ that holds the version
ANY = "*"  # in place of a version: all that may be in a folder NAME that cannot be read
PADDING_ID = 0
UNKNOWN_ID = 1
# A graph cannot be larger: that is the most that its serialisation holds. The others are read whole into memory.
_MOST_BYTES = {MANIFEST: 16 * 2**20, TOKENIZER: 256 * 2**20, CARD: 2**20, STABLE: 64}
_MOST_GRAPH_BYTES = 2**31 - 1
_MOST_CHARACTERS = 1000  # of a message, which may name all files of a folder
_MOST_VALUES = 2**22  # of a row in one run: calibration tries 64 rows, which then take a gigabyte
MOST_GOLDEN_TOLERANCE = 1e-2  # what is further off is another answer
_MOST_TOKENS = 2**24  # of a document: some books
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,2}")

Name = Annotated[str, Field(pattern=f"^{_NAME.pattern}$")]
Version = Annotated[str, Field(pattern=f"^{_VERSION.pattern}$")]
FileName = Annotated[str, Field(pattern=f"^{_FILE_NAME.pattern}$", max_length=128)]
TensorName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
DType = Literal["float32", "int64", "bool"]


def printable(name: str) -> str:
    """The same text; bytes of a file's name that are no UTF-8 are written as escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


class BundleError(Exception):
    """A bundle that must not be served; the message says what was expected and what was found.

    It has no more than some lines and can be printed, whatever a file in the folder is called.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message)[:_MOST_CHARACTERS])


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
    golden_tolerance: Annotated[float, Field(gt=0, le=MOST_GOLDEN_TOLERANCE)]
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


def file_sha256(path: Path) -> str:
    """The hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bundle_bytes(folder: Path) -> int:
    """The size of a bundle's files together.

    Raises:
        BundleError: they cannot be looked at.
    """
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except OSError as error:
        raise BundleError(f"{folder}: cannot be read: {error.strerror}") from error


def find_bundles(root: Path, refuse: Callable[[Path, BundleError], None] | None = None) -> list[Path]:
    """The bundle folders ``NAME/VERSION`` below ``root``, or ``root`` itself where it is a bundle.

    A folder named like a version is one too where its manifest is missing.

    Args:
        root: the folder of bundles.
        refuse: told of a folder NAME that cannot be read, which is raised without it.

    Raises:
        BundleError: ``root`` is not a folder, cannot be read, or holds no bundle.
    """
    if not os.path.isdir(root):
        raise BundleError(f"{root}: expected a folder of bundles (NAME/VERSION/{MANIFEST}), found none")
    if os.path.lexists(root / MANIFEST):
        return [root]
    found: list[Path] = []
    refused = 0
    for name in _folders(root):
        try:
            found += [version for version in _folders(name) if _is_bundle(version)]
        except BundleError as error:
            if not _NAME.fullmatch(name.name):
                continue  # no bundle's, such as the lost+found of a disk
            if refuse is None:
                raise
            refuse(name, error)
            refused += 1
    if not found and not refused:
        raise BundleError(f"{root}: no NAME/VERSION/{MANIFEST} below it; `readtrace export` writes one")
    return found


def _folders(parent: Path) -> list[Path]:
    """In order; names that begin with a dot are those of writers that have not finished."""
    try:
        return sorted(
            path for path in parent.iterdir() if not path.name.startswith(".") and os.path.isdir(path)
        )
    except OSError as error:
        raise BundleError(f"{parent}: cannot be read: {error.strerror}") from error


def _is_bundle(folder: Path) -> bool:
    return bool(_VERSION.fullmatch(folder.name)) or os.path.lexists(folder / MANIFEST)


def is_gone(folder: Path) -> bool:
    """Whether nothing of the name is there: what cannot be looked at may be."""
    try:
        folder.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def read_stable(name_folder: Path) -> str | None:
    """The version that the file ``NAME/stable`` chooses; None where there is no such file.

    Raises:
        BundleError: the file holds no version.
    """
    path = name_folder / STABLE
    if is_gone(path):
        return None
    text = _read(path).decode("utf-8", "replace").strip()
    if not _VERSION.fullmatch(text):
        raise BundleError(f"{path}: expected a version such as 2 or 1.10, found {text[:64]!r}")
    return text


def read_manifest(folder: Path, root: Path | None = None) -> Manifest:
    """The manifest of `read_hashed_manifest`.

    Raises:
        BundleError: as there.
    """
    return read_hashed_manifest(folder, root)[0]


def read_hashed_manifest(folder: Path, root: Path | None = None) -> tuple[Manifest, str]:
    """Read and verify a bundle: schema, the folder's names, the files present and their hashes.

    Args:
        folder: the bundle.
        root: the folder of bundles in which it is ``NAME/VERSION``; None, or itself, for one on its own.

    Returns:
        The manifest, and the hexadecimal SHA-256 of the bytes that it was read from.

    Raises:
        BundleError: anything is missing, unexpected, linked from elsewhere, too large, or not what was
            hashed.
    """
    nested = root is not None and root != folder
    for place in (folder, folder.parent) if nested else ():
        if place.is_symlink():
            raise BundleError(f"{place}: expected a folder, found a link")
    content = _read(folder / MANIFEST)
    manifest = _parse(folder / MANIFEST, content)
    if nested and (manifest.name, manifest.version) != (folder.parent.name, folder.name):
        raise BundleError(f"{folder}: the manifest is of {manifest.name}/{manifest.version}")
    expected = {*manifest.sha256, MANIFEST}
    try:
        found = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise BundleError(f"{folder}: cannot be read: {error.strerror}") from error
    if missing := expected - found:
        raise BundleError(f"{folder}: missing {', '.join(sorted(missing))}")
    if unknown := found - expected:
        raise BundleError(f"{folder}: files that the manifest does not list: {', '.join(sorted(unknown))}")
    for name in manifest.sha256:
        read_file(folder, manifest, name)
    return manifest, hashlib.sha256(content).hexdigest()


def read_file(folder: Path, manifest: Manifest, name: str) -> bytes:
    """The bytes of one of a bundle's files, which are those that were hashed.

    Raises:
        BundleError: they are not, or it is no plain file, or too large.
    """
    path = folder / name
    content = _read(path)
    if (actual := hashlib.sha256(content).hexdigest()) != manifest.sha256[name]:
        raise BundleError(f"{path}: sha256 is {actual}, the manifest says {manifest.sha256[name]}")
    return content


def _read(path: Path) -> bytes:
    """What is looked at is what is read: a name may stand for another file by then.

    A pipe is not waited for, and a link not followed.
    """
    most_bytes = _MOST_BYTES.get(path.name, _MOST_GRAPH_BYTES)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BundleError(f"{path}: expected a plain file")
            if found.st_size > most_bytes:
                raise BundleError(f"{path}: expected at most {most_bytes} bytes, found {found.st_size}")
            content = file.read(found.st_size + 1)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BundleError(f"{path}: expected a plain file, found a link") from error
        raise BundleError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > found.st_size:
        raise BundleError(f"{path}: grew while it was read")
    return content


def _parse(path: Path, content: bytes) -> Manifest:
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "manifest"
        raise BundleError(f"{path}: {where}: {first['msg']}") from error
