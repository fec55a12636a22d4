from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from app.log_writer import LogWriter

EVENT = "e" * 1023 + "\n"
PIPE_BYTES = 4096


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A small one, of which nothing is read."""
    reader, writer = os.pipe()
    assert fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES) == PIPE_BYTES
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_events_are_written_in_order(pipe: tuple[int, int]) -> None:
    writer = LogWriter(pipe[1])
    for number in range(100):
        writer.write(f"{number}\n")
    writer.drain()
    assert os.read(pipe[0], PIPE_BYTES).decode().split() == [str(number) for number in range(100)]
    assert writer.lost == 0


def test_reader_that_stalls_loses_events_and_gets_the_later_ones(pipe: tuple[int, int]) -> None:
    writer = LogWriter(pipe[1], most_characters=8 * len(EVENT))
    taken = sum(writer.write(EVENT) > 0 for _ in range(100))
    assert 8 <= taken <= 12  # those in the pipe, which has room for four, may or may not be counted
    assert writer.lost == 100 - taken
    content = b""
    while len(content) < taken * len(EVENT):
        content += os.read(pipe[0], PIPE_BYTES)
    assert content.decode() == EVENT * taken
    writer.drain()
    assert writer.write("again\n") > 0
    assert os.read(pipe[0], PIPE_BYTES) == b"again\n"


def test_event_that_cannot_be_written_is_lost_and_counted() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    writer = LogWriter(full)
    writer.write(EVENT)
    writer.drain()
    os.close(full)
    assert writer.lost == 1


def test_first_event_at_the_end_of_the_interpreter_is_lost_and_holds_nothing_up() -> None:
    code = (
        "from app.log_writer import LogWriter\n"
        "class Late:\n"
        "    def __init__(self): self.writer = LogWriter(2)\n"
        "    def __del__(self, print=print): print(self.writer.write('late'), self.writer.lost)\n"
        "late = Late()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "0 1\n"
