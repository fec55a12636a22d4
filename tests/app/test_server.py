from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.service import Server, running_server
from tests.wire import RawAnswer, connect, post, read_one, read_to_end

LONG = "good bad film " * 6000
MEDIUM = json.dumps({"input": "good bad film " * 1500, "explain": "none"}).encode()
SHORT = json.dumps({"input": "good"}).encode()
CLIENTS = 60


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """What happens in here reaches the server all at once, with SIGTERM: as on a machine that has too much to do."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
        server.process.send_signal(signal.SIGTERM)
    finally:
        server.process.send_signal(signal.SIGCONT)


def open_connections(server: Server, count: int) -> None:
    """Wait until the server has so many, the one that asks included."""
    with server.client() as client:
        while f"readtrace_open_connections {count}.0" not in client.get("/metrics").text:
            pass


def assert_shutting_down(answer: RawAnswer) -> None:
    assert answer.status == 503, answer
    assert "connection: close" in answer.head
    assert "retry-after: 1" in answer.head
    assert json.loads(answer.body)["type"] == "/problems/shutting-down"


def test_time_in_the_socket_counts_against_the_deadline(bundles: Path) -> None:
    """A process that was held up for a while tells who waits no longer, and reads only for those who do."""
    bodies = [
        json.dumps({"input": LONG, "deadline_ms": ms, "explain": "none"}).encode() for ms in (400, 60_000)
    ]
    with running_server(bundles) as server:
        server.process.send_signal(signal.SIGSTOP)
        with ExitStack() as stack:
            connections = [stack.enter_context(closing(connect(server))) for _ in bodies]
            for connection, body in zip(connections, bodies, strict=True):
                connection.sendall(post(body))
            time.sleep(1.0)
            server.process.send_signal(signal.SIGCONT)
            late, patient = (read_one(connection) for connection in connections)
    assert late.status in (503, 504), late
    assert patient.status == 200, patient


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


def test_sigterm_answers_clients_that_are_just_connecting(bundles: Path) -> None:
    """They wait to be accepted, or their requests to be read, while others are queued and read."""
    with running_server(bundles) as server, server.client() as client, ExitStack() as held:
        early = [held.enter_context(closing(connect(server))) for _ in range(CLIENTS // 2)]
        for connection in early:
            connection.sendall(post(MEDIUM))
        while "readtrace_queue_documents 0.0" in client.get("/metrics").text:
            pass
        with stopped(server):
            late = [held.enter_context(closing(connect(server))) for _ in range(CLIENTS // 2)]
            for connection in late:
                connection.sendall(post(MEDIUM))
        answers = [read_to_end(connection) for connection in (*early, *late)]
        assert {answer.status for answer in answers} == {200, 503}
        for answer in answers:
            if answer.status != 200:
                assert_shutting_down(answer)
        assert server.process.wait(10) == 0


def test_sigterm_to_an_idle_server_answers_what_was_sent_before(bundles: Path) -> None:
    """Nothing is being read, so the end comes at once; connections are new, or kept from an earlier request."""
    request = post(SHORT).replace(b"connection: close\r\n", b"")
    with running_server(bundles) as server, ExitStack() as held:
        kept = [held.enter_context(closing(connect(server))) for _ in range(CLIENTS)]
        for connection in kept:
            connection.sendall(request)
            assert read_one(connection).status == 200
        with stopped(server):
            new = [held.enter_context(closing(connect(server))) for _ in range(CLIENTS)]
            for connection in (*kept, *new):
                connection.sendall(request)
        for connection in (*kept, *new):
            assert_shutting_down(read_to_end(connection))
        assert server.process.wait(5) == 0


@pytest.mark.parametrize(
    "begun", [b"POST /classify HTTP/1.1\r\nhost: x", post(SHORT)[:-1]], ids=["head", "body"]
)
def test_sigterm_waits_a_moment_for_requests_that_are_half_there(bundles: Path, begun: bytes) -> None:
    with running_server(bundles) as server, ExitStack() as held:
        half, ends, silent = (held.enter_context(closing(connect(server))) for _ in range(3))
        half.sendall(begun)
        ends.sendall(begun)
        open_connections(server, 4)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        ends.sendall(post(SHORT)[len(begun) :])
        assert_shutting_down(read_to_end(ends))
        assert_shutting_down(read_to_end(half))
        assert read_to_end(silent).head == ""
        assert server.process.wait(5) == 0


@pytest.mark.parametrize("kept", [False, True], ids=["new connections", "kept connections"])
def test_sigterm_hardly_resets_a_client_of_a_storm(bundles: Path, kept: bool) -> None:
    """Clients that ask on and on: each is answered until it is told to leave, then it cannot connect any more."""
    request = post(SHORT) if not kept else post(SHORT).replace(b"connection: close\r\n", b"")
    told: list[Counter[int | str]] = []

    def ask_on() -> None:
        counts: Counter[int | str] = Counter()
        told.append(counts)
        while True:
            try:
                connection = connect(server)
            except ConnectionRefusedError:
                counts["refused"] += 1
                return
            except ConnectionResetError:
                counts["reset"] += 1
                return
            try:
                with closing(connection):
                    leave = False
                    while not leave:
                        connection.sendall(request)
                        answer = read_one(connection)
                        counts[answer.status] += 1
                        leave = "connection: close" in answer.head
            except ConnectionError:
                counts["reset"] += 1
                return

    with running_server(bundles) as server:
        clients = [threading.Thread(target=ask_on) for _ in range(20)]
        for client in clients:
            client.start()
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0
        for client in clients:
            client.join(10)
    together = sum(told, Counter())
    assert {200, 503, "refused"} <= set(together) <= {200, 503, "refused", "reset"}
    assert together["refused"] + together["reset"] == len(clients)
    # Between the last look at who waits to be accepted and the end of listening, the kernel may connect one more.
    assert together["reset"] <= 1
