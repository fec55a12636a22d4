"""Pretrained encoders as the source of word features: read, frozen, trained, refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from models.commands import resume, train
from models.errors import ConfigError, EncoderError, ReadtraceTrainingError, RunError
from models.preparation import prepare
from models.text.encoder import PretrainedEncoder, encoder_folder, read_encoder, read_tokenizer
from models.training import trainer
from models.training.progress import ConsoleProgress
from models.training.run_folder import ENCODER, METRICS, WEIGHTS, RunFolder
from tests.models.tiny_encoder import POSITIONS, SIZE, Kind, change_config, write_encoder
from tests.models.tiny_run import OPTIONS, tiny_config, write_documents

QUIET = Console(quiet=True)
STEPS = (
    "training.word_dropout=0",
    "training.optimizer=adamw",
    "training.frozen_epochs=1",
    "training.frozen_learning_rate=0.02",
    "training.learning_rate=0.005",
    "training.epochs=2",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("data") / "train.csv", 120)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(1, 25, (3, 9), generator=torch.Generator().manual_seed(0))
    return ids, torch.tensor([9, 5, 1])


@pytest.mark.parametrize("kind", ["bert", "albert", "distilbert"])
@torch.inference_mode()
def test_padding_and_batch_mates_do_not_reach_the_features(tmp_path: Path, kind: Kind) -> None:
    encoder = read_encoder(write_encoder(tmp_path, kind)).eval()
    assert (encoder.size, encoder.vocabulary, encoder.positions) == (SIZE, 32, POSITIONS)
    ids, lengths = batch()
    together = encoder(ids, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = encoder(ids[row : row + 1, :length], lengths[row : row + 1])
        torch.testing.assert_close(together[row, :length], alone[0], rtol=0, atol=1e-5)


def test_pretrained_weights_are_read_and_the_pooler_left_out(folder: Path) -> None:
    encoder = read_encoder(folder)
    stored = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in stored.items() if not name.startswith("pooler.")}
    found = encoder.model.state_dict()
    assert found.keys() == kept.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in kept.items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_encoder_in_half_precision_is_read_and_made_anew_in_float32(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    encoder = read_encoder(write_encoder(tmp_path, dtype=dtype))
    again = PretrainedEncoder.from_config(encoder.config)
    for one in (encoder, again):
        assert {parameter.dtype for parameter in one.parameters()} == {torch.float32}


def test_encoder_without_a_table_of_positions_is_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "modern", "modernbert")
    message = "modern: expected an encoder with a table of positions, .* found ModernBertModel"
    with pytest.raises(EncoderError, match=message):
        read_encoder(folder)


def test_tokenizer_neither_pads_nor_cuts(folder: Path) -> None:
    encoding = read_tokenizer(folder).encode("good " * 12)
    assert encoding.tokens == ["[CLS]", *["good"] * 12, "[SEP]"]


def test_frozen_encoder_gives_the_same_bits_in_every_batch_and_learns_nothing(folder: Path) -> None:
    encoder = read_encoder(folder).train()
    encoder.freeze(True)
    ids, lengths = batch()
    with torch.inference_mode():
        evaluated = encoder(ids[1:2, :5], lengths[1:2])  # kept from here on
    trained = encoder(ids, lengths)
    anew = read_encoder(folder).train()
    anew.freeze(True)
    assert torch.equal(trained, anew(ids, lengths))
    assert torch.equal(trained[1, :5], evaluated[0])
    assert not trained.requires_grad
    encoder.freeze(False)
    assert encoder(ids, lengths).requires_grad
    assert encoder.model.training


@pytest.mark.parametrize(
    ("file", "what"),
    [("config.json", "configuration"), ("tokenizer.json", "tokenizer"), ("model.safetensors", "weights")],
)
def test_folder_without_a_file_is_refused(folder: Path, tmp_path: Path, file: str, what: str) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / file).unlink()
    with pytest.raises(EncoderError, match=f"expected the encoder's {what} in {file}, found no such file"):
        encoder_folder(str(copy), Path())


def test_missing_folder_or_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="nowhere: expected a folder with an encoder, found none"):
        encoder_folder("nowhere", tmp_path)
    with pytest.raises(EncoderError, match="expected an installed package 'unheard_of', found none"):
        encoder_folder("package:unheard_of/model", tmp_path)
    with pytest.raises(EncoderError, match=r"recipes: expected the encoder's configuration"):
        encoder_folder("package:models/recipes", tmp_path)


def _drop_weights(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    del stored["embeddings.word_embeddings.weight"]
    save_file(stored, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_drop_weights, "expected all weights, found none for embeddings.word_embeddings.weight"),
        (lambda copy: (copy / "config.json").write_text("{"), "expected a transformer encoder"),
        (lambda copy: change_config(copy, model_type="unheard_of"), "expected a transformer encoder"),
        (lambda copy: (copy / "model.safetensors").write_bytes(b"no"), "expected a transformer encoder"),
        (lambda copy: (copy / "tokenizer.json").write_text("{}"), "expected a tokenizer"),
    ],
)
def test_damaged_folder_is_refused(
    folder: Path, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    damage(copy)
    with pytest.raises(EncoderError, match=message):
        read_encoder(copy), read_tokenizer(copy)


@pytest.mark.parametrize(
    ("architecture", "settings", "message"),
    [
        ("f2s", (), "architecture 'mtlstm' reads word vectors; on an encoder expected one of"),
        ("gru", ("training.word_dropout=0.1",), "make words of a table unknown; on an encoder expected 0"),
        ("gru", ("vectors.files=['x']",), "expected word vectors or an encoder, found both"),
        (
            "gru",
            ("training.longest=2",),
            "training.longest: expected more than the 2 tokens that the tokenizer adds, found 2",
        ),
        ("mode", ("model.characters=5",), "characters go beside word vectors"),
        ("gru", ("training.frozen_epochs=9",), "are some of the 2 epochs, found 9"),
        (
            "cbow",
            ("model.architecture=encoder", "encoder.folder=''"),
            "architecture 'encoder' expects a pretrained encoder",
        ),
    ],
)
def test_what_an_encoder_cannot_go_with_is_refused(
    folder: Path, data: Path, architecture: str, settings: tuple[str, ...], message: str
) -> None:
    config = tiny_config(data, architecture, *STEPS, f"encoder.folder={folder}", *settings)
    with pytest.raises(ConfigError, match=message):
        prepare(config, Path(), None, QUIET)


def test_tokenizer_of_a_larger_encoder_is_refused(folder: Path, data: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    tokenizer = read_tokenizer(copy)
    tokenizer.add_tokens(["film noir"])
    tokenizer.save(str(copy / "tokenizer.json"))
    config = tiny_config(data, "gru", *STEPS, f"encoder.folder={copy}")
    with pytest.raises(EncoderError, match="at most the encoder's 32 tokens, found the token id 32"):
        prepare(config, Path(), None, QUIET)


def test_long_documents_are_read_up_to_the_positions_and_keep_what_is_added(
    folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "long.csv"
    rows = [f"{'good ' * 40}.,{'yes' if n % 2 else 'no'}" for n in range(9)] + ["bad,no"]
    file.write_text("text,label\n" + "\n".join(rows), encoding="utf-8")
    config = tiny_config(file, "gru", *STEPS, f"encoder.folder={folder}", "training.longest=10")
    prepared = prepare(config, Path(), None, QUIET)
    documents = {len(ids): ids.tolist() for ids in (*prepared.train.token_ids, *prepared.dev.token_ids)}
    assert set(documents) <= {3, 10, POSITIONS}
    assert documents[10] == [2, *[4] * 8, 3]
    assert prepared.train.shortened == sum(length == 10 for length in prepared.train.lengths)
    assert int(np.max(prepared.dev.lengths)) in (3, POSITIONS)


def test_first_step_leaves_the_encoder_as_it_was_and_the_second_does_not(
    folder: Path, data: Path, tmp_path: Path
) -> None:
    pretrained = read_encoder(folder).state_dict()
    for epochs, changed in ((1, False), (2, True)):
        settings = (
            *STEPS,
            f"encoder.folder={folder}",
            f"training.epochs={epochs}",
            "training.average_decay=0",
        )
        run = _run(data, tmp_path / str(epochs), "hl_mtgru", *settings)
        weights = torch.load(run.path / "checkpoint.pt", weights_only=True)["model"]
        equal = [torch.equal(weights[f"encoder.{name}"], tensor) for name, tensor in pretrained.items()]
        assert all(equal) is not changed
    assert (run.path / ENCODER).is_file()
    model = run.model()
    assert isinstance(model.encoder, PretrainedEncoder)
    assert set(load_file(run.path / WEIGHTS)) == set(model.state_dict())


@pytest.mark.parametrize("stopped_at", [3, 9])
def test_stopped_run_goes_on_to_the_result_of_an_unbroken_one(
    folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_at: int
) -> None:
    """Stopped in the first step and in the second: 108 training documents are 7 batches."""
    settings = (*STEPS, f"encoder.folder={folder}")
    unbroken = _run(data, tmp_path / "unbroken", "gru", *settings)
    monkeypatch.setattr(trainer, "_CHECKPOINT_SECONDS", 0.0)
    advance, count = ConsoleProgress.advance, iter(range(1, 100))

    def stop(self: ConsoleProgress, documents: int, loss: float, skip_rate: float | None) -> None:
        advance(self, documents, loss, skip_rate)
        if next(count) == stopped_at:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ConsoleProgress, "advance", stop)
        with pytest.raises(KeyboardInterrupt):
            _run(data, tmp_path / "stopped", "gru", *settings)
    stopped = RunFolder(tmp_path / "stopped")
    resume(stopped.path, OPTIONS, QUIET)
    assert (stopped.path / METRICS).read_bytes() == (unbroken.path / METRICS).read_bytes()
    expected, found = load_file(unbroken.path / WEIGHTS), load_file(stopped.path / WEIGHTS)
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_resume_notices_another_encoder(folder: Path, data: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    run = _run(
        data,
        tmp_path / "run",
        "cbow",
        "model.architecture=encoder",
        *STEPS,
        f"encoder.folder={copy}",
        "training.epochs=1",
    )
    weights = load_file(copy / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] += 1
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(RunError, match="has changed since the run began"):
        resume(run.path, OPTIONS, QUIET)


def test_run_without_its_encoders_configuration_is_refused(folder: Path, data: Path, tmp_path: Path) -> None:
    run = _run(
        data,
        tmp_path / "run",
        "cbow",
        "model.architecture=encoder",
        *STEPS,
        f"encoder.folder={folder}",
        "training.epochs=1",
    )
    (run.path / ENCODER).unlink()
    with pytest.raises(ReadtraceTrainingError, match="expected the configuration of this run's encoder"):
        run.model()


def _run(data: Path, out: Path, architecture: str, *settings: str) -> RunFolder:
    train(tiny_config(data, architecture, *settings), out, OPTIONS, QUIET)
    return RunFolder(out)
