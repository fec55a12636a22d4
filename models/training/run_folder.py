"""The run folder; each of its files is written whole or not at all.

config.json         the full configuration, labels and mean length resolved (`RunRecord`)
tokenizer.json      the tokenizer
encoder.json        the configuration of the pretrained encoder, where there is one; its weights are among the best
weights.safetensors the best weights on dev so far
metrics.jsonl       a line per evaluation
curves.png          loss, dev accuracy and skip rate over the epochs
checkpoint.pt       all that resuming needs
evaluation-NAME.json  written by `readtrace evaluate`, of the best weights; better ones remove it
.lock               held while a training writes here
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from models.architectures.base import Architecture
from models.architectures.characters import fold
from models.architectures.registry import build
from models.config import RunConfig, explain_all
from models.errors import EncoderError, RunError
from models.text.encoder import PretrainedEncoder
from models.text.storage import store_vectors
from models.text.tokenizer import vocabulary

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "weights.safetensors"
ENCODER = "encoder.json"
METRICS, CHECKPOINT, CURVES = "metrics.jsonl", "checkpoint.pt", "curves.png"
_LOCK, _EVALUATIONS = ".lock", "evaluation-*.json"


class RunRecord(BaseModel):
    """What `config.json` holds: the configuration as it was run, and what was learned from the data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    root: str | None = None  # absolute; None in a run that began before it was kept
    skip_bad_rows: bool = False
    config: RunConfig
    labels: tuple[str, ...]
    embedding_shape: tuple[int, int]  # vocabulary, embedding
    train_documents: int
    dev_documents: int
    mean_length: float  # tokens of a training document
    coverage: tuple[str, ...]  # a line per file of word vectors
    encoder_sha256: str | None = None  # of the weights that the pretrained encoder came with
    # of the encoded documents; None in a run that began before it was kept
    train_sha256: str | None = None
    dev_sha256: str | None = None

    def root_folder(self, given: Path | None) -> Path:
        """Where the configuration's relative paths start: in the given folder, else where they did in training."""
        return given or Path(self.root or ".")


