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
    assert len(printed) == len(cases) + 2
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


def test_answer_after_the_last_word_counts(tmp_path: Path) -> None:
    def ending(off: float) -> Change:
        def change(file: dict[str, Any]) -> None:
            for case in file["cases"]:
                (sequence,) = case["sequences"]
                sequence["final"] = {"probs": sequence["steps"][-1]["probs"]}
                sequence["final"]["probs"][0] += off
                del sequence["steps"]

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


def test_file_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.json"
    assert main([str(path)]) == 2
    path.write_text("[]", encoding="utf-8")
    assert main([str(path)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors[0] == f"{path}: cannot be read: No such file or directory"
    assert errors[1].startswith(f"{path}: expected a golden file with model and cases")
    assert main([]) == 2
