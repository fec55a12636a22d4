"""The proof that an exported model is the trained one: every text the same answer, however it is run.

Checked on random and on real documents: whole and cut into segments of every length bucket, alone and in padded
batches; against PyTorch within `TOLERANCE`; for models that skip or skim, the same decision at every word; and for
models of windows, that the windows told are those that won.

A recurrent network may amplify rounding from word to word until float32 itself no longer holds `TOLERANCE`, as a plain
RNN does on long documents, and Skip LSTM adds thousands of small numbers up before it reads again. How far is measured
on each document, against the same network in float64, and the graph may be off by a few times as much there. Beyond
`LARGEST_TOLERANCE` nothing would be proved any more, and the network is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from app.manifest import LARGEST_TOLERANCE, PassSpec
from export.lowering.base import Lowered
from export.reading import Arrays, GraphReader, attention_of
from models.architectures.base import Architecture, Trace
from models.architectures.windows import WindowModel
from models.errors import ReadtraceTrainingError

TOLERANCE = 1e-5  # largest difference of a probability; float32 sums taken in another order give about 1e-6
_NOISE_FACTOR = 16.0  # the noise is one sample of what rounding does; another order of sums may do worse
_DECISIONS = {"skipped": "keep_probability", "skimmed": "read_probability"}  # what is decided, and by what
_RANDOM_DOCUMENTS = 24
_BATCH = 16

TokenIds = NDArray[np.int32]


class ProofError(ReadtraceTrainingError):
    """The exported model is not the trained one; the message says where and by how much."""


@dataclass(frozen=True)
class Proof:
    """What was compared, and the largest differences found."""

    documents: int
    words: int
    probability_difference: float
    tolerance: (
        float  # the largest that a document was granted: TOLERANCE, or more where float32 is worse than that
    )
    keep_difference: float | None  # of the probabilities that decide
    decisions: int | None  # compared, all equal
    unsettled: int  # documents that were compared up to a decision which float32 does not settle
    batch_invariant: bool  # bit-equal alone, in batches and in segments

    def __str__(self) -> str:
        decisions = "" if self.decisions is None else f", {self.decisions:,} decisions equal"
        if self.unsettled:
            decisions += f" ({self.unsettled} documents up to a decision too close to a tie for float32)"
        invariant = "bit-equal" if self.batch_invariant else "equal within the tolerance"
        return (
            f"{self.documents} documents, {self.words:,} words: largest difference to PyTorch "
            f"{self.probability_difference:.1e} (tolerance {self.tolerance:.0e}){decisions}; "
            f"alone, batched and in segments {invariant}"
        )


def prove(model: Architecture, lowered: Lowered, real: Sequence[TokenIds]) -> Proof:
    """Compare the graphs of a lowered model with the network they come from.

    Args:
        model: the network, with the word vectors as stored.
        lowered: its graphs.
        real: token ids of real documents.

    Raises:
        ProofError: a graph of another signature, an answer, decision or window that differs, or a network whose
            answers float32 does not hold.
    """
    reader = GraphReader(lowered.passes, lowered.graphs)
    for reading in lowered.passes:
        _check_signature(lowered.graphs[reading.graph], reading)
    longest = lowered.length_buckets[-1]
    whole = any(reading.whole for reading in lowered.passes)
    documents = [*random_documents(model.vocabulary, longest, 0, whole), *real]
    exact = copy.deepcopy(model).double()
    expected = [_expected(model, exact, document, n) for n, document in enumerate(documents)]
    alone = [reader.read([document], longest)[0] for document in documents]
    differences = [_difference(e, found, n) for n, (e, found) in enumerate(zip(expected, alone, strict=True))]
    if isinstance(model, WindowModel):
        for n, found in enumerate(alone):
            _check_windows(model, documents[n], n, found["last_word"])
    last = lowered.passes[-1]
    compared = [written.name for written in (*last.steps, *last.results)]
    invariant = True
    for segment in lowered.length_buckets:
        fitting = [n for n, document in enumerate(documents) if not whole or len(document) <= segment]
        for start in range(0, len(fitting), _BATCH):
            numbers = fitting[start : start + _BATCH]
            batch = reader.read([documents[n] for n in numbers], segment)
            for n, found in zip(numbers, batch, strict=True):
                _difference(expected[n], found, n)
                invariant &= all(np.array_equal(found[name], alone[n][name]) for name in compared)
    words = sum(len(document) for document in documents)
    decides = expected[0].decided is not None
    return Proof(
        documents=len(documents),
        words=words,
        probability_difference=max(one.probability for one in differences),
        tolerance=max(one.tolerance for one in expected),
        keep_difference=max(one.keep for one in differences) if decides else None,
        decisions=sum(one.words for one in differences) if decides else None,
        unsettled=sum(
            one.words < len(document) for one, document in zip(differences, documents, strict=True)
        ),
        batch_invariant=invariant,
    )


def random_documents(vocabulary: int, longest_segment: int, seed: int, whole: bool) -> list[TokenIds]:
    """Random words in lengths from 1 to three segments, the borders between segments among them; `whole`: to one."""
    random = np.random.default_rng(seed)
    lengths = {1, 2, 3, longest_segment - 1, longest_segment}
    if not whole:
        lengths |= {longest_segment + 1, 2 * longest_segment}
    most = longest_segment if whole else 3 * longest_segment
    lengths |= set(random.integers(1, most, _RANDOM_DOCUMENTS - len(lengths)).tolist())
    return [random.integers(1, vocabulary, length, dtype=np.int32) for length in sorted(lengths)]


@dataclass(frozen=True)
class _Expected:
    """What the network says of a document; `decided` names its decisions, `margin` is how far each is from a tie."""

    told: Arrays
    decided: str | None
    margin: NDArray[np.float32]
    tolerance: float
    keep_tolerance: (
        float  # of the probabilities that decide; a decision this close to a tie may fall either way
    )


@torch.inference_mode()
def _expected(model: Architecture, exact: Architecture, document: TokenIds, number: int) -> _Expected:
    trace, told = _told(model, document)
    decided = next((name for name in _DECISIONS if name in told), None)
    noise, keep_noise = _noise(told, _told(exact, document)[1], decided)
    tolerance, keep_tolerance = (max(TOLERANCE, _NOISE_FACTOR * one) for one in (noise, keep_noise))
    if not max(tolerance, keep_tolerance) <= LARGEST_TOLERANCE:
        raise ProofError(
            f"document {number} of {len(document)} words: float32 does not hold this network's probabilities, which "
            f"are {max(noise, keep_noise):.1e} off those in float64; expected at most "
            f"{LARGEST_TOLERANCE / _NOISE_FACTOR:.1e}, or no two machines would give the same answer. Did the training "
            "diverge? A lower training.learning_rate may help"
        )
    return _Expected(told, decided, _margin(trace, told, decided), tolerance, keep_tolerance)


def _told(model: Architecture, document: TokenIds) -> tuple[Trace, Arrays]:
    token_ids = torch.from_numpy(document.astype(np.int64))[None]
    trace = model.trace(token_ids, torch.tensor([len(document)]))
    told: Arrays = {"probabilities": torch.softmax(trace.logits, dim=-1)[0].numpy()}
    for name in (*_DECISIONS, *_DECISIONS.values(), "forgetting_rates", "attention", "half_logits"):
        values: torch.Tensor | None = getattr(trace, name)
        if values is not None:
            told[name] = values[0].numpy()
    return trace, told


def _noise(single: Arrays, double: Arrays, decided: str | None) -> tuple[float, float]:
    """How far probabilities, and those that decide, are in float32 from float64, up to a decision that differs."""
    end, keep = len(single["probabilities"]), 0.0
    if decided is not None:
        (flipped,) = np.nonzero(single[decided] != double[decided])
        end = int(flipped[0]) if len(flipped) else end
        if (name := _DECISIONS[decided]) in single:
            keep = _largest(
                double[name][: end + 1], single[name][: end + 1]
            )  # what led to it is still the same
    return _largest(double["probabilities"][:end], single["probabilities"][:end]), keep


def _margin(trace: Trace, told: Arrays, decided: str | None) -> NDArray[np.float32]:
    """How far in probability the decision on each word is from a tie, `(length,)`."""
    margin: NDArray[np.float32]
    if trace.decision_margin is not None:
        margin = trace.decision_margin[0].numpy()
        return margin
    if decided is None:
        return np.zeros(len(told["probabilities"]), dtype=np.float32)
    margin = np.abs(told[_DECISIONS[decided]].astype(np.float32) - np.float32(0.5))
    return margin


class _Difference(NamedTuple):
    """The largest ones in a document."""

    probability: float
    keep: float  # of the probabilities that decide
    words: int  # that were compared


def _difference(expected: _Expected, found: Arrays, document: int) -> _Difference:
    """Compare a document's reading with what is expected.

    A decision that float32 cannot settle ends the comparison at its word: what follows reads another text.
    """
    told, decided = expected.told, expected.decided
    end = len(told["probabilities"])
    keep = 0.0
    if decided is not None:
        (flipped,) = np.nonzero(told[decided] != found[decided])
        if len(flipped):
            word = int(flipped[0])
            if expected.margin[word] > expected.keep_tolerance:
                raise ProofError(
                    f"document {document}, word {word}: the decision differs, {expected.margin[word]:.1e} off a tie"
                )
            end = word
        if (name := _DECISIONS[decided]) in told:
            keep = _largest(told[name][:end], found[name][:end])
    probability = _largest(told["probabilities"][:end], found["probabilities"][:end])
    rates = attention = halves = 0.0
    if "forgetting_rates" in told:
        rates = _largest(told["forgetting_rates"], found["forgetting_rates"])
    if "attention" in told:
        attention = _largest(told["attention"], attention_of(found))
    if "half_logits" in told:  # not bounded as the others are
        halves = _largest(told["half_logits"], found["half_logits"]) / (1 + np.abs(told["half_logits"]).max())
    others = np.max([probability, rates, attention, halves])
    if not (others <= expected.tolerance and keep <= expected.keep_tolerance):  # NaN fails too
        raise ProofError(
            f"document {document} of {len(told['probabilities'])} words: probabilities differ by "
            f"{probability:.1e}, keep probabilities by {keep:.1e}, forgetting rates by {rates:.1e}, "
            f"attention by {attention:.1e}, logits of the halves by {halves:.1e}; "
            f"the tolerance is {expected.tolerance:.0e}, of keep probabilities {expected.keep_tolerance:.0e}"
        )
    return _Difference(probability, keep, end)


@torch.inference_mode()
def _check_windows(
    model: WindowModel, document: TokenIds, number: int, last_word: NDArray[np.generic]
) -> None:
    """The windows that a graph tells won in the network too, up to ties that float32 cannot settle.

    Raises:
        ProofError: they did not.
    """
    words = len(document)
    token_ids = torch.from_numpy(document.astype(np.int64))[None]
    told = torch.from_numpy(last_word.astype(np.int64))[None]
    inside = told.clamp(0, words - 1)
    shortfall = float(model.shortfall(token_ids, torch.tensor([words]), inside).max())
    if not (torch.equal(told, inside) and shortfall <= TOLERANCE):
        raise ProofError(
            f"document {number} of {words} words: a feature of a window that is told is {shortfall:.1e} below the "
            f"largest; the tolerance is {TOLERANCE:.0e}"
        )


def _largest(expected: NDArray[np.generic], found: NDArray[np.generic]) -> float:
    return float(np.abs(expected.astype(np.float64) - found.astype(np.float64)).max(initial=0.0))


def _check_signature(graph: onnx.ModelProto, reading: PassSpec) -> None:
    """The graph's inputs and outputs are those that the manifest declares.

    Raises:
        ProofError: a name is missing or unexpected.
    """
    onnx.checker.check_model(graph, full_check=True)
    inputs = {"token_ids", "lengths", *reading.reads, *(state.name for state in reading.states)}
    outputs = {value.name for value in (*reading.steps, *reading.results)}
    outputs |= {f"{state.name}_next" for state in reading.states}
    for what, expected, found in (
        ("inputs", inputs, {value.name for value in graph.graph.input}),
        ("outputs", outputs, {value.name for value in graph.graph.output}),
    ):
        if expected != found:
            raise ProofError(
                f"{reading.graph}: expected the {what} {sorted(expected)}, found {sorted(found)}"
            )
