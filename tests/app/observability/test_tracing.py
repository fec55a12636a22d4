from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.api.application import create_app
from app.engine.registry import Registry
from app.errors import StartError
from app.observability.metrics import STAGES, Metrics
from app.observability.tracing import Tracing, open_tracing, trace_id_of
from app.service import Service
from app.settings import Settings
from tests.deploy.servers import wait_until
from tests.service import Server, running_server

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
TEXT = "good film quux7193"


@pytest.mark.parametrize(
    ("header", "trace_id"),
    [
        (SAMPLED, TRACE),
        (f"01-{TRACE}-{PARENT}-01-later", TRACE),
        ("", None),
        (f"ff-{TRACE}-{PARENT}-01", None),
        (f"00-{'0' * 32}-{PARENT}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (SAMPLED.upper(), None),
        (f"{SAMPLED}\n", None),
    ],
)
def test_traceparent_is_read_as_w3c_has_it(header: str, trace_id: str | None) -> None:
    assert trace_id_of(header) == trace_id


def ask(
    registry: Registry, settings: Settings, *requests: tuple[str, str, dict[str, str]]
) -> tuple[list[httpx.Response], Sequence[ReadableSpan]]:
    """Answers to (method, path, headers), and the spans that they left."""
    exporter = InMemorySpanExporter()
    tracing = Tracing(exporter)

    async def scenario() -> list[httpx.Response]:
        service = Service(settings, registry, Metrics())
        service.start()
        transport = httpx.ASGITransport(create_app(service, tracing))
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            answers = [
                await client.request(method, path, headers=headers, json={"input": [TEXT, "bad"]})
                for method, path, headers in requests
            ]
        await service.stop()
        return answers

    answers = asyncio.run(scenario())
    tracing.close()
    return answers, exporter.get_finished_spans()


def test_request_and_its_stages_are_spans_of_the_callers_trace(
    registry: Registry, settings: Settings
) -> None:
    (answer,), spans = ask(registry, settings, ("POST", "/classify", {"traceparent": SAMPLED}))
    root = next(span for span in spans if span.name == "POST /classify")
    assert root.context is not None
    assert root.parent is not None
    assert f"{root.context.trace_id:032x}" == TRACE
    assert f"{root.parent.span_id:016x}" == PARENT
    assert answer.headers["traceresponse"] == f"00-{TRACE}-{root.context.span_id:016x}-01"
    stages = [span for span in spans if span is not root]
    assert [span.name for span in stages] == list(STAGES)
    for span, after in pairwise(stages):
        assert span.end_time == after.start_time
    assert all(span.parent is not None and span.parent.span_id == root.context.span_id for span in stages)
    attributes = dict(root.attributes or {})
    assert attributes == {
        "http.request.method": "POST",
        "http.route": "/classify",
        "http.response.status_code": 200,
        "readtrace.model": "reviews@1",
        "readtrace.documents": 2,
        "readtrace.tokens": 4,
    }
    assert "quux7193" not in "".join(span.to_json() for span in spans)


def test_caller_that_does_not_sample_gets_no_spans(registry: Registry, settings: Settings) -> None:
    (answer,), spans = ask(registry, settings, ("POST", "/classify", {"traceparent": UNSAMPLED}))
    assert answer.headers["traceresponse"].endswith("-00")
    assert not spans


def test_refusals_are_spans_and_probes_are_none(registry: Registry, settings: Settings) -> None:
    _, spans = ask(
        registry, settings, ("GET", "/nowhere", {}), ("GET", "/health/live", {}), ("GET", "/metrics", {})
    )
    assert [span.name for span in spans] == ["GET other"]


def test_log_has_the_callers_trace_also_without_tracing(server: Server, client: httpx.Client) -> None:
    answer = client.post("/classify", json={"input": "good"}, headers={"traceparent": SAMPLED})
    assert "traceresponse" not in answer.headers
    assert _logged(server, answer)["trace_id"] == TRACE
    answer = client.post("/classify", json={"input": "good"}, headers={"traceparent": "nonsense"})
    assert "trace_id" not in _logged(server, answer)


def _logged(server: Server, answer: httpx.Response) -> dict[str, object]:
    """The request's line of the log, which the server writes after its answer."""

    def lines() -> list[str]:
        return [line for line in server.log if answer.headers["x-request-id"] in line]

    wait_until(lambda: bool(lines()), "the request's line in the log")
    found: dict[str, object] = json.loads(lines()[0])
    return found


class Collector(BaseHTTPRequestHandler):
    received: list[ExportTraceServiceRequest]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    received: list[ExportTraceServiceRequest] = []
    handler = type("Handler", (Collector,), {"received": received})
    with HTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/v1/traces", received
        http.shutdown()
        thread.join()


def test_service_sends_its_spans_before_it_ends(
    bundles: Path, collector: tuple[str, list[ExportTraceServiceRequest]]
) -> None:
    url, received = collector
    with running_server(bundles, traces_endpoint=url) as server, server.client() as client:
        assert client.post("/classify", json={"input": "good"}).headers["traceresponse"]
    (sent,) = received
    spans = sent.resource_spans[0].scope_spans[0].spans
    assert {span.name for span in spans} == {"POST /classify", *STAGES}
    resource = {one.key: one.value.string_value for one in sent.resource_spans[0].resource.attributes}
    assert resource["service.name"] == "readtrace"


def test_collector_that_is_gone_holds_nothing_up(bundles: Path) -> None:
    with (
        running_server(bundles, traces_endpoint="http://127.0.0.1:9/v1/traces") as server,
        server.client() as client,
    ):
        assert client.post("/classify", json={"input": "good"}).status_code == 200
        server.process.terminate()
        assert server.process.wait(10) == 0


def test_missing_extra_stops_the_start_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert open_tracing(None) is None
    with pytest.raises(StartError, match=r"needs OpenTelemetry: .*otel"):
        open_tracing("http://collector:4318/v1/traces")
