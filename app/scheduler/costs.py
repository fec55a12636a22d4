"""What a run costs by its rows: measured at warm-up, corrected by every run since."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

_WEIGHT = 0.1  # of the newest run: about the last twenty count
_SHARED = 0.5  # of the weight, for the other row counts: what slows one run slows most
_OUTLIER = 8.0  # a run so many times as slow as expected counts as this: one stall is no trend
_WORTHWHILE = 0.95  # of the larger run's cost per document, below which the smaller one is taken


class RunCosts:
    """Seconds of a run of one pass and length bucket, by its number of rows.

    The bucket stands for the steps: a padded row takes as many as a full one. Not thread-safe: the
    scheduler's lock guards it.

    Attributes:
        row_counts: those that were warmed up, rising.
        document_seconds: engine time of one document where many share its run.
    """

    def __init__(self, seconds: Mapping[int, float]) -> None:
        """Begin with what was measured: the row counts that were warmed up, and their seconds."""
        self.row_counts = tuple(sorted(seconds))
        # What was measured while something else ran: fewer rows never take longer than more.
        self._seconds = {
            rows: min(seconds[more] for more in self.row_counts if more >= rows) for rows in self.row_counts
        }
        self._measured = dict(self._seconds)
        self._refresh()

    def seconds(self, rows: int) -> float:
        """Of a run of so many rows, which must be one of ``row_counts``."""
        return self._seconds[rows]

    def fitting(self, documents: float) -> int:
        """The smallest row count that holds so many documents, or the largest."""
        return self.row_counts[min(bisect_left(self.row_counts, documents), len(self.row_counts) - 1)]

    def choose(self, waiting: int) -> int:
        """The row count to run where so many documents wait: the cheapest per document, rather more rows."""
        chosen = self.fitting(waiting)
        for rows in reversed(self.row_counts[: self.row_counts.index(chosen)]):
            if self._per_document(rows, waiting) < _WORTHWHILE * self._per_document(chosen, waiting):
                chosen = rows
        return chosen

    def work_seconds(self, documents: float) -> float:
        """Engine time of so many documents in the runs that ``choose`` would form."""
        full, rest = divmod(documents, self._busy_rows)
        return full * self._seconds[self._busy_rows] + (self._seconds[self.fitting(rest)] if rest else 0.0)

    def observe(self, rows: int, seconds: float) -> None:
        """Learn from a run.

        The other row counts follow towards what the warm-up says of them beside this one. They are not moved by
        the run itself: the few slow ones among many would carry up for ever what is never run.
        """
        expected, measured = self._seconds[rows], self._measured[rows]
        if not measured:
            return
        expected += _WEIGHT * (min(seconds, _OUTLIER * expected) - expected)
        self._seconds[rows] = expected
        for other in self._seconds:
            if other != rows:
                alike = self._measured[other] * expected / measured
                self._seconds[other] += _WEIGHT * _SHARED * (alike - self._seconds[other])
        self._refresh()

    def _refresh(self) -> None:
        """Work out once what every newcomer's admission asks for."""
        self._busy_rows = self.choose(self.row_counts[-1])  # of a run while many wait
        self.document_seconds = min(seconds / rows for rows, seconds in self._seconds.items())

    def _per_document(self, rows: int, waiting: int) -> float:
        return self._seconds[rows] / min(rows, waiting)
