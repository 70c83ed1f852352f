"""Field cases, section C: rows that count. Each docstring says the rule; the list is docs/field-cases.md."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.builders import rule
from support.servers import Connect, TestServer, make_server, start, until
from support.watching import case_of, found, look_until, orphaned, row_of, watcher

from watchdog.core.acting.verdicts import withheld_reason
from watchdog.demo.guardian import Guardian
from watchdog.demo.server import server_identity

TIGHT = {"roles": {"web_app": 0.1, "etl_app": 0.1}, "grace": 0.0}
PARALLEL = (
    "-c parallel_setup_cost=0 -c parallel_tuple_cost=0 -c min_parallel_table_scan_size=0"
    " -c max_parallel_workers_per_gather=4"
)


@pytest.fixture
def wide_server(module_server: TestServer) -> Iterator[TestServer]:
    """The same server, left clean by each test."""
    yield module_server
    module_server.end_sessions()


@pytest.fixture(scope="module")
def module_server(guardian: Guardian) -> Iterator[TestServer]:
    """A server with room for parallel workers and logical replication, for this file."""
    server = make_server(
        guardian=guardian, settings={"max_worker_processes": "20", "max_parallel_workers": "12", "wal_level": "logical"}
    )
    server.run("CREATE TABLE wide AS SELECT n FROM generate_series(1, 60000) AS n; GRANT ALL ON wide TO etl_app")
    server.run("ALTER ROLE etl_app REPLICATION; ANALYZE wide")
    yield server
    server.embedded.stop()


@contextlib.contextmanager
def client(server: TestServer, *, name: str, options: str = "") -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    connection = psycopg.connect(server.dsn("etl_app"), application_name=name, options=options, autocommit=True)
    try:
        yield connection
    finally:
        connection.close()


async def test_c13_parallel_workers_make_neither_copies_nor_runs(wide_server: TestServer) -> None:
    """Rule: only rows with `backend_type` `client backend` are judged, so parallel workers are not."""
    with client(wide_server, name="scan:ocr:2026-01", options=PARALLEL) as connection:
        pid = start(connection, "SELECT count(pg_sleep(0.01)) FROM wide", wide_server)
        workers = "SELECT count(*) FROM pg_stat_activity WHERE leader_pid = %s AND backend_type = 'parallel worker'"
        until(lambda: wide_server.value(workers, pid), what="parallel workers")
        with watcher(wide_server, rule(copies=1, retry_gap=0.1)) as cycle:
            look = await cycle.look(tick=True)
        assert wide_server.value(workers, pid)
    assert [len(group) for group in look.judgement.copies.values()] == [1]
    assert [case.backend.pid for case in look.judgement.cases] == [pid]


async def test_c14_replication_sessions_are_never_judged_whatever_they_are_called(wide_server: TestServer) -> None:
    """Rule: rows with `backend_type` `walsender` are not judged, whatever their `application_name`."""
    binaries = wide_server.embedded.binaries
    folder = wide_server.embedded.directory / "received"
    folder.mkdir()
    if (identity := server_identity()) != {}:
        os.chown(folder, int(str(identity["user"])), int(str(identity["group"])))
    wide_server.run("SELECT pg_create_logical_replication_slot('subs', 'test_decoding')")
    with contextlib.ExitStack() as stack:
        dsn = stack.enter_context(wide_server.dsn_for_tools("etl_app"))
        physical, logical = (f"{dsn} application_name=scan:{name}:w1" for name in ("repl", "subs"))
        commands = (
            [binaries / "pg_receivewal", "-d", physical, "-D", folder],
            [binaries / "pg_recvlogical", "-d", logical, "--slot=subs", "--start", "-f", "-"],
        )
        for command in commands:
            process = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                **identity,  # type: ignore[call-overload]  # the types are the call's own
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        shown = (
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender' AND application_name LIKE 'scan:%%'"
        )
        until(lambda: wide_server.value(shown) == 2, what="both streams")
        with watcher(wide_server, rule(copies=1, retry_gap=0.1), roles={"etl_app": 0.1}, grace=0.0) as cycle:
            look = await cycle.look(tick=True)
    until(lambda: wide_server.value(shown) == 0, what="the end of both streams")
    wide_server.run("SELECT pg_drop_replication_slot('subs')")
    assert (list(look.judgement.cases), dict(look.judgement.copies)) == ([], {})


async def test_c15_a_dump_is_reported_and_never_proposed_for_action_and_psql_is_no_dump(
    wide_server: TestServer,
) -> None:
    """Rule: a session named like a backup tool is still reported, but not cancelled, with `backup` as the reason."""
    with (
        client(wide_server, name="psql") as person,
        client(wide_server, name="holder") as holder,
        wide_server.dsn_for_tools("etl_app") as dsn,
    ):
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE wide IN ACCESS EXCLUSIVE MODE")
        psql = start(person, "SELECT pg_sleep(60)", wide_server)
        environment = {**os.environ, "PGPASSWORD": wide_server.embedded.password}
        dump = subprocess.Popen(
            [wide_server.embedded.binaries / "pg_dump", "-d", dsn, "-t", "wide"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        try:
            shown = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pg_dump' AND wait_event_type = 'Lock'"
            until(lambda: wide_server.value(f"SELECT count(*) FROM ({shown}) AS s"), what="the dump")
            pid = int(str(wide_server.value(shown)))
            with watcher(wide_server, roles={"etl_app": 0.3}, grace=0.0) as cycle:
                look = await look_until(cycle, lambda look: orphaned(look, pid, psql))
        finally:
            dump.kill()
            dump.wait()
    reasons = {verdict.finding.backend.pid: withheld_reason(verdict) for verdict in look.decisions.verdicts}
    assert reasons[pid] == "backup"
    assert reasons[psql] is None


async def test_c15_a_base_backup_is_a_walsender_and_not_judged(wide_server: TestServer, tmp_path: Path) -> None:
    """Rule: a base backup runs in a `walsender`; only client backends are judged."""
    tool = wide_server.embedded.binaries / "pg_basebackup"
    with wide_server.dsn_for_tools("etl_app") as dsn:
        process = subprocess.Popen(
            [tool, "-d", dsn, "-D", tmp_path / "base", "-r", "32k"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            shown = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'"
            until(lambda: wide_server.value(shown), what="the base backup")
            with watcher(wide_server, roles={"etl_app": 0.1}, grace=0.0) as cycle:
                assert list((await cycle.look(tick=True)).judgement.cases) == []
        finally:
            process.kill()
            process.wait()


async def test_c17_server_processes_and_their_nulls_never_count_and_never_fail_the_look(
    wide_server: TestServer,
) -> None:
    """Rule: server processes are no client backends and are not judged; a poll without rows succeeds and counts 0."""
    types = "SELECT count(DISTINCT backend_type) FROM pg_stat_activity WHERE usename IS NULL OR state IS NULL"
    assert int(str(wide_server.value(types))) >= 4
    with watcher(wide_server, roles={"etl_app": 0.1}, default=0.1, grace=0.0) as cycle:
        look = await cycle.look(tick=True)
    assert list(look.judgement.cases) == []
    assert look.judgement.unjudged["insufficient_privilege"] == 0


async def test_c17_an_autovacuum_worker_is_not_judged(guardian: Guardian) -> None:
    """Rule: an autovacuum worker is not a client backend, so it is not judged."""
    settings = {"autovacuum_naptime": "1s", "autovacuum_vacuum_cost_delay": "50ms", "autovacuum_vacuum_cost_limit": "1"}
    server = make_server(guardian=guardian, settings=settings)
    server.run(
        "CREATE TABLE busy WITH (autovacuum_vacuum_threshold = 1) AS"
        " SELECT n, repeat('x', 500) FROM generate_series(1, 20000) AS n"
    )
    server.run("DELETE FROM busy WHERE n % 2 = 0")
    shown = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'autovacuum: %%.busy%%' AND usename IS NULL"
    until(lambda: server.value(shown), timeout=60, what="the autovacuum worker")
    with watcher(server, default=0.01, grace=0.0) as cycle:
        look = await cycle.look(tick=True)
        assert server.value(shown)
    server.embedded.stop()
    assert list(look.judgement.cases) == []


async def test_c20_a_role_without_rights_is_incomplete_and_not_healthy(server: TestServer, connect: Connect) -> None:
    """Rule: a row with NULL `state` and `<insufficient privilege>` as `query` is hidden; the poll is incomplete."""
    start(connect(role="etl_app", name="scan:priv:w1"), "SELECT pg_sleep(60)", server)
    with watcher(server, role="blind", roles={"etl_app": 0.1}, grace=0.0) as cycle:
        look = await cycle.look(tick=True)
    assert not look.complete
    assert look.judgement.unjudged["insufficient_privilege"] >= 1
    assert "etl_app" in look.census.hidden_roles


async def test_c20_rows_that_a_half_blind_role_may_see_are_judged(server: TestServer, connect: Connect) -> None:
    """Rule: rows that the role may read are judged; the others are counted as hidden."""
    server.run("GRANT web_app TO blind")
    try:
        seen = start(connect(), "SELECT pg_sleep(60)", server)
        hidden = start(connect(role="etl_app"), "SELECT pg_sleep(60)", server)
        with watcher(server, role="blind", roles={"web_app": 0.1, "etl_app": 0.1}, grace=0.0) as cycle:
            look = await look_until(cycle, lambda look: orphaned(look, seen))
    finally:
        server.run("REVOKE web_app FROM blind")
    assert (found(look, seen), found(look, hidden)) == (["orphan"], [])
    assert not look.complete


async def test_c20_a_revoke_between_two_looks_is_seen_at_once_and_a_new_census_falls_due(
    server: TestServer, connect: Connect
) -> None:
    """Rule: each poll asks the server whether the role may read all rows; when that changes, a new census is due."""
    pid = start(connect(), "SELECT pg_sleep(60)", server)
    with watcher(server, roles={"web_app": 0.1}, grace=0.0) as cycle:
        await look_until(cycle, lambda look: orphaned(look, pid))
        server.run("REVOKE pg_monitor FROM pgwatchdog")
        try:
            after = await cycle.look(tick=True)
            assert (after.complete, cycle.source.census_is_stale) == (False, True)
            census = await cycle.take_census()
            assert census.hidden >= 1
        finally:
            server.run("GRANT pg_monitor TO pgwatchdog")
        assert (await cycle.look(tick=True)).complete


async def test_c22_statements_with_the_same_first_kilobyte_are_no_copies_of_each_other(
    server: TestServer, connect: Connect
) -> None:
    """Rule: the poll does not read the query text; copies are found by job key alone."""
    prefix = "SELECT pg_sleep(60) /* " + "x" * 3000
    for end in ("one */", "two */", "'user@example.org' */"):
        start(connect(role="etl_app", name="psql"), prefix + end, server)
    start(connect(role="etl_app", name="psql"), f"SELECT pg_sleep(60), '{'ü' * 1000}'", server)
    with watcher(server, rule(copies=1, retry_gap=0.1)) as cycle:
        look = await cycle.look(tick=True)
    assert len(look.judgement.cases) == 4
    assert dict(look.judgement.copies) == {}
    assert "example.org" not in repr(look)


async def test_c23_clients_over_ipv4_ipv6_and_a_socket_are_all_real_callers(server: TestServer) -> None:
    """Rule: the budget applies to clients over IPv4, IPv6 and a Unix socket alike; no address or port is needed."""
    folder = server.embedded.settings["unix_socket_directories"]
    pids = []
    with contextlib.ExitStack() as stack:
        for host in ("127.0.0.1", "::1", folder):
            connection = psycopg.connect(f"{server.dsn('web_app')} host={host}", autocommit=True)
            stack.callback(connection.close)
            pids.append(start(connection, "SELECT pg_sleep(60)", server))
        with watcher(server, roles={"web_app": 0.1}, grace=0.0) as cycle:
            look = await look_until(cycle, lambda look: orphaned(look, *pids))
    assert [found(look, pid) for pid in pids] == [["orphan"]] * 3


async def test_a_watchdog_over_ipv6_and_over_a_socket_reads_the_same(server: TestServer, connect: Connect) -> None:
    """Rule: the result does not depend on how pgwatchdog itself connects."""
    pid = start(connect(), "SELECT pg_sleep(60)", server)
    for host in ("::1", server.embedded.settings["unix_socket_directories"]):
        with watcher(f"{server.dsn()} host={host}") as cycle:
            look = await cycle.look(tick=True)
        assert row_of(look.snapshot, pid) is not None
        assert case_of(look, pid) is not None
