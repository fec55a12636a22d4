from __future__ import annotations

import signal
import threading
from pathlib import Path

import httpx

from tests.service import running_server

LONG = "good bad film " * 6000


def test_sigterm_answers_what_was_accepted_then_ends(bundles: Path) -> None:
    with running_server(bundles) as server, server.client() as client, server.client() as other:
        answers: list[httpx.Response] = []
        # Many long documents, so that the drain lasts long enough to be looked at.
        asked = threading.Thread(
            target=lambda: answers.append(
                client.post("/classify", json={"input": [LONG] * 40, "explain": "none"})
            )
        )
        asked.start()
        while "readtrace_queue_documents 40.0" not in other.get("/metrics").text:
            assert asked.is_alive(), "the documents were read before the server could be stopped"
        server.process.send_signal(signal.SIGTERM)
        while (ready := other.get("/health/ready")).status_code == 200:
            pass
        assert ready.json()["type"] == "/problems/shutting-down"
        assert other.get("/health/live").status_code == 200
        refused = other.post("/classify", json={"input": "good"})
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert 'readtrace_refused_total{reason="shutting-down"} 1.0' in other.get("/metrics").text
        asked.join(30)
        assert answers[0].status_code == 200
        assert len(answers[0].json()["data"]) == 40
        assert server.process.wait(10) == 0


def test_idle_server_stops_at_once(bundles: Path) -> None:
    with running_server(bundles) as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(5) == 0


def test_late_documents_are_refused_when_the_drain_is_over(bundles: Path) -> None:
    with (
        running_server(bundles, drain_seconds="0") as server,
        server.client() as client,
        server.client() as other,
    ):
        answers: list[httpx.Response] = []
        asked = threading.Thread(
            target=lambda: answers.append(client.post("/classify", json={"input": [LONG] * 40}))
        )
        asked.start()
        while "readtrace_queue_documents 40.0" not in other.get("/metrics").text:
            assert asked.is_alive(), "the documents were read before the server could be stopped"
        server.process.send_signal(signal.SIGTERM)
        asked.join(20)
        assert answers[0].status_code == 503
        assert server.process.wait(10) == 0
