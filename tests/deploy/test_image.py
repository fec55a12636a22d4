"""The image and the compose file under podman: `make test-image`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.app.tiny import write_all
from tests.deploy.base_image import ensure_prometheus_image, run
from tests.deploy.containers import (
    STOP_SECONDS,
    build,
    compose,
    configure,
    container,
    logs,
    run_once,
    wait_until_healthy,
)
from tests.deploy.queries import ROOT
from tests.deploy.servers import answers, free_port, query, wait_until
from tests.deploy.test_compose import SERVICES

pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]

PROJECT = "readtrace-test"
WRITABLE = ("find", "/opt", "/usr", "/bundles", "-writable", "-not", "-type", "l")


@pytest.fixture(scope="module", autouse=True)
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in configure(tmp_path_factory.mktemp("podman")).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def image(podman: None) -> str:
    name = f"localhost/{SERVICES['api']['image']}"
    build(name)
    return name


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny bundles that the container's user, who is nobody here, can read."""
    folder = tmp_path_factory.mktemp("image")
    folder.parent.chmod(0o755)
    folder.chmod(0o755)
    return write_all(folder / "bundles")


@pytest.fixture
def service(image: str, bundles: Path) -> Iterator[tuple[str, str]]:
    """A healthy container; yields its id and its URL."""
    port = free_port()
    with container(image, "-v", f"{bundles}:/bundles:ro", "-e", f"READTRACE_PORT={port}") as identity:
        wait_until_healthy(identity)
        yield identity, f"http://127.0.0.1:{port}"


def test_it_classifies(service: tuple[str, str]) -> None:
    _, url = service
    answer = httpx.post(f"{url}/classify", json={"input": "A good film !", "model": "topics"}).json()
    (document,) = answer["data"]
    assert document["steps"]["tokens"] == ["A", "good", "film", "!"]
    assert sum(document["probs"]) == pytest.approx(1)


def test_it_runs_as_an_ordinary_user_who_cannot_write(service: tuple[str, str]) -> None:
    identity, _ = service
    assert run("podman", "exec", identity, "id", "-u") == "10001"
    capabilities = run("podman", "exec", identity, "grep", "CapEff", "/proc/1/status")
    assert int(capabilities.split()[1], 16) == 0
    assert run("podman", "exec", identity, *WRITABLE) == ""


def test_it_stops_cleanly_within_seconds(service: tuple[str, str]) -> None:
    identity, _ = service
    before = time.monotonic()
    run("podman", "stop", "--time", str(STOP_SECONDS), identity)
    assert time.monotonic() - before < STOP_SECONDS / 2
    assert run("podman", "inspect", "--format", "{{.State.ExitCode}}", identity) == "0"


def test_without_a_model_it_ends_with_the_reason(image: str) -> None:
    with container(image, "--env", "READTRACE_BUNDLES=/tmp/none") as identity:
        assert run("podman", "wait", identity) == "2"
        assert "/tmp/none" in logs(identity)


def test_it_holds_no_training_library(image: str) -> None:
    listed = run_once(image, "pip", "list", "--format=json", "--disable-pip-version-check")
    installed = {package["name"] for package in json.loads(listed)}
    assert {"readtrace", "onnxruntime"} <= installed
    assert not {"torch", "onnx", "pyarrow", "pytest"} & installed


def test_its_user_can_read_the_shipped_bundles(image: str) -> None:
    readable = "cd /bundles && find . -type f -readable"
    found = run_once(image, "sh", "-c", readable)
    shipped = {f"./{path.relative_to(ROOT / 'bundles')}" for path in ROOT.glob("bundles/*/*/*")}
    assert set(found.split()) == shipped


def test_its_labels_say_what_it_is(image: str) -> None:
    labels = json.loads(run("podman", "inspect", "--format", "{{json .Config.Labels}}", image))
    assert labels["org.opencontainers.image.title"] == "readtrace"
    assert labels["org.opencontainers.image.version"] == SERVICES["api"]["image"].split(":")[1]


def test_compose_starts_the_service_and_prometheus_finds_it(image: str, bundles: Path) -> None:
    ensure_prometheus_image()
    ports = {"READTRACE_PORT": str(free_port()), "PROMETHEUS_PORT": str(free_port())}
    environment = ports | {"READTRACE_BUNDLES": str(bundles)}
    url = f"http://127.0.0.1:{ports['PROMETHEUS_PORT']}"
    try:
        compose(PROJECT, "up", "-d", "api", "prometheus", **environment)
        wait_until(lambda: answers(f"http://127.0.0.1:{ports['READTRACE_PORT']}/health/ready"), "ready")
        wait_until(lambda: answers(f"{url}/-/ready"), "Prometheus is ready")
        up = 'up{job="readtrace", service="api"} == 1'
        wait_until(lambda: len(query(url, up)) == 1, up)
    finally:
        compose(PROJECT, "down", "-v", "-t", str(STOP_SECONDS), **environment)
