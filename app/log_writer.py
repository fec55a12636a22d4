"""Writes the log from a thread of its own, so that whoever reads it, or does not, stops no request."""

from __future__ import annotations

import os
import sys
import threading
import time

_MOST_CHARACTERS = 4 * 2**20  # some ten thousand events: a reader may pause for seconds under load
_PATIENCE_SECONDS = 1.0


class LogWriter:
    """A stream that takes text at once; what the reader is too slow for, or cannot be written, is lost and counted."""

    def __init__(self, descriptor: int, most_characters: int = _MOST_CHARACTERS) -> None:
        """The descriptor, not Python's stream: a thread that is held up in it would hold its lock, also at the end."""
        self._descriptor = descriptor
        self._most_characters = most_characters
        self._changed = threading.Condition()
        self._waiting: list[str] = []
        self._characters = 0  # that wait or are being written
        self._thread: threading.Thread | None = None
        self._patience_seconds = _PATIENCE_SECONDS
        self.lost = 0  # events

    def write(self, text: str) -> int:
        """Take an event."""
        with self._changed:
            # At the interpreter's end no thread begins any more, and starting one would wait for ever.
            too_late = self._thread is None and sys.is_finalizing()
            if too_late or self._characters + len(text) > self._most_characters:
                self.lost += 1
                return 0
            self._characters += len(text)
            self._waiting.append(text)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_on, name="log-writer", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Nothing: who logs waits for nobody. `drain` waits."""

    def drain(self) -> None:
        """Wait until all is written, but no more than a second in the life of the process."""
        with self._changed:
            started = time.monotonic()
            self._changed.wait_for(lambda: not self._characters, self._patience_seconds)
            self._patience_seconds = max(0.0, self._patience_seconds - (time.monotonic() - started))

    def _write_on(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                events, self._waiting = self._waiting, []
            text = "".join(events)
            written = self._write_all(text.encode("utf-8", "backslashreplace"))
            with self._changed:
                self._characters -= len(text)
                if not written:
                    self.lost += len(events)
                self._changed.notify_all()

    def _write_all(self, content: bytes) -> bool:
        try:
            while content:
                content = content[os.write(self._descriptor, content) :]
        except OSError:  # the disk is full, the reader is gone
            return False
        return True
