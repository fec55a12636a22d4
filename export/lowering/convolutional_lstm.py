"""What C-LSTM's layer reads: the features of the windows that end at each word, the words before a segment carried."""

from __future__ import annotations

from app.manifest import TensorSpec
from export.graph import Graph
from export.lowering.base import embed, state_input
from export.lowering.text_cnn import filters
from export.lowering.windows import PreviousWords
from models.architectures.convolutional_lstm import ConvolutionalLSTM
from models.text.storage import StoredVectors


def read_words(
    graph: Graph, model: ConvolutionalLSTM, embedding: StoredVectors, token_ids: str
) -> tuple[str, dict[TensorSpec, str]]:
    """The features `[length, rows, filters]`, and the state that they need, with its value after the segment."""
    (width,) = model.filters.kernel_size
    previous = PreviousWords(width)
    ids = previous.before(graph, state_input(graph, previous.state), token_ids)
    reached = graph.slice(embed(graph, embedding, ids), previous.count - (width - 1), axis=0)
    features = graph.op("Relu", filters(graph, model.filters, "filters", reached))
    return features, {previous.state: previous.after(graph, ids)}
