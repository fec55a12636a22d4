from __future__ import annotations

import json
import math
import signal
import stat
import time
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from typer.testing import CliRunner, Result

from app.cli import cli
from app.errors import QuotaExceeded, StartError
from app.keys import Caller, Key, KeyRing, Quota, make_key, read_keys, write_keys
from app.observability.metrics import Metrics
from tests.app.api.test_classify import assert_problem
from tests.app.scheduler.fakes import Clock
from tests.app.test_connection import metric
from tests.service import running_server
from tests.wire import connect, post, read_to_end


def new(name: str, *scopes: str, quota: int | None = None) -> tuple[str, Key]:
    return make_key(name, scopes or ("classify",), quota)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_only_the_whole_key_is_known() -> None:
    text, key = new("shop")
    ring = KeyRing([key])
    found = ring.find(text)
    assert found is not None
    assert found.key.name == "shop"
    for wrong in (
        text[:-1],
        text + "x",
        text.upper(),
        f"rt_{key.id}_",
        f"rt_{key.id}_{key.sha256}",
        key.sha256,
        "",
    ):
        assert ring.find(wrong) is None


@given(st.text())
def test_any_text_is_refused_as_a_key(text: str) -> None:
    assert KeyRing([new("shop")[1]]).find(text) is None


def test_file_holds_no_key_and_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    text, key = new("shop", quota=100)
    write_keys(path, [key])
    assert text.split("_", 2)[2] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_keys(path) == (key,)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Invalid JSON"),
        ('{"keys": [{"id": "x"}]}', r"keys\.0\.id"),
        (json.dumps({"keys": [new("a")[1].model_dump(), new("a")[1].model_dump()]}), "same name"),
    ],
)
def test_bad_file_of_keys_stops_the_start(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(StartError, match=message):
        read_keys(path)


def test_missing_file_of_keys_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"none\.json: cannot be read: No such file.*keys new"):
        read_keys(tmp_path / "none.json")


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.floats(0, 200), st.integers(0, 30_000)), min_size=1, max_size=30),
)
def test_caller_that_waits_as_told_is_let_in(tokens_per_minute: int, steps: list[tuple[float, int]]) -> None:
    clock = Clock()
    quota = Quota(tokens_per_minute, clock)
    for seconds, tokens in steps:
        clock.now += seconds
        try:
            quota.check()
        except QuotaExceeded as refusal:
            clock.now += refusal.retry_after_seconds
            quota.check()
        quota.charge(tokens)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=200))
def test_no_more_is_read_than_the_quota_and_one_request(requests: list[int]) -> None:
    clock = Clock()
    quota = Quota(60, clock)
    read = 0
    for tokens in requests:
        clock.now += 0.5
        try:
            quota.check()
        except QuotaExceeded:
            continue
        quota.charge(tokens)
        read += tokens
        assert read <= 60 + math.ceil(clock.now) + tokens


def test_unchanged_key_keeps_its_debt_when_the_file_is_read_anew() -> None:
    (_, kept), (_, gone), (_, added) = new("kept", quota=10), new("gone"), new("added")
    ring = KeyRing([kept, gone])
    before = {caller.key.name: caller for caller in ring.callers}
    ring.replace([added, kept])
    after: dict[str, Caller] = {caller.key.name: caller for caller in ring.callers}
    assert set(after) == {"kept", "added"}
    assert after["kept"] is before["kept"]


def test_quota_of_a_key_that_is_gone_has_no_series_any_more() -> None:
    (_, kept), (_, gone) = new("kept", quota=10), new("gone", quota=20)
    ring, metrics = KeyRing([kept, gone]), Metrics()

    def told() -> set[str]:
        lines = generate_latest(metrics.registry).decode().splitlines()
        return {line for line in lines if line.startswith("readtrace_quota_left_tokens{")}

    metrics.declare_callers(ring.callers)
    assert len(told()) == 2
    ring.replace([kept])
    metrics.declare_callers(ring.callers)
    assert told() == {'readtrace_quota_left_tokens{key="kept"} 10.0'}


def keys(*arguments: str | Path, expected_code: int = 0) -> Result:
    done = CliRunner().invoke(cli, ["keys", *map(str, arguments)])
    assert done.exit_code == expected_code, done.output
    return done


def test_keys_are_made_listed_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    made = keys("new", "shop", "--quota", "500", "--file", path).stdout.strip()
    keys("new", "ops", "--scope", "admin", "--scope", "classify", "--file", path)
    found = KeyRing(read_keys(path)).find(made)
    assert found is not None
    assert (found.key.scopes, found.key.tokens_per_minute) == (("classify",), 500)
    listed = keys("list", "--file", path).stdout
    assert "shop" in listed
    assert "admin, classify" in listed
    assert made not in listed
    assert "already" in keys("new", "shop", "--file", path, expected_code=2).stderr
    assert "scopes" in keys("new", "x", "--scope", "root", "--file", path, expected_code=2).stderr
    keys("remove", "shop", "--file", path)
    assert KeyRing(read_keys(path)).find(made) is None
    assert "found ops" in keys("remove", "shop", "--file", path, expected_code=2).stderr


