"""When a document's turn comes: the order within a lane.

The turn is a moment: the arrival, later by a part of the patience and by the request's own earlier work. A
large request or a long document so counts as arriving at the speed at which the engine could read it alone,
and whoever comes meanwhile goes between. Turns do not depend on later arrivals and all but the pace of the
own work is bounded, so nobody starves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.scheduler.costs import RunCosts
from app.scheduler.document import Document
from app.scheduler.segments import Lane

CostsOf = Callable[[Lane], RunCosts]

_URGENCY = 0.1  # of the patience: a deadline nearer by ten seconds is worth having come a second earlier
_LONGEST_PATIENCE_SECONDS = 60.0  # so that no arrival is ever put back by more than six seconds


def give_turns(documents: Sequence[Document], costs_of: CostsOf) -> None:
    """Give the documents of one request their turns."""
    earlier_seconds = 0.0
    for document in documents:
        document.turn_seconds = first_turn(document) + earlier_seconds
        earlier_seconds += sum(
            costs_of(lane).document_seconds * segments for lane, segments in document.unread.items()
        )


def first_turn(document: Document) -> float:
    """The turn of a document that is the first of its request."""
    patience_seconds = document.deadline_seconds - document.arrived_seconds
    return document.arrived_seconds + _URGENCY * min(_LONGEST_PATIENCE_SECONDS, max(0.0, patience_seconds))


def put_back(document: Document, costs_of: CostsOf) -> None:
    """Give a document its next turn, once a segment of it was read."""
    read = document.segments[document.position - 1]
    document.turn_seconds += costs_of(document.lane_of(read)).document_seconds
