"""The daemon over several clusters: what it exports, and that no cluster harms another."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from structlog.testing import capture_logs
from support.processes import get, get_json, samples
from support.proxy import proxy_to
from support.servers import Connect, TestServer, start
from support.watching import Later, Recorder, daemon_on

from watchdog.core.acting.verdicts import withheld_reason
from watchdog.core.judging.evidence import Kind
from watchdog.core.observed.activity import Snapshot
from watchdog.core.observed.reasons import Reason
from watchdog.core.present.look import Look
from watchdog.postgres.source import PostgresSource
from watchdog.runtime.log_sink import LogSink

LIMITS = "policy: {limits: {per_minute: 600, pause: 0s}}\n"
BUDGETS = "budgets: {grace: 0s, roles: {web_app: 1s, etl_app: 1min}}\n"
FAST = "poll: {interval: 1s, census_interval: 2s, timeout: 1s}\n"


def cluster(name: str, dsn: str) -> str:
    return f'  - {{name: {name}, dsn: "{dsn}"}}\n'


def config(*clusters: str, budgets: str = BUDGETS) -> str:
    return f"{FAST}clusters:\n{''.join(clusters)}{budgets}{LIMITS}"


async def metrics(address: str) -> dict[str, float]:
    return samples((await asyncio.to_thread(get, f"{address}metrics")).text)


async def test_an_orphan_is_judged_explained_and_exported(server: TestServer, connect: Connect, tmp_path: Path) -> None:
    recorder = Recorder()
    async with daemon_on(tmp_path, config(cluster("main", server.dsn())), sinks=(recorder,)) as (_, address):
        await recorder.until(lambda seen: seen.looks())
        caller = connect()
        start(caller, "SELECT pg_sleep(60)", server)
        await recorder.until(lambda seen: seen.looks()[-1].judgement.detected)
        found = recorder.looks()[-1]
        await recorder.until(lambda seen: any(look.results for look in seen.looks()))
        await recorder.until(Later(looks=len(recorder.looks())))
        exported = await metrics(address)
        told = await asyncio.to_thread(get_json, f"{address}api/v1/findings")
        page = await asyncio.to_thread(get, address)

    [finding] = found.judgement.findings
    assert (finding.kind, finding.backend.pid) == (Kind.ORPHAN, caller.info.backend_pid)
    assert finding.running - timedelta(seconds=1) < timedelta(seconds=0.25), "the crossing has a look of its own"
    labels = 'datname="postgres",evidence="over_budget",job_key="",server="main",usename="web_app"'
    assert exported[f"pgwatchdog_orphans{{{labels}}}"] == 1
    detected = 'evidence="over_budget",job_key="",server="main",usename="web_app"'
    assert exported[f"pgwatchdog_orphans_detected_total{{{detected}}}"] == 1
    assert exported['pgwatchdog_dry_run_cancels_total{rule="every-orphan",server="main"}'] == 1
    assert exported['pgwatchdog_up{server="main"}'] == 1
    [shown] = told["clusters"]
    assert (shown["read"], shown["complete"], shown["findings"][0]["budget"]) == (True, True, "role:web_app")
    assert str(caller.info.backend_pid) in page.text


async def test_a_count_falls_by_itself_when_the_work_ends(server: TestServer, connect: Connect, tmp_path: Path) -> None:
    recorder = Recorder()
    async with daemon_on(tmp_path, config(cluster("main", server.dsn())), sinks=(recorder,)) as (_, address):
        start(connect(), "SELECT pg_sleep(2.5)", server)
        await recorder.until(lambda seen: seen.looks() and seen.looks()[-1].judgement.findings)
        await recorder.until(lambda seen: not seen.looks()[-1].judgement.findings)
        exported = await metrics(address)
    orphans = [value for name, value in exported.items() if name.startswith("pgwatchdog_orphans{")]
    assert orphans == [0.0]


async def test_no_finding_is_exported_for_a_cluster_that_could_not_be_read(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    recorder = Recorder()
    async with proxy_to(server.embedded.port) as proxy:
        dsn = f"{server.dsn()} port={proxy.port}"
        async with daemon_on(tmp_path, config(cluster("main", dsn)), sinks=(recorder,)) as (_, address):
            start(connect(name="scan:a:w1"), "SELECT pg_sleep(60)", server)
            await recorder.until(lambda seen: seen.looks() and seen.looks()[-1].judgement.findings)
            proxy.stall()
            await recorder.until(lambda seen: seen.unread())
            await asyncio.sleep(1.1)  # a joined exposition serves scrapes for a second
            exported = await metrics(address)
            told = await asyncio.to_thread(get_json, f"{address}api/v1/findings")
            proxy.flow()
            proxy.drop()
            known = len(recorder.looks())
            await recorder.until(lambda seen: len(seen.looks()) > known)
    assert exported['pgwatchdog_up{server="main"}'] == 0
    assert exported['pgwatchdog_poll_failures_total{reason="timeout",server="main"}'] >= 1
    forbidden = (
        "orphan",
        "duplicate",
        "job_copies{",
        "running_queries",
        "nearing",
        "holding",
        "budget_used",
        "unjudged",
    )
    gauges = {name for name in exported if "_total" not in name and "_ratio_" not in name}
    assert not {name for name in gauges if any(word in name for word in forbidden)}
    [cluster_told] = told["clusters"]
    assert (cluster_told["read"], cluster_told["reason"], cluster_told["complete"]) == (False, "timeout", False)
    assert (cluster_told["judged"], cluster_told["unjudged"], cluster_told["findings"]) == (False, None, [])


async def test_a_bug_in_one_clusters_task_leaves_the_others_polled(
    server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PostgresSource.snapshot

    async def broken(self: PostgresSource) -> tuple[Snapshot, timedelta]:
        if "dbname=other" in self.dsn:
            raise ZeroDivisionError("a bug")
        return await real(self)

    monkeypatch.setattr(PostgresSource, "snapshot", broken)
    recorder = Recorder()
    two = config(cluster("sick", server.dsn(database="other")), cluster("main", server.dsn()))
    async with daemon_on(tmp_path, two, sinks=(recorder,)) as (_, address):
        await recorder.until(lambda seen: len(seen.unread("sick")) >= 2 and len(seen.looks()) >= 3)
        exported = await metrics(address)
    assert recorder.unread("sick")[0].reason is Reason.INTERNAL
    assert exported['pgwatchdog_up{server="sick"}'] == 0
    assert exported['pgwatchdog_up{server="main"}'] == 1


async def test_a_sink_with_a_bug_does_not_silence_the_others(server: TestServer, tmp_path: Path) -> None:
    class Broken:
        def publish(self, state: object) -> None:
            raise ZeroDivisionError(state)

    recorder = Recorder()
    async with daemon_on(tmp_path, config(cluster("main", server.dsn())), sinks=(Broken(), recorder)):
        await recorder.until(lambda seen: len(seen.looks()) >= 2)


async def test_what_the_log_left_out_is_said_when_the_daemon_stops(server: TestServer, tmp_path: Path) -> None:
    with capture_logs() as lines:
        async with daemon_on(tmp_path, f'clusters: [{{name: main, dsn: "{server.dsn()}"}}]') as (daemon, _):
            [sink] = [each for each in daemon.latest.sinks if isinstance(each, LogSink)]
            sink.verdicts.most = 0
            assert not sink.verdicts.admit()
    assert [line["event"] for line in lines][-2:] == ["verdicts_left_out", "stopped"]


async def test_a_healthy_cluster_is_read_on_time_beside_a_refusing_a_frozen_and_a_nameless_one(
    server: TestServer, tmp_path: Path
) -> None:
    recorder = Recorder()
    async with proxy_to(server.embedded.port) as proxy:
        proxy.stall()
        clusters = (
            cluster("refusing", "host=127.0.0.1 port=1 user=x"),
            cluster("frozen", f"{server.dsn()} port={proxy.port}"),
            cluster("nameless", "host=no-such-host.invalid user=x"),
            cluster("main", server.dsn()),
        )
        async with daemon_on(tmp_path, config(*clusters), sinks=(recorder,)):
            await recorder.until(lambda seen: len([each for each in seen.looks() if each.tick]) >= 5)
    assert recorder.unread("refusing")[0].reason is Reason.UNREACHABLE
    assert recorder.unread("frozen")[0].reason is Reason.TIMEOUT
    assert recorder.unread("nameless")[0].reason is Reason.NAME_LOOKUP
    assert _longest_gap(recorder.looks()) < timedelta(seconds=2)


def _longest_gap(looks: Sequence[Look]) -> timedelta:
    at = [look.snapshot.at for look in looks]
    return max(later - earlier for earlier, later in pairwise(at))


async def test_after_a_restart_of_the_server_the_next_look_works_and_no_run_is_a_ghost(
    own_server: TestServer, tmp_path: Path
) -> None:
    recorder = Recorder()
    async with daemon_on(tmp_path, config(cluster("main", own_server.dsn())), sinks=(recorder,)):
        with closing(psycopg.connect(own_server.dsn("web_app"), autocommit=True)) as caller:
            start(caller, "SELECT pg_sleep(60)", own_server)
            await recorder.until(lambda seen: seen.looks() and seen.looks()[-1].judgement.findings)
            await asyncio.to_thread(own_server.embedded.stop)
            await recorder.until(lambda seen: seen.unread())
            known = len(recorder.looks())
            await asyncio.to_thread(own_server.embedded.start)
            await recorder.until(lambda seen: len(seen.looks()) > known)
    assert recorder.looks()[-1].judgement.findings == []
    assert recorder.looks()[-1].snapshot.postmaster_start > recorder.looks()[0].snapshot.postmaster_start


async def test_a_retry_ladder_shows_duplicates_superseded_and_amplification(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    budgets = (
        "budgets:\n  grace: 0s\n  roles: {etl_app: 1min}\n  jobs:\n"
        '    - {pattern: "scan:{job}:{window}", roles: [etl_app], copies: 1, retry_gap: 1s, budgets: {threads: 3s}}\n'
    )
    recorder = Recorder()
    once = config(cluster("main", server.dsn()), budgets=budgets)
    async with daemon_on(tmp_path, once, sinks=(recorder,)) as (_, address):
        await recorder.until(lambda seen: seen.looks())
        start(connect(role="etl_app", name="scan:threads:2026-11"), "SELECT pg_sleep(60)", server)
        await asyncio.sleep(1.2)  # the retry gap
        start(connect(role="etl_app", name="scan:threads:2026-11"), "SELECT pg_sleep(60)", server)
        await recorder.until(lambda seen: _kinds(seen) >= {("orphan", "superseded"), ("duplicate", "superseded")})
        await asyncio.sleep(1.1)
        exported = await metrics(address)
    job = 'datname="postgres",job_key="threads",server="main",usename="etl_app"'
    assert exported[f"pgwatchdog_job_copies{{{job}}}"] == 2
    assert exported[f"pgwatchdog_duplicate_copies{{{job}}}"] == 1
    assert exported['pgwatchdog_job_copies_started_total{job_key="threads",server="main"}'] == 2
    assert exported['pgwatchdog_job_windows_started_total{job_key="threads",server="main"}'] == 1


def _kinds(recorder: Recorder) -> set[tuple[str, str]]:
    looks = recorder.looks()
    return {(f.kind, f.evidence[-1]) for f in looks[-1].judgement.findings if f.evidence} if looks else set()


async def test_an_orphan_says_whom_it_blocks(server: TestServer, connect: Connect, tmp_path: Path) -> None:
    holder, waiter = connect(), connect(role="etl_app")
    holder.execute("BEGIN")
    holder.execute("UPDATE accounts SET balance = 1 WHERE id = 3")
    start(holder, "SELECT pg_sleep(60)", server)
    start(waiter, "UPDATE accounts SET balance = 2 WHERE id = 3", server)
    recorder = Recorder()
    async with daemon_on(tmp_path, config(cluster("main", server.dsn())), sinks=(recorder,)) as (_, address):
        await recorder.until(lambda seen: seen.looks() and seen.looks()[-1].judgement.blocked_by_orphans)
        await asyncio.sleep(1.1)
        exported = await metrics(address)
    [orphan] = [f for f in recorder.looks()[-1].judgement.findings if f.kind is Kind.ORPHAN]
    assert orphan.blocks == 1
    assert exported['pgwatchdog_sessions_blocked_by_orphans{server="main"}'] == 1
    [verdict] = [v for v in recorder.looks()[-1].decisions.verdicts if v.finding.kind is Kind.ORPHAN]
    assert withheld_reason(verdict) == "writer"


async def test_a_good_reload_is_swapped_in_and_a_bad_one_refused(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    recorder = Recorder()
    async with daemon_on(tmp_path, config(cluster("main", server.dsn())), sinks=(recorder,)) as (daemon, address):
        start(connect(), "SELECT pg_sleep(60)", server)
        await recorder.until(lambda seen: seen.looks() and seen.looks()[-1].judgement.findings)
        file = tmp_path / "pgwatchdog.yaml"
        file.write_text("clusters: []\n")
        assert daemon.try_reload() == [f"{file}:1: clusters: is empty: name at least one cluster"]
        await asyncio.sleep(1.1)
        refused = await metrics(address)
        file.write_text(config(cluster("main", server.dsn()), cluster("second", server.dsn(database="other"))))
        with capture_logs() as lines:
            assert daemon.try_reload() == []
            file.write_text(file.read_text().replace("budgets: {", "budgets: {default: 7s, "))
            assert daemon.try_reload() == []
        assert [line["sooner"] for line in lines] == [None, ["budget of default: none → 7s (new)"]]
        await recorder.until(lambda seen: seen.looks("second"))
        await asyncio.sleep(1.1)
        taken = await metrics(address)
    assert refused["pgwatchdog_config_last_reload_successful"] == 0
    assert refused['pgwatchdog_up{server="main"}'] == 1
    assert taken["pgwatchdog_config_last_reload_successful"] == 1
    assert taken["pgwatchdog_configured_clusters"] == 2
    detected = 'evidence="over_budget",job_key="",server="main",usename="web_app"'
    assert taken[f"pgwatchdog_orphans_detected_total{{{detected}}}"] == 1, "a reload detects no orphan twice"


async def test_probes_are_shallow_and_ready_waits_for_the_first_try(server: TestServer, tmp_path: Path) -> None:
    async with proxy_to(server.embedded.port) as proxy:
        proxy.stall()
        recorder = Recorder()
        frozen = config(cluster("main", f"{server.dsn()} port={proxy.port}"))
        async with daemon_on(tmp_path, frozen, sinks=(recorder,)) as (_, address):
            early = await asyncio.to_thread(get, f"{address}-/ready")
            healthy = await asyncio.to_thread(get, f"{address}livez")
            await recorder.until(lambda seen: seen.unread())
            late = await asyncio.to_thread(get, f"{address}readyz")
            reload = await asyncio.to_thread(get, f"{address}-/reload", data=b"")
            told = {
                origin: (await asyncio.to_thread(get, f"{address}-/reload", data=b"", origin=origin)).text
                for origin in ("https://elsewhere.example", "null", address.rstrip("/"))
            }
    foreign, none, own = told.values()
    assert foreign == none == "A page of another site may not reload pgwatchdog.\n"
    assert own == reload.text
    assert (early.status, healthy.status, late.status) == (503, 200, 200)
    assert reload.status == 403


async def test_a_scrape_never_touches_a_database(server: TestServer, tmp_path: Path) -> None:
    async with proxy_to(server.embedded.port) as proxy:
        recorder = Recorder()
        slow = config(cluster("main", f"{server.dsn()} port={proxy.port}")).replace("timeout: 1s", "timeout: 20s")
        async with daemon_on(tmp_path, slow, sinks=(recorder,)) as (_, address):
            await recorder.until(lambda seen: seen.looks())
            proxy.stall()
            await asyncio.sleep(1.2)  # a look is under way and hangs
            begun = time.monotonic()
            answers = await asyncio.gather(*(asyncio.to_thread(get, f"{address}metrics") for _ in range(10)))
            assert time.monotonic() - begun < 5
            sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgwatchdog'"
            assert server.value(sessions) == 1
    assert all("pgwatchdog_up" in answer.text for answer in answers)
