"""Reads documents with the exported graphs, plainly: the way of the proof and of golden answers.

The service has its own scheduler; this one runs given rows together, cut into segments of a given length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from app.manifest import PassSpec

Arrays = dict[str, NDArray[np.generic]]
_DTYPES = {"float32": np.float32, "int64": np.int64, "bool": np.bool_}


class GraphReader:
    """Sessions for the passes of a lowered model.

    Args:
        passes: the passes in order.
        graphs: file name -> graph.
    """

    def __init__(self, passes: Sequence[PassSpec], graphs: Mapping[str, onnx.ModelProto]) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self.passes = passes
        self.sessions = {
            reading.name: ort.InferenceSession(
                graphs[reading.graph].SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            for reading in passes
        }

    def read(self, rows: Sequence[NDArray[np.int32]], segment: int) -> list[Arrays]:
        """The step outputs and the results of documents that are run together.

        Args:
            rows: token ids of each document.
            segment: length of a segment; every document is padded to a multiple of it.

        Returns:
            Per document, step name -> `(length, …)`, and the name of a result -> `(…)`.
        """
        lengths = np.array([len(row) for row in rows])
        count = -(-int(lengths.max()) // segment)
        ids = np.zeros((len(rows), count * segment), dtype=np.int64)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = tokens
        steps: Arrays = {}
        results: Arrays = {}
        for reading in self.passes:
            written, results = self._pass(reading, ids, lengths, segment, steps)
            steps |= written
        return [
            {name: values[row, :length] for name, values in steps.items()}
            | {name: values[row] for name, values in results.items()}
            for row, length in enumerate(lengths)
        ]

    def _pass(
        self,
        reading: PassSpec,
        ids: NDArray[np.int64],
        lengths: NDArray[np.int64],
        segment: int,
        written: Arrays,
    ) -> tuple[Arrays, Arrays]:
        rows, padded = ids.shape
        state: Arrays = {s.name: np.zeros((rows, *s.shape), _DTYPES[s.dtype]) for s in reading.states}
        results: Arrays = {r.name: np.zeros((rows, *r.shape), _DTYPES[r.dtype]) for r in reading.results}
        steps: Arrays = {s.name: np.zeros((rows, padded, *s.shape), _DTYPES[s.dtype]) for s in reading.steps}
        starts = range(0, padded, segment)
        for start in starts if reading.direction == "forward" else reversed(starts):
            part = slice(start, start + segment)
            (active,) = np.nonzero(lengths > start)  # rows that have words in this segment
            active = np.resize(active, max(2, len(active)))  # a lone row is run twice, as the service pads it
            feeds: Arrays = {
                "token_ids": ids[active, part],
                "lengths": np.minimum(lengths[active] - start, segment),
                **{name: written[name][active, part] for name in reading.reads},
                **{name: value[active] for name, value in state.items()},
            }
            names = [output.name for output in self.sessions[reading.name].get_outputs()]
            found = dict(zip(names, self.sessions[reading.name].run(names, feeds), strict=True))
            for name in steps:
                steps[name][active, part] = found[name]
            for name in results:
                results[name][active] = found[name]
            for name in state:
                state[name][active] = found[f"{name}_next"]
        return steps, results


def attention_of(written: Arrays) -> NDArray[np.float32]:
    """The attention of each hop to every word `(length, hops)`, from the scores and their largest and sum."""
    score, largest, total = (
        written[f"attention_{name}"].astype(np.float32) for name in ("score", "largest", "sum")
    )
    attention: NDArray[np.float32] = np.exp(score - largest) / total
    return attention
