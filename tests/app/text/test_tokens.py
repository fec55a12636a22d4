from __future__ import annotations

import threading
import time
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from app.errors import DocumentTooLong, EmptyDocument, InvalidText
from app.text.tokens import Truncate, load_tokenizer, tokenize
from tests.app.tiny import tokenizer

TOKENIZER = load_tokenizer(tokenizer().to_str().encode())
PLAIN_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(PLAIN_TEXT)
def test_offsets_slice_the_callers_own_characters(text: str) -> None:
    try:
        found = tokenize(TOKENIZER, text, 1000, "right")
    except EmptyDocument:
        assert not text.split()
        return
    assert found.tokens == [text[start:end] for start, end in found.offsets]
    assert all(found.tokens)
    assert len(found.token_ids) == len(found.offsets)


@pytest.mark.parametrize("text", ["", " \n\t ", "\u2003"])
def test_text_without_words_is_empty(text: str) -> None:
    with pytest.raises(EmptyDocument):
        tokenize(TOKENIZER, text, 10, "error")


def test_half_a_surrogate_pair_is_no_text_and_is_not_repeated() -> None:
    with pytest.raises(InvalidText, match="at character 5") as caught:
        tokenize(TOKENIZER, "good \ud83d film", 10, "error")
    assert "good" not in caught.value.detail


def test_nul_is_an_unknown_word_like_any_other() -> None:
    assert tokenize(TOKENIZER, "good\0film", 10, "error").tokens == ["good", "\0", "film"]


@pytest.mark.parametrize(("truncate", "kept"), [("right", ["a", "good"]), ("left", ["film", "!"])])
def test_long_text_is_cut_at_the_side_asked_for(truncate: str, kept: list[str]) -> None:
    found = tokenize(TOKENIZER, "a good film !", 2, truncate)  # type: ignore[arg-type]
    assert (found.tokens, found.truncated) == (kept, True)


def test_long_text_is_refused_with_both_counts() -> None:
    with pytest.raises(DocumentTooLong, match="has 4 tokens; expected at most 2"):
        tokenize(TOKENIZER, "a good film !", 2, "error")


def test_truncation_and_padding_of_the_file_are_ignored() -> None:
    padded: Tokenizer = tokenizer()
    padded.enable_truncation(2)
    padded.enable_padding(length=8)
    assert (
        len(tokenize(load_tokenizer(padded.to_str().encode()), "a good film !", 99, "error").token_ids) == 4
    )


def test_other_threads_run_while_a_long_text_is_cut() -> None:
    text = "good film " * 100_000
    longest_gap = 0.0
    cutting = threading.Thread(target=tokenize, args=(TOKENIZER, text, 200_000, "right"))
    started = last = time.perf_counter()
    cutting.start()
    while cutting.is_alive():
        time.sleep(0.001)
        now = time.perf_counter()
        longest_gap, last = max(longest_gap, now - last), now
    assert longest_gap < (last - started) / 2


def framed() -> Tokenizer:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer


def test_added_tokens_have_names_and_empty_spans_and_are_never_cut() -> None:
    tokenizer = framed()
    whole = tokenize(tokenizer, " a b a", 5, "error")
    assert whole.tokens == ["[CLS]", "a", "b", "a", "[SEP]"]
    assert whole.offsets.tolist() == [[1, 1], [1, 2], [3, 4], [5, 6], [6, 6]]
    assert whole.first(2).tokens == ["[CLS]", "a"]
    for side, ids, begin, end in (("right", [1, 3, 4, 2], 1, 4), ("left", [1, 4, 3, 2], 3, 6)):
        cut = tokenize(tokenizer, " a b a", 4, cast(Truncate, side))
        assert (cut.token_ids.tolist(), cut.truncated) == (ids, True)
        assert cut.offsets[[0, -1]].tolist() == [[begin, begin], [end, end]]
    with pytest.raises(DocumentTooLong, match="has 5 tokens; expected at most 4"):
        tokenize(tokenizer, " a b a", 4, "error")
    with pytest.raises(EmptyDocument):
        tokenize(tokenizer, " ", 4, "error")


@pytest.mark.parametrize("side", ["error", "right", "left"])
@pytest.mark.parametrize("most_tokens", [1, 2])
def test_text_is_refused_where_added_tokens_leave_no_room(side: Truncate, most_tokens: int) -> None:
    with pytest.raises(DocumentTooLong, match=f"at most {most_tokens}"):
        tokenize(framed(), "a b a", most_tokens, side)
    assert tokenize(framed(), "a b a", 3, "right").tokens == ["[CLS]", "a", "[SEP]"]
    assert tokenize(framed(), "b", 3, side).tokens == ["[CLS]", "b", "[SEP]"]
