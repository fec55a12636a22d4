from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.errors import StartError
from app.settings import Settings, read_settings

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"


def test_document_lists_every_setting_and_no_other() -> None:
    listed = re.findall(r"^\| `READTRACE_(\w+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(name.lower() for name in listed) == sorted(Settings.model_fields)


def test_environment_sets_and_options_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READTRACE_PORT", "9000")
    monkeypatch.setenv("READTRACE_HOST", "0.0.0.0")
    settings = read_settings(port=9001, host=None)
    assert (settings.port, settings.host) == (9001, "0.0.0.0")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"port": 99999}, r"READTRACE_PORT.*65535, got 99999"),
        ({"device": "tpu"}, r"READTRACE_DEVICE.*'auto', 'cpu' or 'cuda', got 'tpu'"),
        ({"worker_threads": 0}, r"READTRACE_WORKER_THREADS.*got 0"),
        ({"max_queued_tokens": 5}, r"max_queued_tokens \(5\) must be at least max_document_tokens"),
        ({"max_bodies_bytes": 2000}, r"max_bodies_bytes \(2000\) must be at least max_body_bytes"),
        ({"run_limit_seconds": 0.04}, r"run_limit_seconds \(0.04\) must be above max_run_seconds \(0.05\)"),
        ({"max_queued_documents": 1}, r"max_queued_documents \(1\) must be at least max_documents"),
    ],
)
def test_impossible_value_stops_the_start(overrides: dict[str, object], message: str) -> None:
    with pytest.raises(StartError, match=message):
        read_settings(**overrides)


def test_settings_cannot_change() -> None:
    settings = read_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1  # type: ignore[misc]
