"""Cuts a caller's text into token ids and character offsets, and refuses what cannot be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from app.errors import DeadlineExceeded, DocumentTooLong, EmptyDocument, InvalidText, ReadingFailed
from app.text.cut_places import LEAST_PIECE, NOWHERE, CutPlaces

# Our own threads bound the work; the library's pool would take every CPU of the host for one long text.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

Truncate = Literal["error", "right", "left"]

# Of a text that is cut at once: it takes as long as the way to another thread and back, and holds nobody else up.
SHORT_CHARACTERS = 256


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


def most_uncut_characters(most_tokens: int) -> int:
    """The longest piece that is cut into tokens at once: eight characters a token are more than texts have."""
    return max(2 * LEAST_PIECE, 8 * most_tokens)


def tokenize(
    tokenizer: Tokenizer,
    text: str,
    most_tokens: int,
    truncate: Truncate,
    places: CutPlaces = NOWHERE,
    is_given_up: Callable[[], bool] = lambda: False,
) -> TokenizedText:
    """Cut ``text`` into tokens, at most ``most_tokens`` of them.

    A long text is cut piece by piece, no further than its tokens are needed: each costs half a kilobyte meanwhile.

    Args:
        tokenizer: of the model.
        text: a document.
        most_tokens: with those that the tokenizer adds.
        truncate: what happens to a text with more.
        places: of the tokenizer, where a text may be cut in two.
        is_given_up: asked between pieces, whether nobody waits any more.

    Raises:
        InvalidText: the text holds half of a surrogate pair.
        EmptyDocument: no token is in it.
        DocumentTooLong: it is longer, and ``truncate`` is ``error``; or it has too few places for its length; or
            no text fits beside what the tokenizer adds.
        DeadlineExceeded: it was given up.
        ReadingFailed: the tokenizer cannot read it.
    """
    if not text.isascii():
        _check_unicode(text)
    pieces: list[_Tokens] = []
    count, is_whole = 0, True
    for begin, end in places.pieces(text, most_uncut_characters(most_tokens), from_end=truncate == "left"):
        if count > most_tokens:
            is_whole = False
            break
        if is_given_up():
            raise DeadlineExceeded("The time was up before the text was cut into tokens.")
        pieces.append(_cut(tokenizer, text[begin:end], begin))
        count = sum(piece.words for piece in pieces) + len(pieces[0].names)
    found = _join(pieces[::-1] if truncate == "left" else pieces)
    if not found.words:
        raise EmptyDocument("Expected at least one word, got none.")
    if count > most_tokens:
        if truncate == "error":
            raise DocumentTooLong(
                f"The document has {count if is_whole else f'more than {most_tokens}'} tokens; expected at most "
                f'{most_tokens}. "truncate": "right" or "left" reads the first or the last {most_tokens}.'
            )
        found = _truncated(found, most_tokens, truncate)
    return TokenizedText(
        text,
        found.ids,
        _placed(found),
        truncated=count > most_tokens,
        added=found.added_names,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Tokens:
    """The tokens of a piece of a text."""

    ids: NDArray[np.int64]  # (tokens)
    offsets: NDArray[np.int64]  # (tokens, 2) into the whole text; of added ones 0
    added: NDArray[np.bool_]  # (tokens) by the tokenizer, as [CLS]
    names: list[str]  # of the added ones

    @property
    def words(self) -> int:
        """Tokens of the text itself."""
        return len(self.ids) - len(self.names)

    @property
    def added_names(self) -> dict[int, str]:
        """The names of the added ones by their place."""
        if not self.names:
            return {}
        return dict(zip(np.flatnonzero(self.added).tolist(), self.names, strict=True))

    def keep(self, kept: NDArray[np.bool_]) -> _Tokens:
        """Some of the tokens."""
        names = [name for name, is_kept in zip(self.names, kept[self.added], strict=True) if is_kept]
        return _Tokens(self.ids[kept], self.offsets[kept], self.added[kept], names)


def _cut(tokenizer: Tokenizer, piece: str, begin: int) -> _Tokens:
    encoding = _encode(tokenizer, piece)
    mask = encoding.special_tokens_mask
    added = np.array(mask, bool)
    spans = np.fromiter(chain.from_iterable(encoding.offsets), np.int64, 2 * len(mask)).reshape(-1, 2)
    if begin:
        spans[~added] += begin
    names = list(compress(encoding.tokens, mask)) if 1 in mask else []
    return _Tokens(np.array(encoding.ids, np.int64), spans, added, names)


def _encode(tokenizer: Tokenizer, piece: str) -> Encoding:
    try:
        if len(piece) <= SHORT_CHARACTERS:
            return tokenizer.encode(piece)
        return tokenizer.encode_batch([piece])[0]  # lets other threads run meanwhile
    except BaseException as error:
        if not is_tokenizer_failure(error):
            raise
        raise ReadingFailed("The model's tokenizer failed on this document.") from error


def _join(pieces: Sequence[_Tokens]) -> _Tokens:
    """The tokens of a text; what was added to each piece is added once."""
    if len(pieces) == 1:
        return pieces[0]
    kept: list[_Tokens] = []
    for piece in pieces:
        before = np.cumsum(~piece.added) == 0  # the first word
        keep = ~piece.added | (before if piece is pieces[0] else False)
        kept.append(piece.keep(keep | (~before if piece is pieces[-1] else False)))
    return _Tokens(
        np.concatenate([piece.ids for piece in kept]),
        np.concatenate([piece.offsets for piece in kept]),
        np.concatenate([piece.added for piece in kept]),
        [name for piece in kept for name in piece.names],
    )


def _truncated(found: _Tokens, most_tokens: int, side: Truncate) -> _Tokens:
    """The first or the last of the words, and all that was added."""
    room = most_tokens - len(found.names)
    if room < 1:
        raise DocumentTooLong(
            f"Expected at most {most_tokens} tokens, of which the tokenizer adds {len(found.names)} to any text."
        )
    words = np.flatnonzero(~found.added)
    kept = found.added.copy()
    kept[words[-room:] if side == "left" else words[:room]] = True
    return found.keep(kept)


def _placed(found: _Tokens) -> NDArray[np.int64]:
    """The offsets, never falling and within the text that is read.

    An added token stands where the word before it ends, or where the first one begins; so what was left out before
    that is in no span of tokens.
    """
    offsets, added = found.offsets, found.added
    if not found.names:
        return offsets
    ends = np.maximum(np.maximum.accumulate(offsets[:, 1]), offsets[~added][0, 0])
    return np.where(added[:, None], ends[:, None], offsets)


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidText(
            f"Expected Unicode text, got half of a surrogate pair at character {error.start}."
        ) from None
