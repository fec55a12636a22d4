"""Every architecture from a labelled file to an explained answer, a stage at a time.

A stage is done once per architecture and kept for the next one; the last ones share one server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import httpx
import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from rich.console import Console
from safetensors.torch import load_file

from app.bundle import CARD, read_manifest
from app.manifest import Manifest
from export.command import ExportOptions, export_run
from models.architectures.base import ModelConfig
from models.architectures.clstm import CLSTMConfig
from models.architectures.encoder_alone import EncoderAloneConfig
from models.architectures.hl_mtgru import HLMTGRUConfig
from models.architectures.jump import LSTMJumpConfig
from models.architectures.mtlstm import MTLSTMConfig
from models.architectures.registry import AnyModelConfig
from models.architectures.text_cnn import TextCNNConfig
from models.architectures.windows import WindowConfig
from models.commands import evaluate_file, resume
from models.data.batches import Batch
from models.training import trainer
from models.training.run_folder import METRICS, WEIGHTS, RunFolder
from models.training.trainer import Trainer
from tests.architectures import VARIANTS
from tests.models.tiny_run import OPTIONS, tiny_run, write_documents
from tests.service import running_server

QUIET = Console(quiet=True)
EPOCHS = 8
EVERY = pytest.mark.parametrize("name", VARIANTS)
# a document with an answer that turns, one shorter than every window, one of two segments
TEXTS = ("word1 good word2 word3 bad word4 word5 good word6", "bad", "word1 good word2 bad " * 40)
OF_THE_LOSS = {"orthogonality"}  # options that leave the network as it is; golden cases judge them
ALWAYS = {"index", "label", "score", "probs", "num_classes", "truncated", "steps"}

Json = dict[str, Any]


def config_types() -> list[type[ModelConfig]]:
    """Of all architectures that can read word vectors."""
    union, _ = get_args(AnyModelConfig)
    return [kind for kind in get_args(union) if kind is not EncoderAloneConfig]


def choices(kind: type[ModelConfig]) -> Iterator[tuple[str, set[object]]]:
    """The options of an architecture that choose between forms, with their values."""
    for option, field in kind.model_fields.items():
        if option in ModelConfig.model_fields or option in OF_THE_LOSS:
            continue
        if get_origin(field.annotation) is Literal:
            yield option, set(get_args(field.annotation))
        elif field.annotation is bool:
            yield option, {False, True}


@pytest.mark.parametrize("kind", config_types(), ids=lambda kind: kind.__name__)
def test_table_has_every_form(kind: type[ModelConfig]) -> None:
    configs = [variant.config for variant in VARIANTS.values() if isinstance(variant.config, kind)]
    assert configs, f"{kind.__name__} is not in tests/architectures.py"
    for option, values in choices(kind):
        assert {getattr(config, option) for config in configs} == values, option


class Stages:
    """What each stage makes of each architecture, made when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.train_file = write_documents(root / "train.csv")
        self.test_file = write_documents(root / "test.csv", count=60, seed=5)
        self.run = cache(self._run)
        self.bundle = cache(self._bundle)

    @property
    def bundles(self) -> Path:
        """The folder of the bundles."""
        return self.root / "bundles"

    def _run(self, name: str) -> RunFolder:
        """Trained and evaluated."""
        settings = (f"training.epochs={EPOCHS}", f"training.patience={EPOCHS}")
        folder = tiny_run(self.train_file, self.root / "runs" / name, name, *settings)
        evaluate_file(folder.path, self.test_file, None, None, OPTIONS, QUIET)
        return folder

    def _bundle(self, name: str) -> Manifest:
        """Exported with proof, and read back with all checks."""
        return read_manifest(
            export_run(self.run(name).path, ExportOptions(name, bundles=self.bundles), QUIET)
        )


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # networks this small lose more by a second thread than they gain
    with pytest.MonkeyPatch.context() as patch:
        # a picture takes longer to draw than such a network to train
        patch.setattr(trainer, "draw_curves", lambda lines, title, path: path.touch())
        yield Stages(tmp_path_factory.mktemp("stages"))
    torch.set_num_threads(threads)


@EVERY
def test_it_learns_the_task(stages: Stages, name: str) -> None:
    folder = stages.run(name)
    lines = [json.loads(line) for line in (folder.path / METRICS).read_text(encoding="utf-8").splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, EPOCHS + 1))
    ((_, report),) = folder.evaluations()
    accuracy = report["accuracy"]
    assert isinstance(accuracy, float)
    assert accuracy >= 0.75  # of 60 documents, half of which guessing gets right


