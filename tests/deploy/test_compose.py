from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
import yaml

from app.settings import Settings
from tests.deploy.queries import PROMETHEUS, ROOT, load_dashboard

COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
PROVISIONING = ROOT / "deploy/grafana/provisioning"

services = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES.keys())


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def seconds(duration: str) -> int:
    return int(duration.removesuffix("s"))


def test_the_file_fits_the_compose_specification() -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        str(COMPOSE),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@services
def test_services_run_with_the_least_rights(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]
    assert service["pids_limit"]


@services
def test_ports_are_open_to_this_machine_only(service: dict[str, Any]) -> None:
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


@services
def test_services_have_a_health_check(service: dict[str, Any]) -> None:
    assert service["healthcheck"]["test"][0] == "CMD"


@services
def test_images_are_pinned(service: dict[str, Any]) -> None:
    assert re.search(r":v?\d+\.\d+\.\d+", service["image"])


def test_the_gpu_service_starts_only_with_its_profile() -> None:
    assert {name for name, service in SERVICES.items() if service.get("profiles") == ["gpu"]} == {"api-gpu"}
    assert SERVICES["api-gpu"]["build"]["args"]["RUNTIME"] == "gpu"


@pytest.mark.parametrize("name", ["api", "api-gpu"])
def test_a_stop_leaves_time_to_drain(name: str) -> None:
    assert seconds(SERVICES[name]["stop_grace_period"]) > Settings().drain_seconds


def test_health_checks_outlast_the_services_own_limit() -> None:
    limit = Settings().readiness_timeout_seconds
    match = re.search(r"HEALTHCHECK .*--timeout=(\d+)s", DOCKERFILE)
    assert match
    assert int(match[1]) > limit
    assert seconds(SERVICES["api"]["healthcheck"]["timeout"]) > limit


def test_versions_agree_with_the_project() -> None:
    version = project()["version"]
    assert f"ARG VERSION={version}\n" in DOCKERFILE
    assert SERVICES["api"]["image"] == f"readtrace:{version}"
    assert SERVICES["api-gpu"]["image"] == f"readtrace:{version}-gpu"


def test_the_image_is_described_as_the_project_is() -> None:
    assert f'image.description="{project()["description"]}"' in DOCKERFILE


def test_prometheus_looks_for_the_services_by_name() -> None:
    (job,) = yaml.safe_load(PROMETHEUS.read_text(encoding="utf-8"))["scrape_configs"]
    (discovery,) = job["dns_sd_configs"]
    assert set(discovery["names"]) <= SERVICES.keys()
    assert discovery["port"] == Settings().port


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    (source,) = yaml.safe_load((PROVISIONING / "datasources/prometheus.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards/readtrace.yml").read_text())["providers"]
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    assert mounts["./deploy/grafana/dashboards"] == provider["options"]["path"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert load_dashboard(ROOT / "deploy/grafana/dashboards" / home.rsplit("/", 1)[1])


def test_every_variable_is_documented() -> None:
    used = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text(encoding="utf-8")))
    passed_on = {name for name, value in SERVICES["api"]["environment"].items() if value is None}
    documented = set(re.findall(r"`([A-Z_]+)`", (ROOT / "deploy/README.md").read_text(encoding="utf-8")))
    assert used | passed_on <= documented
