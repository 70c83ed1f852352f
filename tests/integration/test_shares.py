"""The shares are honest: seconds of work agree with the server's own count, and nothing is counted twice."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from support.processes import get, samples
from support.servers import Connect, TestServer, start, until
from support.watching import Later, Recorder, daemon_on, row_of

from watchdog.core.present.look import Look

WORKER = """
import psycopg, sys
connection = psycopg.connect(sys.argv[1], autocommit=True, application_name=sys.argv[2])
while True:
    connection.execute("SELECT pg_sleep(0.02)")
"""


@contextmanager
def workers(server: TestServer, count: int, *, name: str) -> Iterator[None]:
    """Clients that run one statement of 20 ms after the other, each a process of its own."""
    processes = [
        subprocess.Popen([sys.executable, "-c", WORKER, server.dsn("web_app"), name], env=dict(os.environ))
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def config(server: TestServer) -> str:
    return (
        f'poll: {{interval: 1s}}\nclusters: [{{name: main, dsn: "{server.dsn()}"}}]\n'
        "budgets: {grace: 0s, roles: {web_app: 1min, etl_app: 1s}}\n"
        "policy: {limits: {per_minute: 600, pause: 0s}}\n"
    )


def running(looks: list[Look], role: str) -> float:
    zero = timedelta(0)
    spans = [look.judgement.increments.running for look in looks]
    return sum(span.get(worker, zero).total_seconds() for span in spans for worker in span if worker[0] == role)


def orphaned(looks: list[Look], role: str) -> float:
    spans = [look.judgement.increments.orphaned for look in looks]
    return sum(span[worker].total_seconds() for span in spans for worker in span if worker[0] == role)


@pytest.mark.slow
async def test_running_seconds_agree_with_the_servers_own_active_time_under_short_statements(
    own_server: TestServer, tmp_path: Path
) -> None:
    if own_server.major < 15:
        pytest.skip("before 15 the server flushes active_time only every ten seconds or at the end of a session")
    active = "SELECT coalesce(sum(active_time), 0) / 1000 FROM pg_stat_database"
    recorder = Recorder()
    async with daemon_on(tmp_path, config(own_server), sinks=(recorder,)):
        await recorder.until(lambda seen: seen.looks())
        before = float(str(own_server.value(active)))
        orphan = psycopg.connect(own_server.dsn("etl_app"), autocommit=True)
        with closing(orphan), workers(own_server, 6, name="web"):
            pid = start(orphan, "SELECT pg_sleep(20)", own_server)
            await recorder.until(lambda seen: row_of(seen.looks()[-1].snapshot, pid))
            await recorder.until(lambda seen: not row_of(seen.looks()[-1].snapshot, pid))
        left = "SELECT count(*) FROM pg_stat_activity WHERE usename IN ('web_app', 'etl_app')"
        until(lambda: own_server.value(left) == 0, what="the end of every worker")
        known = len(recorder.looks())
        await recorder.until(lambda seen: len(seen.looks()) > known + 1)
    after = float(str(own_server.value(active)))
    said = running(recorder.looks(), "web_app") + running(recorder.looks(), "etl_app")
    assert said == pytest.approx(after - before, rel=0.10)
    assert orphaned(recorder.looks(), "etl_app") == pytest.approx(19, rel=0.10)
    assert orphaned(recorder.looks(), "web_app") == 0


async def test_one_worker_with_many_statements_has_the_amplification_of_one(server: TestServer, tmp_path: Path) -> None:
    recorder = Recorder()
    async with daemon_on(tmp_path, config(server), sinks=(recorder,)) as (_, address):
        await recorder.until(lambda seen: seen.looks())
        with workers(server, 1, name="scan:threads:w1"):
            await recorder.until(lambda seen: sum(bool(look.judgement.copies) for look in seen.looks()) >= 3)
        await asyncio.sleep(1.1)
        exposed = samples((await asyncio.to_thread(get, f"{address}metrics")).text)
    labels = '{job_key="threads",server="main"}'
    assert exposed[f"pgwatchdog_job_copies_started_total{labels}"] == 1
    assert exposed[f"pgwatchdog_job_windows_started_total{labels}"] == 1


async def test_our_own_reconnects_count_nothing_twice(server: TestServer, connect: Connect, tmp_path: Path) -> None:
    recorder = Recorder()
    async with daemon_on(tmp_path, config(server), sinks=(recorder,)) as (_, address):
        await recorder.until(lambda seen: seen.looks())
        start(connect(role="etl_app", name="scan:threads:w1"), "SELECT pg_sleep(60)", server)
        await recorder.until(lambda seen: any(look.results for look in seen.looks()))
        for _ in range(3):
            server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgwatchdog'")
            failed = len(recorder.unread())
            await recorder.until(Later(unread=failed + 1, looks=len(recorder.looks())))
        await recorder.until(lambda seen: not seen.looks()[-1].decisions.warming_up)
        await asyncio.sleep(1.1)
        exposed = samples((await asyncio.to_thread(get, f"{address}metrics")).text)
    assert exposed['pgwatchdog_job_copies_started_total{job_key="threads",server="main"}'] == 1
    assert exposed['pgwatchdog_dry_run_cancels_total{rule="every-orphan",server="main"}'] == 1
    detected = 'evidence="over_budget",job_key="threads",server="main",usename="etl_app"'
    assert exposed[f"pgwatchdog_orphans_detected_total{{{detected}}}"] == 1


async def test_a_restarted_daemon_counts_no_copy_that_was_there_before_it(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    start(connect(role="etl_app", name="scan:threads:w1"), "SELECT pg_sleep(60)", server)
    for _ in range(3):
        recorder = Recorder()
        async with daemon_on(tmp_path, config(server), sinks=(recorder,)):
            await recorder.until(lambda seen: len(seen.looks()) >= 2)
        started = [look.judgement.increments.copies_started for look in recorder.looks()]
        assert not any(started)
        first = recorder.looks()[0].judgement.increments.running
        assert not first, "the first tick has nothing to count from"


async def test_a_role_that_is_dropped_keeps_its_seconds_under_its_name_until_the_census_knows(
    server: TestServer, tmp_path: Path
) -> None:
    server.run(f"CREATE ROLE passing LOGIN PASSWORD '{server.embedded.password}'")
    session = psycopg.connect(server.dsn("passing"), autocommit=True)
    recorder = Recorder()
    async with daemon_on(tmp_path, config(server), sinks=(recorder,)):
        start(session, "SELECT pg_sleep(60)", server)
        await recorder.until(lambda seen: len(seen.looks()) >= 3)
        server.run("DROP ROLE passing")
        await recorder.until(lambda seen: len(seen.looks()) >= 6)
    session.close()
    total = sum(
        (span for look in recorder.looks() for span in look.judgement.increments.running.values()), timedelta(0)
    )
    lived = recorder.looks()[-1].snapshot.at - recorder.looks()[0].snapshot.at
    assert total <= lived + timedelta(seconds=1)
