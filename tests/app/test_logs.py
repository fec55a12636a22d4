from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator

import pytest
import structlog

from app.logs import configure_logs, drain_logs, get_logger, where
from app.settings import read_settings


@pytest.fixture(autouse=True)
def plain_logs_afterwards() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    logging.basicConfig(force=True)


def logged(capfd: pytest.CaptureFixture[str]) -> str:
    drain_logs()
    return capfd.readouterr().err


def test_libraries_and_service_log_alike_as_json(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs(read_settings(log_format="json"))
    get_logger("ours").info("event_of_ours", rows=3)
    logging.getLogger("library").warning("of a library: %s", 7)
    ours, library = map(json.loads, logged(capfd).splitlines())
    assert (ours["event"], ours["rows"], ours["level"], ours["source"]) == (
        "event_of_ours",
        3,
        "info",
        "ours",
    )
    assert (library["event"], library["level"], library["source"]) == (
        "of a library: 7",
        "warning",
        "library",
    )
    assert ours["timestamp"].endswith("Z")


def test_text_that_is_not_unicode_is_logged_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs(read_settings(log_format="json"))
    get_logger("ours").info("odd", name=os.fsdecode(b"caf\xe9"))
    assert json.loads(logged(capfd))["name"] == "caf\udce9"


def test_console_is_for_people(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs(read_settings(log_format="console"))
    get_logger("console").warning("something", rows=3)
    line = logged(capfd)
    assert "something" in line
    assert not line.startswith("{")


def test_level_silences_what_is_below(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs(read_settings(log_level="error"))
    get_logger("quiet").warning("not shown")
    logging.getLogger("library").warning("neither")
    assert logged(capfd) == ""


def test_places_of_a_traceback_hold_no_message() -> None:
    try:
        raise ValueError("secret")
    except ValueError as error:
        places = where(error.__traceback__)
    assert places[-1].endswith("test_places_of_a_traceback_hold_no_message")
    assert "secret" not in "".join(places)
