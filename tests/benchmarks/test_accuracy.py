"""The results table: what is committed is what its command writes, and what it is made of holds together."""

from __future__ import annotations

import gzip
import itertools
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.accuracy import grid as grids
from benchmarks.accuracy import results as result_files
from benchmarks.accuracy.__main__ import GUIDE, cli
from benchmarks.accuracy.choosing import write_guide
from benchmarks.accuracy.claims import Claim, judge, read_claims
from benchmarks.accuracy.cost import measure_rows
from benchmarks.accuracy.folds import write_fold
from benchmarks.accuracy.grid import HERE, Row, SetEntry, Unit, read_grid
from benchmarks.accuracy.plots import draw_plots, spread_apart
from benchmarks.accuracy.results import Cost, LengthDecile, RowResult, UnitResult, changed_result, read_result
from benchmarks.accuracy.table import sampling_error, write_table
from benchmarks.accuracy.train import train_rows
from models.commands import RunOptions
from models.errors import RunError

GRID = read_grid()
RESULTS = {name: read_result(row) for name, row in GRID.items()}


def unit(accuracy: float, documents: int = 400) -> UnitResult:
    decile = LengthDecile(shortest=1, longest=9, documents=documents, accuracy=accuracy)
    return UnitResult(
        date="2026-01-01",
        dev_accuracy=accuracy,
        test_accuracy=accuracy,
        test_macro_f1=accuracy,
        best_epoch=1,
        train_documents=10,
        training_cpu_seconds=1.0,
        curve=[(1, accuracy)],
        test_by_length=[decile],
    )


def row_result(**accuracies: float) -> RowResult:
    return RowResult(units={name.replace("_", "-"): unit(value) for name, value in accuracies.items()})


@pytest.mark.parametrize("row", GRID.values(), ids=GRID)
def test_every_row_is_a_configuration_that_trains(row: Row) -> None:
    first = row.units[0]
    config = row.config(first, {"train": "t.jsonl", "dev": "d.jsonl"})
    assert config.recipe == row.name
    assert config.data.train == ("t.jsonl",)
    assert config.training.seed == 1
    assert len({str(one) for one in row.units}) == len(row.units) >= 1


def test_claims_and_results_speak_of_rows_that_exist() -> None:
    for claim in read_claims():
        assert set(claim.better) | set(claim.than) <= set(GRID), claim.text
    kept = {
        path.relative_to(result_files.RESULTS).with_suffix("").as_posix()
        for path in result_files.RESULTS.glob("*/*.json")
    }
    assert kept <= set(GRID)


@pytest.mark.parametrize("name", [name for name, result in RESULTS.items() if result.units])
def test_a_result_was_made_with_the_settings_of_its_row(name: str) -> None:
    row, result = GRID[name], RESULTS[name]
    assert set(result.units) <= {str(one) for one in row.units}
    config = row.config(row.units[0], {"train": "t.jsonl", "dev": "d.jsonl"})
    for now, kept in ((config.model, result.model), (config.training, result.training)):
        asked = now.model_dump(mode="json", exclude={"seed"})
        # A setting that came later has its default, a size that was left open was found from the data.
        defaults = type(now).model_construct().model_dump(mode="json", warnings=False)
        for setting, value in asked.items():
            assert value is None or kept.get(setting, defaults.get(setting)) == value, setting


def test_the_committed_pages_are_what_the_table_command_writes(tmp_path: Path) -> None:
    drawn = draw_plots(GRID, RESULTS, tmp_path)
    assert {f"{name}.png" for name in drawn} == {path.name for path in (HERE / "plots").glob("*.png")}
    verdicts = [judge(claim, RESULTS) for claim in read_claims()]
    assert (HERE / "RESULTS.md").read_text(encoding="utf-8") == write_table(GRID, RESULTS, verdicts, drawn)
    assert GUIDE.read_text(encoding="utf-8") == write_guide(GRID, RESULTS)


