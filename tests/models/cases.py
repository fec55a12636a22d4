"""The copies of golden cases that the tests read."""

from __future__ import annotations

from pathlib import Path

from models.golden.cases import Case, read_cases

FOLDER = Path(__file__).parent / "golden"


def golden(model: str) -> list[Case]:
    return read_cases(FOLDER / f"{model}.json")
