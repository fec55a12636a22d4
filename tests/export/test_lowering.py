from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from app.manifest import PassSpec
from export.golden import compare
from export.graph import Graph
from export.lowering.mtlstm import buckets
from export.reading import Arrays, attention_of
from models.architectures.base import Architecture
from models.architectures.leap import LeapLSTMConfig
from models.architectures.mtlstm import MOST_GROUPS
from models.golden.cases import Case
from models.golden.networks import has_network
from models.text.storage import Storage
from tests.export.lowered import NETWORKS, REALISTIC, documents, lower_pair, pair, traced
from tests.models.cases import FOLDER, golden
from tests.models.networks import random_network

ALL = [*NETWORKS, *REALISTIC]


def assert_close(found: Arrays, expected: Arrays) -> None:
    """Decisions equal, numbers within the proof's tolerance."""
    if "attention" in expected:
        found = found | {"attention": attention_of(found)}
    for name, values in expected.items():
        if values.dtype == np.bool_:
            np.testing.assert_array_equal(found[name], values, err_msg=name)
        else:
            difference = np.abs(found[name].astype(np.float64) - values.astype(np.float64))
            assert (difference <= 1e-5 * (1 + np.abs(values.astype(np.float64)))).all(), name


def assert_identical(found: Arrays, expected: Arrays) -> None:
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("name", ALL)
def test_graph_gives_the_networks_trace(name: str) -> None:
    network = pair(name)
    for document in documents(1, 2, 3, 7, 40, network.longest, network.longest + 1, 300):
        (found,) = network.reader.read([document], network.longest)
        assert_close(found, traced(network.model, document))


@pytest.mark.parametrize("name", NETWORKS)
def test_every_bucket_gives_the_networks_trace(name: str) -> None:
    network = pair(name)
    (document,) = documents(150)
    expected = traced(network.model, document)
    for segment in network.lowered.length_buckets:
        assert_close(network.reader.read([document], segment)[0], expected)


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(list(NETWORKS)),
    st.lists(st.integers(1, 70), min_size=1, max_size=5),
    st.integers(0, 3),
    st.integers(0, 1000),
)
def test_padded_batches_of_any_lengths_give_the_networks_trace(
    name: str, lengths: list[int], bucket: int, seed: int
) -> None:
    network = pair(name)
    batch = documents(*lengths, seed=seed)
    for document, found in zip(
        batch, network.reader.read(batch, network.lowered.length_buckets[bucket]), strict=True
    ):
        assert_close(found, traced(network.model, document))


@pytest.mark.parametrize("name", ALL)
def test_batch_mates_and_segments_change_no_bit(name: str) -> None:
    network = pair(name)
    batch = documents(1, 5, 33, 64, 127, 128, 129, 200)
    alone = [network.reader.read([document], network.longest)[0] for document in batch]
    for segment in (network.longest, network.lowered.length_buckets[-2], network.lowered.length_buckets[0]):
        for found, expected in zip(network.reader.read(batch, segment), alone, strict=True):
            assert_identical(found, expected)
    for found, expected in zip(network.reader.read(batch[::-1], network.longest), alone[::-1], strict=True):
        assert_identical(found, expected)


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(list(NETWORKS)),
    st.lists(st.integers(1, 140), min_size=1, max_size=6),
    st.integers(0, 3),
    st.integers(0, 1000),
)
def test_no_companions_and_no_cut_change_a_bit(name: str, lengths: list[int], bucket: int, seed: int) -> None:
    network = pair(name)
    batch = documents(*lengths, seed=seed)
    buckets = network.lowered.length_buckets
    for document, found in zip(
        batch, network.reader.read(batch, buckets[bucket % len(buckets)]), strict=True
    ):
        assert_identical(found, network.reader.read([document], network.longest)[0])


GOLDEN = [case for file in sorted(FOLDER.glob("*.json")) for case in golden(file.stem) if has_network(case)]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case.model}-{case.name}")
def test_graph_reproduces_the_golden_case(case: Case) -> None:
    differences = compare(case)
    assert differences.graph is not None
    assert differences.graph <= 1e-5


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_word_vectors_are_read_as_they_are_stored(storage: Storage) -> None:
    network = lower_pair(random_network(NETWORKS["lstm"], seed=4), storage)
    (document,) = documents(9)
    assert_close(network.reader.read([document], network.longest)[0], traced(network.model, document))


def leap_with_bias(keep: float) -> Architecture:
    model = random_network(NETWORKS["leap"], seed=2)
    with torch.no_grad():
        model.get_parameter("decide.weight").zero_()
        model.get_parameter("decide.bias").copy_(torch.tensor([keep, 0.0]))
    return model


@pytest.mark.parametrize(("keep", "skip_rate"), [(-1.0, 1.0), (0.0, 0.0), (1.0, 0.0)])
def test_leap_graph_reads_nothing_or_everything(keep: float, skip_rate: float) -> None:
    """A tie keeps; with everything skipped the answer is that of the zero state, over several windows too."""
    network = lower_pair(leap_with_bias(keep))
    for document in documents(1, 32, 33, 300):
        (found,) = network.reader.read([document], network.longest)
        assert found["skipped"].mean() == skip_rate
        assert_close(found, traced(network.model, document))


