"""A real Prometheus scrapes the running daemon, and a query returns the planted orphan."""

import json
import subprocess
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest
from support.processes import daemon_process, get, get_json
from support.servers import Connect, TestServer, start, until

from watchdog.demo.guardian import Guardian
from watchdog.demo.server import free_port

pytestmark = pytest.mark.acceptance


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
    with daemon_process(tmp_path, guardian=guardian, config=config) as daemon:
        port = free_port()
        target = urllib.parse.urlsplit(daemon.address).netloc
        (tmp_path / "prometheus.yml").write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "500ms"},
                    "scrape_configs": [{"job_name": "pgwatchdog", "static_configs": [{"targets": [target]}]}],
                }
            )
        )
        scraper = subprocess.Popen(
            [
                prometheus,
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        guardian.mind_process(scraper.pid)
        try:
            base = f"http://127.0.0.1:{port}"
            until(lambda: _answers(f"{base}/-/ready"), what="Prometheus")
            until(lambda: _query(base, "pgwatchdog_orphans == 1"), what="the orphan in Prometheus")
            [orphan] = _query(base, "pgwatchdog_orphans == 1")
            detected = _query(base, 'pgwatchdog_orphans_detected_total{server="orders"} == 1')
        finally:
            scraper.terminate()
            scraper.wait(timeout=20)
    assert orphan["usename"] == "etl_app"
    assert orphan["job_key"] == "threads"
    assert orphan["evidence"] == "over_budget"
    assert orphan["server"] == "orders"
    assert "exported_server" not in orphan
    assert "exported_job" not in orphan
    assert len(detected) == 1


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


def _answers(url: str) -> bool:
    try:
        return get(url).status == 200
    except OSError:
        return False


def _query(base: str, expression: str) -> list[dict[str, str]]:
    answer = get_json(f"{base}/api/v1/query?query={urllib.parse.quote(expression)}")
    return [each["metric"] for each in answer["data"]["result"]]
