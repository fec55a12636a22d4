"""How a document is cut into the segments of its passes, and which segments may share a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from app.bundle import Manifest, PassSpec


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


def cut(manifest: Manifest, tokens: int) -> tuple[Segment, ...]:
    """Cut a document of ``tokens`` words into the segments of all passes, in the order in which they run."""
    largest = manifest.length_buckets[-1]
    starts = range(0, tokens, largest)
    segments: list[Segment] = []
    for reading in manifest.passes:
        for start in starts if reading.direction == "forward" else reversed(starts):
            stop = min(start + largest, tokens)
            bucket = next(size for size in manifest.length_buckets if size >= stop - start)
            segments.append(Segment(reading, start, stop, bucket))
    return tuple(segments)
