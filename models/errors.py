"""Errors of training, each with a message for the person at the keyboard.

ReadtraceTrainingError
├── ConfigError      an option or a recipe that cannot be meant
├── DataError        a labelled file that cannot be read as asked (file, line, expected, found)
├── VectorsError     a file of word vectors that cannot be used
├── EncoderError     a pretrained encoder's folder that cannot be used
├── OutOfMemoryError a configuration that needs more memory than there is
└── RunError         a run folder that is missing, foreign or damaged
"""

from __future__ import annotations

from pathlib import Path


class ReadtraceTrainingError(Exception):
    """Base of all errors that a user of `readtrace train` or `evaluate` can cause and mend."""


class ConfigError(ReadtraceTrainingError):
    """An option or recipe value that cannot be used."""


class DataError(ReadtraceTrainingError):
    """A labelled file, or a row of it, that cannot be used."""

    def __init__(self, path: Path, line: int | None, message: str) -> None:
        self.path, self.line = path, line
        where = f"{path}, line {line}" if line is not None else str(path)
        super().__init__(f"{where}: {message}")


class VectorsError(ReadtraceTrainingError):
    """A file of word vectors that cannot be used."""


class EncoderError(ReadtraceTrainingError):
    """A folder of a pretrained encoder that cannot be used."""


class OutOfMemoryError(ReadtraceTrainingError):
    """The model or a batch does not fit into memory."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"not enough memory ({reason or 'no size told'}): a smaller model (such as --set model.hidden=100), "
            "training.batch_size or training.longest needs less; with other settings choose another --out"
        )


class RunError(ReadtraceTrainingError):
    """A run folder that cannot be read, resumed or written."""
