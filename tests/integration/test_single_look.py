"""Commands that look once: dead clients are found as the daemon finds them, and what was not looked for is said."""

import asyncio
import json
import os
import re
import signal
from pathlib import Path

import pytest
from support.processes import command, get, samples
from support.servers import Connect, TestServer, start
from support.watching import Recorder, daemon_on
from test_sockets import caller, config, orphan_evidence, seen

from watchdog.cli.exits import Exit
from watchdog.core.judging.evidence import Evidence


@pytest.fixture
def file(server: TestServer, tmp_path: Path) -> Path:
    """A configuration with a ledger; `web_app` has no budget."""
    path = tmp_path / "pgwatchdog.yaml"
    role = server.dsn("canceller")
    path.write_text(
        f'clusters: [{{name: main, dsn: "{role}"}}]\nbudgets: {{roles: {{etl_app: 1h}}}}\n'
        f'ledger: {{url: "sqlite:///{tmp_path}/ledger.db"}}\n'
    )
    path.chmod(0o600)
    return path


def test_a_killed_client_is_an_orphan_for_report_explain_and_cancel(server: TestServer, file: Path) -> None:
    with caller(server) as (process, pid):
        os.kill(process, signal.SIGKILL)
        report = command("report", "-c", str(file), "--format", "json")
        assert report.returncode == Exit.FINDINGS
        [cluster] = json.loads(report.stdout)["clusters"]
        [finding] = [each for each in cluster["findings"] if each["pid"] == pid]
        assert (finding["kind"], finding["evidence"]) == ("orphan", ["client_gone"])
        assert finding["verdict"]["rule"] == "every-orphan"
        assert [each["what"] for each in cluster["not_looked_for"]] == ["roles_without_budget"]
        explained = command("explain", "-c", str(file), "main", str(pid))
        assert "finding: orphan, evidence: client gone" in explained.stdout
        cancelled = command("cancel", "-c", str(file), "main", str(pid), "--start", finding["start"])
        assert cancelled.returncode == Exit.OK, cancelled.stderr
        assert json.loads(cancelled.stdout)["result"] == "signalled"
    state = server.value("SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND state = 'active'", pid)
    assert state == 0


def test_where_sockets_do_not_tell_it_is_said_and_strict_makes_it_count(server: TestServer) -> None:
    folder = server.embedded.settings["unix_socket_directories"]
    dsn = server.dsn().replace("host=127.0.0.1", f"host={folder}")
    plain = command("report", dsn, "--budget", "60s", "--format", "json")
    strict = command("report", dsn, "--budget", "60s", "--strict")
    [cluster] = json.loads(plain.stdout)["clusters"]
    [limit] = cluster["not_looked_for"]
    assert (limit["what"], limit["failed"], cluster["findings"]) == ("dead_clients", False, [])
    assert (plain.returncode, strict.returncode) == (Exit.OK, Exit.UNREAD)
    written = " ".join(strict.stdout.split())
    assert "Nothing found. Not looked for: clients that are gone (pgwatchdog is connected by a Unix socket" in written


def test_roles_without_a_budget_are_named(server: TestServer, connect: Connect, file: Path) -> None:
    start(connect(), "SELECT pg_sleep(60)", server)
    plain, strict = command("report", "-c", str(file)), command("report", "-c", str(file), "--strict")
    written = " ".join(plain.stdout.split())
    assert "Not looked for: overdue runs of roles without a budget: web_app (1 running)." in written
    assert (plain.returncode, strict.returncode) == (Exit.OK, Exit.UNREAD)


async def test_a_server_that_tracks_nothing_is_read_only_in_part(own_server: TestServer, tmp_path: Path) -> None:
    own_server.run("ALTER SYSTEM SET track_activities = off; SELECT pg_reload_conf()")
    report = await asyncio.to_thread(command, "report", own_server.dsn(), "--budget", "60s", "--format", "json")
    [cluster] = json.loads(report.stdout)["clusters"]
    assert (report.returncode, cluster["complete"]) == (Exit.UNREAD, False)
    assert "untracked_sessions" in [each["what"] for each in cluster["not_looked_for"] if each["failed"]]
    recorder = Recorder()
    text = f'clusters: [{{name: main, dsn: "{own_server.dsn()}"}}]\nbudgets: {{default: 60s}}\n'
    async with daemon_on(tmp_path, text, sinks=(recorder,)) as (_, address):
        await recorder.until(lambda got: got.looks())
        page = (await asyncio.to_thread(get, address)).text
        exported = samples((await asyncio.to_thread(get, f"{address}metrics")).text)
    assert "track_activities</code> is off on the server" in page
    assert "Nothing found" not in page
    assert [name for name in exported if re.match(r"pgwatchdog_(orphans|running_queries)\{", name)] == []


async def test_without_rules_of_its_own_a_daemon_rehearses_orphans_without_a_budget_too(
    server: TestServer, tmp_path: Path
) -> None:
    recorder = Recorder()
    async with daemon_on(tmp_path, config(server, interval="1s"), sinks=(recorder,)) as (_, address):
        await recorder.until(lambda got: got.looks() and not got.looks()[-1].decisions.warming_up)
        with caller(server) as (process, pid):
            await recorder.until(lambda got: seen(got.looks()[-1], pid))
            os.kill(process, signal.SIGKILL)
            await recorder.until(lambda got: any(look.results for look in got.looks()))
        exported = samples((await asyncio.to_thread(get, f"{address}metrics")).text)
    acted = next(look for look in recorder.looks() if look.results)
    assert orphan_evidence(acted, pid) == (Evidence.CLIENT_GONE,)
    assert exported['pgwatchdog_dry_run_cancels_total{rule="every-orphan",server="main"}'] == 1
