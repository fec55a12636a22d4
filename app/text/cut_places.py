"""Where a long text may be cut in two, so that its tokens, ids and offsets, are those of the whole.

Such a place is white space in a plain stretch. That it is safe follows from what the tokenizer is made of:

- A *replacement* only matches where a mark is, a sign that each of its matches must hold, and takes in a bounded
  number of characters besides white space. A plain stretch has no mark and, on either side of the place, more
  characters than all replacements together could eat from its ends, so no match reaches the place, whatever was put in
  before. One without such a bound, as ``&lt;[^&]*&gt;``, never matches in a text without its mark; a text with it is
  not cut.
- The other *normalizers* here turn a character, with its marks, into others, and leave ASCII as it is or lower-case.
- The *pre-tokenizers* here drop white space, and nothing they match holds or looks beyond any.
- The *models* here read each word by itself, and the *post-processors* only add tokens before and behind all words.

With a tokenizer made of anything else texts are cut nowhere.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from app.errors import DocumentTooLong

LEAST_PIECE = 32 * 1024  # characters: a few milliseconds, and some ten megabytes where each is a token
_MOST_PLAIN = 256  # of a stretch on either side of a place: farther apart there are too few places
_SPACE = r"[ \t\n\r]"
_PLAIN_ASCII = "".join(map(chr, range(33, 127)))

_SIMPLE_NORMALIZERS = {"Lowercase", "NFC", "NFD", "StripAccents", "BertNormalizer"}
_SIMPLE_PRE_TOKENIZERS = {"Whitespace", "WhitespaceSplit", "BertPreTokenizer"}
_MODELS = {"WordLevel", "WordPiece"}
# of a regular expression for replacements: white space, an escaped sign, a set of characters, a character; how often
_PART = re.compile(
    r"(?:(?P<space>\\s)|\\(?P<escaped>[^\w\s])|\[(?P<but>\^?)(?P<set>[^\]\\^\[&-]+|&)\]|(?P<plain>[^\\\[\](){}.*+?|^$]))"
    r"(?P<often>[*+?]?)"
)
# a regular expression for words, no part of which matches white space, or looks farther than it
_NO_SPACE = re.compile(
    r"(?:\\[wdb]|\\[^\w\s]|\[\^\\w\\s\]|\[[^\]\\^\[\s&-]+\]|\(\?(?:i?:|=)|[)|*+?]|[^\\\[\](){}^$.|*+?\s])*+"
)


@dataclass(frozen=True, slots=True)
class CutPlaces:
    """The places of a tokenizer's texts: ``place`` ends at one; in a text with one of ``never`` there are none."""

    place: re.Pattern[str] | None
    reach: int = 0  # characters that are looked at on either side of it, at most
    never: frozenset[str] = frozenset()

    def pieces(self, text: str, most_characters: int, from_end: bool) -> Iterator[tuple[int, int]]:
        """Begin and end of a text's pieces, in order, or in reverse order from its end.

        Args:
            text: the text; white space may stand at both ends of its pieces.
            most_characters: of a piece; a short text is one piece, whatever this is.
            from_end: whether the last one comes first.

        Raises:
            DocumentTooLong: no piece of at most so many characters is followed by a place.
        """
        first, last = 0, len(text)
        is_cut = last > 2 * LEAST_PIECE and not any(mark in text for mark in self.never)
        while last - first > 2 * LEAST_PIECE:
            at = self._find(text, first, last, most_characters, from_end) if is_cut else None
            if at is None and last - first > most_characters:
                raise DocumentTooLong(
                    f"Expected at most {most_characters} characters without a place where the document can be cut for "
                    "this model's tokenizer, a space between plain words; got more."
                )
            if at is None:
                break
            yield (at, last) if from_end else (first, at)
            first, last = (first, at) if from_end else (at, last)
        yield first, last

    def _find(self, text: str, first: int, last: int, most_characters: int, from_end: bool) -> int | None:
        """The place for a piece at that end; looked for bit by bit, as a search holds every other thread up."""
        if self.place is None:
            return None
        for low in range(LEAST_PIECE, min(last - first, most_characters) - LEAST_PIECE + 1, LEAST_PIECE):
            begin = last - low - LEAST_PIECE if from_end else first + low
            if found := self.place.search(text, begin, min(begin + LEAST_PIECE + 2 * self.reach, last)):
                return found.end()
        return None


NOWHERE = CutPlaces(None)


