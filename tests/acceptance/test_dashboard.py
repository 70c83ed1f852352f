"""The dashboard: as its source makes it, its expressions valid, and none empty that should not be."""

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import promql_parser
import pytest
from support.demos import demo, read_until
from support.metrics import METRIC_NAMES, METRICS
from support.monitoring import query, running_prometheus

from watchdog.demo.guardian import Guardian

pytestmark = pytest.mark.acceptance
FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
MAY_BE_EMPTY = {"Sessions that wait for an orphan", "Left alone, and why", "Not judged", "Acts that did not work"}
"""Nothing of it happens in the demo."""

# Its one window may have begun before Prometheus scraped for the first time, and then a rate has no beginning.
MAY_BE_EMPTY |= {"Retry amplification"}

CHOSEN_BY = {"server": 'server=~"$server"', "usename": 'usename=~"$role"', "job_key": 'job_key=~"$job"'}
"""How a panel narrows a metric that has the label."""

GRAFANA = {"environment_label": "environment", "__rate_interval": "1m"}
"""What Grafana puts in for a variable, where it is not `.*` for all."""


@pytest.fixture(scope="module")
def source() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dashboard", FOLDER / "dashboard.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def concrete(expression: str) -> str:
    """The expression as Grafana would send it, with all of everything chosen."""
    return re.sub(r"\$(\w+)", lambda found: GRAFANA.get(found[1], ".*"), expression)


def test_the_committed_dashboard_is_what_its_source_makes(source: ModuleType) -> None:
    assert (FOLDER / "dashboard.json").read_text() == source.dashboard_json(), "make docs"
    assert len(json.loads(source.dashboard_json())["panels"]) == len(source.PANELS)


def test_every_expression_parses_and_names_metrics_that_exist(source: ModuleType) -> None:
    for expression in source.expressions():
        promql_parser.parse(concrete(expression))
        for name in re.findall(r"pgwatchdog_(\w+)", expression):
            assert name in METRIC_NAMES


def test_the_variables_choose_environment_cluster_role_and_job_in_every_panel_that_has_them(
    source: ModuleType,
) -> None:
    variables = {each["name"] for each in json.loads(source.dashboard_json())["templating"]["list"]}
    assert variables == {"datasource", "environment_label", "environment", "server", "role", "job"}
    labels = {metric.name: metric.labels for metric in METRICS}
    for expression in source.expressions():
        assert set(re.findall(r"\$(\w+)", expression)) <= variables | {"__rate_interval"}
        for name, selector in re.findall(r"pgwatchdog_(\w+)(\{.*?\})", expression):
            assert '$environment_label=~"$environment"' in selector
            for label in set(labels.get(name, ())) & set(CHOSEN_BY):
                assert CHOSEN_BY[label] in selector, expression


def test_all_of_everything_matches_series_without_the_label_as_well(source: ModuleType) -> None:
    lists = [each for each in json.loads(source.dashboard_json())["templating"]["list"] if each["type"] == "query"]
    assert [(each["allValue"], each["current"]["value"]) for each in lists] == [(".*", ["$__all"])] * 4


def test_every_expression_takes_the_maximum_over_replicas_and_merges_no_environments(source: ModuleType) -> None:
    for expression in source.expressions():
        assert f"max without ({source.REPLICA}) (" in expression
        assert not re.search(r"\b(by|on)\b", expression), expression


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_against_a_prometheus_that_has_scraped_the_demo_none_errs_and_none_is_empty(
    source: ModuleType, tmp_path: Path, guardian: Guardian, tool: Callable[[str], str], public_folder: Path
) -> None:
    prometheus = tool("prometheus")
    with demo(public_folder) as process:
        address = re.findall(r"http://127\.0\.0\.1:\d+/", read_until(process, "The daemon is watching"))[0]
        with running_prometheus(prometheus, address, folder=tmp_path, guardian=guardian) as base:
            read_until(process, "E scan:threads:2026-11: orphan (client gone")
            read_until(process, "F scan:digest:2026-11: nearing")
            empty = {
                title
                for title, _, _, targets in source.PANELS
                for expression, _ in targets
                if not query(base, concrete(expression))
            }
    assert empty <= MAY_BE_EMPTY
