"""What a team writes around an ONNX bundle: the same tokenizer and graph, one padded batch per call.

Runs in the peers' own environments, which have onnxruntime, tokenizers and numpy, and nothing of Readtrace.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer


class Reader:
    """A bundle of one forward pass, named by the variable BUNDLE."""

    def __init__(self) -> None:
        folder = Path(os.environ["BUNDLE"])
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self._pass = manifest["passes"][0]
        self._step: int = manifest["length_buckets"][0]
        self._labels: list[str] = manifest["labels"]
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        graph = str(folder / self._pass["graph"])
        self._session = ort.InferenceSession(graph, options, ["CPUExecutionProvider"])

    def read(self, texts: list[str]) -> list[dict[str, object]]:
        """Label and probabilities of every text."""
        ids = [self._tokenizer.encode(text).ids for text in texts]
        # Slow memory groups want whole periods, which every bucket is made of.
        length = -(-max(map(len, ids)) // self._step) * self._step
        token_ids = np.zeros((len(ids), length), np.int64)  # (rows, length)
        for row, one in zip(token_ids, ids, strict=True):
            row[: len(one)] = one
        lengths = np.array([len(one) for one in ids], np.int64)
        states = {
            state["name"]: np.zeros((len(ids), *state["shape"]), np.float32) for state in self._pass["states"]
        }
        feeds = {"token_ids": token_ids, "lengths": lengths, **states}
        (probabilities,) = self._session.run(["probabilities"], feeds)
        answers = [steps[length - 1] for steps, length in zip(probabilities, lengths, strict=True)]
        return [{"label": self._labels[int(answer.argmax())], "probs": answer.tolist()} for answer in answers]
