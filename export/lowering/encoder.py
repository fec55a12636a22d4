"""A model on a pretrained encoder: the pass `encode` gives the features of all tokens, and later passes read them.

The encoder looks at the whole document at once, so its pass is never cut into segments, and the largest bucket is the
longest document. Its graph is PyTorch's own export; padding is masked.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import replace

import onnx
import torch
from torch import nn

from app.manifest import PassSpec, TensorSpec, TraceSpec
from export.graph import IR_VERSION, OPSET
from export.lowering.base import LENGTH, ROWS, Lowered
from models.architectures.base import Architecture
from models.text.encoder import PretrainedEncoder

_BUCKETS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096)  # tokens of a document


def lower(model: Architecture, lower_reading: Callable[[Architecture, TensorSpec], Lowered]) -> Lowered:
    """The passes of a model, the encoder's first.

    Args:
        model: the network.
        lower_reading: lowers what stands on the encoder, given the features that it reads.
    """
    encoder = model.encoder
    assert encoder is not None
    features = TensorSpec(name="features", shape=(encoder.size,))
    encode = PassSpec(name="encode", graph="encode.onnx", whole=True, steps=(features,))
    read = lower_reading(model, features)
    return replace(
        read,
        passes=(encode, *read.passes),
        graphs={encode.graph: export_encoder(encoder, features.name), **read.graphs},
        trace=_after_encoder(read.trace),
        length_buckets=(*(size for size in _BUCKETS if size < encoder.positions), encoder.positions),
        longest_document=encoder.positions,
    )


def export_encoder(encoder: PretrainedEncoder, output: str) -> onnx.ModelProto:
    """The encoder as a graph from `token_ids` and `lengths` to its features."""
    rows, length = torch.export.Dim(ROWS), torch.export.Dim(LENGTH, max=encoder.positions)
    example = torch.ones(2, 8, dtype=torch.int64), torch.tensor([8, 5])
    quiet = logging.getLogger("torch.onnx")
    level = quiet.level
    quiet.setLevel(logging.ERROR)  # it tells of operators of packages that are not installed
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter about its own libraries
            program = torch.onnx.export(
                _Exported(encoder).eval(),
                example,
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                input_names=["token_ids", "lengths"],
                output_names=[output],
                dynamic_shapes={"token_ids": {0: rows, 1: length}, "lengths": {0: rows}},
            )
    finally:
        quiet.setLevel(level)
    assert program is not None
    graph = program.model_proto
    graph.ir_version = IR_VERSION
    _forget_origin(graph)
    onnx.checker.check_model(graph, full_check=True)
    return graph


class _Exported(nn.Module):
    """The encoder alone, with its tensors named as a pass has them."""

    def __init__(self, encoder: PretrainedEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, token_ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.encoder(token_ids, lengths)
        return features


def _forget_origin(model: onnx.ModelProto) -> None:
    """Leave out where in which source file a node came from: paths of this machine."""
    graph = model.graph
    for part in (
        model,
        graph,
        *graph.node,
        *graph.input,
        *graph.output,
        *graph.value_info,
        *graph.initializer,
    ):
        del part.metadata_props[:]
        part.doc_string = ""


def _after_encoder(trace: TraceSpec) -> TraceSpec:
    """What a trace means over features that have seen the whole text: a causal one is none any more."""
    told = (
        "after each token: what was read up to it; the last is the answer" if trace.causal else trace.meaning
    )
    return TraceSpec(causal=False, meaning=f"{told}. The encoder has seen the whole text at every token")
