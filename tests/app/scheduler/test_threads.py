from __future__ import annotations

import threading
import time

import numpy as np

from app.errors import ReadingFailed
from app.scheduler.document import Document, Reading
from app.scheduler.threads import EngineThreads
from tests.app.scheduler.fakes import Bench, expected

_PATIENCE_SECONDS = 10


def wait_for(bench: Bench, documents: list[Document]) -> None:
    started = time.monotonic()
    while not all(document in bench.book.outcomes for document in documents):
        assert time.monotonic() - started < _PATIENCE_SECONDS, "documents were not answered"
        time.sleep(0.001)


def test_several_threads_read_everything_right() -> None:
    bench = Bench()
    threads = EngineThreads(bench.scheduler, 3, lambda: None)
    threads.start()
    texts = [[2 + index % 7] * (1 + index % 17) for index in range(200)]
    documents = [document for text in texts for document in bench.submit(text)]
    wait_for(bench, documents)
    bench.scheduler.close()
    threads.join(_PATIENCE_SECONDS)
    for document in documents:
        outcome = bench.book.outcomes[document]
        assert isinstance(outcome, Reading)
        np.testing.assert_array_equal(outcome.steps["probabilities"], expected(document.token_ids.tolist()))
    assert set(bench.book.delivered.values()) == {1}


def test_dying_thread_fails_what_it_held_and_is_restarted() -> None:
    bench = Bench()
    restarts = threading.Semaphore(0)
    threads = EngineThreads(bench.scheduler, 1, restarts.release)

    def die_once() -> None:
        bench.engine.before_run = lambda: None
        raise SystemExit

    bench.engine.before_run = die_once
    held = bench.submit([2, 3], [4, 5])
    threads.start()
    assert restarts.acquire(timeout=_PATIENCE_SECONDS)
    later = bench.submit([6, 7])
    wait_for(bench, held + later)
    bench.scheduler.close()
    threads.join(_PATIENCE_SECONDS)
    assert all(isinstance(bench.book.outcomes[document], ReadingFailed) for document in held)
    assert isinstance(bench.book.outcomes[later[0]], Reading)
    assert set(bench.book.delivered.values()) == {1}


def test_idle_threads_use_no_cpu() -> None:
    bench = Bench()
    threads = EngineThreads(bench.scheduler, 2, lambda: None)
    threads.start()
    started = time.process_time()
    time.sleep(0.5)
    used_seconds = time.process_time() - started
    bench.scheduler.close()
    threads.join(_PATIENCE_SECONDS)
    assert used_seconds < 0.02
