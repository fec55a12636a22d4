from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from models.text.tokenizer import (
    PADDING,
    PADDING_ID,
    UNKNOWN,
    UNKNOWN_ID,
    TokenizerConfig,
    build_tokenizer,
    vocabulary,
)

TEXTS = [
    "It's a well-made film; it's 3,000.5 times better.",
    "Don't miss it<br />",
    "He'd say: Ünï İ café",
]
TOKENIZER = build_tokenizer(TEXTS, TokenizerConfig())


def slices(text: str, tokenizer: Tokenizer = TOKENIZER) -> list[str]:
    """The parts of the caller's text that the offsets name."""
    return [text[start:end] for start, end in tokenizer.encode(text).offsets]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Is this progress ?", ["Is", "this", "progress", "?"]),
        ("I DON'T, he isn't", ["I", "DO", "N'T", ",", "he", "is", "n't"]),
        ("He 'd, we'll, they've", ["He", "'d", ",", "we", "'ll", ",", "they", "'ve"]),
        ("well-made 3,000.5 end.", ["well-made", "3,000.5", "end", "."]),
        ("good<br />bad<br/>fine", ["good", "bad", "fine"]),
        ("café caf\u00e9 cafe\u0301", ["café", "caf\u00e9", "cafe\u0301"]),
        ("😀 ok 👍🏽!", ["😀", "ok", "👍", "🏽", "!"]),
        ("İstanbul İİ ẞ", ["İstanbul", "İİ", "ẞ"]),
        ("a\x00b\u2028c\r\nd", ["a", "\x00", "b", "c", "d"]),
        ("[PAD] [UNK]", ["[", "PAD", "]", "[", "UNK", "]"]),
        ("我们 日本", ["我们", "日本"]),
        (" \t<br />\n", []),
    ],
)
def test_offsets_slice_the_callers_text_into_its_words(text: str, words: list[str]) -> None:
    assert slices(text) == words


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text("aİ'nt<br/> é😀-.,0[PAD]"))
def test_offsets_lie_in_the_text_and_rise(text: str) -> None:
    encoding = TOKENIZER.encode(text)
    end = 0
    for first, last in encoding.offsets:
        assert end <= first < last <= len(text)
        end = last
    assert PADDING_ID not in encoding.ids


def test_tokenizer_survives_its_file() -> None:
    again = Tokenizer.from_str(TOKENIZER.to_str())
    assert again.to_str() == TOKENIZER.to_str()
    text = "It's İ 😀 <br /> unseen"
    assert again.encode(text).ids == TOKENIZER.encode(text).ids
    assert again.encode(text).offsets == TOKENIZER.encode(text).offsets


def test_vocabulary_is_by_frequency_behind_padding_and_the_unknown_word() -> None:
    tokenizer = build_tokenizer(["b a b", "b a c"], TokenizerConfig())
    assert vocabulary(tokenizer) == [PADDING, UNKNOWN, "b", "a", "c"]
    assert tokenizer.encode("a z").ids == [3, UNKNOWN_ID]


def test_vocabulary_size_counts_every_word() -> None:
    words = [f"w{number}" for number in range(50)]
    tokenizer = build_tokenizer([" ".join(words)], TokenizerConfig(vocabulary_size=10), ["more"])
    assert len(vocabulary(tokenizer)) == 10
    assert "more" not in vocabulary(tokenizer)


def test_rare_words_are_left_out() -> None:
    tokenizer = build_tokenizer(["a a b"], TokenizerConfig(minimum_count=2))
    assert vocabulary(tokenizer) == [PADDING, UNKNOWN, "a"]


def test_words_of_the_vectors_fill_the_vocabulary() -> None:
    vectors = ["a", "x", "x", *(f"v{number}" for number in range(20))]
    tokenizer = build_tokenizer(["a b"], TokenizerConfig(vocabulary_size=10), vectors)
    assert vocabulary(tokenizer) == [PADDING, UNKNOWN, "a", "b", "x", "v0", "v1", "v2", "v3", "v4"]
    without = build_tokenizer(["a b"], TokenizerConfig(words_from_vectors=False), vectors)
    assert vocabulary(without) == [PADDING, UNKNOWN, "a", "b"]


def test_case_is_kept_where_asked() -> None:
    tokenizer = build_tokenizer(["US us"], TokenizerConfig(lowercase=False))
    assert set(vocabulary(tokenizer)) == {PADDING, UNKNOWN, "US", "us"}


def test_replaced_text_is_pointed_at_where_it_stands() -> None:
    config = TokenizerConfig(replace=(("-lrb-", "("), ("&quot;|quot;", '"')))
    tokenizer = build_tokenizer(['( a "'], config)
    text = "x -lrb- &quot;a"
    encoding = tokenizer.encode(text)
    assert encoding.tokens == [UNKNOWN, "(", '"', "a"]
    for (first, last), word in zip(encoding.offsets, ["x", "-lrb-", "&quot;", "a"], strict=True):
        place = text.index(word)
        assert place <= first < last <= place + len(word)


def test_typographic_apostrophes_split_like_plain_ones() -> None:
    tokenizer = build_tokenizer(["they do n't know what 's what"], TokenizerConfig())
    text = "They don\u2019t know what\u2019s what"
    encoding = tokenizer.encode(text)
    assert encoding.tokens == ["they", "do", "n't", "know", "what", "'s", "what"]
    assert [text[start:end] for start, end in encoding.offsets][1:3] == ["do", "n\u2019t"]
