"""Who waits for which document: the one place where an outcome reaches a caller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from app.errors import Problem
from app.scheduler.document import Document, Reading
from app.scheduler.scheduler import Ended

Submit = Callable[[Sequence[Document]], None]
_Final = Reading | Problem


@dataclass(slots=True)
class _Caller:
    """Waits for some documents together."""

    documents: int
    answered: asyncio.Future[None]
    answers: dict[Document, _Final] = field(default_factory=dict)


class Pending:
    """Belongs to one event loop. A document that is answered is forgotten, so it is answered once."""

    def __init__(self) -> None:
        self._callers: dict[Document, _Caller] = {}

    async def wait(self, documents: Sequence[Document], submit: Submit) -> list[_Final]:
        """Submit documents of one deadline and wait for all of them, until then at most.

        Raises:
            Problem: what ``submit`` raises.
            asyncio.CancelledError: the caller was cancelled; the documents are dropped at their next border.
        """
        if not documents:
            return []
        loop = asyncio.get_running_loop()
        submit(documents)
        caller = _Caller(len(documents), loop.create_future())
        self._callers.update(dict.fromkeys(documents, caller))
        patience_seconds = max(0.0, documents[0].deadline_seconds - time.monotonic())
        timer = loop.call_later(patience_seconds, self._expire, documents)
        try:
            await caller.answered
        finally:
            timer.cancel()
            for document in documents:
                if self._callers.pop(document, None) is not None:
                    document.wanted = False
        return [caller.answers[document] for document in documents]

    async def follow(self, document: Document, submit: Submit) -> AsyncGenerator[tuple[_Final, bool]]:
        """Submit a document and give its reading at every border, and its answer; else as `wait`.

        Yields:
            What there is, and whether it is the answer, which comes last.
        """
        loop = asyncio.get_running_loop()
        borders: asyncio.Queue[Reading | None] = asyncio.Queue()

        def tell(reading: Reading) -> None:
            loop.call_soon_threadsafe(borders.put_nowait, reading)

        document.on_border = tell
        last = asyncio.ensure_future(self.wait([document], submit))
        last.add_done_callback(lambda _: borders.put_nowait(None))
        try:
            while (reading := await borders.get()) is not None:
                yield reading, False
            (answer,) = last.result()
            yield answer, True
        finally:
            last.cancel()
            await asyncio.gather(last, return_exceptions=True)

    def deliver(self, ended: Sequence[Ended]) -> None:
        """Answer; nothing happens to documents whose caller was answered already, or is gone."""
        for document, outcome in ended:
            caller = self._callers.pop(document, None)
            if caller is None or outcome is None:
                continue
            caller.answers[document] = outcome
            # A caller that left in this turn of the loop is done already, and takes its documents out in the next.
            if len(caller.answers) == caller.documents and not caller.answered.done():
                caller.answered.set_result(None)

    def fail_all(self, problem: Problem) -> None:
        """Answer everyone who still waits."""
        self.deliver([(document, problem) for document in self._callers])

    def _expire(self, documents: Sequence[Document]) -> None:
        now = time.monotonic()
        self.deliver([(one, one.expired(now)) for one in documents if one in self._callers])
