from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import yaml

from tests.deploy.queries import ALERTS, PROMETHEUS, ROOT, alerts

RUNBOOK = ROOT / "deploy/runbook.md"
ALERT_CASES = Path(__file__).parent / "alerts_test.yml"


def promtool(*arguments: str | Path) -> str:
    program = shutil.which("promtool")
    assert program, "promtool is missing: `apt-get install --no-install-recommends prometheus` brings it"
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_configuration_and_rules_are_valid() -> None:
    assert "rules found" in promtool("check", "config", PROMETHEUS)
    promtool("check", "rules", "--lint-fatal", ALERTS)


def test_alerts_fire_on_what_they_are_for() -> None:
    assert "SUCCESS" in promtool("test", "rules", ALERT_CASES)


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    cases = [
        case for test in yaml.safe_load(ALERT_CASES.read_text())["tests"] for case in test["alert_rule_test"]
    ]
    names = {alert["alert"] for alert in alerts()}
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == names
    assert {case["alertname"] for case in cases if not case["exp_alerts"]} == names


def test_every_alert_leads_to_its_place_in_the_runbook() -> None:
    headings = {heading.lower() for heading in re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.MULTILINE)}
    assert headings == {alert["alert"].lower() for alert in alerts()}
    for alert in alerts():
        expected = f"{RUNBOOK.relative_to(ROOT)}#{alert['alert'].lower()}"
        assert alert["annotations"]["runbook"] == expected
