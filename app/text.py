"""Cuts a caller's text into token ids and character offsets, and refuses what cannot be read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from app.errors import DocumentTooLong, EmptyDocument, InvalidText, ReadingFailed

# Our own threads bound the work; the library's pool would take every CPU of the host for one long text.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

Truncate = Literal["error", "right", "left"]


@dataclass(frozen=True, slots=True, eq=False)
class TokenizedText:
    """A text as its model reads it; ``text[start:end]`` is a token for each of ``offsets`` (tokens, 2).

    Tokens that the tokenizer adds, such as [CLS] and [SEP], have an empty span and their name in ``added``.
    """

    text: str
    token_ids: NDArray[np.int64]
    offsets: NDArray[np.int64]
    truncated: bool
    added: Mapping[int, str] = field(default_factory=dict)

    @property
    def tokens(self) -> list[str]:
        """The caller's own characters of every token, and the names of added ones."""
        spans = enumerate(self.offsets.tolist())
        return [self.added.get(index) or self.text[start:end] for index, (start, end) in spans]

    def first(self, tokens: int) -> TokenizedText:
        """The same text with only its first tokens."""
        if tokens == len(self.token_ids):
            return self
        added = {index: name for index, name in self.added.items() if index < tokens}
        return TokenizedText(self.text, self.token_ids[:tokens], self.offsets[:tokens], self.truncated, added)

    def since(self, first: int) -> TokenizedText:
        """The same text without its first tokens."""
        added = {index - first: name for index, name in self.added.items() if index >= first}
        return TokenizedText(self.text, self.token_ids[first:], self.offsets[first:], self.truncated, added)


class TokenEstimate:
    """How many tokens a text has, told by its length: learned from the texts that were cut."""

    _WEIGHT = 0.05  # of the newest request
    _BEGIN = 5.0  # characters of an English word with its space

    def __init__(self) -> None:
        self._characters = self._BEGIN  # per token

    def tokens(self, text: str) -> int:
        """About so many."""
        return 1 + int(len(text) / self._characters)

    def learn(self, texts: Iterable[TokenizedText]) -> None:
        """Correct the estimate by the texts of a request; cut ones tell nothing."""
        characters = tokens = 0
        for text in texts:
            if not text.truncated:
                characters += len(text.text)
                tokens += len(text.token_ids)
        if tokens:
            self._characters += self._WEIGHT * (max(1.0, characters / tokens) - self._characters)


class CuttingPace:
    """How long texts wait to be cut, told by the characters that wait and what those before took."""

    _WEIGHT = 0.1  # of the newest request
    _BEGIN = 1e-7  # seconds a character: the fastest seen, so that nobody is refused before it is known
    _MARGIN = 1.5  # the threads share their CPUs with the engine

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._seconds = self._BEGIN  # a character
        self.waiting = 0  # characters

    def wait_seconds(self, characters: int) -> float:
        """Until so many more are cut."""
        return self._MARGIN * self._seconds * (self.waiting + characters) / self._threads

    def learn(self, characters: int, seconds: float) -> None:
        """Correct the pace by a request that was cut."""
        self._seconds += self._WEIGHT * (seconds / max(1, characters) - self._seconds)


def load_tokenizer(serialized: bytes) -> Tokenizer:
    """Read ``tokenizer.json`` once; truncation and padding are ours and stay off."""
    tokenizer = Tokenizer.from_buffer(serialized)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def is_tokenizer_failure(error: BaseException) -> bool:
    """Whether the library raised it: plain ``Exception``, or for a panic in its Rust what is no ``Exception``."""
    return isinstance(error, Exception) or type(error).__module__ == "pyo3_runtime"


def tokenize(tokenizer: Tokenizer, text: str, most_tokens: int, truncate: Truncate) -> TokenizedText:
    """Cut ``text`` into tokens, at most ``most_tokens`` of them.

    Raises:
        InvalidText: the text holds half of a surrogate pair.
        EmptyDocument: no token is in it.
        DocumentTooLong: it is longer, and ``truncate`` is ``error``.
        ReadingFailed: the tokenizer cannot read it.
    """
    if not text.isascii():
        _check_unicode(text)
    # The batch call lets other threads run meanwhile; the plain one holds the interpreter's lock.
    try:
        encoding = tokenizer.encode_batch([text])[0]
    except BaseException as error:
        if not is_tokenizer_failure(error):
            raise
        raise ReadingFailed("The model's tokenizer failed on this document.") from error
    count, added = len(encoding), np.array(encoding.special_tokens_mask, bool)
    words = np.flatnonzero(~added)
    if not len(words):
        raise EmptyDocument("Expected at least one word, got none.")
    if count > most_tokens and truncate == "error":
        raise DocumentTooLong(
            f"The document has {count} tokens; expected at most {most_tokens}. "
            f'"truncate": "right" or "left" reads the first or the last {most_tokens}.'
        )
    if count > most_tokens:
        words = _ends(words, most_tokens - int(added.sum()), truncate)
    kept = np.sort(np.concatenate([words, np.flatnonzero(added)]))
    offsets = np.array(encoding.offsets, np.int64)[kept]
    # an added token stands where the token before it ends: offsets never fall
    offsets[added[kept]] = np.maximum.accumulate(offsets[:, 1])[added[kept], None]
    return TokenizedText(
        text,
        np.array(encoding.ids, np.int64)[kept],
        offsets,
        truncated=count > most_tokens,
        added={place: encoding.tokens[index] for place, index in enumerate(kept.tolist()) if added[index]},
    )


def _ends(words: NDArray[np.int64], most: int, truncate: Truncate) -> NDArray[np.int64]:
    """The first or the last of the words."""
    return words[len(words) - most :] if truncate == "left" else words[:most]


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidText(
            f"Expected Unicode text, got half of a surrogate pair at character {error.start}."
        ) from None
