"""What a person at the terminal is told."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from models.commands import RunOptions, evaluate_file, resume, train
from models.config import load_config
from models.data.documents import split_rows
from models.data.rows import Row
from models.errors import ConfigError, DataError, VectorsError
from models.reports import show_report
from models.training.evaluate import Report
from models.training.progress import ConsoleProgress
from tests.models.tiny_run import OPTIONS, tiny_config, tiny_run, write_documents


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_documents(tmp_path / "train.csv", count=60)


def console() -> tuple[Console, StringIO]:
    written = StringIO()
    return Console(file=written, width=160), written


def trained(
    data: Path, tmp_path: Path, *settings: str, options: RunOptions = OPTIONS, architecture: str = "f2s"
) -> str:
    """What a training run prints."""
    told, written = console()
    config = tiny_config(data, architecture, "training.epochs=1", *settings)
    train(config, tmp_path / "run", options, told)
    return written.getvalue()


def test_training_tells_data_measures_and_where_the_run_is(data: Path, tmp_path: Path) -> None:
    told = trained(data, tmp_path)
    assert "54 training and 6 dev documents, 2 classes" in told
    assert "epoch 1  train loss" in told
    assert "(best so far)" in told
    assert f"the run is in {tmp_path / 'run'}" in told.replace("\n", "")
    assert "warning" not in told


def test_classes_are_told_so_that_stray_ones_are_seen(data: Path, tmp_path: Path) -> None:
    with data.open("a", encoding="utf-8") as file:
        file.write("a good word, positive\n" * 3)
    told = trained(data, tmp_path, "data.polarity=[0,0,0]")
    assert "training documents: ' positive' 2, 'negative' " in told


def test_class_whose_only_row_is_for_dev_is_known_and_warned_of(data: Path, tmp_path: Path) -> None:
    """The classes are those of the file, not of the part that is left after the split."""
    lines = data.read_text(encoding="utf-8").splitlines()
    chosen = split_rows([(data, Row("", "", line)) for line in range(1, len(lines))], 0.1, seed=1)[1][0][
        1
    ].line
    lines[chosen] = lines[chosen].replace("positive", "rare").replace("negative", "rare")
    data.write_text("\n".join(lines), encoding="utf-8")
    told = trained(data, tmp_path, "data.polarity=[0,0,0]")
    assert "'rare' 0" in told
    assert "warning: no training document for 1 of the classes: ['rare']" in told


def test_group_that_never_runs_is_warned_of(data: Path, tmp_path: Path) -> None:
    told = trained(data, tmp_path, "model.groups=6").replace("\n", " ")
    assert "warning: the slowest of 6 groups runs every 32 words, but the longest document has 15" in told
    assert "equation 16 of the MT-LSTM paper allows at most 2 here" in told


def test_more_groups_than_any_model_may_have_are_refused_without_a_warning_before(
    data: Path, tmp_path: Path
) -> None:
    told, written = console()
    config = tiny_config(data, "f2s", "model.hidden=400", "model.groups=400")
    with pytest.raises(ConfigError, match=r"at most 11, found 400: the slowest would run every 2\^399 words"):
        train(config, tmp_path / "run", OPTIONS, told)
    assert "warning" not in written.getvalue()


@pytest.mark.parametrize(
    ("architecture", "window"),
    [
        ("mode", "model.scales=[2,15]"),
        ("dlstm", "model.scales=[15]"),
        ("text_cnn", "model.filter_widths=[15,2]"),
        ("c_lstm", "model.filter_width=15"),
    ],
)
def test_window_wider_than_most_texts_is_warned_of_once(
    data: Path, tmp_path: Path, architecture: str, window: str
) -> None:
    told = trained(data, tmp_path, window, architecture=architecture).replace("\n", " ")
    assert told.count("warning") == 1
    assert "warning: the widest window has 15 words, but 9" in told
    assert "% of the training documents are shorter (mean 8." in told


def test_window_narrower_than_most_texts_is_not_warned_of(data: Path, tmp_path: Path) -> None:
    assert "warning" not in trained(data, tmp_path, "model.scales=[2,7]", architecture="mode")


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (("training.frozen_epochs=1", "model.tune_embedding=false"), True),
        (("training.frozen_epochs=1",), False),
        (("training.frozen_epochs=2", "model.tune_embedding=false"), False),
        (("model.tune_embedding=false",), False),
    ],
)
def test_second_step_in_which_the_words_learn_nothing_is_warned_of(
    data: Path, tmp_path: Path, settings: tuple[str, ...], warned: bool
) -> None:
    told = trained(data, tmp_path, "training.epochs=2", *settings)
    warning = "model.tune_embedding=false keeps the word vectors unchanged in all 2 epochs, not only in the 1"
    assert (warning in told) is warned


def test_bad_rows_are_counted_where_they_may_be_skipped(data: Path, tmp_path: Path) -> None:
    with data.open("a", encoding="utf-8") as file:
        file.write(",positive\nfine\n")
    with pytest.raises(DataError, match="line 62: expected text in 'text', found nothing but white space"):
        trained(data, tmp_path)
    told = trained(data, tmp_path, options=RunOptions(device="cpu", threads=1, skip_bad_rows=True))
    assert "left out 2 bad rows, among them:" in told
    assert "line 63: expected 2 fields as in the header, found 1" in told


def test_coverage_of_word_vectors_is_told(data: Path, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("good 1 2\nbad 3 4\nunseen 5 6\n", encoding="utf-8")
    settings = (
        f'vectors.files=["{tmp_path}/vectors.txt"]',
        "tokenizer.words_from_vectors=false",
        "model.embedding_size=2",
    )
    assert "vectors.txt: vectors for 2 of 24 words (8%)" in trained(data, tmp_path, *settings)


def test_missing_word_vectors_are_told_before_the_work(data: Path, tmp_path: Path) -> None:
    with pytest.raises(VectorsError, match="cannot be read: No such file or directory"):
        trained(data, tmp_path, 'vectors.files=["gone.txt"]')
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data.train=[]"], "expected labelled training data: give --train FILE"),
        (["data.polarity=[1.0]"], "polarity needs a value for each of"),
        (['data.label_map={positive = "p"}'], "label_map needs the class names: set data.labels"),
        (["model.groups=11"], "expected 1 to 10 groups for 10 hidden units, found 11"),
    ],
)
def test_options_that_do_not_go_together_are_told(
    data: Path, tmp_path: Path, settings: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        trained(data, tmp_path, *settings)
    assert not (tmp_path / "run").exists()


def write_vectors(path: Path, dimensions: int) -> Path:
    path.write_text("".join(f"{word}{' 0.5' * dimensions}\n" for word in ("good", "bad")), encoding="utf-8")
    return path


def test_vectors_of_another_size_than_asked_for_are_told(data: Path, tmp_path: Path) -> None:
    """The sizes of all files add up; `tiny_config` asks for 8."""
    one, two = write_vectors(tmp_path / "one.txt", 3), write_vectors(tmp_path / "two.txt", 2)
    message = r"embedding_size: expected 5, the numbers per word of one.txt \(3\) \+ two.txt \(2\), found 8"
    files = f'vectors.files=["{one}", "{two}"]'
    with pytest.raises(ConfigError, match=message):
        trained(data, tmp_path, files)
    assert not (tmp_path / "run").exists()
    assert "one.txt: vectors for 2 of" in trained(data, tmp_path, files, "model.embedding_size=5")


def test_run_on_vectors_is_resumed_whatever_the_default_size(data: Path, tmp_path: Path) -> None:
    told, _ = console()
    vectors = write_vectors(tmp_path / "vectors.txt", 3)
    config = load_config(
        None,
        {"data.train": [str(data)], "vectors.files": [str(vectors)], "training.epochs": 1},
        ["model.hidden=4"],
    )
    train(config, tmp_path / "run", OPTIONS, told)
    resume(tmp_path / "run", OPTIONS, told)


def test_dev_file_speaks_in_class_names_whatever_the_training_file_says(tmp_path: Path) -> None:
    rows = [
        "text,label",
        *(f"{word} day,{stars}" for word, stars in (("good", 5), ("bad", 1), ("odd", 3)) * 4),
    ]
    (tmp_path / "train.csv").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "dev.csv").write_text("text,label\ngood,up\nbad,down\n", encoding="utf-8")
    settings = [
        'data.labels=["down", "up"]',
        'data.label_map={1 = "down", 3 = "", 5 = "up"}',
        "model.embedding_size=4",
        "model.hidden=4",
        "training.epochs=1",
    ]
    told, written = console()
    config = load_config(None, {"data.train": ["train.csv"], "data.dev": ["dev.csv"]}, settings)
    train(config, tmp_path / "run", RunOptions(root=tmp_path, device="cpu", threads=1), told)
    assert "8 training and 2 dev documents, 2 classes" in written.getvalue()


def test_evaluation_is_shown_as_tables(data: Path, tmp_path: Path) -> None:
    folder = tiny_run(data, tmp_path / "run", "leap", "training.epochs=1")
    told, written = console()
    evaluate_file(folder.path, data, None, "training", OPTIONS, told)
    for words in (
        "accuracy",
        "macro f1",
        "calibration error",
        "skip rate",
        "confusion",
        "accuracy by length",
    ):
        assert words in written.getvalue()
    assert [name for name, _ in folder.evaluations()] == ["training"]


def test_terminal_gets_a_bar_with_measures_and_speed() -> None:
    written = StringIO()
    terminal = Console(file=written, width=160, force_terminal=True)
    with ConsoleProgress(terminal) as progress:
        progress.start_epoch(2, 5, batches=3, done=1)
        progress.advance(32, 0.5, skip_rate=0.61)
        progress.bar.refresh()
    for words in ("epoch 2/5", "2/3", "loss 0.5000", "skip 0.61", "docs/s"):
        assert words in written.getvalue()


def test_confusion_too_wide_for_the_terminal_is_told_by_class() -> None:
    labels = [f"class {number}" for number in range(30)]
    confusion = np.zeros((30, 30), dtype=int)
    confusion[4, 4], confusion[4, 6], confusion[4, 7] = 10, 3, 2
    report = Report(15, 0.5, 0.5, 1.0, 0.1, None, confusion.tolist(), [])
    told, written = console()
    show_report(report, labels, told)
    assert "confusion" not in written.getvalue()
    assert re.search(r"class 4 +│ 15 +│ 10 +│ class 6 \(3\)", written.getvalue())
    few = Report(15, 0.5, 0.5, 1.0, 0.1, None, confusion[4:8, 4:8].tolist(), [])
    show_report(few, labels[4:8], told)
    assert "confusion" in written.getvalue()