@EVERY
def test_interrupted_run_goes_on_to_the_result_of_an_unbroken_one(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    unbroken = tiny_run(stages.train_file, tmp_path / "unbroken", name, "training.epochs=1")
    step = Trainer._step

    def interrupt(self: Trainer, batch: Batch) -> tuple[float, float | None]:
        if self.position.batch == 8:
            raise KeyboardInterrupt
        return step(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "_CHECKPOINT_SECONDS", -1.0)
        patch.setattr(Trainer, "_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tiny_run(stages.train_file, tmp_path / "interrupted", name, "training.epochs=1")
    interrupted = RunFolder(tmp_path / "interrupted")
    assert not (interrupted.path / METRICS).exists()
    resume(interrupted.path, OPTIONS, QUIET)
    assert (interrupted.path / METRICS).read_bytes() == (unbroken.path / METRICS).read_bytes()
    expected, found = load_file(unbroken.path / WEIGHTS), load_file(interrupted.path / WEIGHTS)
    assert found.keys() == expected.keys()
    for key, tensor in found.items():
        assert torch.equal(tensor, expected[key]), key


@EVERY
def test_it_is_exported_with_proof(stages: Stages, name: str) -> None:
    manifest, record = stages.bundle(name), stages.run(name).record()
    assert (manifest.name, manifest.architecture) == (name, record.config.model.architecture)
    assert manifest.labels == ("negative", "positive")
    assert manifest.polarity == (-1.0, 1.0)
    assert (manifest.sizes["vocabulary"], manifest.sizes["embedding"]) == record.embedding_shape
    options = VARIANTS[name].config.model_dump(mode="json", exclude=set(ModelConfig.model_fields))
    kept = {option: manifest.sizes.get(option, value) for option, value in options.items()}
    assert kept | {"architecture": manifest.architecture} == options
    ((_, report),) = stages.run(name).evaluations()
    assert manifest.training.metrics["test"]["accuracy"] == report["accuracy"]
    folder = stages.bundles / name / "1"
    for path in folder.glob("*.onnx"):
        onnx.checker.check_model(onnx.load(path), full_check=True)
    assert ": largest difference to PyTorch " in (folder / CARD).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def client(stages: Stages, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """Of one server with the bundles of all architectures that were selected to be tested."""
    for name in VARIANTS:
        if any(item.name.endswith(f"[{name}]") for item in request.session.items):
            stages.bundle(name)
    # calibration stops at the smallest row counts: nobody waits here, and there are many models to measure
    with running_server(stages.bundles, max_run_seconds="0.0001") as server, server.client() as client:
        yield client


def classify(client: httpx.Client, name: str, texts: list[str], explain: str = "steps") -> list[Json]:
    asked = {"input": texts, "model": name, "explain": explain}
    answer = client.post("/classify", json=asked).raise_for_status().json()
    assert answer["model"] == f"{name}@1"
    documents: list[Json] = answer["data"]
    return documents


@EVERY
def test_service_explains_its_answers(client: httpx.Client, name: str) -> None:
    config, explained = VARIANTS[name].config, VARIANTS[name].explained
    for text, document in zip(TEXTS, classify(client, name, list(TEXTS)), strict=True):
        assert set(document) == ALWAYS | explained
        steps = document["steps"]
        assert [text[start:end] for start, end in steps["offsets"]] == text.split() == steps["tokens"]
        assert steps["probs"][-1] == document["probs"]
        assert np.sum(steps["probs"], axis=1) == pytest.approx(1, abs=1e-6)
        for field in explained:
            CHECKS[field](config, text, document)
    for document in classify(client, name, list(TEXTS), "summary"):
        assert set(document) == ALWAYS - {"steps"} | {"summary"} | explained


@EVERY
def test_causal_says_whether_a_step_is_the_answer_for_the_words_so_far(
    client: httpx.Client, name: str
) -> None:
    differences = []
    for text in TEXTS[:2]:
        words = text.split()
        prefixes = [" ".join(words[: count + 1]) for count in range(len(words))]
        documents = classify(client, name, prefixes)
        whole = documents[-1]
        assert whole["steps"]["causal"] == VARIANTS[name].causal
        answers = [after_each_word(document)[-1] for document in documents]
        differences.append(np.abs(answers - after_each_word(whole)).max())
    if VARIANTS[name].causal:
        assert max(differences) < 1e-6
    else:
        assert max(differences) > 1e-4


def after_each_word(document: Json) -> NDArray[np.float64]:
    """Probabilities of the classes, and of reading the word where a model skips or skims: `(time, values)`."""
    decided = (
        [document["skip_map"]["keep_probability"]]
        if "keep_probability" in document.get("skip_map", {})
        else []
    )
    decided += [document["skim_map"]["read_probability"]] if "skim_map" in document else []
    return np.column_stack([document["steps"]["probs"], *decided])


def check_groups(config: AnyModelConfig, text: str, document: Json) -> None:
    assert isinstance(config, MTLSTMConfig)
    groups, words = document["groups"], len(text.split())
    assert sum(groups["sizes"]) == config.hidden
    assert groups["periods"] == [2**k for k in range(len(groups["sizes"]))]
    assert groups["updates"] == [words // period for period in groups["periods"]]


def check_forgetting(config: AnyModelConfig, text: str, document: Json) -> None:
    """Equation 13 of the CLSTM paper bounds the rates of each group."""
    assert isinstance(config, CLSTMConfig)
    rates = np.array(document["forgetting"]["rates"])  # (time, groups)
    assert rates.shape == (len(text.split()), config.groups)
    slowest = np.arange(config.groups) / config.groups
    assert ((rates >= slowest) & (rates <= slowest + 1 / config.groups)).all()
    assert document["forgetting"]["mean_rates"] == pytest.approx(rates.mean(axis=0), abs=1e-6)


def check_skip_map(config: AnyModelConfig, text: str, document: Json) -> None:
    """A skipped word leaves the answer as it was; where each word is decided on, the more probable is done."""
    skip_map, probs = document["skip_map"], document["steps"]["probs"]
    assert len(skip_map["skipped"]) == len(text.split())
    if not isinstance(config, LSTMJumpConfig):
        assert skip_map["skipped"] == [keep < 0.5 for keep in skip_map["keep_probability"]]
    assert skip_map["skip_rate"] == pytest.approx(np.mean(skip_map["skipped"]))
    for word in np.flatnonzero(skip_map["skipped"][1:]) + 1:
        assert probs[word] == probs[word - 1]


def check_skim_map(config: AnyModelConfig, text: str, document: Json) -> None:
    skim_map = document["skim_map"]
    assert len(skim_map["skimmed"]) == len(text.split())
    assert skim_map["skimmed"] == [read < 0.5 for read in skim_map["read_probability"]]
    assert skim_map["skim_rate"] == pytest.approx(np.mean(skim_map["skimmed"]))


def check_attention(config: AnyModelConfig, text: str, document: Json) -> None:
    attention, words = document["attention"], text.split()
    assert len(attention["weights"]) == len(words)
    assert sum(attention["weights"]) == pytest.approx(1, abs=1e-5)
    assert [one["weight"] for one in attention["top"]] == sorted(attention["weights"], reverse=True)[:5]
    for one in attention["top"]:
        assert one["token"] == words[one["index"]] == text[slice(*one["offset"])]


def check_halves(config: AnyModelConfig, text: str, document: Json) -> None:
    """Beside the bias, which is the same at every word, both halves make up the lead of the label in logits."""
    halves, probs = document["halves"], np.array(document["steps"]["probs"])
    assert isinstance(config, HLMTGRUConfig)
    assert sum(halves["units"]) == config.hidden
    assert halves["units"][1] == (config.slow_units or config.hidden // 2)
    assert halves["weights"][-1] == halves["final_weights"]
    winner = probs[-1].argmax()
    lead = np.log(probs[:, winner] / probs[:, 1 - winner]) / 2  # of two labels, over their mean
    bias = lead - np.sum(halves["weights"], axis=1)
    assert bias == pytest.approx(bias[-1], abs=1e-4)


def check_ngrams(config: AnyModelConfig, text: str, document: Json) -> None:
    ngrams, words = document["ngrams"], text.split()
    assert len(ngrams["share"]) == len(words)
    assert sum(ngrams["share"]) == pytest.approx(1, abs=1e-6)
    assert isinstance(config, WindowConfig)
    widest = max(config.filter_widths if isinstance(config, TextCNNConfig) else config.scales)
    for ngram in ngrams["top"]:
        assert 1 <= ngram["last"] - ngram["first"] + 1 <= widest
        assert ngram["text"].split() == words[ngram["first"] : ngram["last"] + 1]
        assert text[slice(*ngram["offset"])] == ngram["text"]
    weights = [abs(ngram["weight"]) for ngram in ngrams["top"]]
    assert weights == sorted(weights, reverse=True)


# what the service tells of a model besides its trace, and what must be true of it
CHECKS: Mapping[str, Callable[[AnyModelConfig, str, Json], None]] = {
    "halves": check_halves,
    "groups": check_groups,
    "forgetting": check_forgetting,
    "skip_map": check_skip_map,
    "skim_map": check_skim_map,
    "attention": check_attention,
    "ngrams": check_ngrams,
}
