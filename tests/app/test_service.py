from __future__ import annotations

import asyncio
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import numpy as np
import pytest

from app.engine.registry import Registry
from app.errors import (
    DeadlineExceeded,
    EmptyDocument,
    EngineFailed,
    NotReady,
    Problem,
    QueueFull,
    ReadingFailed,
    ReadingTerminated,
    ShuttingDown,
)
from app.keys import Caller, make_key
from app.observability.metrics import Metrics
from app.reading.answer import Answer
from app.reading.read_request import Wanted
from app.scheduler.document import Array
from app.scheduler.segments import Lane
from app.scheduler.watch import RunControl
from app.service import Service
from app.settings import Settings, read_settings
from app.text.tokens import CuttingPace, TokenizedText, tokenize

LONG = "good bad film " * 7000


class SlowRegistry(Registry):
    """Real models whose runs take longer, or answer wrongly."""

    seconds = 0.0
    shift = 0.0

    @classmethod
    def of(cls, registry: Registry) -> SlowRegistry:
        return cls(registry.catalogue)

    def run(self, lane: Lane, arrays: Mapping[str, Array], control: RunControl) -> Mapping[str, Array]:
        time.sleep(self.seconds)
        return {
            name: array + array.dtype.type(self.shift) if name == "probabilities" else array
            for name, array in super().run(lane, arrays, control).items()
        }


@asynccontextmanager
async def running(registry: Registry, settings: Settings) -> AsyncIterator[Service]:
    service = Service(settings, registry, Metrics())
    service.start()
    try:
        yield service
    finally:
        await service.stop()


def sample(service: Service, name: str, **labels: str) -> float | None:
    return service.metrics.registry.get_sample_value(name, labels)


def dispatches(service: Service) -> float:
    (family,) = service.metrics.dispatch_total.collect()
    return sum(one.value for one in family.samples if one.name.endswith("_total"))


def test_answers_keep_their_places_beside_a_failed_text(registry: Registry, settings: Settings) -> None:
    async def scenario() -> None:
        async with running(registry, settings) as service:
            model = registry.find("topics")
            first, empty, last = await service.classify(model, ["good film", " ", "market loss"])
            assert isinstance(first, Answer)
            assert isinstance(last, Answer)
            assert isinstance(empty, EmptyDocument)
            assert (first.text.text, last.text.text) == ("good film", "market loss")
            assert sample(service, "readtrace_documents_total", model="topics") == 2
            assert sample(service, "readtrace_failed_documents_total", reason="empty-document") == 1

    asyncio.run(scenario())


def test_twenty_thousand_words_are_read_in_bounded_memory(registry: Registry, settings: Settings) -> None:
    async def scenario() -> None:
        async with running(registry, settings) as service:
            model = registry.find("topics")
            tracemalloc.start()
            (answer,) = await service.classify(model, [LONG])
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert isinstance(answer, Answer)
            assert answer.reading.steps["probabilities"].shape == (21_000, 3)
            assert np.isfinite(answer.reading.steps["probabilities"]).all()
            assert peak_bytes < 40e6

    asyncio.run(scenario())


def test_short_text_does_not_wait_for_a_long_one(registry: Registry, settings: Settings) -> None:
    async def scenario() -> None:
        slow = SlowRegistry.of(registry)
        slow.seconds = 0.002
        async with running(slow, settings) as service:
            model = slow.find("reviews")
            long = asyncio.create_task(service.classify(model, [LONG]))
            await asyncio.sleep(0.3)
            await service.classify(model, ["good film"])
            assert not long.done()
            await long

    asyncio.run(scenario())


def test_late_document_is_answered_at_its_deadline(registry: Registry, settings: Settings) -> None:
    async def scenario() -> None:
        slow = SlowRegistry.of(registry)
        slow.seconds = 0.5
        async with running(slow, settings) as service:
            started = time.monotonic()
            (answer,) = await service.classify(slow.find("reviews"), ["good film"], deadline_seconds=0.05)
            assert time.monotonic() - started < 0.4
            assert isinstance(answer, DeadlineExceeded)
            assert sample(service, "readtrace_deadline_misses_total") == 1

    asyncio.run(scenario())


