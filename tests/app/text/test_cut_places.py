"""A text that is cut into tokens piece by piece has the tokens of the whole, and costs no more than its pieces."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from app.errors import DeadlineExceeded, DocumentTooLong, EmptyDocument
from app.text import cut_places
from app.text.cut_places import NOWHERE, find_places
from app.text.tokens import Truncate, load_tokenizer, tokenize
from benchmarks.shipped import BUNDLES, newest
from tests.app.tiny import tokenizer as plain_tokenizer

SHIPPED = sorted(path.name for path in BUNDLES.iterdir())
PIECE = 8  # characters, so that every example has many
WHOLE = 10**6
PROSE = "It was a good film that nobody in the whole town had seen before the war and nobody has seen since "


def bert() -> Tokenizer:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "film", "f", "##ilm", "a", "##a", "!", "e", "的"]
    result = Tokenizer(models.WordPiece({word: id_ for id_, word in enumerate(words)}, unk_token="[UNK]"))
    result.normalizer = normalizers.BertNormalizer()
    result.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    result.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    result.add_special_tokens(["[CLS]", "[SEP]"])
    return result


def composed() -> Tokenizer:
    """Replacements that make each other's marks, and what they put in takes the place of spaces."""
    result = plain_tokenizer()
    steps = [("#", ""), ("quot;", "<"), (r"<\s*/?>", " "), (r"\s@", "'"), ("%x?", "@@"), ("  -", "&")]
    result.normalizer = normalizers.Sequence(
        [
            *(normalizers.Replace(Regex(old), new) for old, new in steps),
            normalizers.NFC(),
            normalizers.Lowercase(),
        ]
    )
    return result


TOKENIZERS = {
    **{name: load_tokenizer((newest(name) / "tokenizer.json").read_bytes()) for name in SHIPPED},
    "plain": plain_tokenizer(),
    "bert": bert(),
    "composed": composed(),
}
PLACES = {name: find_places(tokenizer) for name, tokenizer in TOKENIZERS.items()}

SPACES = st.sampled_from(
    [" ", "  ", "\n", "\t", "\r\n", "\u0085", "\u00a0", "\u2003", "\u2028", "\u3000", "\x1c", "\x0b"]
)
MARKED = st.sampled_from(
    [
        "<br",
        "/>",
        ">",
        "<br />",
        "<",
        "/",
        "&lt;",
        "&gt;",
        "&",
        "&lt;b&gt;",
        "&quot;",
        "quot;",
        "quot",
        "#39;",
        "#",
        "-lrb-",
        "-rrb-",
        "-",
        "\\",
        "\\/",
        "\u2018s",
        "\u2019",
        "'",
        "'s",
        "n't",
        "don't",
        "N'T",
        "@",
        "%",
        "%x",
        "[CLS]",
        "[SEP]",
        "3.5",
        "2,000",
        "12-13",
        "a-b",
        "_",
        "!",
        "...",
        "\0",
        "\u200b",
        "\ufeff",
        "\ufffd",
        "e\u0301",
        "\u0301",
        "\u0338",
        "\u226e",
        "\u0130",
        "\u03a3",
        "\u039f\u03a3",
        "\ufb01",
        "\u00df",
        "\u017f",
        "的",
        "日本語",
        "한글",
        "\u1112\u1161\u11ab",
        "हिन्दी",
        "👍",
        "👩\u200d👩\u200d👧",
        "🇩🇪",
        "\U0001d400",
        "½",
        "Ⅷ",
        "⑴",
    ]
)
WORDS = st.sampled_from(
    ["good", "film", "It", "was", "Ünder", "и", "quo", "b", "br", "q", "x", "gt", "lrb", "39"]
)
VERY_LONG = st.builds(
    lambda one, times: one * times, st.sampled_from(["a", "é", "的", "ab-", "!"]), st.integers(1, 90)
)
ODD = MARKED | SPACES | WORDS | VERY_LONG | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
STRETCH = st.lists(WORDS, min_size=4, max_size=25).map(" ".join)  # where there are places
TEXTS = st.lists(ODD | STRETCH.map(lambda words: f" {words} ") | STRETCH, max_size=14).map("".join)
REPLACED = st.sampled_from(
    [
        "<br",
        " ",
        "/>",
        "<br />",
        "good",
        "film",
        "br",
        "&lt;",
        "&gt;",
        "quot;",
        "#39;",
        "-lrb-",
        "\\/",
        "#",
        "%",
        "@",
    ]
)
NEAR_REPLACED = st.lists(REPLACED, min_size=8, max_size=30).map("".join)


