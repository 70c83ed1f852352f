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
from support.metrics import METRIC_NAMES
from support.monitoring import query, running_prometheus

from watchdog.demo.guardian import Guardian

pytestmark = pytest.mark.acceptance
FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
MAY_BE_EMPTY = {"Sessions that wait for an orphan", "Left alone, and why", "Not judged", "Acts that did not work"}
"""Nothing of it happens in the demo."""

# Its one window may have begun before Prometheus scraped for the first time, and then a rate has no beginning.
MAY_BE_EMPTY |= {"Retry amplification"}


@pytest.fixture(scope="module")
def source() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dashboard", FOLDER / "dashboard.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def concrete(expression: str) -> str:
    """The expression as Grafana would send it."""
    return expression.replace("$server", ".*").replace("$__rate_interval", "1m")


def test_the_committed_dashboard_is_what_its_source_makes(source: ModuleType) -> None:
    assert (FOLDER / "dashboard.json").read_text() == source.dashboard_json(), "make docs"
    assert len(json.loads(source.dashboard_json())["panels"]) == len(source.PANELS)


def test_every_expression_parses_and_names_metrics_that_exist(source: ModuleType) -> None:
    for expression in source.expressions():
        promql_parser.parse(concrete(expression))
        for name in re.findall(r"pgwatchdog_(\w+)", expression):
            assert name in METRIC_NAMES


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
