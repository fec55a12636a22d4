from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.scheduler.segments import Segment, cut
from tests.app.scheduler.fakes import MANIFEST


def by_pass(tokens: int) -> tuple[list[Segment], list[Segment]]:
    segments = cut(MANIFEST, tokens)
    backward = [segment for segment in segments if segment.reading.name == "suffix"]
    forward = [segment for segment in segments if segment.reading.name == "prefix"]
    assert [*backward, *forward] == list(segments)
    return backward, forward


@given(st.integers(1, 100))
def test_segments_cover_every_word_once_in_order(tokens: int) -> None:
    backward, forward = by_pass(tokens)
    assert [word for segment in forward for word in range(segment.start, segment.stop)] == list(range(tokens))
    assert [(one.start, one.stop) for one in reversed(backward)] == [(one.start, one.stop) for one in forward]


@given(st.integers(1, 100))
def test_all_but_the_last_segment_fill_the_largest_bucket(tokens: int) -> None:
    _, forward = by_pass(tokens)
    assert all(segment.tokens == segment.bucket == 4 for segment in forward[:-1])
    assert forward[-1].bucket == (2 if forward[-1].tokens <= 2 else 4)
