"""A document read in parts gets the bits of the whole, at any cut between words and for every model that continues."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.calibration import Calibration
from app.engine.loading import load_registry
from app.engine.registry import Catalogue, Registry
from app.errors import DeadlineExceeded, DocumentTooLong, OtherModelState, Problem
from app.observability.metrics import Metrics
from app.reading.answer import Answer
from app.reading.read_request import Wanted
from app.scheduler.document import Array
from app.scheduler.segments import Lane, continues
from app.scheduler.watch import RunControl
from app.service import Service
from app.settings import read_settings
from benchmarks.shipped import BUNDLES
from tests.app.test_service import SlowRegistry, sample
from tests.app.tiny import LONGEST, WORDS, write_all, write_memories, write_phrases, write_reviews

TINY = ("reviews", "phrases", "memories")
SHIPPED = ("sst2", "imdb", "trec")
WORD = st.sampled_from([*WORDS.split(), "unheard", "don't", "3.5", "well-made", "(good)", "naïve", "good."])
TEXTS = st.lists(WORD, min_size=1, max_size=300)

Serving = Callable[[Path], tuple[Service, asyncio.Runner]]


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """Services by the folder of their bundles, each with its event loop."""
    started: dict[Path, tuple[Service, asyncio.Runner]] = {}

    def serve(bundles: Path) -> tuple[Service, asyncio.Runner]:
        if bundles not in started:
            chosen = read_settings(bundles=bundles, worker_threads=1)
            service = Service(chosen, SlowRegistry.of(load_registry(chosen)), Metrics())
            runner = asyncio.Runner()
            runner.get_loop().call_soon(service.start)
            started[bundles] = service, runner
        return started[bundles]

    yield serve
    for service, runner in started.values():
        runner.run(service.stop())
        runner.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> tuple[Service, asyncio.Runner]:
    root = write_all(tmp_path_factory.mktemp("bundles"))
    write_phrases(root)
    write_memories(root)
    return serving(root)


async def read_in_parts(service: Service, name: str, parts: Sequence[str]) -> list[Answer]:
    """Every part with nothing but the token of the answer before."""
    answers: list[Answer] = []
    for part in parts:
        model, continued = service.resolve(name, answers[-1].state if answers else None)
        wanted = Wanted(continued=continued, return_state=True)
        (answer,) = await service.classify(model, [part], wanted)
        assert isinstance(answer, Answer)
        assert answer.words_before == sum(len(before.text.token_ids) for before in answers)
        answers.append(answer)
    return answers


async def check_parts(service: Service, name: str, words: list[str], cuts: set[int]) -> None:
    borders = sorted({0, len(words), *(cut % len(words) for cut in cuts)})
    parts = [" ".join(words[start:stop]) for start, stop in pairwise(borders)]
    (whole,) = await service.classify(service.registry.find(name), [" ".join(words)])
    assert isinstance(whole, Answer)
    answers = await read_in_parts(service, name, parts)
    assert sum(len(answer.text.token_ids) for answer in answers) == len(whole.text.token_ids)
    for step, expected in whole.reading.steps.items():
        read = np.concatenate([answer.reading.steps[step] for answer in answers])
        np.testing.assert_array_equal(read, expected, err_msg=step)
    for answer in answers[1:]:
        before = whole.reading.steps["probabilities"][answer.words_before - 1]
        np.testing.assert_array_equal(answer.probabilities_before, before)
    for result, expected in whole.reading.results.items():
        # A sum over the text is rounded at each border; no probability comes from it.
        rtol = 1e-6 if result == "attention_sum" else 0
        np.testing.assert_allclose(answers[-1].reading.results[result], expected, rtol, err_msg=result)


@pytest.mark.parametrize("name", TINY)
@settings(max_examples=30, deadline=None)
@given(words=TEXTS, cuts=st.sets(st.integers(0, 299), max_size=12))
def test_parts_equal_the_whole(
    tiny: tuple[Service, asyncio.Runner], name: str, words: list[str], cuts: set[int]
) -> None:
    service, runner = tiny
    runner.run(check_parts(service, name, words, cuts))


@pytest.mark.parametrize("name", SHIPPED)
@settings(max_examples=15, deadline=None)
@given(words=TEXTS, cuts=st.sets(st.integers(0, 299), max_size=6))
def test_parts_equal_the_whole_for_shipped_models(
    serving: Serving, name: str, words: list[str], cuts: set[int]
) -> None:
    service, runner = serving(BUNDLES)
    runner.run(check_parts(service, name, words, cuts))


def test_every_shipped_model_that_continues_is_tried(serving: Serving) -> None:
    service, _ = serving(BUNDLES)
    loaded = service.registry.loaded.values()
    assert {model.manifest.name for model in loaded if continues(model.manifest)} == set(SHIPPED)


def test_word_cut_in_two_is_two_words(tiny: tuple[Service, asyncio.Runner]) -> None:
    service, runner = tiny
    answers = runner.run(read_in_parts(service, "reviews", ["good fi", "lm"]))
    assert [answer.text.tokens for answer in answers] == [["good", "fi"], ["lm"]]


def test_model_of_two_passes_has_no_state(tiny: tuple[Service, asyncio.Runner]) -> None:
    service, runner = tiny
    model = service.registry.find("topics")
    (answer,) = runner.run(service.classify(model, ["good film"], Wanted(return_state=True)))
    assert isinstance(answer, Answer)
    assert answer.state is None


def test_text_whose_end_was_cut_off_has_no_state(tiny: tuple[Service, asyncio.Runner]) -> None:
    service, runner = tiny
    model = service.registry.find("reviews")
    for truncate, has_state in (("right", False), ("left", True)):
        wanted = Wanted(truncate, return_state=True)  # type: ignore[arg-type]
        (answer,) = runner.run(service.classify(model, ["good " * (LONGEST + 1)], wanted))
        assert isinstance(answer, Answer)
        assert (answer.state is not None) == has_state


def test_document_stays_within_the_longest(tiny: tuple[Service, asyncio.Runner]) -> None:
    service, runner = tiny
    whole = service.settings.max_document_tokens
    (full, rest) = runner.run(read_in_parts(service, "reviews", ["bad " * whole, "bad " * (LONGEST - whole)]))
    assert full.words_before == 0
    model, continued = service.resolve(None, rest.state)
    assert (model.id, continued.words) == ("reviews@1", LONGEST)
    with pytest.raises(DocumentTooLong, match=f"has {LONGEST} tokens already"):
        runner.run(service.classify(model, ["bad"], Wanted(continued=continued)))


def test_state_is_of_the_model_that_wrote_it(tiny: tuple[Service, asyncio.Runner]) -> None:
    service, runner = tiny
    (answer,) = runner.run(read_in_parts(service, "reviews", ["good film"]))
    with pytest.raises(OtherModelState):
        service.resolve("phrases", answer.state)


def test_partial_answer_can_be_continued_to_the_whole(tiny: tuple[Service, asyncio.Runner]) -> None:
    service, runner = tiny
    registry = service.registry
    assert isinstance(registry, SlowRegistry)
    model, text = registry.find("reviews"), "good bad film " * 40

    async def scenario() -> None:
        registry.seconds = 0.05
        try:
            (part,) = await service.classify(
                model, [text], Wanted(partial=True, return_state=True), deadline_seconds=0.22
            )
        finally:
            registry.seconds = 0
        assert isinstance(part, Answer)
        read = len(part.text.token_ids)
        assert read % 16 == 0
        assert part.share_read == read / 120
        assert sample(service, "readtrace_partial_documents_total", model="reviews") == 1
        assert sample(service, "readtrace_deadline_misses_total") == 0
        _, continued = service.resolve(None, part.state)
        rest_of_text = text[int(part.text.offsets[-1, 1]) :]
        (rest,) = await service.classify(model, [rest_of_text], Wanted(continued=continued))
        (whole,) = await service.classify(model, [text])
        assert isinstance(rest, Answer)
        assert isinstance(whole, Answer)
        np.testing.assert_array_equal(rest.probabilities, whole.probabilities)
        np.testing.assert_array_equal(part.probabilities, whole.reading.steps["probabilities"][read - 1])

    runner.run(scenario())


def of_buckets(root: Path, kind: type[Registry], *buckets: int) -> Service:
    """One of several replicas, which measured other buckets as worth their runs."""
    chosen = read_settings(bundles=root, state_key=root / "key", worker_threads=1)
    (model,) = load_registry(chosen).loaded.values()
    calibration = Calibration(model.calibration.costs, buckets)
    return Service(chosen, kind(Catalogue([replace(model, calibration=calibration)])), Metrics())


class OneRun(Registry):
    """Reads one segment, and then not until it is let."""

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__(catalogue)
        self.runs = 0
        self.go_on = threading.Event()

    def run(self, lane: Lane, arrays: Mapping[str, Array], control: RunControl) -> Mapping[str, Array]:
        self.runs += 1
        if self.runs > 1:
            self.go_on.wait(10)
        return super().run(lane, arrays, control)


TAIL = (
    "good film was bad the team win a great"  # nine words, more than the smallest bucket of another replica
)


def test_a_state_of_a_replica_with_other_buckets_tells_only_of_further_words(tmp_path: Path) -> None:
    write_reviews(tmp_path)
    (tmp_path / "key").write_bytes(b"k" * 40)

    async def scenario() -> tuple[list[Answer], Answer]:
        first, second = of_buckets(tmp_path, Registry, 16), of_buckets(tmp_path, Registry, 4, 8, 16)
        first.start()
        second.start()
        model, beginning = first.resolve("reviews", None)
        wanted = Wanted(continued=beginning, return_state=True)
        (before,) = await first.classify(model, [TAIL], wanted)
        (whole,) = await first.classify(model, [f"{TAIL} bad film not good"], wanted)
        assert isinstance(before, Answer)
        assert isinstance(whole, Answer)
        model, continued = second.resolve(None, before.state)
        wanted = Wanted(continued=continued, return_state=True)
        told = [answer async for answer in second.follow(model, "bad film not good", wanted)]
        await first.stop()
        await second.stop()
        return told, whole

    told, whole = asyncio.run(scenario())
    for answer in told:
        assert len(answer.text.token_ids) == len(answer.reading.steps["probabilities"]) > 0
        assert 0 < answer.share_read <= 1
    whole_steps = whole.reading.steps["probabilities"]
    np.testing.assert_array_equal(told[-1].reading.steps["probabilities"], whole_steps[9:])


def test_what_was_told_before_is_no_partial_answer(tmp_path: Path) -> None:
    write_reviews(tmp_path)
    (tmp_path / "key").write_bytes(b"k" * 40)

    async def scenario() -> Answer | Problem:
        first, second = of_buckets(tmp_path, Registry, 16), of_buckets(tmp_path, OneRun, 4, 8, 16)
        first.start()
        second.start()
        model, beginning = first.resolve("reviews", None)
        (before,) = await first.classify(model, [TAIL], Wanted(continued=beginning, return_state=True))
        assert isinstance(before, Answer)
        model, continued = second.resolve(None, before.state)
        wanted = Wanted(partial=True, continued=continued, return_state=True)
        (answer,) = await second.classify(model, ["bad film not good"], wanted, 0.5)
        assert isinstance(second.registry, OneRun)
        second.registry.go_on.set()
        await first.stop()
        await second.stop()
        return answer

    assert isinstance(asyncio.run(scenario()), DeadlineExceeded)
