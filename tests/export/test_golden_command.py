"""`python -m export.golden`: what it prints, and when it fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from export.golden import main
from tests.models.cases import FOLDER

Change = Callable[[dict[str, Any]], object]


def changed(folder: Path, name: str, change: Change) -> str:
    """A golden file with something changed."""
    file = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    change(file)
    path = folder / "changed.json"
    path.write_text(json.dumps(file), encoding="utf-8")
    return str(path)


# forms that only training has
UNSERVED = [
    ["leap_lstm", "paper_soft_training"],
    ["skim_rnn", "soft_temperature_0.5"],
]


def test_every_case_passes(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(FOLDER.glob("*.json"))
    assert main([str(file) for file in files]) == 0
    printed = capsys.readouterr().out.splitlines()
    cases = [case for file in files for case in json.loads(file.read_text(encoding="utf-8"))["cases"]]
    left_out = [line for line in printed if line.startswith("not compared: ")]
    assert left_out[0] == "not compared: bclstm h_bwd_1, h_fwd_1"
    assert len(printed) == len(cases) + 2 + len(left_out)
    assert printed[-1] == f"{len(cases)} of {len(cases)} cases passed"
    unserved = [line for line in printed if line.endswith("unserved")]
    assert [line.split()[:2] for line in unserved] == UNSERVED


@pytest.mark.parametrize("name", ["", "layer"])
def test_one_layer_with_a_timescale_may_stand_alone(tmp_path: Path, name: str) -> None:
    """The fast layer of an HL-MTGRU, which hears nobody, with its share of the classifier."""

    def fast_only(file: dict[str, Any]) -> None:
        file["model"] = "mtgru"
        for case in file["cases"]:
            layer, units = case["weights"]["fast"], case["config"]["fast"]
            classifier, bias = [row[:units] for row in case["weights"]["W_y"]], case["weights"]["b_y"]
            case["weights"] = {name: layer} if name else layer
            case["weights"] |= {"W_y": classifier, "b_y": bias}
            case["config"]["tau"] = case["config"]["tau_fast"]
            for sequence in case["sequences"]:
                steps = [step["fast"] for step in sequence["steps"]]
                for step in steps:
                    step["logits"] = (np.array(classifier) @ step["h"] + bias).tolist()
                sequence |= {"steps": steps, "final": {}}

    assert main([changed(tmp_path, "hl_mtgru", fast_only)]) == 0


def test_directions_may_be_written_out(tmp_path: Path) -> None:
    def write_out(file: dict[str, Any]) -> None:
        for case in file["cases"]:
            weights = case["weights"]
            weights |= {"forward": weights.pop("fwd"), "backward": weights.pop("bwd")}

    assert main([changed(tmp_path, "bclstm", write_out)]) == 0


@pytest.mark.parametrize("name", ["probs", "logits"])
def test_answer_after_the_last_word_counts(tmp_path: Path, name: str) -> None:
    def ending(off: float) -> Change:
        def change(file: dict[str, Any]) -> None:
            for case in file["cases"]:
                (sequence,) = case["sequences"]
                sequence["final"] = {name: sequence["steps"][-1][name]}
                sequence["final"][name][0] += off
                del sequence["steps"]

        return change

    assert main([changed(tmp_path, "cifg", ending(0.0))]) == 0
    assert main([changed(tmp_path, "cifg", ending(1e-4))]) == 1


def test_state_after_the_last_word_counts(tmp_path: Path) -> None:
    def ending(off: float) -> Change:
        def change(file: dict[str, Any]) -> None:
            for case in file["cases"]:
                (sequence,) = case["sequences"]
                sequence["final"] = {"h": [value + off for value in sequence["steps"][-1]["h"]]}

        return change

    assert main([changed(tmp_path, "cifg", ending(0.0))]) == 0
    assert main([changed(tmp_path, "cifg", ending(1e-4))]) == 1


@pytest.mark.parametrize("off", [1e-11, float("nan")])
def test_other_number_is_a_miss(tmp_path: Path, capsys: pytest.CaptureFixture[str], off: float) -> None:
    def shift(file: dict[str, Any]) -> None:
        file["cases"][0]["sequences"][0]["steps"][5]["logits"][1] += off

    assert main([changed(tmp_path, "lstm_graves", shift)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line.endswith("MISSED") for line in printed[1:5]] == [True, False, False, False]
    assert printed[-1] == "3 of 4 cases passed"


def test_other_window_is_a_miss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def move(file: dict[str, Any]) -> None:
        file["cases"][0]["sequences"][0]["final"]["argmax_t"][1][2] += 1

    assert main([changed(tmp_path, "mode_lstm", move)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line.endswith("MISSED") for line in printed[1:4]] == [True, False, False]
    assert printed[1].split()[2:5] == ["1.0e+00"] * 3


def test_unknown_model_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = changed(tmp_path, "lstm_graves", lambda file: file.update(model="unheard_of"))
    assert main([path]) == 1
    assert "unknown models: unheard_of" in capsys.readouterr().out


def test_case_of_another_form_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = changed(tmp_path, "lstm_graves", lambda file: file["cases"][1]["weights"].pop("U_f"))
    assert main([path]) == 1
    assert "cannot be read: KeyError: 'U_f'" in capsys.readouterr().out


def test_case_without_answers_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def drop(file: dict[str, Any]) -> None:
        for step in file["cases"][0]["sequences"][0]["steps"]:
            del step["logits"], step["probs"]

    assert main([changed(tmp_path, "lstm_graves", drop)]) == 1
    assert "expected logits or probs, found neither" in capsys.readouterr().out


# numbers of the loss
NUMBERS: list[tuple[str, list[str | int]]] = [
    ("mode_lstm", ["penalty_per_scale", 1, "gram_of_flattened_W"]),
    ("mode_lstm", ["penalty_per_scale", 0, "literal_eq7_4p_by_4p"]),
    ("mode_lstm", ["penalty_per_scale", 0, "gram_of_flattened_candidate_block"]),
    ("leap_lstm", ["batch", "soft_skip_rate"]),
    ("leap_lstm", ["batch", "penalty"]),
    ("leap_lstm", ["batch", "target"]),
]


@pytest.mark.parametrize(("name", "place"), NUMBERS, ids=str)
def test_other_number_of_the_loss_is_a_miss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, place: list[str | int]
) -> None:
    def shift(file: dict[str, Any]) -> None:
        (case,) = [one for one in file["cases"] if place[0] in one][:1]
        for key in place[:-1]:
            case = case[key]
        case[place[-1]] += 1e-4

    assert main([changed(tmp_path, name, shift)]) == 1
    assert sum(line.endswith("MISSED") for line in capsys.readouterr().out.splitlines()) == 1


def drop_at(word: int, name: str) -> Change:
    return lambda file: file["cases"][0]["sequences"][0]["steps"][word].pop(name)


def put(value: object, *place: str | int) -> Change:
    def change(file: dict[str, Any]) -> None:
        part: Any = file["cases"][0]
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = value

    return change


FAULTS: dict[str, tuple[str, Change, str]] = {
    "value at some words only": ("cifg", drop_at(3, "h"), "expected h at every word, found none at word 4"),
    "no value at the first word": ("cifg", drop_at(0, "probs"), "expected probs at every word, found none"),
    "step that is none": (
        "cifg",
        put(7, "sequences", 0, "steps", 0),
        "expected h at every word, found none at word 1",
    ),
    "fewer steps than words": (
        "cifg",
        lambda file: file["cases"][0]["sequences"][0]["steps"].pop(),
        "a step for",
    ),
    "no sequence": ("cifg", put([], "sequences"), "expected sequences, found none"),
    "no word": ("cifg", put([], "sequences", 0, "x"), "expected words, found none"),
    "another length": ("cifg", put(3, "sequences", 0, "length"), "expected 3 words, found"),
    "end that is none": ("cifg", put(7, "sequences", 0, "final"), "'int' object"),
    "value of another shape": (
        "cifg",
        put({"h": [0.5]}, "sequences", 0, "final"),
        "expected values of shape",
    ),
    "fewer penalties than scales": (
        "mode_lstm",
        lambda file: file["cases"][0]["penalty_per_scale"].pop(),
        "zip()",
    ),
    "another mode": ("leap_lstm", put("hard", "config", "mode"), "expected one of argmax, soft, found hard"),
    "blend without noise": ("leap_lstm", put("soft", "config", "mode"), "expected gumbel in every sequence"),
    "weight that is none": ("cifg", put([], "weights", "U_o"), "IndexError"),
    "size that is none": ("cifg", put(None, "config", "h"), "cannot be read"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_case_is_told_and_the_others_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    name, change, message = FAULTS[fault]
    assert main([changed(tmp_path, name, change)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert "cannot be read" in printed[1]
    assert message in printed[1]
    assert not [line for line in printed[2:] if "cannot be read" in line or line.endswith("MISSED")]


def test_file_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.json"
    assert main([str(path)]) == 2
    path.write_text("[]", encoding="utf-8")
    assert main([str(path)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors[0] == f"{path}: cannot be read: No such file or directory"
    assert errors[1].startswith(f"{path}: expected a golden file with model and cases")
    assert main([]) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "found a fault at Expecting value"),
        ('{"model": "cifg", "cases": []}', "expected cases, found none"),
        ('{"model": ["cifg"], "cases": [{"name": "a"}]}', "expected a name, found ['cifg']"),
        (
            '{"model": "cifg", "cases": [{"name": "a", "config": {}, "weights": {}}]}',
            "a fault at 'sequences'",
        ),
        ("[" * 100_000, "expected a golden file"),
    ],
    ids=["empty", "no cases", "model", "no sequences", "deep"],
)
def test_file_without_a_case_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    path = tmp_path / "cases.json"
    path.write_text(content, encoding="utf-8")
    assert main([str(path)]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith(f"{path}: ")
    assert message in error
