"""What `readtrace export` does: lower the best weights, prove the graphs, and write the bundle."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from tokenizers import Tokenizer

from app.bundle import CARD, MANIFEST, file_sha256
from app.manifest import (
    TOKENIZER,
    VERSION,
    GoldenDocument,
    Manifest,
    Name,
    Training,
    Version,
    version_key,
)
from export.card import Comparison, read_comparisons, write_card
from export.graph import OPSET
from export.lowering.base import Lowered, array
from export.lowering.registry import lower
from export.proof import Proof, TokenIds, prove
from export.reading import GraphReader
from export.workplace import workplace
from models.data.documents import BadRows
from models.data.rows import Columns, read_rows
from models.errors import ConfigError, RunError
from models.text.storage import store_vectors
from models.training.run_folder import RunFolder, RunRecord, require_writable

_REAL_DOCUMENTS = 64  # of the proof
_GOLDEN_DOCUMENTS = 8
_NUMBERS = (int, float)


@dataclass(frozen=True)
class ExportOptions:
    """What the bundle is called and what goes into it."""

    name: str
    version: str = "1"
    bundles: Path = Path("bundles")
    documents: Path | None = None  # real texts for the proof; None: the run's dev or training file
    golden: Path | None = (
        None  # texts for the golden documents, which the bundle holds; None: some of the proof's
    )
    compare: Path | None = None
    root: Path | None = None  # where the run's relative paths start; None: where they did in training


def export_run(run: Path, options: ExportOptions, console: Console) -> Path:
    """Export a run's best weights to `bundles/NAME/VERSION` and return that folder.

    Raises:
        ReadtraceTrainingError: no run, bad options, or a bundle that exists already.
        ProofError: the graphs do not give the network's answers, or rounding decides them.
    """
    folder = RunFolder(run)
    record = folder.record()
    target = _free_target(options)
    if folder.unfinished():
        console.print(
            f"warning: the training of {run} has not ended; these are its best weights so far", style="yellow"
        )
    comparisons = read_comparisons(options.compare) if options.compare else []
    model = folder.model()
    stored = (
        store_vectors(array(model.embedding.weight), record.config.model.embedding_storage)
        if model.encoder is None
        else None
    )
    tokenizer = folder.tokenizer()
    with console.status("lowering to ONNX"):
        lowered = lower(model, stored)
    longest = lowered.longest_document
    texts = _real_texts(record, options, tokenizer, longest)
    golden_texts = _texts(options.golden, record, tokenizer, longest) if options.golden else texts
    with console.status("proving that the graphs give the network's answers"):
        proof = prove(model, lowered, _encode(tokenizer, texts))
    console.print(f"proof: {proof}", highlight=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with workplace(target.parent) as partial:
            bundle = partial / "bundle"
            bundle.mkdir()
            evidence = proof, comparisons
            _write(bundle, folder, options, lowered, evidence, _golden(lowered, golden_texts, tokenizer))
            try:
                bundle.rename(target)  # whole, or not at all
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    raise _exists(target) from error
                raise
    finally:
        with suppress(OSError):
            target.parent.rmdir()  # which only an empty folder lets itself be: nothing came of it
    size = sum(path.stat().st_size for path in target.iterdir())
    console.print(
        f"bundle {options.name}@{options.version} in {target} ({size / 1e6:.1f} MB)", highlight=False
    )
    return target


def _free_target(options: ExportOptions) -> Path:
    for option, form, value in (("--name", Name, options.name), ("--version", Version, options.version)):
        try:
            TypeAdapter(form).validate_python(value)
        except ValidationError as error:
            raise ConfigError(f"{option}: {error.errors()[0]['msg']}, found '{value}'") from error
    target = options.bundles / options.name / options.version
    if target.exists():
        raise _exists(target)
    require_writable(target.parent)
    for other in target.parent.iterdir() if target.parent.exists() else ():
        if VERSION.fullmatch(other.name) and version_key(other.name) == version_key(options.version):
            raise _exists(other)  # 1 and 01 are the same version
    return target


def _exists(target: Path) -> ConfigError:
    return ConfigError(f"{target} exists already: choose another --version, or remove it")


def _real_texts(record: RunRecord, options: ExportOptions, tokenizer: Tokenizer, longest: int) -> list[str]:
    """A seeded choice of real texts."""
    data = record.config.data
    if options.documents:
        texts = _texts(options.documents, record, tokenizer, longest)
    else:  # its bad rows were told when the run was trained
        path = record.root_folder(options.root) / (data.dev or data.train)[0]
        texts = _texts(path, record, tokenizer, longest, BadRows())
    order = np.random.default_rng(0).permutation(len(texts))[:_REAL_DOCUMENTS]
    return [texts[index] for index in order]


def _texts(
    path: Path, record: RunRecord, tokenizer: Tokenizer, longest: int, bad: BadRows | None = None
) -> list[str]:
    """The texts of a file, those without a word or beyond the longest document left out; labels are not read."""
    columns = Columns(record.config.data.text_column, label=None)
    texts = [row.text for row in read_rows(path, columns, bad)]
    encodings = zip(texts, tokenizer.encode_batch_fast(texts), strict=True)
    known = [
        text for text, found in encodings if not all(found.special_tokens_mask) and len(found) <= longest
    ]
    if not known:
        raise RunError(f"{path}: expected documents with at least one word, found none")
    return known


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[TokenIds]:
    return [np.array(encoding.ids, dtype=np.int32) for encoding in tokenizer.encode_batch_fast(texts)]


def _golden(lowered: Lowered, texts: Sequence[str], tokenizer: Tokenizer) -> tuple[GoldenDocument, ...]:
    """The shortest texts and one longer than a segment where there is one, with their answers."""
    real = _encode(tokenizer, texts)
    order = sorted(range(len(texts)), key=lambda index: len(real[index]))
    longer = [index for index in order if len(real[index]) > lowered.length_buckets[-1]][:1]
    chosen = [*order[: _GOLDEN_DOCUMENTS - len(longer)], *longer]
    reader = GraphReader(lowered.passes, lowered.graphs)
    documents = []
    for index in chosen:
        (found,) = reader.read([real[index]], lowered.length_buckets[-1])
        skipped = tuple(bool(value) for value in found["skipped"]) if "skipped" in found else None
        answer = tuple(float(value) for value in found["probabilities"][-1])
        documents.append(GoldenDocument(text=texts[index], probabilities=answer, skipped=skipped))
    return tuple(documents)


def _write(
    target: Path,
    folder: RunFolder,
    options: ExportOptions,
    lowered: Lowered,
    evidence: tuple[Proof, Sequence[Comparison]],
    golden: tuple[GoldenDocument, ...],
) -> None:
    record = folder.record()
    for name, graph in lowered.graphs.items():
        (target / name).write_bytes(graph.SerializeToString())
    tokenizer: Tokenizer = folder.tokenizer()
    tokenizer.save(str(target / TOKENIZER), pretty=False)
    manifest = Manifest(
        name=options.name,
        version=options.version,
        architecture=record.config.model.architecture,
        sizes=_sizes(record),
        labels=record.labels,
        polarity=record.config.data.polarity or None,
        trace=lowered.trace,
        groups=lowered.groups,
        windows=lowered.windows,
        halves=lowered.halves,
        passes=lowered.passes,
        length_buckets=lowered.length_buckets,
        longest_document=lowered.longest_document,
        unknown_id=_unknown_id(tokenizer),
        opset=OPSET,
        training=Training(
            data=record.config.data.name,
            terms=record.config.data.terms,
            recipe=record.config.recipe,
            seed=record.config.training.seed,
            metrics=_metrics(folder),
        ),
        golden=golden,
        golden_tolerance=evidence[0].tolerance,
        sha256={path.name: file_sha256(path) for path in sorted(target.iterdir())},
    )
    (target / CARD).write_text(write_card(manifest, record, *evidence), encoding="utf-8")
    hashes = manifest.sha256 | {CARD: file_sha256(target / CARD)}
    manifest = manifest.model_copy(update={"sha256": hashes})
    (target / MANIFEST).write_text(manifest.model_dump_json(indent=1, exclude_none=True), encoding="utf-8")
    for path in target.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _sizes(record: RunRecord) -> dict[str, int | float | str | bool | list[int]]:
    model = record.config.model.model_dump(
        exclude_none=True,
        exclude={
            "architecture",
            "embedding_size",
            "embedding_dropout",
            "dropout",
            "init_range",
            "tune_embedding",
        },
    )
    if not model["characters"]:
        del model["characters"]
    if record.config.encoder.folder:
        del model["embedding_storage"]
    sizes = {name: list(value) if isinstance(value, tuple) else value for name, value in model.items()}
    return {"vocabulary": record.embedding_shape[0], "embedding": record.embedding_shape[1], **sizes}


def _unknown_id(tokenizer: Tokenizer) -> int:
    """The token for what is outside the vocabulary; -1 where there is none, as with pieces of bytes."""
    model = json.loads(tokenizer.to_str())["model"]
    unknown = model.get("unk_token")
    found = model.get("unk_id") if unknown is None else tokenizer.token_to_id(unknown)
    return -1 if found is None else int(found)


def _metrics(folder: RunFolder) -> dict[str, dict[str, float]]:
    return {
        name: {key: float(value) for key, value in report.items() if isinstance(value, _NUMBERS)}
        for name, report in folder.evaluations()
    }