def outcome(tokenizer: Tokenizer, *how: Any) -> object:
    """All that is told of a text: its tokens, or why there are none."""
    try:
        found = tokenize(tokenizer, *how)
    except (EmptyDocument, DocumentTooLong) as problem:
        return type(problem)
    return found.token_ids.tolist(), found.offsets.tolist(), found.tokens, dict(found.added), found.truncated


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut_places, "LEAST_PIECE", PIECE)


@pytest.mark.parametrize("name", sorted(TOKENIZERS))
def test_pieces_have_the_tokens_of_the_whole(name: str) -> None:
    tokenizer = TOKENIZERS[name]

    @settings(max_examples=250)
    @given(
        text=TEXTS | NEAR_REPLACED, most=st.integers(1, 60), side=st.sampled_from(["error", "right", "left"])
    )
    def check(text: str, most: int, side: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cut_places, "LEAST_PIECE", PIECE)
            for tokens in (WHOLE, most):
                found = [outcome(tokenizer, text, tokens, side, places) for places in (NOWHERE, PLACES[name])]
                assert found[0] == found[1]

    check()


@pytest.mark.parametrize("name", sorted(TOKENIZERS))
@pytest.mark.parametrize("from_end", [False, True])
@pytest.mark.usefixtures("small_pieces")
def test_prose_is_cut_at_most_of_its_places(name: str, from_end: bool) -> None:
    text = PROSE * 20
    pieces = list(PLACES[name].pieces(text, len(text), from_end))
    assert len(pieces) > len(text) / 100
    in_order = pieces[::-1] if from_end else pieces
    assert "".join(text[begin:end] for begin, end in in_order) == text
    assert all(text[begin] in " \n" for begin, _ in in_order[1:])


def test_text_with_what_may_be_replaced_over_any_distance_is_not_cut() -> None:
    text = PROSE * 2000
    assert len(list(PLACES["ag-news"].pieces(text, WHOLE, False))) > 2
    assert len(list(PLACES["ag-news"].pieces("&" + text, WHOLE, False))) == 1
    text = f"{text} &lt;{text}&gt; {text}"  # as one tag, which is dropped
    whole = outcome(TOKENIZERS["ag-news"], text, WHOLE, "error", NOWHERE)
    assert outcome(TOKENIZERS["ag-news"], text, WHOLE, "error", PLACES["ag-news"]) == whole


def changed(change: Callable[[dict[str, Any]], None], of: Tokenizer | None = None) -> Tokenizer:
    made_of = json.loads((of or plain_tokenizer()).to_str())
    change(made_of)
    return Tokenizer.from_str(json.dumps(made_of))


def unsafe() -> Iterator[tuple[str, Tokenizer]]:
    """Tokenizers whose tokens may depend on what stands beyond white space, or for which that is not known."""
    for pattern in (r"\s+", "a", "x.y", "<[^>]*", "(<)", "a|<", "<?", r"<\w", "<(?=a)", "[a<]", "_", "<{2}"):
        replaced = plain_tokenizer()
        replaced.normalizer = normalizers.Replace(Regex(pattern), " ")
        # a sign at which it is not to be cut makes one without a bound harmless
        if find_places(replaced).never != frozenset("<"):
            yield pattern, replaced
    for normalizer in (normalizers.NFKC(), normalizers.Strip(), normalizers.Prepend("a")):
        other = plain_tokenizer()
        other.normalizer = normalizer
        yield type(normalizer).__name__, other
    made = plain_tokenizer()  # the mark comes from another sign, or from a replacement
    made.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Replace(Regex("<[^>]*>"), " ")])
    yield "NFD", made
    made = plain_tokenizer()
    steps = [("%", "<"), ("<[^>]*>", " ")]
    made.normalizer = normalizers.Sequence([normalizers.Replace(Regex(old), new) for old, new in steps])
    yield "mark put in", made
    for splitting in (
        pre_tokenizers.ByteLevel(),
        pre_tokenizers.Metaspace(),
        pre_tokenizers.Split(Regex(r"\w+"), "isolated"),
        pre_tokenizers.Split(Regex(r"\w+ ?"), "removed", invert=True),
        pre_tokenizers.Split(Regex(r"\w+(?!\s)"), "removed", invert=True),
        pre_tokenizers.Split(Regex(r"(?<=\s)\w+"), "removed", invert=True),
        pre_tokenizers.Split(Regex(r"[^a]+"), "removed", invert=True),
    ):
        other = plain_tokenizer()
        other.pre_tokenizer = splitting
        yield str(splitting), other
    yield "no pre-tokenizer", changed(lambda made_of: made_of.update(pre_tokenizer=None))
    other = plain_tokenizer()
    other.add_tokens(["good film"])
    yield "words joined", other
    framed = plain_tokenizer()
    framed.post_processor = processors.ByteLevel()
    yield "frame", framed
    pairs = Tokenizer(models.BPE({"a": 0}, []))
    pairs.pre_tokenizer = pre_tokenizers.Whitespace()
    yield "model", pairs


