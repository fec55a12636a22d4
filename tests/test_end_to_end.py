"""From a labelled file to an answer over HTTP, with the commands of the README and nothing else."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service import running_server

_PHRASES = {
    "kitchen": ["the pasta was cold", "our soup came late", "the bread tasted stale", "the curry was burnt"],
    "technical": ["the screen keeps flickering", "the battery died", "my laptop will not boot"],
    "billing": ["i was charged twice", "the invoice shows a wrong amount", "my card was declined"],
}


def readtrace(*arguments: object) -> str:
    command = [sys.executable, "-m", "app", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    """A made-up task of 200 rows whose columns are not called text and label."""
    choose = random.Random(5)
    path = tmp_path / "tickets.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["message", "team"])
        for number in range(200):
            team = list(_PHRASES)[number % len(_PHRASES)]
            writer.writerow([", and ".join(choose.sample(_PHRASES[team], 2)), team])
    return path


def test_a_csv_becomes_a_service(tickets: Path, tmp_path: Path) -> None:
    run, bundles = tmp_path / "run", tmp_path / "bundles"
    columns = ("--text-column", "message", "--label-column", "team")
    small = (
        *("--set", "model.hidden=24"),
        *("--set", "model.embedding_size=24"),
        *("--set", "training.learning_rate=0.01"),
    )
    readtrace("train", "--train", tickets, *columns, "--architecture", "mtlstm", "--out", run, *small)
    assert "accuracy" in readtrace("evaluate", run, tickets, "--name", "all")
    assert "proof: " in readtrace("export", run, "--name", "tickets", "--bundles", bundles)

    text = "My card was declined, and I was charged twice"
    with running_server(bundles) as server, server.client() as client:
        answer = client.post("/classify", json={"input": text}).raise_for_status().json()
        model = client.get("/v1/models/tickets").raise_for_status().json()
    (document,) = answer["data"]
    assert document["label"] == "billing"
    assert document["steps"]["probs"][-1] == document["probs"]
    assert [text[start:end] for start, end in document["steps"]["offsets"]] == document["steps"]["tokens"]
    assert sum(document["groups"]["sizes"]) == 24
    assert "| all |" in model["card"]
