"""What every answer has, whatever the route."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import time
from pathlib import Path

import httpx
import pytest

from app.api.application import create_app
from app.engine.registry import Registry
from app.observability.metrics import Metrics
from app.service import Service
from app.settings import Settings
from tests.app.api.test_classify import assert_problem
from tests.service import running_server


def gauge(client: httpx.Client, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(f"{name} ")))


def test_sane_request_id_comes_back_and_others_are_replaced(client: httpx.Client) -> None:
    ids = []
    for given in ("order-7.3", "x" * 200, "spaces are odd", ""):
        headers = {"x-request-id": given} if given else {}
        ids.append(client.post("/classify", json={"input": "good"}, headers=headers).headers["x-request-id"])
    assert ids[0] == "order-7.3"
    assert all(len(request_id) == 32 for request_id in ids[1:])
    assert len(set(ids)) == 4


def test_answer_has_the_request_id_as_id(client: httpx.Client) -> None:
    response = client.post("/classify", json={"input": "good"})
    assert response.json()["id"] == response.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/", "/docs", "/classify", "/nowhere", "/static/page.js", "/health/live"])
def test_browser_may_load_from_here_only(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none';")
    assert headers["x-content-type-options"] == "nosniff"


def test_unknown_path_and_method_are_problems(client: httpx.Client) -> None:
    assert_problem(client.get("/nowhere"), 404, "not-found")
    response = client.get("/classify")
    assert_problem(response, 405, "method-not-allowed", "Expected POST, got GET")
    assert response.headers["allow"] == "POST"


def test_problem_type_leads_to_the_documentation(client: httpx.Client) -> None:
    assert client.get("/problems/queue-full").headers["location"].endswith("docs#queue-full")
    assert 'id="queue-full"' in client.get("/docs").text
    assert_problem(client.get("/problems/boredom"), 404, "not-found")


def test_documentation_works_offline(client: httpx.Client) -> None:
    page = client.get("/docs").text
    assert "https://" not in page
    assert "<script" not in page
    assert "POST /classify" in page
    assert "deadline_ms" in page


def test_openapi_documents_classify_with_example_and_problems(client: httpx.Client) -> None:
    operation = client.get("/openapi.json").json()["paths"]["/classify"]["post"]
    request = operation["requestBody"]["content"]["application/json"]
    assert client.post("/classify", json=request["example"]).status_code == 200
    assert set(request["schema"]["properties"]) >= {"input", "model", "explain", "truncate", "deadline_ms"}
    assert set(operation["responses"]) == {
        "200",
        "400",
        "401",
        "403",
        "404",
        "408",
        "413",
        "422",
        "429",
        "431",
        "500",
        "503",
        "504",
    }
    for status, answer in operation["responses"].items():
        assert status == "200" or "application/problem+json" in answer["content"]


def test_live_and_ready(client: httpx.Client) -> None:
    assert client.get("/health/live").json() == {"status": "live"}
    assert client.get("/health/ready").json() == {"status": "ready"}


def test_client_that_leaves_is_counted_and_its_work_dropped(bundles: Path) -> None:
    with running_server(bundles) as server, server.client() as client:
        body = json.dumps({"input": ["good bad " * 15_000] * 10}).encode()
        with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as connection:
            head = f"POST /classify HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            while not gauge(client, "readtrace_queue_documents"):
                time.sleep(0.01)
        while not gauge(client, "readtrace_disconnects_total"):
            time.sleep(0.01)
        while gauge(client, "readtrace_queue_documents"):
            time.sleep(0.01)
        assert gauge(client, "readtrace_queue_tokens") == 0


def test_log_has_requests_and_never_a_text(bundles: Path) -> None:
    with running_server(bundles) as server, server.client() as client:
        secret = "zanzibar"
        for body in (
            {"input": secret},
            {"input": [secret, ""]},
            {"input": "", "x": secret},
            {"model": secret},
        ):
            client.post("/classify", json=body)
        client.post("/classify", content=secret.encode())
    events = [json.loads(line) for line in server.log]
    requests = [event for event in events if event["event"] == "request"]
    assert [event["status"] for event in requests] == [200, 200, 422, 422, 422]
    assert {event["route"] for event in requests} == {"/classify"}
    assert all(event["request_id"] and event["seconds"] > 0 for event in requests)
    assert secret not in "".join(server.log)


def test_refused_bundle_is_listed_with_its_reason(tmp_path: Path, bundles: Path) -> None:
    (tmp_path / "bad" / "1").mkdir(parents=True)
    (tmp_path / "bad" / "1" / "manifest.json").write_text("{}")
    shutil.copytree(bundles / "reviews", tmp_path / "reviews")
    with running_server(tmp_path) as server, server.client() as client:
        listed = {one["id"]: one for one in client.get("/v1/models").json()["data"]}
        assert listed["reviews@1"]["state"] == "ready"
        assert listed["bad@1"]["state"] == "refused"
        assert "Field required" in listed["bad@1"]["reason"]
        assert 'readtrace_model_loaded{model="bad",version="1"} 0.0' in client.get("/metrics").text
        assert_problem(client.post("/classify", json={"input": "a", "model": "bad"}), 404, "unknown-model")


def test_model_page_has_card_and_manifest(client: httpx.Client) -> None:
    found = client.get("/v1/models/topics").json()
    assert found["id"] == "topics@1"
    assert found["card"].startswith("# topics")
    assert found["manifest"]["labels"] == ["business", "sports", "science"]
    assert found["explains"] == {
        "trace": {"causal": False, "meaning": found["manifest"]["trace"]["meaning"]},
        "skip_map": True,
        "skim_map": False,
        "groups": False,
        "forgetting": False,
        "attention": False,
        "ngrams": False,
        "halves": False,
    }
    assert found["provider"] == "CPUExecutionProvider"
    assert {(rows["reading"], rows["bucket"]) for rows in found["rows"]} == {
        (reading, bucket) for reading in ("look", "read") for bucket in (4, 8, 16)
    }
    assert_problem(client.get("/v1/models/nobody"), 404, "unknown-model")


def test_exactly_one_model_is_the_default(client: httpx.Client) -> None:
    data = client.get("/v1/models").json()["data"]
    assert [one["id"] for one in data if one["default"]] == ["reviews@1"]
    assert client.post("/classify", json={"input": "good"}).json()["model"] == "reviews@1"


def test_bug_tells_nothing_inside(
    registry: Registry,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def failing(*_: object) -> None:
        raise KeyError("secret")

    async def scenario() -> httpx.Response:
        service = Service(settings, registry, Metrics())
        monkeypatch.setattr(service, "classify", failing)
        transport = httpx.ASGITransport(create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.post("/classify", json={"input": "good"})

    response = asyncio.run(scenario())
    assert_problem(response, 500, "internal-error", "request id")
    assert "secret" not in response.text + "".join(capsys.readouterr())