def test_cancelled_caller_frees_the_queue(registry: Registry, settings: Settings) -> None:
    async def scenario() -> None:
        slow = SlowRegistry.of(registry)
        slow.seconds = 0.01
        async with running(slow, settings) as service:
            task = asyncio.create_task(service.classify(slow.find("reviews"), [LONG]))
            while not sample(service, "readtrace_queue_documents"):
                await asyncio.sleep(0.01)
            task.cancel()
            while sample(service, "readtrace_queue_documents"):
                await asyncio.sleep(0.01)
            assert sample(service, "readtrace_queue_tokens") == 0

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_poison_in_a_batch_fails_alone(registry: Registry, settings: Settings) -> None:
    class Poisoned(SlowRegistry):
        def run(self, lane: Lane, arrays: Mapping[str, Array], control: RunControl) -> Mapping[str, Any]:
            word = self.find("reviews").tokenizer.token_to_id("dull")
            if (arrays["token_ids"] == word).any():
                raise RuntimeError("dull")
            return super().run(lane, arrays, control)

    async def scenario() -> None:
        poisoned = Poisoned.of(registry)
        async with running(poisoned, settings) as service:
            texts = ["good film"] * 19 + ["dull film"]
            answers = await service.classify(poisoned.find("reviews"), texts)
            assert [isinstance(answer, Answer) for answer in answers] == [True] * 19 + [False]
            assert isinstance(answers[-1], ReadingFailed)

    asyncio.run(scenario())