def find_places(tokenizer: Tokenizer) -> CutPlaces:
    """Where texts of the tokenizer may be cut; nowhere if its parts do not make that sure."""
    made_of: Mapping[str, Any] = json.loads(tokenizer.to_str())
    read_words_alone = made_of["model"]["type"] in _MODELS and _drops_space(made_of["pre_tokenizer"])
    if not (read_words_alone and _frames(made_of["post_processor"])):
        return NOWHERE
    if not all(map(_is_plain_token, made_of["added_tokens"])):
        return NOWHERE
    normalizers = list(_flat(made_of["normalizer"]))
    replacements = [_Replacement.of(one) for one in normalizers if one["type"] == "Replace"]
    others = {one["type"] for one in normalizers} - {"Replace"}
    marks: set[str] = set()
    never: set[str] = set()
    most_eaten = 0
    for one in replacements:
        if one is None:
            return NOWHERE
        if one.most_eaten is None:
            never |= one.marks
        else:
            marks |= one.marks
            most_eaten += one.most_eaten
    put_in = {char for one in normalizers if one["type"] == "Replace" for char in one["content"]}
    # NFD makes signs of others, and lower-casing too, but none of ASCII
    makes_marks = (
        bool(never & put_in) or bool(never and others - {"Lowercase"}) or not "".join(never).isascii()
    )
    if others - _SIMPLE_NORMALIZERS or makes_marks or most_eaten >= _MOST_PLAIN:
        return NOWHERE
    return CutPlaces(_stretch(marks, most_eaten), 2 * most_eaten + 2, frozenset(never))


def _stretch(marks: Iterable[str], most_eaten: int) -> re.Pattern[str]:
    """Letters, digits and ASCII's signs but marks; the match ends before the white space in the middle."""
    signs = "".join(re.escape(char) for char in _PLAIN_ASCII if not char.isalnum() and char not in marks)
    plain = rf"(?:[^\W_]|[{signs}])"
    half = rf"(?:{plain}{_SPACE}?+){{{most_eaten}}}+{plain}"
    return re.compile(rf"{half}(?={_SPACE}{half})")


@dataclass(frozen=True, slots=True)
class _Replacement:
    """What is known of a replacement's matches."""

    marks: frozenset[str]  # each holds one of these
    most_eaten: int | None  # characters besides white space; None where there is no bound

    @classmethod
    def of(cls, normalizer: Mapping[str, Any]) -> _Replacement | None:
        """None where too little is known."""
        pattern = normalizer["pattern"]
        branches = pattern["Regex"].split("|") if "Regex" in pattern else [re.escape(pattern["String"])]
        marks: set[str] = set()
        eaten: list[int | None] = []
        for branch in branches:
            parts = list(_PART.finditer(branch))
            if sum(len(part[0]) for part in parts) != len(branch):  # something else is in it
                return None
            found = next(filter(None, map(_marks, parts)), None)
            if found is None:
                return None
            marks |= found
            endless = any(
                part["often"] in ("*", "+") and not part["space"] for part in parts if part["often"]
            )
            eaten.append(None if endless else len(parts))
        bounds = [one for one in eaten if one is not None]
        return cls(frozenset(marks), max(bounds) if len(bounds) == len(eaten) else None)


def _marks(part: re.Match[str]) -> frozenset[str] | None:
    """The signs of which a match has one here."""
    chars = part["set"] or part["escaped"] or part["plain"] or ""
    if part["often"] in ("*", "?") or part["but"] or not chars:
        return None
    are_signs = all(unicodedata.category(char)[0] in "PS" and char != "_" for char in chars)
    return frozenset(chars) if are_signs else None


def _flat(normalizer: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if normalizer is None:
        return
    if normalizer["type"] != "Sequence":
        yield normalizer
        return
    for one in normalizer["normalizers"]:
        yield from _flat(one)


def _drops_space(pre_tokenizer: Mapping[str, Any] | None) -> bool:
    if pre_tokenizer is None or pre_tokenizer["type"] != "Split":
        return pre_tokenizer is not None and pre_tokenizer["type"] in _SIMPLE_PRE_TOKENIZERS
    keeps_matches = pre_tokenizer["behavior"] == "Removed" and pre_tokenizer["invert"]
    pattern = pre_tokenizer["pattern"].get("Regex")
    return keeps_matches and pattern is not None and _NO_SPACE.fullmatch(pattern) is not None


def _frames(post_processor: Mapping[str, Any] | None) -> bool:
    """Whether what is added stands before and behind all words."""
    if post_processor is None or post_processor["type"] == "BertProcessing":
        return True
    is_template = post_processor["type"] == "TemplateProcessing"
    return is_template and sum("Sequence" in one for one in post_processor["single"]) == 1


def _is_plain_token(added: Mapping[str, Any]) -> bool:
    """Whether an added token that a text may hold is found alike beside white space and at an end."""
    takes_space = added["lstrip"] or added["rstrip"] or any(map(str.isspace, added["content"]))
    return not (takes_space or added["normalized"])