def test_folds_share_no_test_row_and_cover_the_set(tmp_path: Path) -> None:
    rows = [{"text": f"text {n}", "label": n % 2} for n in range(57)]
    source = tmp_path / "all.jsonl.gz"
    with gzip.open(source, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    tested: list[str] = []
    for fold in range(1, 11):
        paths = write_fold(source, fold, 10, tmp_path / f"fold-{fold}")
        splits = {
            name: [json.loads(line)["text"] for line in Path(path).read_text(encoding="utf-8").splitlines()]
            for name, path in paths.items()
        }
        assert sorted(text for texts in splits.values() for text in texts) == sorted(
            str(row["text"]) for row in rows
        )
        assert len(splits["dev"]) == pytest.approx(5, abs=1)
        tested += splits["test"]
    assert sorted(tested) == sorted(str(row["text"]) for row in rows)


@pytest.mark.parametrize(
    ("better", "than", "margin", "outcome"),
    [
        (
            {"seed_1": 0.90, "seed_2": 0.91, "seed_3": 0.905},
            {"seed_1": 0.80, "seed_2": 0.81, "seed_3": 0.80},
            0,
            "holds",
        ),
        ({"seed_1": 0.80, "seed_2": 0.81}, {"seed_1": 0.90, "seed_2": 0.912}, 0, "does not hold"),
        # two seeds tell so little of their spread that it takes 12.7 of their errors: here 17, then 4
        ({"seed_1": 0.80, "seed_2": 0.81}, {"seed_1": 0.90, "seed_2": 0.922}, 0, "does not hold"),
        ({"seed_1": 0.80, "seed_2": 0.82}, {"seed_1": 0.83, "seed_2": 0.87}, 0, "within noise"),
        (
            {"seed_1": 0.80, "seed_2": 0.82},
            {"seed_1": 0.81, "seed_2": 0.83},
            0,
            "within noise",
        ),  # as far each time
        ({"seed_1": 0.90, "seed_2": 0.80}, {"seed_1": 0.80, "seed_2": 0.88}, 0, "within noise"),
        # what three seeds would make sure of, three folds do not: they share most of what they train on
        (
            {"seed_1": 0.80, "seed_2": 0.81, "seed_3": 0.80},
            {"seed_1": 0.71, "seed_2": 0.76, "seed_3": 0.75},
            0,
            "holds",
        ),
        (
            {"fold_1": 0.80, "fold_2": 0.81, "fold_3": 0.80},
            {"fold_1": 0.71, "fold_2": 0.76, "fold_3": 0.75},
            0,
            "within noise",
        ),
        ({"seed_1": 0.80}, {"seed_1": 0.81}, 0, "within noise"),  # 400 documents: an error of 2.8 points
        ({"seed_1": 0.80}, {"seed_1": 0.81}, -9, "holds"),
        ({"seed_1": 0.80}, {"seed_2": 0.70}, 0, "not measured"),  # no seed on both sides
        ({}, {"seed_1": 0.7}, 0, "not measured"),
    ],
)
def test_a_claim_is_judged_by_what_both_sides_share(
    better: dict[str, float], than: dict[str, float], margin: float, outcome: str
) -> None:
    claim = Claim(text="one is above the other", better=("one",), than=("other",), margin=margin)
    assert judge(claim, {"one": row_result(**better), "other": row_result(**than)}).outcome == outcome


@pytest.fixture
def tiny_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Row:
    """A row that is trained in a second, its files and its results in the test's folder."""
    monkeypatch.setattr(result_files, "RESULTS", tmp_path / "results")
    lines = [
        json.dumps({"text": text, "label": label}) for text, label in (("good film", 1), ("bad film", 0))
    ]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines * 4), encoding="utf-8")
    data = SetEntry(
        title="Tiny",
        task="films",
        seeds=(1, 2),
        data={
            "train": ["train.jsonl"],
            "dev": ["dev.jsonl"],
            "test": "test.jsonl",
            "labels": ["bad", "good"],
        },
        training={"epochs": 2, "batch_size": 4},
    )
    model = grids.ModelEntry(
        title="NBOW", explains=(), model={"architecture": "bag_of_words", "embedding_size": 4}
    )
    return Row("tiny", "nbow", data, model, grids.RowEntry(), {})


