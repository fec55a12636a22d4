"""Pretrained word vectors from text, .npz and .safetensors files, and the embedding matrix made of them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from models.errors import VectorsError
from models.text.tokenizer import PADDING_ID

_ALIASES = {"-lrb-": "(", "-rrb-": ")"}  # treebank brackets, looked up as the signs they stand for


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors, float32 `(words, dimensions)`, in file order."""

    words: tuple[str, ...]
    vectors: NDArray[np.float32]

    @property
    def dimensions(self) -> int:
        """The length of one vector."""
        return int(self.vectors.shape[1])


@dataclass(frozen=True)
class Coverage:
    """How much of a vocabulary has a pretrained vector."""

    path: str
    found: int
    words: int

    def __str__(self) -> str:
        return (
            f"{self.path}: vectors for {self.found:,} of {self.words:,} words ({self.found / self.words:.0%})"
        )


def read_vectors(path: Path) -> WordVectors:
    """Read word vectors.

    Formats: ``.npz`` with `words` (UTF-8 bytes, one word a line, or an array of strings) and `vectors`;
    ``.safetensors`` with `vectors` and the words in the metadata entry `words`, one a line; text (also
    ``.gz``) with a word and its numbers a line, with or without a first line of counts. In text a word may
    have spaces in it, as a few of GloVe-840B have. Of a word that stands twice the last vector counts.

    Raises:
        VectorsError: the file is missing, of another form, or its words and vectors do not match.
    """
    try:
        if path.suffix == ".npz":
            words, vectors = _read_npz(path)
        elif path.suffix == ".safetensors":
            words, vectors = _read_safetensors(path)
        else:
            words, vectors = _read_text(path)
    except OSError as error:
        raise VectorsError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error, BadZipFile) as error:
        raise VectorsError(f"{path}: expected a whole file, but it ends or breaks early ({error})") from error
    if vectors.ndim != 2 or not vectors.shape[1] or len(words) != len(vectors):
        raise VectorsError(
            f"{path}: expected one vector per word, found {len(words)} words, vectors {vectors.shape}"
        )
    if not np.isfinite(vectors).all():
        raise VectorsError(f"{path}: expected finite numbers, found NaN or infinity")
    return WordVectors(tuple(words), np.ascontiguousarray(vectors, dtype=np.float32))


def _read_npz(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            words, vectors = archive["words"].reshape(-1), archive["vectors"].astype(np.float32)
            if words.dtype.kind == "U":
                return [str(word) for word in words], vectors
            return words.tobytes().decode("utf-8").split("\n"), vectors
    except (ValueError, KeyError, TypeError) as error:  # TypeError: an .npy, which is one array
        raise VectorsError(f"{path}: expected an .npz with 'words' and 'vectors': {error}") from error


def _read_safetensors(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:  # NumPy has no bfloat16
            words = (file.metadata() or {})["words"].split("\n")
            return words, file.get_tensor("vectors").float().numpy()
    except (SafetensorError, KeyError) as error:
        raise VectorsError(
            f"{path}: expected a tensor 'vectors' and a metadata entry 'words': {error}"
        ) from error


def _read_text(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    header: tuple[str, str] | None = None
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            try:
                word, *numbers = raw.decode("utf-8-sig" if line == 1 else "utf-8").rstrip().split(" ")
                spaces = len(numbers) - len(rows[0]) if rows else 0  # in the word
                if spaces > 0 and not any(map(_is_number, numbers[:spaces])):
                    word, numbers = " ".join([word, *numbers[:spaces]]), numbers[spaces:]
                row = np.array(numbers, dtype=np.float32)
            except ValueError as error:
                raise VectorsError(
                    f"{path}, line {line}: expected a word and its numbers in UTF-8: {error}"
                ) from error
            if line == 1 and len(numbers) == 1:
                header = (word, numbers[0])  # word2vec's: count and dimensions
                continue
            if not len(row) or (rows and len(row) != len(rows[0])):
                expected = len(rows[0]) if rows else "some"
                raise VectorsError(f"{path}, line {line}: expected {expected} numbers, found {len(row)}")
            if not np.isfinite(row).all():
                raise VectorsError(f"{path}, line {line}: expected finite numbers, found NaN or infinity")
            words.append(word)
            rows.append(row)
    if not rows:
        raise VectorsError(f"{path}: expected word vectors, found an empty file")
    if header is not None and header != (found := (str(len(rows)), str(len(rows[0])))):
        raise VectorsError(
            f"{path}: expected {header[0]} words of {header[1]} numbers, as line 1 says, found {found[0]} of {found[1]}"
        )
    return words, np.stack(rows)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def embedding_matrix(
    vocabulary: Sequence[str], files: Sequence[tuple[str, WordVectors]], dimensions: int, seed: int
) -> tuple[NDArray[np.float32], list[Coverage]]:
    """The initial embedding of a vocabulary.

    Several files are put side by side, zeros where one of them lacks the word. Words in none of them, and all
    words where there is no file, are drawn from U[-0.1, 0.1]; the padding row is zero.

    Args:
        vocabulary: the words in id order, padding first.
        files: name and vectors of each file.
        dimensions: the embedding's size where there is no file.
        seed: for the random rows.

    Returns:
        float32 `(vocabulary, dimensions)`, and the coverage of each file.
    """
    width = sum(vectors.dimensions for _, vectors in files) or dimensions
    matrix = np.random.default_rng(seed).uniform(-0.1, 0.1, (len(vocabulary), width)).astype(np.float32)
    rows = [_rows_of(vocabulary, vectors) for _, vectors in files]
    covered = (
        np.any([found >= 0 for found in rows], axis=0) if rows else np.zeros(len(vocabulary), dtype=bool)
    )
    matrix[covered] = 0
    coverage = []
    column = 0
    for (name, vectors), found in zip(files, rows, strict=True):
        known = found >= 0
        matrix[known, column : column + vectors.dimensions] = vectors.vectors[found[known]]
        column += vectors.dimensions
        coverage.append(Coverage(name, int(known.sum()), len(vocabulary)))
    matrix[PADDING_ID] = 0
    return matrix, coverage


def _rows_of(vocabulary: Sequence[str], vectors: WordVectors) -> NDArray[np.int64]:
    """The row of each word: as it stands, then as an alias, then capitalised (cased vectors); else -1."""
    row = {word: index for index, word in enumerate(vectors.words)}

    def find(word: str) -> int:
        for form in (word, _ALIASES.get(word, word), word.capitalize()):
            if form in row:
                return row[form]
        return -1

    return np.array([find(word) for word in vocabulary], dtype=np.int64)
