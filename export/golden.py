"""`python -m export.golden FILE...`: networks and graphs against golden cases.

Per case the largest difference to the file's numbers: of PyTorch in float64 and in float32, where it is the larger
one of the plain cell and the network, and of the exported graph (`unserved`: a form that only the plain cell has).
What neither of them tells, such as the gates behind a state, is not compared and listed at the end by its name.
The exit status is 1 where a difference is beyond its tolerance, a case cannot be read or a file's model is not known, 2
where a file cannot be read or has no case.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from export.lowering.base import array
from export.lowering.registry import lower
from export.reading import GraphReader
from models.architectures.base import Trace
from models.architectures.windows import WindowModel
from models.errors import DataError
from models.golden import losses, plain
from models.golden.cases import Case, read_cases
from models.golden.networks import has_network, load
from models.golden.plain import Values
from models.text.storage import store_vectors

FLOAT64_TOLERANCE, FLOAT32_TOLERANCE, GRAPH_TOLERANCE = 1e-12, 1e-5, 1e-5


@dataclass(frozen=True)
class Differences:
    """The largest differences of one case.

    Attributes:
        float64: of PyTorch, like the next.
        float32: likewise.
        graph: of the exported graph; None for a form that only the plain cell has.
        left_out: the names of the file's values that nothing here tells.
    """

    float64: float
    float32: float
    graph: float | None
    left_out: frozenset[str]

    @property
    def passed(self) -> bool:
        """Whether all are within their tolerances; NaN is not."""
        graph = 0.0 if self.graph is None else self.graph
        return (
            self.float64 <= FLOAT64_TOLERANCE
            and self.float32 <= FLOAT32_TOLERANCE
            and graph <= GRAPH_TOLERANCE
        )


def compare(case: Case) -> Differences:
    """Read a case in every way that there is.

    Raises:
        ValueError: it has nothing that can be compared, or values at some words only.
    """
    case.check()
    return Differences(
        _torch_difference(case),
        _torch_difference(case.to(torch.float32)),
        _graph_difference(case.to(torch.float32)) if has_network(case) else None,
        frozenset(case.names() - plain.read(case, 0).keys() - {"t"}),  # t counts the words
    )


def _torch_difference(case: Case) -> float:
    sequences = range(len(case.sequences))
    differences = [_difference(case, n, plain.read(case, n)) for n in sequences]
    if has_network(case):
        differences += [_difference(case, n, values) for n, values in enumerate(_network_values(case))]
    return _largest([*differences, *_loss_differences(case)])


@torch.inference_mode()
def _loss_differences(case: Case) -> list[float]:
    """Relative ones: a penalty is a sum of squares."""
    return [abs(float(found) - value) / max(1.0, abs(value)) for found, value in losses.read(case)]


@torch.inference_mode()
def _network_values(case: Case) -> list[Values]:
    """What the network gives, per sequence."""
    model = load(case)
    _, ids, lengths = case.padded()
    trace = model.trace(ids, lengths)
    found = [_traced(trace, row, length) for row, length in enumerate(lengths.tolist())]
    if isinstance(model, WindowModel):
        for values, last_word in zip(found, model.winners(ids, lengths).last_word, strict=True):
            values["argmax_t"] = last_word + 1
    return found


def _traced(trace: Trace, row: int, length: int) -> Values:
    """One row of a network's trace, by the names of the golden files."""
    logits = trace.logits[row, :length]
    values = {"logits": logits, "probs": torch.softmax(logits, dim=-1)}
    if trace.skipped is not None and trace.keep_probability is not None:
        keep = trace.keep_probability[row, :length]
        skipped = trace.skipped[row, :length]
        values |= {"skip": skipped, "pi": torch.stack([keep, 1 - keep], dim=1)}  # Leap-LSTM's names
        values |= {"u": ~skipped, "u_tilde": keep}  # Skip LSTM's
    if trace.skimmed is not None and trace.read_probability is not None:
        read = trace.read_probability[row, :length]
        skimmed = trace.skimmed[row, :length]
        values |= {"y": torch.stack([~skimmed, skimmed], dim=1), "p": torch.stack([read, 1 - read], dim=1)}
    return values


