from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from torch import Tensor

from models.architectures.base import Answer, Architecture, WordSource
from models.architectures.leap import LeapLSTMConfig
from models.architectures.lstm import LSTM, LSTMConfig
from models.architectures.registry import build
from models.commands import RunOptions, choose_device, evaluate_file, train
from models.config import TrainingConfig
from models.errors import ConfigError, DataError, RunError
from models.preparation import Prepared, prepare
from models.text.tokenizer import UNKNOWN_ID
from models.training.run_folder import CURVES, METRICS, WEIGHTS, RunFolder
from models.training.trainer import Trainer
from tests.models.tiny_run import OPTIONS, tiny_config, tiny_run, write_documents

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("data") / "train.csv")


def metrics(folder: RunFolder) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder.path / METRICS).read_text(encoding="utf-8").splitlines()]


def test_curves_are_drawn(data: Path, tmp_path: Path) -> None:
    folder = tiny_run(data, tmp_path / "run", "lstm", "training.epochs=2")
    assert (folder.path / CURVES).read_bytes().startswith(b"\x89PNG")


def test_seed_decides_the_result(data: Path, tmp_path: Path) -> None:
    runs = [
        (tiny_run(data, tmp_path / name, "leap", f"training.seed={seed}", "training.epochs=1").path)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    a, b, c = ((run / METRICS).read_bytes() for run in runs)
    assert a == b
    assert a != c


@dataclass
class Recorder:
    """A progress that calls back after every batch."""

    after_batch: Callable[[], None] = lambda: None
    epochs: list[int] = field(default_factory=list)
    skip_rates: list[float | None] = field(default_factory=list)
    evaluations: list[dict[str, object]] = field(default_factory=list)

    def start_epoch(self, epoch: int, epochs: int, batches: int, done: int) -> None:
        self.epochs.append(epoch)

    def advance(self, documents: int, loss: float, skip_rate: float | None) -> None:
        self.skip_rates.append(skip_rate)
        self.after_batch()

    def evaluated(self, line: dict[str, object]) -> None:
        self.evaluations.append(line)


@pytest.fixture(scope="module")
def prepared(data: Path) -> Prepared:
    return prepare(tiny_config(data, "lstm"), Path(), None, QUIET)


def make_trainer(
    prepared: Prepared, out: Path, recorder: Recorder, model: Architecture | None = None, **changes: object
) -> Trainer:
    folder = RunFolder(out)
    folder.create(prepared.record, prepared.tokenizer)
    torch.manual_seed(1)
    network = model or build(prepared.record.config.model, prepared.words, 2)
    plain: dict[str, object] = {"word_dropout": 0.0, "average_decay": 0.0, "batch_size": 16}
    config = TrainingConfig.model_validate(plain | changes)
    return Trainer(network, config, prepared.train, prepared.dev, folder, recorder)


class Listening(LSTM):
    """Keeps what it is given to read in training."""

    def __init__(self, embedding: WordSource) -> None:
        super().__init__(LSTMConfig(hidden=4), embedding, 2)
        self.heard: list[tuple[Tensor, Tensor]] = []

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        if self.training:
            self.heard.append((token_ids, lengths))
        return super().forward(token_ids, lengths)


def unknown_share(heard: list[tuple[Tensor, Tensor]]) -> float:
    """The share of real words that are unknown; padding must still be padding."""
    unknown = words = 0
    for token_ids, lengths in heard:
        real = torch.arange(token_ids.shape[1]) < lengths.unsqueeze(1)
        assert (token_ids[~real] == 0).all()
        assert (token_ids[real] != 0).all()
        unknown += int((token_ids[real] == UNKNOWN_ID).sum())
        words += int(lengths.sum())
    return unknown / words


def test_leap_lstm_approaches_its_target_skip_rate(prepared: Prepared, tmp_path: Path) -> None:
    decided = {}
    for target in (0.2, 0.7):
        recorder = Recorder()
        torch.manual_seed(1)
        config = LeapLSTMConfig(
            hidden=12, reverse_hidden=4, filters=4, target_skip_rate=target, penalty=10, dropout=0.2
        )
        model = build(config, prepared.words, 2)
        out = tmp_path / str(target)
        make_trainer(prepared, out, recorder, model, epochs=8, patience=8, learning_rate=0.01).train()
        last = [rate for rate in recorder.skip_rates[-17:] if rate is not None]
        assert sum(last) / len(last) == pytest.approx(target, abs=0.1)
        decided[target] = recorder.evaluations[-1]["dev_skip_rate"]
    assert isinstance(decided[0.7], float)
    assert isinstance(decided[0.2], float)
    assert decided[0.7] > decided[0.2] + 0.2


def test_word_dropout_makes_a_share_of_the_real_words_unknown(prepared: Prepared, tmp_path: Path) -> None:
    model = Listening(prepared.words)
    make_trainer(prepared, tmp_path, Recorder(), model, word_dropout=0.3, epochs=2).train()
    assert unknown_share(model.heard) == pytest.approx(0.3, abs=0.03)


def test_schedule_masks_fewer_words_each_epoch(prepared: Prepared, tmp_path: Path) -> None:
    model = Listening(prepared.words)
    trainer = make_trainer(prepared, tmp_path, Recorder(), model, schedule_mask_start=0.45, epochs=3)
    trainer.train()
    size = trainer.batches_per_epoch
    shares = [unknown_share(model.heard[start : start + size]) for start in range(0, 3 * size, size)]
    assert shares == [pytest.approx(0.3, abs=0.04), pytest.approx(0.15, abs=0.04), 0]


def test_documents_are_cut_at_the_longest_in_training_only(data: Path) -> None:
    found = prepare(tiny_config(data, "lstm", "training.longest=5"), Path(), None, QUIET)
    assert int(found.train.lengths.max()) == 5
    assert found.train.shortened > 0
    assert int(found.dev.lengths.max()) > 5
    assert found.dev.shortened == 0


def test_training_stops_when_patience_is_used_up(prepared: Prepared, tmp_path: Path) -> None:
    recorder = Recorder()
    position = make_trainer(prepared, tmp_path, recorder, learning_rate=1e-12, patience=2, epochs=9).train()
    assert recorder.epochs == [1, 2, 3]
    assert (position.best_epoch, position.finished) == (1, True)
    assert [line["best"] for line in recorder.evaluations] == [True, False, False]


def test_epoch_is_evaluated_as_often_as_asked(prepared: Prepared, tmp_path: Path) -> None:
    recorder = Recorder()
    make_trainer(prepared, tmp_path, recorder, evaluations_per_epoch=4, epochs=1).train()
    epochs = [line["epoch"] for line in recorder.evaluations]
    assert len(epochs) == 4
    assert epochs[-1] == 1


def test_averaged_weights_are_the_exponential_moving_average(prepared: Prepared, tmp_path: Path) -> None:
    recorder = Recorder()
    trainer = make_trainer(prepared, tmp_path, recorder, average_decay=0.9, epochs=1)
    averages: dict[str, Tensor] = {}

    updates = count()

    def average() -> None:
        done = next(updates)
        decay = min(
            0.9, (1 + done) / (10 + done)
        )  # short at first, so that the initial weights are forgotten
        for name, weight in trainer.model.state_dict().items():
            averages[name] = decay * averages[name] + (1 - decay) * weight if done else weight.clone()

    recorder.after_batch = average
    trainer.train()
    for name, weight in load_file(tmp_path / WEIGHTS).items():
        torch.testing.assert_close(weight, averages[name])


def test_linear_schedule_ends_at_zero(prepared: Prepared, tmp_path: Path) -> None:
    recorder = Recorder()
    trainer = make_trainer(prepared, tmp_path, recorder, learning_rate=0.01, schedule="linear", epochs=2)
    rates: list[float] = []
    recorder.after_batch = lambda: rates.append(trainer.optimizer.param_groups[0]["lr"])
    trainer.train()
    steps = 2 * trainer.batches_per_epoch
    assert rates == [pytest.approx(0.01 * (1 - step / steps)) for step in range(steps)]


@pytest.mark.parametrize("rate", [0.0, 0.25])
def test_timescales_learn_at_their_own_rate(data: Path, tmp_path: Path, rate: float) -> None:
    """Also at none."""
    prepared = prepare(tiny_config(data, "hl_mtgru", f"model.tau_learning_rate={rate}"), Path(), None, QUIET)
    recorder = Recorder()
    trainer = make_trainer(prepared, tmp_path, recorder, learning_rate=0.01, frozen_epochs=1, epochs=2)
    own = trainer.model.own_learning_rates()
    begin = [parameter.item() for parameter in own]

    def check() -> None:
        for group in trainer.optimizer.param_groups:
            assert {parameter in own for parameter in group["params"]} == {group["lr"] == rate}

    recorder.after_batch = check
    trainer.train()
    assert ([parameter.item() for parameter in own] == begin) == (rate == 0)


@pytest.mark.parametrize("optimizer", ["adam", "adagrad", "adamw"])
def test_timescales_do_not_decay(data: Path, tmp_path: Path, optimizer: str) -> None:
    prepared = prepare(tiny_config(data, "hl_mtgru"), Path(), None, QUIET)
    trainer = make_trainer(prepared, tmp_path, Recorder(), optimizer=optimizer, weight_decay=0.5)
    own = trainer.model.own_learning_rates()
    decays = [
        (parameter in own, group["weight_decay"])
        for group in trainer.optimizer.param_groups
        for parameter in group["params"]
    ]
    assert {decay for is_own, decay in decays if is_own} == {0.0}
    assert 0.5 in {decay for is_own, decay in decays if not is_own}


def test_frozen_embedding_is_not_trained(data: Path, tmp_path: Path) -> None:
    prepared = prepare(tiny_config(data, "lstm", "model.tune_embedding=false"), Path(), None, QUIET)
    make_trainer(prepared, tmp_path, Recorder(), epochs=1).train()
    saved = load_file(tmp_path / WEIGHTS)["embedding.weight"]
    assert isinstance(prepared.words, Tensor)
    assert torch.equal(saved, prepared.words)


def test_evaluation_is_kept_in_the_run_folder(data: Path, tmp_path: Path) -> None:
    folder = tiny_run(data, tmp_path / "run", "leap", "training.epochs=1")
    test = write_documents(tmp_path / "test.csv", count=40, seed=9)
    report = evaluate_file(folder.path, test, None, None, OPTIONS, QUIET)
    assert report.documents == 40
    assert report.skip_rate is not None
    ((name, kept),) = folder.evaluations()
    assert name == "test"
    assert kept["accuracy"] == report.accuracy
    test.write_text("text,label\nfine,neutral\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 2: expected one of the classes \['negative', 'positive'\]"):
        evaluate_file(folder.path, test, None, None, OPTIONS, QUIET)


@pytest.mark.parametrize("name", ["../up", "a/b", "x" * 101, "\u8a66" * 34])
def test_evaluation_that_cannot_be_kept_is_refused_before_the_work(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="--name: expected 1 to 100 bytes without a slash, found"):
        evaluate_file(tmp_path / "no run", tmp_path / "no file", None, name, OPTIONS, QUIET)


def test_device_is_looked_for_before_the_data_is_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--device expects auto, cpu or cuda, found 'tpu'"):
        train(tiny_config(tmp_path / "missing.csv", "lstm"), tmp_path, RunOptions(device="tpu"), QUIET)


def test_device_must_exist(data: Path) -> None:
    with pytest.raises(ConfigError, match="--device expects auto, cpu or cuda, found 'tpu'"):
        choose_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="torch finds no CUDA card here; use --device cpu"):
            choose_device("cuda")
    assert choose_device(replace(OPTIONS, device="cpu").device) == torch.device("cpu")


def test_training_that_diverges_stops(prepared: Prepared, tmp_path: Path) -> None:
    trainer = make_trainer(prepared, tmp_path, Recorder(), learning_rate=1e38, epochs=3)
    with pytest.raises(
        RunError, match=r"diverged: the training loss is nan in epoch 1, batch \d+; begin anew"
    ):
        trainer.train()
    assert not (tmp_path / WEIGHTS).exists()


def test_weights_that_the_last_batch_spoiled_are_not_kept(prepared: Prepared, tmp_path: Path) -> None:
    trainer = make_trainer(prepared, tmp_path, Recorder(), learning_rate=1e38, epochs=1, batch_size=9999)
    with pytest.raises(RunError, match="diverged: the dev loss is nan in epoch 1, batch 1"):
        trainer.train()
    assert not (tmp_path / WEIGHTS).exists()
