"""Words as rows of symbols: 40 signs, one that stands for any other, and padding, 42 in all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.text.tokenizer import PADDING_ID, UNKNOWN_ID

LONGEST_WORD = 38  # characters; the rest of a longer word is not read
_SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789'-.,"
PADDING_SYMBOL, OTHER_SYMBOL = 0, 1
SYMBOLS = 2 + len(_SIGNS)
_SYMBOL = {sign: 2 + index for index, sign in enumerate(_SIGNS)}


def spell(vocabulary: Sequence[str]) -> NDArray[np.uint8]:
    """The spelling of each word in lower case, right-padded, `(vocabulary, 38)`.

    Padding has no symbol. The unknown word, whose spelling nobody knows, is the one symbol that stands for others.

    Args:
        vocabulary: the words in id order, padding and the unknown word first.
    """
    spellings = np.full((len(vocabulary), LONGEST_WORD), PADDING_SYMBOL, np.uint8)
    for row, word in enumerate(vocabulary):
        symbols = [_SYMBOL.get(sign, OTHER_SYMBOL) for sign in word.lower()[:LONGEST_WORD]]
        spellings[row, : len(symbols)] = symbols
    spellings[[PADDING_ID, UNKNOWN_ID]] = PADDING_SYMBOL
    spellings[UNKNOWN_ID, 0] = OTHER_SYMBOL
    return spellings
