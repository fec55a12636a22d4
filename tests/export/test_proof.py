from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from app.manifest import LARGEST_TOLERANCE
from export.lowering.base import Lowered
from export.proof import Proof, ProofError, prove, random_documents
from models.architectures.rnn import RNNConfig
from models.architectures.skip import SkipLSTMConfig
from tests.export.lowered import NETWORKS, Pair, documents, lower_pair, pair
from tests.models.networks import random_network

REAL = documents(4, 30, 140)


def altered(lowered: Lowered, graph: str, change: Callable[[onnx.GraphProto], None]) -> Lowered:
    """The same model with one graph changed."""
    copy = onnx.ModelProto()
    copy.CopyFrom(lowered.graphs[graph])
    change(copy.graph)
    return replace(lowered, graphs={**lowered.graphs, graph: copy})


def initializers(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Weights of a graph and of the bodies in it."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from initializers(attribute.g)


def scale_weight(name: str, factor: float) -> Callable[[onnx.GraphProto], None]:
    def change(graph: onnx.GraphProto) -> None:
        (weight,) = [tensor for tensor in initializers(graph) if tensor.name == name]
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(factor), name))

    return change


def rename_output(old: str, new: str) -> Callable[[onnx.GraphProto], None]:
    def change(graph: onnx.GraphProto) -> None:
        (output,) = [value for value in graph.output if value.name == old]
        output.name = new
        (node,) = [node for node in graph.node if old in node.output]
        node.output[0] = new

    return change


@pytest.mark.parametrize("name", NETWORKS)
def test_lowered_network_is_proved(name: str) -> None:
    network = pair(name)
    proof = prove(network.model, network.lowered, REAL)
    assert proof.documents == 24 + 3
    assert 0 <= proof.probability_difference < 1e-5
    assert proof.batch_invariant
    assert (proof.decisions is None) != name.startswith(("leap", "skip", "skim", "jump"))
    assert proof.decisions in (None, proof.words)


@pytest.mark.parametrize(
    ("name", "graph", "weight"),
    [
        ("lstm", "read.onnx", "read/classifier.w"),
        ("f2s", "read.onnx", "read/group_2.r"),
        ("s2f_full", "read.onnx", "read/group_1.cells.w"),
        ("cifg", "read.onnx", "read/cell.w"),
        ("clstm", "read.onnx", "read/group_means.w"),
        ("clstm_both", "read_backward.onnx", "read_backward/classifier.w"),
        ("c_lstm", "read.onnx", "read/filters.b"),
        ("self_attentive", "read.onnx", "read/score_hops.w"),
        ("self_attentive", "read_backward.onnx", "read_backward/cell.w"),
        ("leap", "read.onnx", "read/classifier.b"),
        ("skip", "read.onnx", "reading/increment.w"),
        ("skip_trained_start", "read.onnx", "read/h_0"),
        ("skim", "read.onnx", "step/small.u"),
        ("jump", "read.onnx", "read/classifier.w"),
        ("skim", "read.onnx", "read_fully/candidate.w"),
        ("leap", "look_ahead.onnx", "look_ahead/decide_reverse.w"),
        ("leap", "look_ahead.onnx", "look_ahead/decide_end"),
    ],
)
def test_altered_weight_fails_the_proof(name: str, graph: str, weight: str) -> None:
    network = pair(name)
    wrong = altered(network.lowered, graph, scale_weight(weight, 1.05))
    with pytest.raises(ProofError, match=r"document \d+"):
        prove(network.model, wrong, REAL)


@pytest.mark.parametrize(
    ("name", "graph", "weight"),
    [
        ("leap", "look_ahead.onnx", "look_ahead/decide_word.b"),
        ("skip", "read.onnx", "reading/increment.w"),
        ("skim", "read.onnx", "step/decide.u"),
        ("jump", "read.onnx", "reading/jump.w"),
    ],
)
def test_flipped_decision_fails_the_proof(name: str, graph: str, weight: str) -> None:
    network = pair(name)
    wrong = altered(network.lowered, graph, scale_weight(weight, -3.0))
    with pytest.raises(ProofError, match=r"the decision differs, \S+ off a tie|keep probabilities by"):
        prove(network.model, wrong, REAL)


def test_nan_fails_the_proof() -> None:
    network = pair("lstm")
    wrong = altered(network.lowered, "read.onnx", scale_weight("read/classifier.w", float("nan")))
    with pytest.raises(ProofError, match="probabilities differ by nan"):
        prove(network.model, wrong, REAL)


