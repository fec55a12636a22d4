"""How a document is cut into the segments of its passes, and which segments may share a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from app.manifest import Manifest, PassSpec


class Lane(NamedTuple):
    """What the segments of one run have in common."""

    model: str  # the key of its loaded version
    reading: str  # the pass's name
    bucket: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Words ``start`` to ``stop`` of a document in one pass, padded to ``bucket`` words when run."""

    reading: PassSpec
    start: int
    stop: int
    bucket: int

    @property
    def tokens(self) -> int:
        """Real tokens of the segment."""
        return self.stop - self.start


def continues(manifest: Manifest) -> bool:
    """Whether a reading can go on with more words later: one pass, forward."""
    return len(manifest.passes) == 1 and manifest.passes[0].direction == "forward"


def cut(
    manifest: Manifest, tokens: int, to_continue: bool = False, buckets: tuple[int, ...] = ()
) -> tuple[Segment, ...]:
    """Cut a document of ``tokens`` words into the segments of all passes, in the order in which they run.

    Args:
        manifest: the model's.
        tokens: words of the document, at least one.
        to_continue: end the last full segment less than the smallest bucket before the end, so that a later
            reading that goes on from its checkpoint has few words to read again.
        buckets: those of the manifest's that are used, rising, with the largest; all where there are none.
    """
    buckets = buckets or manifest.length_buckets
    borders = [0, *_borders(buckets, tokens, to_continue)]
    spans = list(pairwise(borders))
    return tuple(
        Segment(reading, start, stop, _bucket(buckets, stop - start))
        for reading in manifest.passes
        for start, stop in (spans if reading.direction == "forward" else reversed(spans))
    )


def _borders(buckets: tuple[int, ...], tokens: int, to_continue: bool) -> Iterator[int]:
    largest = buckets[-1]
    border = tokens - tokens % largest
    yield from range(largest, border + 1, largest)
    if to_continue:
        for bucket in reversed(buckets[:-1]):
            while tokens - border >= bucket:
                border += bucket
                yield border
    if border < tokens:
        yield tokens


def _bucket(buckets: tuple[int, ...], tokens: int) -> int:
    return next(size for size in buckets if size >= tokens)
