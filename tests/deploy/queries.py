"""The PromQL of the dashboards and alerts, read from the files that ship."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.observability.metrics import Metrics

ROOT = Path(__file__).parents[2]
DASHBOARDS = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))
ALERTS = ROOT / "deploy/prometheus/alerts.yml"
PROMETHEUS = ROOT / "deploy/prometheus/prometheus.yml"
_METRIC = re.compile(r"\b(?:(?:readtrace|process|python)[_:][a-z0-9_:]+|up(?=\{))")
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


@dataclass(frozen=True)
class Query:
    """One expression and the panel or rule that it belongs to."""

    owner: str
    expression: str

    @property
    def metrics(self) -> set[str]:
        """The series names in the expression."""
        return set(_METRIC.findall(self.expression))


def load_dashboard(path: Path) -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return dashboard


def panel_queries() -> list[Query]:
    """Every target of every panel."""
    return [
        Query(f"{path.stem}: {panel['title']} {target['refId']}", target["expr"])
        for path in DASHBOARDS
        for panel in load_dashboard(path)["panels"]
        for target in panel.get("targets", ())
    ]


def rules() -> list[dict[str, Any]]:
    """The alerts and recording rules."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def rule_queries() -> list[Query]:
    return [Query(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()]


def known_series() -> set[str]:
    """The series names that the service exposes, that the rules record, and Prometheus's own ``up``."""
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    return {"up"} | recorded | set(_exposed())


def _exposed() -> Iterator[str]:
    for family in Metrics().registry.collect():
        for suffix in _SUFFIXES.get(family.type, ("",)):
            yield family.name + suffix