def _graph_difference(case: Case) -> float:
    model = load(case)
    lowered = lower(model, store_vectors(array(model.embedding.weight), "float32"))
    _, ids, lengths = case.padded()
    rows = [row[:length].numpy().astype(np.int32) for row, length in zip(ids, lengths.tolist(), strict=True)]
    found = GraphReader(lowered.passes, lowered.graphs).read(rows, lowered.length_buckets[0])
    differences = []
    for sequence, arrays in enumerate(found):
        written = {name: torch.from_numpy(values)[None] for name, values in arrays.items()}
        told = ("keep_probability", "skipped", "skimmed", "read_probability")
        trace = Trace(written["logits"], **{name: written[name] for name in told if name in written})
        values = _traced(trace, 0, len(rows[sequence])) | {"probs": written["probabilities"][0]}
        if "last_word" in written:
            values["argmax_t"] = written["last_word"][0] + 1
        differences.append(_difference(case, sequence, values))
    return _largest(differences)


def _difference(case: Case, sequence: int, found: Values) -> float:
    """Over the values that the file has too; the class logits or probabilities must be among them.

    A window that won a feature in place of the file's is off by at least one word.
    """
    told = [name for name in found if case.has(sequence, name)]
    ends = {name: end for name in found if (end := case.final(sequence, name)) is not None}
    if not {"logits", "probs"} & {*told, *ends}:
        raise ValueError(f"case {case.name}: expected logits or probs, found neither")
    distances = [_distance(found[name], case.expected(sequence, name)) for name in told]
    for name, end in ends.items():
        whole = name == "argmax_t"  # not a value per word: the windows that won, of all scales
        distances.append(_distance(found[name], end.flatten()) if whole else _distance(found[name][-1], end))
    return _largest(distances)


def _distance(found: Tensor, expected: Tensor) -> float:
    if found.shape != expected.shape:
        raise ValueError(f"expected values of shape {tuple(found.shape)}, found {tuple(expected.shape)}")
    return float((found.to(torch.float64) - expected).abs().max())


def _largest(differences: Sequence[float]) -> float:
    return float(np.max(differences))  # unlike max, it keeps a NaN


def main(files: Sequence[str]) -> int:
    """Compare all cases of the files, print a line for each, and return the exit status."""
    if not files:
        print("usage: python -m export.golden FILE...", file=sys.stderr)
        return 2
    try:
        cases = [case for name in files for case in read_cases(Path(name))]
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{'case':<44} {'float64':>9} {'float32':>9} {'graph':>9}")
    known = [case for case in cases if case.model in plain.READERS]
    found = [_show(case) for case in known]
    unknown = sorted({case.model for case in cases} - {case.model for case in known})
    if unknown:
        print(f"unknown models: {', '.join(unknown)}")
    left_out: dict[str, set[str]] = {}
    for case, differences in zip(known, found, strict=True):
        left_out.setdefault(case.model, set()).update(differences.left_out if differences else ())
    for model, names in left_out.items():
        if names:
            print(f"not compared: {model} {', '.join(sorted(names))}")
    passed = sum(differences is not None and differences.passed for differences in found)
    print(f"{passed} of {len(cases)} cases passed")
    return 0 if len(cases) == passed else 1


def _show(case: Case) -> Differences | None:
    title = f"{case.model} {case.name}"
    try:
        differences = compare(case)
    except Exception as error:  # a case of another form than its model's fails wherever that is noticed
        print(f"{title:<44} cannot be read: {type(error).__name__}: {error}")
        return None
    graph = f"{differences.graph:9.1e}" if differences.graph is not None else f"{'unserved':>9}"
    verdict = "" if differences.passed else "  MISSED"
    print(f"{title:<44} {differences.float64:9.1e} {differences.float32:9.1e} {graph}{verdict}")
    return differences


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