def require_writable(folder: Path) -> None:
    """Make sure that a folder can be written, or made where the nearest one above it is.

    Raises:
        RunError: it cannot.
    """
    above = next((one for one in (folder, *folder.absolute().parents) if one.exists()), folder)
    if not above.is_dir():
        raise RunError(f"{folder}: cannot be made: {above} is no folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise RunError(f"{folder}: cannot be written: {above} is not yours to write, or read-only")


class RunFolder:
    """A run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        """Whether a run began here."""
        return (self.path / CONFIG).exists()

    def require_free(self) -> None:
        """Make sure that no run is here yet, and nothing of one that a later --resume would go on from.

        Raises:
            RunError: the folder holds a run already, or a part of one, or cannot be made or written.
        """
        require_writable(self.path)
        if self.exists():
            raise RunError(f"{self.path} holds a run already: go on with --resume, or choose another --out")
        if left := [name for name in (WEIGHTS, METRICS, CHECKPOINT) if (self.path / name).exists()]:
            raise RunError(f"{self.path} holds {', '.join(left)} of another run: choose another --out")

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Be the only training that writes here; a process that is killed lets go by that.

        Raises:
            RunError: another training writes here, or the folder cannot be written.
        """
        self._make()
        path = self.path / _LOCK
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise RunError(f"{path}: cannot be written: {error.strerror}") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RunError(f"{self.path}: another training is writing here; wait for its end") from error
            yield
        finally:
            os.close(descriptor)

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{self.path}: cannot be made: {error.strerror}") from error

    def create(
        self, record: RunRecord, tokenizer: Tokenizer, encoder: PretrainedEncoder | None = None
    ) -> None:
        """Start a new run.

        Raises:
            RunError: the folder holds a run already, or cannot be written.
        """
        self.require_free()
        self._make()
        self._write_text(TOKENIZER, tokenizer.to_str(pretty=True))
        if encoder is not None:
            self._write_text(ENCODER, json.dumps(encoder.config, indent=2))
        self._write_text(CONFIG, record.model_dump_json(indent=2))

    def record(self) -> RunRecord:
        """The run's record.

        Raises:
            RunError: there is no run here, or its configuration is damaged.
        """
        try:
            return RunRecord.model_validate_json((self.path / CONFIG).read_bytes())
        except OSError as error:
            raise RunError(
                f"{self.path}: expected a run folder written by `readtrace train`: {error}"
            ) from error
        except ValidationError as error:
            raise RunError(f"{self.path / CONFIG}: {explain_all(error)}") from error

    def tokenizer(self) -> Tokenizer:
        """The run's tokenizer.

        Raises:
            RunError: it is missing or damaged.
        """
        path = self.path / TOKENIZER
        try:
            return Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise RunError(f"{path}: expected the tokenizer of this run: {error}") from error

    def model(self, device: torch.device | str = "cpu") -> Architecture:
        """The network with the best weights, its word vectors rounded as a bundle stores them.

        What it reads of the words' characters is part of their vectors.

        Raises:
            RunError: no weights yet, or weights of another network.
        """
        record = self.record()
        source = self._encoder() if record.config.encoder.folder else torch.zeros(record.embedding_shape)
        words = vocabulary(self.tokenizer()) if record.config.model.characters else ()
        model = build(record.config.model, source, len(record.labels), words)
        path = self.path / WEIGHTS
        if not path.exists():
            raise RunError(f"{path} does not exist yet: the run has not finished its first evaluation")
        try:
            model.load_state_dict(load_file(path))
        except (SafetensorError, OSError, RuntimeError, ValueError) as error:
            raise RunError(f"{path}: expected the weights of this run: {error}") from error
        if model.encoder is not None:
            return model.to(device).eval()
        fold(model)
        vectors = model.embedding.weight.detach().numpy()
        rounded = store_vectors(vectors, record.config.model.embedding_storage).vectors
        with torch.no_grad():
            model.embedding.weight.copy_(torch.from_numpy(rounded))
        return model.to(device).eval()

    def _encoder(self) -> PretrainedEncoder:
        path = self.path / ENCODER
        try:
            return PretrainedEncoder.from_config(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, EncoderError) as error:
            raise RunError(f"{path}: expected the configuration of this run's encoder: {error}") from error

    def save_weights(self, weights: dict[str, Tensor]) -> None:
        """Keep the best weights; evaluations of earlier ones go, lest a card give them for these."""
        contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        for evaluation in self.path.glob(_EVALUATIONS):
            evaluation.unlink(missing_ok=True)
        self._write(WEIGHTS, lambda path: save_file(contiguous, path))

    def save_checkpoint(self, state: dict[str, object]) -> None:
        """Keep all that resuming needs."""
        self._write(CHECKPOINT, lambda path: torch.save(state, path))

    def load_checkpoint(self) -> dict[str, object] | None:
        """What `save_checkpoint` kept, or None where the run was killed before the first one.

        Raises:
            RunError: the checkpoint is damaged.
        """
        path = self.path / CHECKPOINT
        if not path.exists():
            return None
        try:
            state: dict[str, object] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises whatever the damage makes it stumble over
            raise RunError(f"{path}: expected a checkpoint, found a damaged file: {error}") from error
        return state

    def unfinished(self) -> bool:
        """Whether the training has not ended, by its last checkpoint; false where that is damaged."""
        try:
            state = self.load_checkpoint()
        except RunError:
            return False
        if state is None:
            return True
        position = state.get("position")
        return isinstance(position, dict) and not position.get("finished")

    def write_metrics(self, lines: list[dict[str, object]]) -> None:
        """Write the metrics of all evaluations so far."""
        self._write_text(METRICS, "".join(json.dumps(line) + "\n" for line in lines))

    def write_curves(self, draw: Callable[[Path], None]) -> None:
        """Draw the curves picture."""
        self._write(CURVES, draw)

    def write_evaluation(self, name: str, text: str) -> None:
        """Keep the JSON report of an evaluation."""
        self._write_text(f"evaluation-{name}.json", text)

    def evaluations(self) -> Iterator[tuple[str, dict[str, object]]]:
        """Name and report of each evaluation that was kept.

        Raises:
            RunError: one of them is damaged.
        """
        for path in sorted(self.path.glob(_EVALUATIONS)):
            try:
                report = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise RunError(f"{path}: expected the report of an evaluation: {error}") from error
            yield path.stem.removeprefix("evaluation-"), report

    def _write_text(self, name: str, text: str) -> None:
        self._write(name, lambda path: path.write_text(text, encoding="utf-8"))

    def _write(self, name: str, write: Callable[[Path], object]) -> None:
        """Write beside the target, flush to disk, rename: a kill or a full disk leaves the old file whole."""
        path = self.path / name
        partial = path.with_name(f".partial-{name}")
        try:
            write(partial)
            with partial.open("rb") as file:
                os.fsync(file.fileno())
            partial.replace(path)
        except (OSError, RuntimeError, SafetensorError) as error:  # torch reports a full disk as RuntimeError
            partial.unlink(missing_ok=True)
            raise RunError(f"{path}: cannot be written: {error}") from error