def test_renamed_output_fails_the_proof() -> None:
    network = pair("f2s")
    wrong = altered(network.lowered, "read.onnx", rename_output("probabilities", "scores"))
    with pytest.raises(
        ProofError, match=r"read\.onnx: expected the outputs .*'probabilities'.*found .*'scores'"
    ):
        prove(network.model, wrong, REAL)


def test_undeclared_state_fails_the_proof() -> None:
    network = pair("lstm")
    (reading,) = network.lowered.passes
    wrong = replace(network.lowered, passes=(reading.model_copy(update={"states": reading.states[:1]}),))
    with pytest.raises(ProofError, match=r"read\.onnx: expected the inputs \['h', 'lengths', 'token_ids'\]"):
        prove(network.model, wrong, REAL)


def test_random_documents_hold_the_borders_of_segments() -> None:
    found = random_documents(50, 128, seed=0, whole=False)
    lengths = {len(document) for document in found}
    assert {1, 127, 128, 129, 256} <= lengths
    assert all(document.min() >= 1 for document in found)
    assert all(document.max() < 50 for document in found)


def test_proof_says_what_was_compared() -> None:
    proof = Proof(27, 4000, 3e-7, 1e-5, 1e-7, 4000, 0, batch_invariant=True)
    text = str(proof)
    assert text.startswith("27 documents, 4,000 words: largest difference to PyTorch 3.0e-07")
    assert "4,000 decisions equal; alone, batched and in segments bit-equal" in text
    close = str(replace(proof, decisions=3900, unsettled=2))
    assert (
        "3,900 decisions equal (2 documents up to a decision too close to a tie for float32); alone" in close
    )
    tolerant = replace(proof, decisions=None, batch_invariant=False)
    assert str(tolerant).endswith("alone, batched and in segments equal within the tolerance")


def test_proof_leaves_the_network_as_it_is() -> None:
    network = pair("lstm")
    before = {name: weight.clone() for name, weight in network.model.state_dict().items()}
    prove(network.model, network.lowered, REAL)
    assert all(torch.equal(weight, before[name]) for name, weight in network.model.state_dict().items())


@pytest.mark.parametrize("name", ["mode", "text_cnn"])
def test_other_windows_than_those_that_won_are_found(name: str) -> None:
    network = pair(name)

    def tell_the_losers(graph: onnx.GraphProto) -> None:
        node = next(node for node in graph.node if node.op_type == "ArgMax")  # the second one finds the label
        node.op_type = "ArgMin"

    with pytest.raises(ProofError, match=r"a window that is told is .* below the largest"):
        prove(network.model, altered(network.lowered, "read.onnx", tell_the_losers), REAL)


def chaotic(gain: float) -> Pair:
    """A plain RNN whose state grows by so much from word to word where tanh does not hold it."""
    model = random_network(RNNConfig(hidden=32), seed=3)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "weight_hh" in name:
                weight.normal_(std=gain / 32**0.5, generator=random)
    return lower_pair(model)


def test_what_a_chaotic_network_makes_of_rounding_is_granted_to_its_graph() -> None:
    network = chaotic(2)
    proof = prove(network.model, network.lowered, REAL)
    assert 1e-5 < proof.probability_difference <= proof.tolerance <= LARGEST_TOLERANCE


def test_network_whose_answers_float32_does_not_hold_is_refused() -> None:
    network = chaotic(4)
    with pytest.raises(ProofError, match=r"float32 does not hold this network's probabilities"):
        prove(network.model, network.lowered, REAL)


@pytest.mark.parametrize("increment", [0.02, 0.001, 0.0001])
def test_skip_lstm_that_reads_almost_nothing_is_proved(increment: float) -> None:
    """Its network adds the increment up word by word, in float32; its graph multiplies."""
    model = random_network(SkipLSTMConfig(hidden=6), seed=2)
    with torch.no_grad():
        model.get_parameter("increment.weight").mul_(0.05)
        model.get_parameter("increment.bias").fill_(math.log(increment / (1 - increment)))
    network = lower_pair(model)
    long = np.random.default_rng(2).integers(1, 50, 2500, dtype=np.int32)
    proof = prove(network.model, network.lowered, [*REAL, long])
    assert proof.keep_difference is not None
    assert proof.keep_difference < 1e-2
