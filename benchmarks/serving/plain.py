"""What a team would write itself: FastAPI, the same tokenizer and graph, a run per request in the handler.

    uvicorn benchmarks.serving.plain:app    (READTRACE_BUNDLE names the bundle)

It answers with label and probabilities only, and serves models with one forward pass.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnxruntime as ort
from fastapi import FastAPI
from pydantic import BaseModel
from tokenizers import Tokenizer

from app.bundle import read_manifest

_FOLDER = Path(os.environ["READTRACE_BUNDLE"])
_MANIFEST = read_manifest(_FOLDER)
_TOKENIZER = Tokenizer.from_file(str(_FOLDER / "tokenizer.json"))
_OPTIONS = ort.SessionOptions()
_OPTIONS.intra_op_num_threads = 1
_SESSION = ort.InferenceSession(str(_FOLDER / _MANIFEST.passes[0].graph), _OPTIONS, ["CPUExecutionProvider"])
_MULTIPLE = _MANIFEST.length_buckets[0]

app = FastAPI()


class Question(BaseModel):
    """The request."""

    input: str
    model: str
    explain: str


class Reply(BaseModel):
    """The answer."""

    label: str
    probs: list[float]


@app.post("/classify")
def classify(question: Question) -> Reply:
    """Classify one text."""
    ids = _TOKENIZER.encode(question.input).ids
    padded = -(-len(ids) // _MULTIPLE) * _MULTIPLE
    token_ids = np.zeros((1, padded), np.int64)
    token_ids[0, : len(ids)] = ids
    states = {state.name: np.zeros((1, *state.shape), np.float32) for state in _MANIFEST.passes[0].states}
    feeds = {"token_ids": token_ids, "lengths": np.array([len(ids)], np.int64), **states}
    (probabilities,) = _SESSION.run(["probabilities"], feeds)
    answer = probabilities[0, len(ids) - 1]
    return Reply(label=_MANIFEST.labels[int(answer.argmax())], probs=answer.tolist())
