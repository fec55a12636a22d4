"""Models on a pretrained encoder, from the run to the answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
import torch
from rich.console import Console

from app.bundle import read_manifest
from export.command import ExportOptions, export_run
from export.lowering import encoder as lowering
from export.lowering.registry import lower
from export.proof import prove
from export.reading import GraphReader
from models.architectures.clstm import CLSTMConfig
from models.architectures.encoder_alone import EncoderAloneConfig
from models.architectures.gru import GRUConfig
from models.architectures.hl_mtgru import HLMTGRUConfig
from models.architectures.mode import MODELSTMConfig
from models.architectures.mtgru import MTGRUConfig
from models.architectures.registry import AnyModelConfig, build
from models.architectures.text_cnn import TextCNNConfig
from models.text.encoder import PretrainedEncoder, read_encoder
from tests.models.tiny_encoder import POSITIONS, SIZE, Kind, write_encoder
from tests.models.tiny_run import tiny_run, write_documents
from tests.service import Server, running_server

CONFIGS: dict[str, AnyModelConfig] = {
    "gru": GRUConfig(hidden=6),
    "mtgru_both": MTGRUConfig(hidden=5, tau=1.3, bidirectional=True),
    "hl_mtgru": HLMTGRUConfig(hidden=7, tau_slow=1.5),
    "clstm": CLSTMConfig(hidden=6),
    "mode_lstm": MODELSTMConfig(scales=(2, 5), state_size=3, mlp=4),
    "text_cnn": TextCNNConfig(filters=3, mlp=4),
    "encoder_first": EncoderAloneConfig(),
    "encoder_mean": EncoderAloneConfig(pooling="mean"),
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> PretrainedEncoder:
    return read_encoder(write_encoder(tmp_path_factory.mktemp("bert"))).eval()


@pytest.fixture(scope="module")
def once() -> Iterator[None]:
    """Every model of these tests stands on the same encoder, whose export takes seconds."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lowering, "export_encoder", cache(lowering.export_encoder))
        yield


@pytest.mark.usefixtures("once")
@pytest.mark.parametrize("name", CONFIGS)
def test_graphs_on_an_encoder_give_the_networks_answers(encoder: PretrainedEncoder, name: str) -> None:
    torch.manual_seed(1)
    model = build(CONFIGS[name].model_copy(update={"init_range": 0.5}), encoder, 3).eval()
    lowered = lower(model)
    assert lowered.passes[0].name == "encode"
    assert lowered.passes[0].whole
    assert not lowered.trace.causal
    assert (lowered.length_buckets, lowered.longest_document) == ((16, POSITIONS), POSITIONS)
    proof = prove(model, lowered, [np.array([2, 4, 5, 6, 3], np.int32)])
    assert proof.batch_invariant


@pytest.mark.parametrize("kind", ["albert", "distilbert"])
def test_other_encoders_are_exported_like_bert(tmp_path: Path, kind: Kind) -> None:
    encoder = read_encoder(write_encoder(tmp_path, kind)).eval()
    graph = lowering.export_encoder(encoder, "features")
    assert not any(node.metadata_props or node.doc_string for node in graph.graph.node)
    model = build(EncoderAloneConfig(), encoder, 2).eval()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lowering, "export_encoder", lambda *_: graph)
        lowered = lower(model)
    ids = [np.arange(2, 20, dtype=np.int32), np.array([2, 5, 3], np.int32)]
    found = GraphReader(lowered.passes, lowered.graphs).read(ids, POSITIONS)
    for document, arrays in zip(ids, found, strict=True):
        with torch.inference_mode():
            rows = torch.from_numpy(document.astype(np.int64))[None]
            expected = encoder(rows, torch.tensor([len(document)]))[0].numpy()
        assert np.abs(arrays["features"].astype(np.float32) - expected).max() < 1e-5


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("encoder")
    data = write_documents(root / "train.csv", 100)
    folder = write_encoder(root / "bert")
    run = tiny_run(
        data,
        root / "run",
        "hl_mtgru",
        f"encoder.folder={folder}",
        "training.word_dropout=0",
        "training.frozen_epochs=1",
        "training.epochs=2",
    )
    export_run(run.path, ExportOptions("halves", bundles=root / "bundles"), Console(quiet=True))
    return root / "bundles"


@pytest.fixture(scope="module")
def server(bundles: Path) -> Iterator[Server]:
    with running_server(bundles) as started:
        yield started


