"""The same text gives the same bits alone, in any batch, whole and in segments, through real graphs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.engine.golden import read_alone
from app.engine.loading import load_registry
from app.engine.model import Model
from app.engine.registry import Registry
from app.scheduler.admission import Limits
from app.scheduler.batch import assemble
from app.scheduler.document import Array, Document, Reading
from app.scheduler.scheduler import Scheduler
from app.scheduler.segments import continues, cut
from app.scheduler.watch import Watch
from app.settings import read_settings
from app.text.tokens import tokenize
from benchmarks.shipped import BUNDLES, newest
from tests.app.scheduler.fakes import Book
from tests.app.tiny import WORDS, read_whole, write_all, write_phrases

MODELS = ("reviews", "topics", "phrases")
TEXTS = st.lists(st.sampled_from([*WORDS.split(), "unheard"]), min_size=1, max_size=70).map(" ".join)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_all(tmp_path_factory.mktemp("bundles"))
    write_phrases(root)
    return root


@pytest.fixture(scope="module")
def registry(bundles: Path) -> Registry:
    return load_registry(read_settings(bundles=bundles))


def read_batched(registry: Registry, name: str, texts: list[str]) -> list[dict[str, Array]]:
    book = Book()
    scheduler = Scheduler(registry, Limits(10**6, 10**9), book, book.deliver, Watch(60))
    model = registry.find(name)
    documents = []
    for text in texts:
        ids = tokenize(model.tokenizer, text, 10**6, "error").token_ids
        segments = cut(model.manifest, len(ids))
        documents.append(Document(model, ids, segments, 0.0, math.inf))
    scheduler.submit(documents)
    while (batch := scheduler.try_take()) is not None:
        scheduler.process(batch)
    readings = [book.outcomes[document] for document in documents]
    return [{**one.steps, **one.results} for one in readings if isinstance(one, Reading)]


def read_cut(
    model: Model, ids: NDArray[np.int64], to_continue: bool, buckets: tuple[int, ...]
) -> dict[str, Array]:
    segments = cut(model.manifest, len(ids), to_continue, buckets)
    document = Document(model, ids, segments, 0.0, math.inf)
    while not document.finished:
        outputs = model.run(document.segment.reading.name, assemble([document], 2))
        assert document.accept(outputs, 0)
    reading = document.reading(0)
    assert reading is not None
    return {**reading.steps, **reading.results}


def written_names(model: Model) -> tuple[str, ...]:
    last = model.manifest.passes[-1]
    return tuple(spec.name for spec in (*last.steps, *last.results))


def assert_same_bits(one: dict[str, Array], other: dict[str, Array], names: tuple[str, ...]) -> None:
    for name in names:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=30)
@given(texts=st.lists(TEXTS, min_size=1, max_size=70))
def test_alone_equals_any_batch(registry: Registry, name: str, texts: list[str]) -> None:
    model = registry.find(name)
    names = written_names(model)
    batched = read_batched(registry, name, texts)
    for text, steps in zip(texts, batched, strict=True):
        assert_same_bits(steps, dict(read_alone(model, text)), names)


@pytest.fixture(scope="module")
def shipped() -> Registry:
    return load_registry(read_settings(bundles=BUNDLES, max_run_seconds=0.005))


@settings(max_examples=25)
@given(data=st.data())
def test_shipped_models_give_the_same_bits_alone_and_in_any_batch(
    shipped: Registry, data: st.DataObject
) -> None:
    model = shipped.find(data.draw(st.sampled_from(sorted(shipped.loaded))))
    words = sorted(model.tokenizer.get_vocab())
    text = st.lists(st.sampled_from(words), min_size=1, max_size=300).map(" ".join)
    texts = data.draw(st.lists(text, min_size=1, max_size=20))
    readable = [one for one in texts if model.tokenizer.encode(one, add_special_tokens=False).ids]
    names = written_names(model)
    for one, batched in zip(
        readable, read_batched(shipped, model.id, readable) if readable else [], strict=True
    ):
        assert_same_bits(batched, dict(read_alone(model, one)), names)


@settings(max_examples=25)
@given(data=st.data())
def test_shipped_models_give_the_same_bits_however_the_text_is_cut(
    shipped: Registry, data: st.DataObject
) -> None:
    model = data.draw(st.sampled_from(sorted(shipped.loaded.values(), key=lambda one: one.id)))
    *smaller, largest = model.manifest.length_buckets
    used = st.sets(st.sampled_from(smaller)).map(lambda found: (*sorted(found), largest))
    to_continue = st.booleans() if continues(model.manifest) else st.just(False)
    vocabulary = model.tokenizer.get_vocab_size()
    ids = np.array(data.draw(st.lists(st.integers(1, vocabulary - 1), min_size=1, max_size=300)), np.int64)
    names = written_names(model)
    one, other = (read_cut(model, ids, data.draw(to_continue), data.draw(used)) for _ in range(2))
    assert_same_bits(one, other, names)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=30)
@given(text=TEXTS)
def test_segments_equal_the_whole(registry: Registry, bundles: Path, name: str, text: str) -> None:
    model = registry.find(name)
    ids = tokenize(model.tokenizer, text, 10**6, "error").token_ids
    whole = read_whole(newest(name, bundles), model.manifest.passes, ids)
    names = written_names(model)
    assert_same_bits(dict(read_alone(model, text)), whole, names)