def test_leap_graph_has_filters_of_one_width_twice() -> None:
    config = LeapLSTMConfig(hidden=4, reverse_hidden=2, decision_hidden=3, filter_widths=(3, 3), filters=2)
    network = lower_pair(random_network(config, seed=1))
    (document,) = documents(40)
    (found,) = network.reader.read([document], network.longest)
    assert_close(found, traced(network.model, document))


def test_two_constants_of_one_name_are_refused() -> None:
    graph = Graph("read")
    ones = np.ones(3, np.float32)
    assert graph.constant("bias", ones) == graph.constant("bias", ones)
    with pytest.raises(ValueError, match="read/bias: expected a name of its own"):
        graph.constant("bias", 2 * ones)


def test_leap_decisions_depend_on_what_follows_in_later_segments() -> None:
    network = pair("leap")
    first, second = documents(60, 60)
    second = second.copy()
    second[:40] = first[:40]
    one, two = network.reader.read([first, second], 8)
    assert (one["keep_probability"][:40] != two["keep_probability"][:40]).any()


@pytest.mark.parametrize("name", ALL)
def test_signature_is_the_declared_one(name: str) -> None:
    lowered = pair(name).lowered
    for reading in lowered.passes:
        graph = lowered.graphs[reading.graph].graph
        assert {value.name for value in graph.input} == declared_inputs(reading)
        shapes = {value.name: shape(value) for value in (*graph.input, *graph.output)}
        assert shapes["token_ids"] == ["rows", "length"]
        assert shapes["lengths"] == ["rows"]
        for step in reading.steps:
            assert shapes[step.name] == ["rows", "length", *step.shape]
        for result in reading.results:
            assert shapes[result.name] == ["rows", *result.shape]
        for state in reading.states:
            assert shapes[state.name] == shapes[f"{state.name}_next"] == ["rows", *state.shape]


def declared_inputs(reading: PassSpec) -> set[str]:
    return {"token_ids", "lengths", *reading.reads, *(state.name for state in reading.states)}


def shape(value: onnx.ValueInfoProto) -> list[str | int]:
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_param or dim.dim_value for dim in dims]


def test_groups_are_told_with_their_periods() -> None:
    groups = pair("s2f").lowered.groups
    assert groups is not None
    assert [(group.size, group.period) for group in groups] == [(3, 1), (3, 2), (3, 4), (2, 8)]
    assert pair("lstm").lowered.groups is None


@pytest.mark.parametrize(
    ("name", "windows"), [("mode", [(3, 8), (5, 8), (11, 8)]), ("text_cnn", [(3, 12), (4, 12), (5, 12)])]
)
def test_windows_are_told_with_their_features(name: str, windows: list[tuple[int, int]]) -> None:
    found = pair(name).lowered.windows
    assert found is not None
    assert [(window.words, window.features) for window in found] == windows
    assert pair("lstm").lowered.windows is None


def test_weights_of_features_add_up_to_the_winners_lead() -> None:
    """Without biases, nothing else adds to the logits."""
    model = random_network(NETWORKS["mode"], seed=3)
    with torch.no_grad():
        for name in ("mlp.bias", "classifier.bias"):
            model.get_parameter(name).zero_()
    network = lower_pair(model)
    for document in documents(1, 9, 300):
        (found,) = network.reader.read([document], network.longest)
        logits = found["logits"][-1]
        assert found["feature_weight"].sum() == pytest.approx(logits.max() - logits.mean(), abs=1e-5)


def test_attention_neither_overflows_nor_vanishes() -> None:
    """Scores so far apart that their exponentials are beyond float32, in texts of several segments."""
    model = random_network(NETWORKS["self_attentive"], seed=3)
    with torch.no_grad():
        model.get_parameter("score_hops.weight").mul_(300.0)
    network = lower_pair(model)
    for document in documents(1, 40, 300):
        (found,) = network.reader.read([document], 8)
        scores = found["attention_score"].astype(np.float64)
        assert len(document) == 1 or np.ptp(scores) > 200
        attention = attention_of(found)
        np.testing.assert_allclose(attention.sum(axis=0), 1, rtol=1e-5)
        np.testing.assert_array_equal(attention.argmax(axis=0), scores.argmax(axis=0))
        assert np.isfinite(found["logits"]).all()


def test_first_of_equal_windows_wins_across_segments() -> None:
    network = pair("text_cnn")
    repeated = np.full(200, 7, np.int32)
    (found,) = network.reader.read([repeated], 8)
    assert found["last_word"].max() <= 4


@pytest.mark.parametrize("slowest", [1, 4, 16, 256, 2 ** (MOST_GROUPS - 1)])
def test_buckets_are_multiples_of_the_slowest_period(slowest: int) -> None:
    found = buckets(slowest)
    assert list(found) == sorted(set(found))
    assert all(bucket % slowest == 0 for bucket in found)
    assert found[-1] >= 128


def test_no_run_time_masks_in_the_cascade() -> None:
    """The schedule is in the graph's shape: nothing in it compares or selects."""
    for name in ("f2s", "f2s_full", "s2f", "s2f_full"):
        nodes = [node for graph in pair(name).lowered.graphs.values() for node in graph.graph.node]
        bodies = [a.g for node in nodes for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        kinds = {node.op_type for node in (*nodes, *(inner for body in bodies for inner in body.node))}
        assert not kinds & {"Where", "Mod", "Equal", "Less", "Greater", "If", "Loop"}
