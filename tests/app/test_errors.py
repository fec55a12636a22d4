from __future__ import annotations

import re
from pathlib import Path

from app.errors import PROBLEMS, REFUSALS, Problem

DOCUMENT = Path(__file__).parents[2] / "docs" / "errors.md"


def leaves(problem: type[Problem]) -> list[type[Problem]]:
    below = [leaf for child in problem.__subclasses__() for leaf in leaves(child)]
    return below or [problem]


def test_document_lists_every_type_with_its_status() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [(problem.slug, str(problem.status)) for problem in PROBLEMS]


def test_every_problem_has_a_name_of_its_own() -> None:
    assert set(leaves(Problem)) == set(PROBLEMS)
    assert len({problem.slug for problem in PROBLEMS}) == len(PROBLEMS)


def test_refusals_say_when_to_come_back() -> None:
    for refusal in REFUSALS:
        assert refusal("Later.", 7).headers == {"retry-after": "7"}
        assert refusal.status in (429, 503)