def test_service_with_keys_asks_for_one(bundles: Path, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    (shop, shop_key), (ops, ops_key), (small, small_key) = (
        new("shop"),
        new("ops", "admin"),
        new("small", quota=5),
    )
    write_keys(path, [shop_key, ops_key, small_key])
    with running_server(bundles, keys=str(path)) as server, server.client() as client:

        def classify(**headers: str) -> httpx.Response:
            return client.post(
                "/classify", json={"input": "good film " * 5, "explain": "none"}, headers=headers
            )

        assert_problem(classify(), 401, "unauthenticated", "Authorization")
        assert classify().headers["www-authenticate"] == 'Bearer realm="readtrace"'
        assert_problem(classify(authorization=f"Basic {shop}"), 401, "unauthenticated")
        assert_problem(classify(**bearer(shop + "x")), 401, "unauthenticated", "that the service knows")
        assert classify(**bearer(shop)).status_code == 200
        forbidden = classify(**bearer(ops))
        assert_problem(forbidden, 403, "forbidden", "scope classify")
        assert 'error="insufficient_scope", scope="classify"' in forbidden.headers["www-authenticate"]
        assert classify(**bearer(small)).status_code == 200
        refused = classify(**bearer(small))
        assert_problem(refused, 429, "quota-exceeded", "at most 5 tokens a minute")
        assert 50 < int(refused.headers["retry-after"]) <= 61
        for path_ in (
            "/",
            "/docs",
            "/openapi.json",
            "/static/page.js",
            "/health/live",
            "/health/ready",
            "/metrics",
        ):
            assert client.get(path_).status_code == 200, path_
        for path_ in ("/v1/models", "/v1/models/reviews", "/nowhere", "/static/../v1/models"):
            assert client.get(path_).status_code == 401, path_
        metrics = client.get("/metrics").text
        assert 'readtrace_quota_tokens_total{key="small"} 10.0' in metrics
        assert 'readtrace_refused_total{reason="quota-exceeded"} 1.0' in metrics
        assert 'readtrace_quota_refused_total{key="small"} 1.0' in metrics
        for of_quotas in ("left_tokens", "refused_total"):
            assert f'readtrace_quota_{of_quotas}{{key="shop"}}' not in metrics
    log = "".join(server.log)
    assert '"key":"shop"' in log
    assert all(key.split("_", 2)[2] not in log for key in (shop, ops, small))


def test_requests_at_once_read_no_more_than_the_quota_and_one_of_them(bundles: Path, tmp_path: Path) -> None:
    """All are let in at their heads; once their bodies are there, the first uses the quota up."""
    text, key = new("shop", quota=10)
    write_keys(tmp_path / "keys.json", [key])
    body = json.dumps({"input": "good film " * 100, "explain": "none"}).encode()
    request = post(body, f"authorization: Bearer {text}")
    with running_server(bundles, keys=str(tmp_path / "keys.json")) as server, ExitStack() as open_:
        connections = [open_.enter_context(closing(connect(server))) for _ in range(20)]
        for connection in connections:
            connection.sendall(request[:-1])
        while metric(server, "readtrace_in_flight_requests") != 21:  # with the one that asks
            time.sleep(0.02)
        for connection in connections:
            connection.sendall(request[-1:])
        answers = [read_to_end(connection) for connection in connections]
        assert sorted(answer.status for answer in answers) == [200] + [429] * 19
        assert all("retry-after" in answer.head for answer in answers if answer.status == 429)
        assert metric(server, 'readtrace_quota_tokens_total{key="shop"}') == 200
        assert metric(server, 'readtrace_quota_refused_total{key="shop"}') == 19
        assert metric(server, 'readtrace_refused_total{reason="quota-exceeded"}') == 19


def test_keys_are_read_anew_at_a_signal(bundles: Path, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    (old, old_key), (added, added_key) = new("old"), new("added")
    write_keys(path, [old_key])

    def await_status(client: httpx.Client, key: str, status: int) -> None:
        while client.get("/v1/models", headers=bearer(key)).status_code != status:
            time.sleep(0.02)

    with running_server(bundles, keys=str(path)) as server, server.client() as client:
        await_status(client, old, 200)
        write_keys(path, [added_key])
        server.process.send_signal(signal.SIGHUP)
        await_status(client, added, 200)
        await_status(client, old, 401)
        path.write_text("{")
        server.process.send_signal(signal.SIGHUP)
        while "keys_not_reloaded" not in "".join(server.log):
            time.sleep(0.02)
        await_status(client, added, 200)


def test_service_without_keys_serves_all_but_admin(client: httpx.Client) -> None:
    assert client.get("/v1/models").status_code == 200
    assert_problem(client.post("/v1/models/reload"), 403, "forbidden", "READTRACE_KEYS")


@pytest.mark.parametrize("origins", ["", "https://shop.example, https://b.example"])
def test_other_origins_may_ask_only_where_configured(bundles: Path, tmp_path: Path, origins: str) -> None:
    path = tmp_path / "keys.json"
    text, key = new("shop")
    write_keys(path, [key])
    with running_server(bundles, cors_origins=origins, keys=str(path)) as server, server.client() as client:
        preflight = {
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization",
        }
        asked = client.options("/classify", headers={"origin": "https://shop.example", **preflight})
        stranger = client.options("/classify", headers={"origin": "https://x.example", **preflight})
        answer = client.post(
            "/classify", headers={"origin": "https://shop.example", **bearer(text)}, content=b"{"
        )
        allowed = [one.headers.get("access-control-allow-origin") for one in (asked, stranger, answer)]
        if origins:
            assert allowed == ["https://shop.example", None, "https://shop.example"]
            assert "authorization" in asked.headers["access-control-allow-headers"].lower()
        else:
            assert allowed == [None, None, None]
            assert asked.status_code == 401