@pytest.mark.parametrize(
    ("part", "tokenizer"), list(unsafe()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_tokenizer_that_may_look_beyond_white_space_is_cut_nowhere(part: str, tokenizer: Tokenizer) -> None:
    assert find_places(tokenizer) == NOWHERE


@pytest.mark.parametrize("side", ["error", "right", "left"])
def test_long_text_without_places_is_refused(side: Truncate) -> None:
    for places, text in ((PLACES["sst2"], "!" * 300_000), (NOWHERE, PROSE * 3000)):
        with pytest.raises(DocumentTooLong, match="at most 262144 characters without a place"):
            tokenize(TOKENIZERS["sst2"], text, 32_768, side, places)
    assert len(tokenize(TOKENIZERS["sst2"], "!" * 262_144, 32_768, "right").token_ids) == 32_768


def test_end_that_is_not_read_needs_no_places() -> None:
    read = PROSE * 5000
    assert tokenize(TOKENIZERS["sst2"], read + "!" * 300_000, 32_768, "right", PLACES["sst2"]).truncated
    with pytest.raises(DocumentTooLong, match="more than 32768 tokens"):
        tokenize(TOKENIZERS["sst2"], read + "!" * 300_000, 32_768, "error", PLACES["sst2"])


@pytest.mark.parametrize("side", ["error", "right", "left"])
def test_text_is_cut_no_further_than_it_is_read(side: Truncate) -> None:
    asked: list[bool] = []

    def is_given_up() -> bool:
        asked.append(True)
        return False

    with suppress(DocumentTooLong):
        tokenize(TOKENIZERS["sst2"], PROSE * 20_000, 15_000, side, PLACES["sst2"], is_given_up)
    assert len(asked) in (2, 3)  # pieces of 6,700 to 13,400 words


def test_text_that_is_given_up_is_cut_no_further() -> None:
    answers = iter([False, False, True])
    with pytest.raises(DeadlineExceeded):
        tokenize(TOKENIZERS["sst2"], PROSE * 20_000, WHOLE, "error", PLACES["sst2"], lambda: next(answers))
    assert list(answers) == []


_PEAK = """
import resource, sys
from pathlib import Path
from app.errors import DocumentTooLong
from app.text.tokens import load_tokenizer, tokenize
from app.text.cut_places import find_places
tokenizer = load_tokenizer(Path(sys.argv[1]).read_bytes())
places, side = find_places(tokenizer), sys.argv[2]
tokenize(tokenizer, "warm up", 10, "error", places)
texts = [end * (4 * 2**20 // len(end)) for end in ("! ", "!", "good ")]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for text in texts:
    try:
        tokenize(tokenizer, text, 32_768, side, places)
    except DocumentTooLong:
        pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("side", ["error", "right", "left"])
def test_four_megabytes_of_signs_cost_less_than_two_hundred_megabytes(side: str) -> None:
    command = [sys.executable, "-c", _PEAK, str(newest("sst2") / "tokenizer.json"), side]
    mebibytes = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(mebibytes) < 200  # whole they took 1,800
