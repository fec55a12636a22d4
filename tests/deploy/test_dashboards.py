from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.deploy.queries import DASHBOARDS, Query, known_series, load_dashboard, panel_queries, rule_queries

GRID_COLUMNS = 24
VARIABLES = {"$datasource", "${datasource}", "$model", "$route", "$__rate_interval"}

dashboards = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)


def panels(path: Path) -> list[dict[str, Any]]:
    return [panel for panel in load_dashboard(path)["panels"] if panel["type"] != "row"]


def lost(written: Any, read: Any, where: str = "") -> list[str]:
    """The places of ``written`` that ``read`` lacks or has otherwise."""
    if isinstance(written, dict) and isinstance(read, dict):
        return [
            place
            for key, value in written.items()
            for place in (lost(value, read[key], f"{where}/{key}") if key in read else [f"{where}/{key}"])
        ]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [
            place
            for index, pair in enumerate(zip(written, read, strict=True))
            for place in lost(*pair, f"{where}/{index}")
        ]
    return [] if written == read else [where]


def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
    place = panel["gridPos"]
    columns = range(place["x"], place["x"] + place["w"])
    return {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}


def test_both_dashboards_ship() -> None:
    assert [path.stem for path in DASHBOARDS] == ["latency", "skip-rate"]


@pytest.mark.parametrize("query", panel_queries() + rule_queries(), ids=lambda query: query.owner)
def test_queries_name_metrics_that_exist(query: Query) -> None:
    assert query.metrics, f"no metric in {query.expression}"
    assert query.metrics - known_series() == set()


@dashboards
def test_grafana_knows_every_field(path: Path) -> None:
    register_default_plugins()
    written = load_dashboard(path)
    read = json.loads(json.dumps(Dashboard.from_json(written), cls=JSONEncoder))
    assert lost(written, read) == []


@dashboards
def test_panels_have_a_description_a_unit_and_the_chosen_data_source(path: Path) -> None:
    for panel in panels(path):
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for source in (panel, *panel["targets"]):
            assert source["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]


@dashboards
def test_panels_fill_the_grid_without_overlap(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in load_dashboard(path)["panels"]:
        place = cells(panel)
        assert not taken & place, panel["title"]
        taken |= place
    assert {x for x, _ in taken} == set(range(GRID_COLUMNS))


@dashboards
def test_ids_are_distinct(path: Path) -> None:
    ids = [panel["id"] for panel in load_dashboard(path)["panels"]]
    assert len(ids) == len(set(ids))


@dashboards
def test_queries_use_declared_variables(path: Path) -> None:
    declared = {variable["name"] for variable in load_dashboard(path)["templating"]["list"]}
    for panel in panels(path):
        for target in panel["targets"]:
            for name in ("model", "route"):
                assert f"${name}" not in target["expr"] or name in declared, panel["title"]
            rest = target["expr"]
            for variable in VARIABLES:
                rest = rest.replace(variable, "")
            assert "$" not in rest, panel["title"]


def test_links_lead_to_the_other_dashboard() -> None:
    uids = {f"/d/{load_dashboard(path)['uid']}" for path in DASHBOARDS}
    links = {link["url"] for path in DASHBOARDS for link in load_dashboard(path)["links"]}
    assert links == uids