def test_a_row_is_trained_recorded_and_passed_over(tiny_row: Row, tmp_path: Path) -> None:
    options = RunOptions(tmp_path, "cpu", 1)
    for only in (2, None):
        train_rows([tiny_row], only, tmp_path, tmp_path / "runs", options)
    result = read_result(tiny_row)
    assert list(result.units) == ["seed-1", "seed-2"]
    assert result.parameters == 4 * 2 + 2
    assert result.units["seed-1"].curve[-1][0] == 2
    assert sum(decile.documents for decile in result.units["seed-1"].test_by_length) == 8
    before = (tmp_path / "results/tiny/nbow.json").read_bytes()
    train_rows([tiny_row], None, tmp_path, tmp_path / "runs", options)
    assert (tmp_path / "results/tiny/nbow.json").read_bytes() == before
    (tmp_path / "results/tiny/nbow.json").unlink()
    changed = replace(
        tiny_row, data=tiny_row.data.model_copy(update={"training": {"epochs": 3, "batch_size": 4}})
    )
    with pytest.raises(
        RunError, match=r"training\.epochs was 2, is 3"
    ):  # the run folder is of other settings
        train_rows([changed], None, tmp_path, tmp_path / "runs", options)


def test_what_a_row_costs_is_measured_once(
    tiny_row: Row, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    measure_rows([tiny_row], runs, again=False)  # not trained yet
    assert not result_files.path_of(tiny_row).exists()
    train_rows([tiny_row], 1, tmp_path, runs, RunOptions(tmp_path, "cpu", 1))
    measure_rows([tiny_row], runs, again=False)
    cost = read_result(tiny_row).cost
    assert cost is not None
    assert (cost.unit, cost.documents) == ("seed-1", 8)
    assert cost.cpu_microseconds > 0
    assert cost.bundle_megabytes > 0
    before = result_files.path_of(tiny_row).read_bytes()
    measure_rows([tiny_row], runs, again=False)
    assert result_files.path_of(tiny_row).read_bytes() == before
    (runs / "tiny").rename(tmp_path / "elsewhere")
    capsys.readouterr()
    measure_rows([tiny_row], runs, again=True)
    assert "tiny/nbow: no run in" in capsys.readouterr().err
    assert result_files.path_of(tiny_row).read_bytes() == before


def test_a_damaged_run_is_told_by_the_cost_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_files, "RESULTS", tmp_path / "results")
    with changed_result(GRID["trec/lstm"]) as result:
        result.units["seed-1"] = unit(0.9)
    (tmp_path / "runs/trec/lstm/seed-1").mkdir(parents=True)
    answer = CliRunner().invoke(cli, ["cost", "trec/lstm", "--runs", str(tmp_path / "runs")])
    assert isinstance(answer.exception, SystemExit)
    assert "expected a run folder written by `readtrace train`" in str(answer.exception)


def test_a_resumed_training_is_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(result_files, "RESULTS", tmp_path)
    row = GRID["trec/lstm"]
    with changed_result(row) as result:
        result.units["seed-1"] = unit(0.9).model_copy(update={"training_cpu_seconds": None})
    assert read_result(row).units["seed-1"].training_cpu_seconds is None


def test_unknown_rows_are_named() -> None:
    answer = CliRunner().invoke(cli, ["list", "sst9/*"])
    assert answer.exit_code != 0
    assert "no row 'sst9/*'" in str(answer.exception) + answer.output


def test_a_seed_that_no_row_has_is_told() -> None:
    answer = CliRunner().invoke(cli, ["run", "trec/lstm", "--only", "99"])
    assert answer.exit_code != 0
    assert "--only 99: the seeds and folds of these rows are [1, 2, 3]" in str(answer.exception)


def test_a_folder_without_the_data_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_files, "RESULTS", tmp_path / "results")
    for row in ("trec/lstm", "mr/lstm"):
        given = [row, "--root", str(tmp_path), "--runs", str(tmp_path / "runs")]
        answer = CliRunner().invoke(cli, ["run", *given])
        assert isinstance(answer.exception, SystemExit)
        assert "No such file or directory" in str(answer.exception)


def test_a_damaged_result_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_files, "RESULTS", tmp_path)
    path = result_files.path_of(GRID["trec/lstm"])
    path.parent.mkdir(parents=True)
    path.write_text('{"units": ', encoding="utf-8")
    with pytest.raises(SystemExit, match=r"lstm\.json: expected the results of trec/lstm"):
        read_result(GRID["trec/lstm"])


