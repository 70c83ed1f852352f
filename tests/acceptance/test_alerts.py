"""The alerts: they load, their unit tests hold, each has a section in the runbook, and they name real metrics."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.metrics import METRIC_NAMES

pytestmark = pytest.mark.acceptance
ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"


def alerts() -> list[dict[str, Any]]:  # whatever the file holds
    """Those that are on by default, and the optional ones."""
    return [*_alerts(RULES), *_alerts(RULES.with_name("rules-optional.yaml"))]


def _alerts(file: Path) -> list[dict[str, Any]]:  # as above
    groups = yaml.safe_load(file.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def test_promtool_accepts_the_rules_and_their_unit_tests_hold(tool: Callable[[str], str]) -> None:
    promtool = tool("promtool")
    for arguments in (
        ["check", "rules", str(RULES), str(RULES.with_name("rules-optional.yaml"))],
        ["test", "rules", str(RULES.with_name("rules_test.yaml"))],
    ):
        done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_for_firing_and_for_silence() -> None:
    text = RULES.with_name("rules_test.yaml").read_text()
    for alert in alerts():
        assert re.search(rf"alertname: {alert['alert']}\n\s+exp_alerts:\n", text), f"{alert['alert']} never fires"
        assert re.search(rf"alertname: {alert['alert']}, exp_alerts: \[\]", text), f"{alert['alert']} is never silent"


def test_every_alert_has_a_section_in_the_runbook_under_its_address() -> None:
    headings = re.findall(r"(?m)^## (\w+)$", (ROOT / "docs" / "runbook.md").read_text())
    for alert in alerts():
        assert alert["alert"] in headings
        annotations = alert["annotations"]
        assert annotations["runbook_url"].endswith(f"#{alert['alert'].lower()}")
        assert {"summary", "description"} <= set(annotations)


def test_the_rules_name_no_metric_that_is_not_exported() -> None:
    text = RULES.read_text() + RULES.with_name("rules-optional.yaml").read_text()
    named = set(re.findall(r"\bpgwatchdog_([a-z_]+?)(?=[\[\s)({]|$)", text, re.MULTILINE))
    recorded = {"orphans:max", "amplification", "abandoned", "poll_failures_total"}
    assert named - recorded - METRIC_NAMES == set()
    assert len(named) > 8