def test_manifest_says_that_the_encoder_reads_whole_documents(bundles: Path) -> None:
    folder = bundles / "halves" / "1"
    manifest = read_manifest(folder)
    assert [reading.whole for reading in manifest.passes] == [True, False]
    assert manifest.longest_document == manifest.length_buckets[-1] == POSITIONS
    assert manifest.unknown_id == 1
    assert manifest.sizes["embedding"] == SIZE
    assert "embedding_storage" not in manifest.sizes
    card = (folder / "card.md").read_text(encoding="utf-8")
    assert "- **Encoder**: bert: encoder of " in card
    assert str(bundles.parent) not in card
    assert manifest.halves is not None
    assert [half.units for half in manifest.halves] == [7, 6]
    assert b"/" not in b"".join(
        node.doc_string.encode() for node in onnx.load(folder / "encode.onnx").graph.node
    )


def test_answer_marks_added_tokens_and_tells_the_halves(server: Server) -> None:
    text = "word3, a GOOD film!"
    with server.client() as client:
        (model,) = client.get("/v1/models").json()["data"]
        (found,) = client.post("/classify", json={"input": text}).json()["data"]
        (brief,) = client.post("/classify", json={"input": text, "explain": "summary"}).json()["data"]
    assert model["explains"]["halves"]
    assert not model["explains"]["trace"]["causal"]
    steps, halves = found["steps"], found["halves"]
    assert not steps["causal"]
    assert steps["tokens"] == ["[CLS]", "word", "3", ",", "a", "GOOD", "film", "!", "[SEP]"]
    assert steps["offsets"][0] == [0, 0]
    assert steps["offsets"][-1] == [len(text), len(text)]
    for token, (start, end) in zip(steps["tokens"][1:-1], steps["offsets"][1:-1], strict=True):
        assert text[start:end] == token
    assert steps["probs"][-1] == found["probs"]
    assert halves["weights"][-1] == halves["final_weights"]
    assert len(halves["weights"]) == len(steps["tokens"])
    assert "weights" not in brief["halves"]


def test_halves_add_up_to_the_lead_of_the_label_up_to_the_bias(server: Server) -> None:
    """Of two labels the winner's logit lies half their difference over the mean; the bias is the same for all texts."""
    texts = ["good", "bad film", "word7 a good film ."]
    with server.client() as client:
        answers = client.post("/classify", json={"input": texts, "raw_scores": True}).json()["data"]
    biases = []
    for found in answers:
        scores = np.array(found["raw_scores"])
        lead = scores.max() - scores.mean()
        sign = 1 if found["label"] == "positive" else -1
        biases.append(sign * (lead - sum(found["halves"]["final_weights"])))
    np.testing.assert_allclose(biases, biases[0], atol=1e-5)


def test_document_beyond_the_positions_is_refused_or_cut_between_added_tokens(server: Server) -> None:
    text = "good " * 15 + "bad " * 15
    with server.client() as client:
        refused = client.post("/classify", json={"input": text})
        cut = {
            side: client.post("/classify", json={"input": text, "truncate": side}).json()["data"][0]
            for side in ("left", "right")
        }
    assert refused.status_code == 422
    assert f"The document has 32 tokens; expected at most {POSITIONS}" in refused.json()["detail"]
    assert cut["right"]["steps"]["tokens"] == ["[CLS]", *["good"] * 15, *["bad"] * 7, "[SEP]"]
    assert cut["left"]["steps"]["tokens"] == ["[CLS]", *["good"] * 7, *["bad"] * 15, "[SEP]"]
    assert all(found["truncated"] for found in cut.values())


def test_empty_document_is_refused_though_the_tokenizer_adds_tokens(server: Server) -> None:
    with server.client() as client:
        found = client.post("/classify", json={"input": "  "})
    assert found.json()["type"] == "/problems/empty-document"


@pytest.mark.parametrize("kind", ["alone", "together"])
def test_batch_mates_change_no_bit(server: Server, kind: Literal["alone", "together"]) -> None:
    texts = ["good film", "bad", "word3 a film . ! good good bad word1 word2 word3", "a"]
    with server.client() as client:
        asked = [[text] for text in texts] if kind == "alone" else [texts]
        found = [client.post("/classify", json={"input": one}).json()["data"] for one in asked]
        expected = client.post("/classify", json={"input": texts[::-1]}).json()["data"][::-1]
    assert [one["probs"] for part in found for one in part] == [one["probs"] for one in expected]