def test_folds_are_written_by_one_at_a_time(tmp_path: Path) -> None:
    source = tmp_path / "all.jsonl.gz"
    with gzip.open(source, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": f"text {number}", "label": 0}) + "\n" for number in range(50_000))
    with ProcessPoolExecutor(4, get_context("spawn")) as pool:
        written = [pool.submit(write_fold, source, 1, 10, tmp_path / "fold-1") for _ in range(4)]
    assert len({str(one.result()) for one in written}) == 1
    lines = [Path(path).read_bytes().count(b"\n") for path in written[0].result().values()]
    assert sum(lines) == 50_000


def test_units_are_ordered() -> None:
    assert sorted([Unit("fold", 10), Unit("fold", 2)]) == [Unit("fold", 2), Unit("fold", 10)]


@given(st.lists(st.floats(0, 1), max_size=40).map(sorted))
def test_labels_of_a_plot_stay_apart_in_order_and_on_the_panel(heights: list[float]) -> None:
    places = spread_apart(heights)
    gaps = [above - below for below, above in itertools.pairwise(places)]
    assert all(gap >= min(0.05, 0.99 / (len(heights) - 1)) for gap in gaps)
    assert all(-1e-9 <= place <= 1 for place in places)
    if all(above - below > 0.1 for below, above in itertools.pairwise(heights)):
        assert places == pytest.approx(heights)


def test_the_error_of_an_accuracy_counts_a_shared_test_split_once_and_every_fold() -> None:
    assert sampling_error(row_result(seed_1=0.5, seed_2=0.5)) == pytest.approx(2.5)
    assert sampling_error(row_result(fold_1=0.5, fold_2=0.5, fold_3=0.5, fold_4=0.5)) == pytest.approx(1.25)


def measured(microseconds: float, **accuracies: float) -> RowResult:
    cost = Cost(
        date="2026-01-01", unit="seed-1", documents=1, cpu_microseconds=microseconds, bundle_megabytes=1
    )
    return row_result(**accuracies).model_copy(update={"cost": cost})


def test_the_guide_compares_on_what_both_models_have_and_advises_the_cheaper_of_equals() -> None:
    results = {
        "trec/lstm": measured(100, seed_1=0.90, seed_2=0.10),
        "mr/lstm": measured(100, fold_1=0.80),
        "trec/mode-lstm": measured(400, seed_1=0.94),  # 4 points above, where both have seed 1
        "mr/mode-lstm": measured(100, fold_1=0.82, fold_2=0.1),
        "trec/text-cnn": measured(50, seed_1=0.926),
        "trec/rnn": measured(10, seed_3=0.99),  # no training to compare
        "sst1/rnn": measured(10, seed_1=0.99),
        "trec/mtlstm-f2s-paper": measured(10, seed_1=0.99),  # no setting to choose
    }
    page = write_guide(GRID, results)
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert [row.split("|")[1:4] for row in rows] == [
        [" MODE-LSTM ", " +3.00 ± 1.68 ", " 2.00 "],
        [" TextCNN ", " +2.60 ± 1.99 ", " 0.50 "],
        [" LSTM ", " +0.00 ± 0.00 ", " 1.00 "],
    ]
    assert "**The best accuracy**: MODE-LSTM (+3.0" in page
    assert "**To see which phrases decided**: TextCNN (+2.6" in page
    assert "To see which words were read at all" not in page


def test_the_guide_advises_a_model_on_few_sets_only_for_what_no_other_explains() -> None:
    sets = ("trec", "sst2", "mr")
    results = {
        f"{name}/{model}": measured(100, seed_1=0.8) for name in sets for model in ("lstm", "text-cnn")
    }
    results["trec/mode-lstm"] = measured(100, seed_1=0.99)  # n-grams, as TextCNN
    results["trec/leap-60"] = measured(900, seed_1=0.70)  # the only one with a skip map
    page = write_guide(GRID, results)
    assert "**The best accuracy**: LSTM (+0.0" in page
    assert "**To see which phrases decided**: TextCNN (+0.0" in page
    assert "**To see which words were read at all**: Leap-LSTM, r = 0.6 (-10.0" in page