def test_deadline_counts_while_a_text_waits_for_the_tokenizer(
    registry: Registry, bundles: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, cut = threading.Event(), []

    def held(tokenizer: object, text: str, *rest: Any) -> TokenizedText:
        cut.append(text)
        assert let_go.wait(20)
        return tokenize(tokenizer, text, *rest)  # type: ignore[arg-type]

    async def scenario() -> None:
        monkeypatch.setattr("app.reading.read_request.tokenize", held)
        async with running(registry, read_settings(bundles=bundles, tokenizer_threads=1)) as service:
            model = registry.find("reviews")
            first = asyncio.create_task(service.classify(model, ["good " * 1000]))
            await asyncio.sleep(0)
            started = time.monotonic()
            (late,) = await service.classify(model, ["bad " * 80], deadline_seconds=0.5)
            assert isinstance(late, DeadlineExceeded)
            assert time.monotonic() - started < 5
            let_go.set()
            assert isinstance((await first)[0], Answer)
            assert cut == ["good " * 1000]  # nobody waits for the other one any more

    asyncio.run(scenario())


@pytest.mark.parametrize("leaves", [False, True])
def test_text_is_cut_no_further_once_nobody_waits(
    registry: Registry, settings: Settings, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def between_pieces(*how: Any) -> TokenizedText:
        is_given_up = how[-1]
        assert not is_given_up()
        begun.set()
        while not is_given_up():
            time.sleep(0.001)
        ended.set()
        raise DeadlineExceeded("given up")

    async def scenario() -> None:
        monkeypatch.setattr("app.reading.read_request.tokenize", between_pieces)
        async with running(registry, settings) as service:
            patience_seconds = 30 if leaves else 0.05
            work = service.classify(registry.find("reviews"), [LONG], deadline_seconds=patience_seconds)
            task = asyncio.create_task(work)
            if leaves:
                assert await asyncio.to_thread(begun.wait, 20)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                assert isinstance((await task)[0], DeadlineExceeded)
            assert await asyncio.to_thread(ended.wait, 20)

    asyncio.run(scenario())


def test_request_that_would_wait_too_long_for_the_tokenizer_is_refused() -> None:
    pace = CuttingPace(threads=2)
    assert pace.wait_seconds(1000) < 0.001
    for _ in range(200):
        pace.learn(characters=1000, seconds=0.5)
    pace.waiting = 7000
    assert pace.wait_seconds(1000) == pytest.approx(1.5 * 8 * 0.5 / 2, rel=0.01)


def test_texts_waiting_for_the_tokenizer_are_bounded(registry: Registry, bundles: Any) -> None:
    async def scenario() -> None:
        settings = read_settings(bundles=bundles, max_queued_documents=2, max_documents=2)
        async with running(registry, settings) as service:
            model = registry.find("reviews")
            first = asyncio.create_task(service.classify(model, [LONG, LONG]))
            await asyncio.sleep(0)
            with pytest.raises(QueueFull):
                await service.classify(model, ["good"])
            await first

    asyncio.run(scenario())


def test_drain_answers_what_was_accepted_and_takes_nothing_new(
    registry: Registry, settings: Settings
) -> None:
    async def scenario() -> None:
        slow = SlowRegistry.of(registry)
        slow.seconds = 0.2
        async with running(slow, settings) as service:
            model = slow.find("reviews")
            accepted = asyncio.create_task(service.classify(model, ["good film"]))
            await asyncio.sleep(0.05)
            drained = asyncio.create_task(service.drain())
            await asyncio.sleep(0)
            with pytest.raises(ShuttingDown):
                await service.classify(model, ["bad film"])
            with pytest.raises(ShuttingDown):
                await service.check_ready()
            (answer,) = await accepted
            assert isinstance(answer, Answer)
            await drained

    asyncio.run(scenario())


def test_drain_ends_at_its_limit(registry: Registry, bundles: Any) -> None:
    async def scenario() -> None:
        slow = SlowRegistry.of(registry)
        slow.seconds = 0.01
        async with running(slow, read_settings(bundles=bundles, drain_seconds=0.1)) as service:
            task = asyncio.create_task(service.classify(slow.find("reviews"), [LONG]))
            while not dispatches(service):
                await asyncio.sleep(0.01)
            await service.drain()
            (answer,) = await task
            assert isinstance(answer, ShuttingDown)

    asyncio.run(scenario())


def test_readiness_notices_wrong_answers(registry: Registry, settings: Settings) -> None:
    async def scenario() -> None:
        wrong = SlowRegistry.of(registry)
        async with running(wrong, settings) as service:
            await service.check_ready()
            wrong.shift = 0.01
            with pytest.raises(NotReady, match="golden document 0 differs"):
                await service.check_ready()

    asyncio.run(scenario())


def test_readiness_reads_a_golden_document_up_to_the_limit(registry: Registry, bundles: Any) -> None:
    async def scenario() -> None:
        wrong = SlowRegistry.of(registry)
        async with running(wrong, read_settings(bundles=bundles, max_document_tokens=1)) as service:
            wrong.shift = 0.01  # of a part, no answer can be compared
            await service.check_ready()
            assert dispatches(service)

    asyncio.run(scenario())


def test_readiness_notices_an_engine_that_hangs(registry: Registry, bundles: Any) -> None:
    async def scenario() -> None:
        slow = SlowRegistry.of(registry)
        slow.seconds = 0.3
        async with running(slow, read_settings(bundles=bundles, readiness_timeout_seconds=0.05)) as service:
            with pytest.raises(NotReady, match="did not answer"):
                await service.check_ready()

    asyncio.run(scenario())


def test_full_queue_is_ready_as_long_as_others_are_answered(registry: Registry, bundles: Any) -> None:
    async def scenario() -> None:
        settings = read_settings(bundles=bundles, max_queued_documents=1, max_documents=1)
        slow = SlowRegistry.of(registry)
        async with running(slow, settings) as service:
            model = slow.find("reviews")
            slow.seconds, text = 0.05, "good bad film " * 500
            first = asyncio.create_task(service.classify(model, [text]))
            await asyncio.sleep(0)
            with pytest.raises(NotReady, match="nobody is answered"):
                await service.check_ready()
            assert isinstance((await first)[0], Answer)
            second = asyncio.create_task(service.classify(model, [text]))
            await asyncio.sleep(0)
            await service.check_ready()
            with pytest.raises(QueueFull):
                await service.classify(model, ["good"])
            assert isinstance((await second)[0], Answer)

    asyncio.run(scenario())


def probabilities(answer: Answer | Problem) -> Array:
    assert isinstance(answer, Answer)
    return answer.reading.steps["probabilities"]


def test_answer_at_the_deadline_is_what_was_read_so_far_where_that_will_do(
    registry: Registry, settings: Settings
) -> None:
    async def scenario() -> None:
        slow = SlowRegistry.of(registry)
        async with running(slow, settings) as service:
            model = slow.find("reviews")
            (whole,) = await service.classify(model, [LONG])
            slow.seconds = 0.02
            caller = Caller(make_key("shop", ("classify",), 50_000)[1])
            (partial,) = await service.classify(model, [LONG], Wanted(partial=True), 1.5, caller)
            (none,) = await service.classify(slow.find("topics"), [LONG], Wanted(partial=True), 1.5)
            assert isinstance(partial, Answer)
            assert partial.partial
            assert 0 < partial.share_read < 1
            assert len(partial.text.token_ids) == partial.reading.tokens
            np.testing.assert_array_equal(
                probabilities(partial), probabilities(whole)[: partial.reading.tokens]
            )
            charged = sample(service, "readtrace_quota_tokens_total", key="shop")
            assert charged == 21_000  # all that was queued, as docs/keys.md says
            assert isinstance(none, DeadlineExceeded)  # what reads from the end has no first part yet

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["reviews", "topics"])
def test_followed_text_is_told_segment_by_segment(registry: Registry, settings: Settings, name: str) -> None:
    text = "good bad film not dull " * 11

    async def scenario() -> None:
        async with running(registry, settings) as service:
            model = registry.find(name)
            (whole,) = await service.classify(model, [text])
            told = [answer async for answer in service.follow(model, text)]
            assert [answer.reading.tokens for answer in told[:3]] == [16, 32, 48]
            assert [answer.partial for answer in told] == [True] * (len(told) - 1) + [False]
            for answer in told:
                np.testing.assert_array_equal(
                    probabilities(answer), probabilities(whole)[: answer.reading.tokens]
                )
            assert sample(service, "readtrace_documents_total", model=name) == 2

    asyncio.run(scenario())


def test_follower_that_leaves_frees_the_queue(registry: Registry, settings: Settings) -> None:
    async def scenario() -> None:
        slow = SlowRegistry.of(registry)
        slow.seconds = 0.005
        async with running(slow, settings) as service:
            async with aclosing(service.follow(slow.find("reviews"), LONG)) as answers:
                async for _ in answers:
                    break
            while sample(service, "readtrace_queue_documents"):
                await asyncio.sleep(0.01)
            assert sample(service, "readtrace_dropped_documents_total", stage="border", reason="left") == 1

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_lost_engine_ends_the_service_with_a_message(registry: Registry, bundles: Any) -> None:
    class Deadly(SlowRegistry):
        def run(self, lane: Lane, arrays: Mapping[str, Array], control: RunControl) -> Mapping[str, Array]:
            raise SystemExit

    async def scenario() -> None:
        deadly = Deadly.of(registry)
        async with running(deadly, read_settings(bundles=bundles, max_engine_restarts=1)) as service:
            ended = asyncio.Event()
            service.on_failure = ended.set
            for _ in range(2):
                (answer,) = await service.classify(deadly.find("reviews"), ["good film"])
                assert isinstance(answer, EngineFailed)
            await asyncio.wait_for(ended.wait(), 10)
            assert service.failure is not None
            assert "lost 2 times" in service.failure
            assert sample(service, "readtrace_engine_restarts_total") == 1
            with pytest.raises(ShuttingDown):
                await service.classify(deadly.find("reviews"), ["good film"])

    asyncio.run(scenario())


def test_run_that_overshoots_is_stopped(registry: Registry, bundles: Any) -> None:
    """A real graph and a real limit, shorter than the run."""

    class Delayed(SlowRegistry):
        def run(self, lane: Lane, arrays: Mapping[str, Array], control: RunControl) -> Mapping[str, Array]:
            if self.seconds:
                while not control.terminated:
                    time.sleep(0.005)
            return super(SlowRegistry, self).run(lane, arrays, control)

    async def scenario() -> None:
        delayed = Delayed.of(registry)
        settings = read_settings(bundles=bundles, run_limit_seconds=0.3)
        async with running(delayed, settings) as service:
            delayed.seconds = 1
            (answer,) = await service.classify(delayed.find("reviews"), ["good film"])
            assert isinstance(answer, ReadingTerminated)
            delayed.seconds = 0
            (answer,) = await service.classify(delayed.find("reviews"), ["good film"])
            assert isinstance(answer, Answer)

    asyncio.run(scenario())
