"""A real Prometheus scrapes the running daemon, and a query returns the planted orphan."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from support.monitoring import query, running, running_prometheus, webhook
from support.processes import daemon_process, get
from support.servers import Connect, TestServer, start, until
from support.watching import answer

from watchdog.demo.guardian import Guardian
from watchdog.demo.server import free_port

pytestmark = pytest.mark.acceptance
ROOT = Path(__file__).parents[2]


def test_a_query_in_prometheus_returns_the_planted_orphan(
    server: TestServer, connect: Connect, tmp_path: Path, guardian: Guardian, tool: Callable[[str], str]
) -> None:
    prometheus = tool("prometheus")
    caller = connect(role="etl_app", name="scan:threads:2026-11")
    start(caller, "SELECT pg_sleep(120)", server)
    config = (
        f'poll: {{interval: 1s}}\nclusters: [{{name: orders, dsn: "{server.dsn()}"}}]\n'
        "budgets: {grace: 0s, roles: {etl_app: 1s}}\n"
    )
    with (
        daemon_process(tmp_path, guardian=guardian, config=config) as daemon,
        running_prometheus(prometheus, daemon.address, folder=tmp_path, guardian=guardian) as base,
    ):
        until(lambda: query(base, "pgwatchdog_orphans == 1"), what="the orphan in Prometheus")
        [orphan] = query(base, "pgwatchdog_orphans == 1")
        detected = query(base, 'pgwatchdog_orphans_detected_total{server="orders"} == 1')
    assert orphan["usename"] == "etl_app"
    assert orphan["job_key"] == "threads"
    assert orphan["evidence"] == "over_budget"
    assert orphan["server"] == "orders"
    assert "exported_server" not in orphan
    assert "exported_job" not in orphan
    assert len(detected) == 1


def test_a_planted_orphan_reaches_a_webhook_through_the_shipped_alert(
    server: TestServer, connect: Connect, tmp_path: Path, guardian: Guardian, tool: Callable[[str], str]
) -> None:
    prometheus, alertmanager = tool("prometheus"), tool("prometheus-alertmanager")
    start(connect(role="etl_app", name="scan:threads:2026-11"), "SELECT pg_sleep(120)", server)
    config = (
        f'poll: {{interval: 1s}}\nclusters: [{{name: orders, dsn: "{server.dsn()}"}}]\n'
        "budgets: {grace: 0s, roles: {etl_app: 1s}}\n"
    )
    rules = impatient_rules(tmp_path)
    received: list[dict[str, Any]] = []
    with webhook(received) as hook, daemon_process(tmp_path, guardian=guardian, config=config) as daemon:
        port = free_port()
        (tmp_path / "alertmanager.yml").write_text(
            json.dumps(
                {
                    "route": {"receiver": "hook", "group_wait": "0s", "group_interval": "1s"},
                    "receivers": [{"name": "hook", "webhook_configs": [{"url": hook}]}],
                }
            )
        )
        manager = [
            alertmanager,
            f"--config.file={tmp_path / 'alertmanager.yml'}",
            f"--storage.path={tmp_path / 'alerts'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]
        more = {
            "rule_files": [str(rules)],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]},
        }
        with (
            running(manager, guardian=guardian),
            running_prometheus(prometheus, daemon.address, folder=tmp_path, guardian=guardian, more=more),
        ):
            until(lambda: _orphan_alerts(received), timeout=60, what="the alert at the webhook")
    alert = _orphan_alerts(received)[0]
    assert alert["status"] == "firing"
    assert (alert["labels"]["server"], alert["labels"]["job_key"]) == ("orders", "threads")
    assert "nobody" in alert["annotations"]["summary"]


def test_rights_that_are_lost_fire_an_alert_while_the_one_about_orphans_clears(
    own_server: TestServer, tmp_path: Path, guardian: Guardian, tool: Callable[[str], str]
) -> None:
    prometheus = tool("prometheus")
    config = (
        f'poll: {{interval: 1s, census_interval: 1s}}\nclusters: [{{name: orders, dsn: "{own_server.dsn()}"}}]\n'
        "budgets: {grace: 0s, roles: {web_app: 1s}}\n"
    )
    more = {"rule_files": [str(impatient_rules(tmp_path))]}
    with (
        psycopg.connect(own_server.dsn("web_app"), autocommit=True) as caller,
        daemon_process(tmp_path, guardian=guardian, config=config) as daemon,
        running_prometheus(prometheus, daemon.address, folder=tmp_path, guardian=guardian, more=more) as base,
    ):
        start(caller, "SELECT pg_sleep(120)", own_server)
        until(lambda: firing(base) == {"PgwatchdogOrphans"}, timeout=60, what="the alert about the orphan")
        own_server.run("REVOKE pg_monitor FROM pgwatchdog")
        until(lambda: firing(base) == {"PgwatchdogBlind"}, timeout=60, what="the alert about lost rights")
        assert query(base, "pgwatchdog_up == 1")
        caller.cancel()
        assert answer(caller) == "57014"


def impatient_rules(folder: Path) -> Path:
    """The shipped rules without their waiting: the one thing that a test has no time for."""
    rules = folder / "rules.yaml"
    shipped = (ROOT / "deploy" / "prometheus" / "rules.yaml").read_text()
    rules.write_text(shipped.replace("for: 10m", "for: 1s"))
    return rules


def firing(base: str) -> set[str]:
    """The alerts that fire in that Prometheus."""
    return {each["alertname"] for each in query(base, 'ALERTS{alertstate="firing"}')}


def test_promtool_finds_nothing_to_complain_about(
    server: TestServer, tmp_path: Path, guardian: Guardian, tool: Callable[[str], str]
) -> None:
    promtool = tool("promtool")
    config = f'clusters: [{{name: main, dsn: "{server.dsn()}"}}]\nbudgets: {{default: 1s, grace: 0s}}\n'
    with daemon_process(tmp_path, guardian=guardian, config=config) as daemon:
        until(lambda: daemon.metrics().get('pgwatchdog_up{server="main"}') == 1)
        text = get(f"{daemon.address}metrics").text
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def _orphan_alerts(received: list[dict[str, Any]]) -> list[dict[str, Any]]:
    alerts = [alert for message in received for alert in message["alerts"]]
    return [alert for alert in alerts if alert["labels"]["alertname"] == "PgwatchdogOrphans"]
