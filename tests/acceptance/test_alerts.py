"""The alerts: they load, their unit tests hold, each has a section in the runbook, and they name real metrics."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.metrics import METRIC_NAMES

pytestmark = pytest.mark.acceptance
ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
VALUES = yaml.safe_load(RULES.with_name("values.yaml").read_text())
REPLICA = ", ".join((*VALUES["replica"], *VALUES["scraper"]))
OF_EACH_PROCESS = {"PgwatchdogReloadFailed", "PgwatchdogTargetDown", "PgwatchdogAbsent"}
"""Alerts about a process, not about a cluster that several of them watch."""


def alerts() -> list[dict[str, Any]]:  # whatever the file holds
    """Those that are on by default, and the optional ones."""
    return [*_alerts(RULES), *_alerts(RULES.with_name("rules-optional.yaml"))]


def expressions() -> dict[str, str]:
    """By the name of the alert or of the recording rule."""
    files = (RULES, RULES.with_name("rules-optional.yaml"))
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    return {rule.get("alert", rule.get("record")): rule["expr"] for group in groups for rule in group["rules"]}


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


def test_the_committed_rules_are_what_the_templates_make(tmp_path: Path) -> None:
    made = made_anew(tmp_path)
    for name in ("rules.yaml", "rules-optional.yaml", "rules_test.yaml"):
        assert RULES.with_name(name).read_text() == (made / "prometheus" / name).read_text(), "make docs"


def test_a_label_more_in_the_list_of_replicas_reaches_every_rule_and_every_panel(
    tmp_path: Path, tool: Callable[[str], str]
) -> None:
    made = made_anew(tmp_path, values={**VALUES, "replica": [*VALUES["replica"], "shard"]})
    for name in ("prometheus/rules.yaml", "prometheus/rules-optional.yaml", "grafana/dashboard.json"):
        before, after = (ROOT / "deploy" / name).read_text(), (made / name).read_text()
        assert before.count("node, prometheus_replica") == after.count("node, shard, prometheus_replica") > 0
    command = [tool("promtool"), "test", "rules", str(made / "prometheus" / "rules_test.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def made_anew(folder: Path, *, values: dict[str, Any] | None = None) -> Path:  # whatever the file holds
    """What is generated in `deploy`, made in `folder`."""
    for name in ("prometheus", "grafana"):
        shutil.copytree(ROOT / "deploy" / name, folder / name)
    if values is not None:
        (folder / "prometheus" / "values.yaml").write_text(yaml.safe_dump(values))
    for script in ("prometheus/rules.py", "grafana/dashboard.py"):
        subprocess.run([sys.executable, str(folder / script)], check=True)
    return folder


def test_every_rule_takes_the_maximum_over_replicas_and_merges_no_environments() -> None:
    for name, expression in expressions().items():
        assert not re.search(r"\b(by|on|group_left|group_right)\b", expression), name
        recorded = expression.startswith("server")
        assert recorded or name in OF_EACH_PROCESS or f" without ({REPLICA}) (" in expression, name


def test_every_alert_is_tested_for_firing_and_for_silence() -> None:
    text = RULES.with_name("rules_test.yaml").read_text()
    for alert in alerts():
        assert re.search(rf"alertname: {alert['alert']}\n\s+exp_alerts:\n", text), f"{alert['alert']} never fires"
        assert re.search(rf"alertname: {alert['alert']}, exp_alerts: \[\]", text), f"{alert['alert']} is never silent"


def test_every_alert_has_a_section_in_the_runbook_under_its_address() -> None:
    headings = re.findall(r"(?m)^## (\w+)$", (ROOT / "docs" / "runbook.md").read_text())
    page = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Runbook"]
    for alert in alerts():
        assert alert["alert"] in headings
        annotations = alert["annotations"]
        assert annotations["runbook_url"] == f"{page}#{alert['alert'].lower()}"
        assert {"summary", "description"} <= set(annotations)


def test_the_rules_name_no_metric_that_is_not_exported() -> None:
    text = RULES.read_text() + RULES.with_name("rules-optional.yaml").read_text()
    named = set(re.findall(r"\bpgwatchdog_([a-z_]+?)(?=[\[\s)({]|$)", text, re.MULTILINE))
    recorded = {"orphans:max", "amplification", "abandoned", "poll_failures_total"}
    assert named - recorded - METRIC_NAMES == set()
    assert len(named) > 8
