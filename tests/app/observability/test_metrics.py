from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from app.engine.registry import Registry
from app.observability.metrics import Metrics
from app.service import Service
from app.settings import Settings
from tests.service import running_server

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
Series = set[tuple[str, tuple[tuple[str, str], ...]]]


def series(exposition: str) -> Series:
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


def test_document_lists_every_metric_and_no_other() -> None:
    listed = re.findall(r"^\| `(readtrace_\w+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(Metrics().names())


def test_every_series_exists_from_the_first_scrape(bundles: Path) -> None:
    with running_server(bundles) as server, server.client() as client:
        first = series(client.get("/metrics").text)
        for explain in ("steps", "summary", "none"):
            body = {"input": ["good film", "", "bad " * 40], "explain": explain, "model": "topics"}
            assert client.post("/classify", json=body).status_code == 200
        client.post("/classify", json={"input": []})
        client.post("/classify", json={"input": "good", "model": "none"})
        client.put("/classify")
        for path in (
            "/",
            "/docs",
            "/v1/models",
            "/v1/models/none",
            "/nowhere",
            "/health/ready",
            "/static/none",
        ):
            client.get(path)
        assert series(client.get("/metrics").text) == first


def test_series_of_skipping_exist_only_for_models_that_skip(client: httpx.Client) -> None:
    text = client.get("/metrics").text
    assert 'readtrace_words_skipped_total{model="topics"}' in text
    assert 'readtrace_words_skipped_total{model="reviews"}' not in text


def test_unforeseen_status_stays_within_the_closed_set(registry: Registry) -> None:
    metrics = Metrics()
    before = series(metrics.exposition().decode())
    for route, status in (("/classify", 418), ("/nowhere", 502), ("/docs", 400)):
        metrics.observe_request(route, status, 0.1)
    assert series(metrics.exposition().decode()) == before


def test_pages_are_counted_by_their_paths(client: httpx.Client) -> None:
    counted = [("/", "206"), ("/openapi.json", "200")]
    before = [requests(client, *one) for one in counted]
    client.get("/", headers={"range": "bytes=0-9"})
    client.get("/openapi.json")
    assert [requests(client, *one) for one in counted] == [count + 1 for count in before]


def requests(client: httpx.Client, route: str, status: str) -> float:
    name = ("readtrace_request_seconds_count", (("route", route), ("status", status)))
    return next(
        sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
        if (sample.name, tuple(sorted(sample.labels.items()))) == name
    )


def test_no_series_tells_when_another_began(client: httpx.Client) -> None:
    client.post("/classify", json={"input": "good"})
    assert not [name for name, _ in series(client.get("/metrics").text) if name.endswith("_created")]


def test_metrics_are_rendered_off_the_event_loop_and_once_at_a_time(
    registry: Registry, settings: Settings
) -> None:
    rendering = threading.Lock()
    threads: list[int] = []

    class Witness(Collector):
        def collect(self) -> Iterator[Metric]:
            assert rendering.acquire(blocking=False)
            threads.append(threading.get_ident())
            yield GaugeMetricFamily("witness", "Who renders", 1)
            rendering.release()

    async def scenario() -> None:
        service = Service(settings, registry, Metrics())
        service.metrics.registry.register(Witness())
        threads.clear()  # it was asked for its names
        answers = await asyncio.gather(*(service.exposition() for _ in range(5)))
        assert all(b"witness 1.0" in answer for answer in answers)
        assert len(threads) == 5
        assert threading.get_ident() not in threads

    asyncio.run(scenario())


def test_process_metrics_are_there(client: httpx.Client) -> None:
    assert "process_resident_memory_bytes" in client.get("/metrics").text
