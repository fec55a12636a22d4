"""Builds ``tokenizer.json``: normalising, splitting into words and the vocabulary, all in one file.

Training and serving share no text code beyond this file's product. Offsets refer to the caller's text,
because the tokenizer keeps track of what its normaliser changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import BaseModel, ConfigDict, Field, field_validator
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.trainers import WordLevelTrainer

PADDING = "[PAD]"
UNKNOWN = "[UNK]"
PADDING_ID = 0
UNKNOWN_ID = 1

# A word before n't, the n't itself, other English clitics, numbers, words with inner hyphens, any other sign.
WORDS = r"\w+?(?=(?i:n't)\b)|(?i:n't)\b|(?i:'(?:s|m|d|ll|re|ve))\b|\d+(?:[.,]\d+)*|\w+(?:-\w+)*|[^\w\s]"


class TokenizerConfig(BaseModel):
    """How text becomes words, and which words are known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lowercase: bool = True
    # (regular expression, replacement), applied before splitting: typographic apostrophes, HTML line breaks
    replace: tuple[tuple[str, str], ...] = (("[\u2018\u2019]", "'"), (r"<br\s*/?>", " "))
    vocabulary_size: int = Field(30_000, ge=10)
    minimum_count: int = Field(1, ge=1)
    # words of the first word-vector file follow those of the training text until the vocabulary is full
    words_from_vectors: bool = True

    @field_validator("replace")
    @classmethod
    def _require_expressions(cls, replace: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        for pattern, _ in replace:
            try:
                Regex(pattern)
            except Exception as error:  # the library raises nothing narrower
                raise ValueError(f"expected a regular expression, found {pattern!r}: {error}") from error
            if _matches_nothing(pattern):  # the library breaks down over such replacements
                raise ValueError(
                    f"expected an expression that matches a character or more, found {pattern!r}"
                )
        return replace


def _matches_nothing(pattern: str) -> bool:
    """Whether an expression matches between the characters of a text, which then all stay."""
    mark, probe = "\ue000", "a "
    found = normalizers.Replace(Regex(pattern), mark).normalize_str(probe)
    return mark in found and found.replace(mark, "") == probe


def build_tokenizer(
    texts: Iterable[str], config: TokenizerConfig, vector_words: Iterable[str] = ()
) -> Tokenizer:
    """A word-level tokenizer whose vocabulary is the texts' words by frequency, then the vectors' words.

    Args:
        texts: the training texts, read once.
        config: lower-casing, replacements, vocabulary size, minimum count.
        vector_words: words with a pretrained vector, most frequent first.

    Returns:
        A tokenizer with `[PAD]` at 0 and `[UNK]` at 1.
    """
    tokenizer = Tokenizer(WordLevel(unk_token=UNKNOWN))
    steps = [normalizers.Replace(Regex(pattern), content) for pattern, content in config.replace]
    tokenizer.normalizer = normalizers.Sequence(
        [*steps, *([normalizers.Lowercase()] if config.lowercase else [])]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True)
    reserved = [PADDING, UNKNOWN]  # not "special tokens", which are looked for in the text itself
    trainer = WordLevelTrainer(
        vocab_size=config.vocabulary_size - len(reserved),
        min_frequency=config.minimum_count,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    words = reserved + vocabulary(tokenizer)
    if config.words_from_vectors:
        words += list(_first_unknown(vector_words, set(words), config.vocabulary_size - len(words)))
    tokenizer.model = WordLevel({word: index for index, word in enumerate(words)}, unk_token=UNKNOWN)
    return tokenizer


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """The words in id order."""
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _first_unknown(candidates: Iterable[str], known: set[str], room: int) -> Iterator[str]:
    for word in candidates:
        if room <= 0:
            return
        if word not in known:
            known.add(word)
            room -= 1
            yield word
