"""Field cases, section G: what people met in a second round. Each names the general rule that makes it right."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest
from support.acting import FREE, cancel_rule
from support.builders import rule
from support.gates import WAIT, Gates, before_the_signal, only_these_are_signalled
from support.servers import Connect, TestServer, make_server, make_standby, start, until
from support.watching import actor_on, look_until, orphaned, source_on, verdict_of, watcher

from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.verdicts import Withheld, withheld_reason
from watchdog.core.judging.evidence import Evidence, Kind
from watchdog.core.present.look import Look
from watchdog.core.present.not_looked_for import not_looked_for
from watchdog.demo import server as demo_server
from watchdog.demo.guardian import Guardian

STARTING_FROM = 18
"""The first version that shows a session before it is logged in."""

RENAMED_FROM = 15
"""The first version in which a backup begins with pg_backup_start."""

RECEIVED = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"


@pytest.fixture
def pair(guardian: Guardian) -> Iterator[tuple[TestServer, TestServer]]:
    """A primary and a streaming standby of it."""
    with ExitStack() as stack:
        primary = make_server(guardian=guardian, settings={"wal_level": "replica", "max_wal_senders": "4"})
        stack.callback(primary.embedded.stop)
        standby = make_standby(primary, guardian=guardian)
        stack.callback(standby.embedded.stop)
        yield primary, standby


@pytest.mark.parametrize("stored", ["ALTER SYSTEM", "ALTER ROLE pgwatchdog", "ALTER DATABASE postgres"])
async def test_d01_a_serializable_default_makes_no_standby_unreadable(
    pair: tuple[TestServer, TestServer], stored: str
) -> None:
    """Rule: the session sets whatever stored default could make a read fail or wait, before its first snapshot."""
    primary, standby = pair
    for name, value in (("isolation", "serializable"), ("deferrable", "on"), ("read_only", "on")):
        _run(primary, f"{stored} SET default_transaction_{name} = '{value}'")
    if stored == "ALTER SYSTEM":
        _run(primary, "SELECT pg_reload_conf()")
        auto = (primary.embedded.directory / "data" / "postgresql.auto.conf").read_text()
        shared = standby.embedded.directory / "data" / "postgresql.conf"
        shared.write_text(shared.read_text() + auto)
        standby.embedded.stop()
        standby.embedded.start()
    else:
        written = _value(primary, "SELECT pg_current_wal_lsn()::text")
        until(lambda: _value(standby, RECEIVED, written), what="the replay of what was stored")
    writer = psycopg.connect(primary.dsn("web_app"), autocommit=True)
    writer.execute("BEGIN ISOLATION LEVEL SERIALIZABLE, READ WRITE")
    writer.execute("UPDATE accounts SET balance = 1 WHERE id = 1")
    try:
        for server in pair:
            with source_on(server) as source:
                census = await source.census()
                snapshot, _ = await source.snapshot()
                failures = {name: each.count for name, each in source.statement_failures.items() if each.count}
            assert census.sees_all
            assert snapshot.in_recovery is (server is standby)
            assert failures == {}
    finally:
        writer.close()


async def test_d03_who_takes_a_backup_is_known_by_what_it_waits_for(
    guardian: Guardian, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: what has set no name is known by the wait that its row shows, also where that begins before the signal."""
    server = make_server(guardian=guardian, settings={"archive_mode": "on", "archive_command": "/bin/false"})
    old = server.major < RENAMED_FROM
    begin, end = ("pg_start_backup", "pg_stop_backup") if old else ("pg_backup_start", "pg_backup_stop")
    quick, ends = ("'x', true, false", "false") if old else ("'x', true", "true")
    spread = "'x', false, false" if old else "'x', false"
    server.run(f"GRANT EXECUTE ON FUNCTION {begin}, {end} TO web_app")
    waiting = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
    opened = [psycopg.connect(server.dsn(role), autocommit=True) for role in ("web_app", "web_app", "etl_app")]
    archived, checkpoint, holder = opened
    try:
        gates = Gates(holder)
        archived.execute(f"SELECT {begin}({quick})")
        pid = start(archived, f"SELECT {WAIT}; SELECT {end}({ends})", server)

        def ends_the_backup(_: CancelTarget) -> None:
            gates.open()
            until(lambda: server.value(waiting, pid) == "BackupWaitWalArchive", what="the wait for the archive")

        before_the_signal(monkeypatch, ends_the_backup)
        with actor_on(server, tmp_path) as cycle:
            look = await look_until(cycle, lambda look: look.results)
            monkeypatch.undo()
            assert [(each.result, each.withheld) for each in look.results] == [(Result.PROTECTED, Withheld.BACKUP)]
            server.run("CREATE TABLE dirty AS SELECT n FROM generate_series(1, 100000) AS n")
            other = start(checkpoint, f"SELECT {begin}({spread})", server)
            until(lambda: server.value(waiting, other) == "CheckpointDone", what="the wait for the checkpoint")
            await only_these_are_signalled(cycle, {pid: Withheld.BACKUP, other: Withheld.BACKUP})
    finally:
        for each in opened:
            each.close()
        server.embedded.stop()


JOB = rule(roles=frozenset({"web_app"}), copies=1, retry_gap=1, budgets={"*": 600})
ARMED_AGAINST_COPIES = Policy((cancel_rule(kind=Kind.DUPLICATE, evidence=Evidence.SUPERSEDED),), FREE)
KEY = "scan:report:w1"


@pytest.fixture
def foreign(server: TestServer) -> Iterator[str]:
    """A foreign table of the same server over a table that each of its rows takes a while to be read from."""
    port = psycopg.conninfo.conninfo_to_dict(server.dsn())["port"]
    server.run(
        "CREATE EXTENSION postgres_fdw;"
        "CREATE FUNCTION slow(id int) RETURNS int LANGUAGE sql AS 'SELECT id FROM pg_sleep(0.05)';"
        "CREATE TABLE near (id int); INSERT INTO near SELECT n FROM generate_series(1, 300) AS n;"
        "CREATE VIEW slowly AS SELECT slow(id) AS id FROM near; GRANT ALL ON near, slowly TO web_app;"
        f"CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}',"
        f" dbname 'postgres', application_name '{KEY}');"
        f"CREATE USER MAPPING FOR web_app SERVER loop OPTIONS (user 'web_app', password '{server.embedded.password}');"
        "CREATE FOREIGN TABLE far (id int) SERVER loop OPTIONS (table_name 'slowly');"
        "CREATE FOREIGN TABLE far_near (id int) SERVER loop OPTIONS (table_name 'near');"
        "GRANT ALL ON far, far_near TO web_app"
    )
    yield "far"
    server.end_sessions()
    server.run(
        "DROP SERVER loop CASCADE; DROP VIEW slowly; DROP TABLE near; DROP FUNCTION slow; DROP EXTENSION postgres_fdw"
    )


async def test_d04_the_child_of_a_foreign_table_is_no_retry_of_its_parent(
    server: TestServer, connect: Connect, foreign: str, tmp_path: Path
) -> None:
    """Rule: the older waits for the younger and says so, so it has not been replaced."""
    caller = connect(name=KEY)
    body = f"BEGIN PERFORM pg_sleep(1.5); PERFORM id FROM {foreign}; END"
    caller.execute(f"CREATE FUNCTION pg_temp.report() RETURNS void LANGUAGE plpgsql AS '{body}'")
    start(caller, "SELECT pg_temp.report()", server)
    with actor_on(server, tmp_path, JOB, policy=ARMED_AGAINST_COPIES, roles={"web_app": 600}) as cycle:
        looks = [await look_until(cycle, lambda look: any(len(each) == 2 for each in look.judgement.copies.values()))]
        looks += [await cycle.look(tick=True) for _ in range(20)]
    duplicates = [each for look in looks for each in look.judgement.findings if each.kind is Kind.DUPLICATE]
    assert duplicates
    assert {each.evidence for each in duplicates} == {()}
    assert [look.results for look in looks if look.results] == []


async def test_d08_an_insert_into_a_foreign_table_is_a_writer(
    server: TestServer, connect: Connect, foreign: str, tmp_path: Path
) -> None:
    """Rule: a command that writes and has no transaction id here has not begun, or writes elsewhere."""
    pid = start(
        connect(),
        f"INSERT INTO {foreign}_near SELECT 1 FROM generate_series(1, 600) WHERE pg_sleep(0.1) IS NOT NULL",
        server,
    )
    with actor_on(server, tmp_path) as cycle:
        [look, *_] = await only_these_are_signalled(cycle, {pid: Withheld.WRITER})
    assert [each.has_xid for each in look.snapshot.backends if each.pid == pid] == [False]


def _faketime(missing: Callable[[str], NoReturn]) -> str:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        missing("libfaketime is not installed: apt-get install faketime")
    return str(found[0])


@pytest.mark.parametrize("step", ["+1h", "-1h"])
async def test_d06_a_step_of_the_servers_clock_proves_nothing_about_a_caller(
    own_server: TestServer,
    tmp_path: Path,
    public_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: Callable[[str], NoReturn],
    step: str,
) -> None:
    """Rule: runs that were there when the clock was stepped wait until we have watched them for budget and grace."""
    clock = public_folder / "clock"
    clock.write_text("+0")
    faked = {
        "LD_PRELOAD": _faketime(missing),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    own_server.embedded.stop()
    real = demo_server.clean_environment
    with monkeypatch.context() as patched:
        patched.setattr(demo_server, "clean_environment", lambda: real() | faked)
        own_server.embedded.start()
    seven = 7
    with ExitStack() as stack:
        holder = stack.enter_context(closing(psycopg.connect(own_server.dsn("etl_app"), autocommit=True)))
        gates = Gates(holder)
        victims = [
            stack.enter_context(closing(psycopg.connect(own_server.dsn("web_app"), autocommit=True)))
            for _ in range(seven)
        ]
        with actor_on(own_server, tmp_path, roles={"web_app": 4.0}, interval=0.5) as cycle:
            await look_until(cycle, lambda look: not look.disarmed)
            pids = [start(each, f"SELECT {WAIT}", own_server) for each in victims]
            await cycle.look(tick=True)
            clock.write_text(step)
            begun = time.monotonic()
            stepped = await look_until(cycle, lambda look: look.clock_step is not None)
            looks = [stepped, *[await cycle.look(tick=True) for _ in range(3)]]
            assert time.monotonic() - begun < 4.0, "the machine is too slow for this test"
            assert abs(stepped.clock_step or timedelta(0)) > timedelta(minutes=59)
            assert not any(look.results for look in looks)
            if step == "+1h":
                said = {withheld_reason(verdict_of(look, pid)) for look in looks for pid in pids}
                assert said == {Withheld.CLOCK_STEPPED}
            acted: set[int] = set()

            def all_acted(look: Look) -> bool:
                acted.update(each.act.finding.backend.pid for each in look.results)
                return acted == set(pids)

            if step == "+1h":
                await look_until(cycle, all_acted)
                assert time.monotonic() - begun >= 4.0, "we have watched them for as long as their budget"
        gates.open()


async def test_d09_a_retry_that_waits_behind_the_worker_that_applies_changes_supersedes_nobody(
    guardian: Guardian, tmp_path: Path
) -> None:
    """Rule: the question who blocks whom goes on at a process that is no client."""
    with ExitStack() as stack:
        server = make_server(guardian=guardian, settings={"wal_level": "logical", "max_wal_senders": "4"})
        stack.callback(server.embedded.stop)
        for database in ("postgres", "other"):
            with psycopg.connect(server.dsn("postgres", database=database), autocommit=True) as admin:
                admin.execute("CREATE TABLE queue (id int PRIMARY KEY); GRANT ALL ON queue TO etl_app")
        server.run("CREATE PUBLICATION p FOR TABLE queue")
        server.run("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        with psycopg.connect(server.dsn("postgres", database="other"), autocommit=True) as admin:
            source = server.dsn("postgres").replace("'", "''")
            admin.execute(
                f"CREATE SUBSCRIPTION s CONNECTION '{source}' PUBLICATION p"
                " WITH (create_slot = false, slot_name = 's', copy_data = false)"
            )
        clients = [
            stack.enter_context(
                closing(
                    psycopg.connect(
                        server.dsn("etl_app", database="other"), autocommit=True, application_name="scan:threads:w1"
                    )
                )
            )
            for _ in range(2)
        ]
        report, retry = clients
        report.execute("BEGIN; LOCK TABLE queue IN SHARE MODE")
        older = start(report, "SELECT pg_sleep(60)", server)
        server.run("INSERT INTO queue VALUES (1)")
        applies = (
            "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE NOT granted AND backend_type LIKE 'logical replication%%'"
        )
        until(lambda: _value(server, applies), what="the worker behind the report")
        late = "SELECT clock_timestamp() - query_start > '1.5s' FROM pg_stat_activity WHERE pid = %s"
        until(lambda: _value(server, late, older), what="the gap after which a copy is a retry")
        retry.execute("BEGIN")
        younger = start(retry, "LOCK TABLE queue IN SHARE MODE", server)
        job = rule(roles=frozenset({"etl_app"}), budgets={"threads": 60}, copies=1, retry_gap=1.0)
        duplicates = cancel_rule(name="copies", kind=Kind.DUPLICATE, evidence=Evidence.SUPERSEDED)
        with actor_on(server, tmp_path, job, policy=Policy((duplicates,), FREE), interval=0.5) as cycle:
            looks = [await look_until(cycle, lambda look: len(look.judgement.copies) == 1)]
            looks += [await cycle.look(tick=True) for _ in range(5)]
        found = {each.backend.pid: each for look in looks for each in look.judgement.findings}
        assert found.keys() == {older}, "the older one is the duplicate"
        assert all(Evidence.SUPERSEDED not in each.evidence for each in found.values())
        assert not any(look.results for look in looks)
        for pid in (older, younger):
            server.run(f"SELECT pg_terminate_backend({pid})")
        with psycopg.connect(server.dsn("postgres", database="other"), autocommit=True) as admin:
            admin.execute("ALTER SUBSCRIPTION s DISABLE")
            admin.execute("ALTER SUBSCRIPTION s SET (slot_name = NONE)")
            admin.execute("DROP SUBSCRIPTION s")


async def test_d09_on_a_standby_it_is_unknown_who_waits_behind_the_replay(
    pair: tuple[TestServer, TestServer],
) -> None:
    """Rule: a chain of waiters that leaves the rows of the poll has not ended: unknown is the answer, never 0."""
    primary, standby = pair
    standby.embedded.stop()
    shared = standby.embedded.directory / "data" / "postgresql.conf"
    shared.write_text(shared.read_text() + "max_standby_streaming_delay = -1\n")
    standby.embedded.start()
    with ExitStack() as stack:
        clients = [
            stack.enter_context(closing(psycopg.connect(standby.dsn("web_app"), autocommit=True))) for _ in range(3)
        ]
        report, *requests = clients
        pid = start(report, "SELECT count(*), pg_sleep(60) FROM accounts", standby)
        primary.run("ALTER TABLE accounts ADD later int")
        replay = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event_type = 'Lock'"
        until(lambda: _value(standby, replay), what="the replay to wait")
        for each in requests:
            each.execute("SET statement_timeout = '60s'")
            start(each, "SELECT count(*) FROM accounts", standby)
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'web_app' AND wait_event_type = 'Lock'"
        until(lambda: _value(standby, waiting) == len(requests), what="the requests behind the replay")
        with watcher(standby, roles={"web_app": 0.5}, grace=0.0) as cycle:
            look = await look_until(cycle, lambda look: orphaned(look, pid))
        assert {each.blocks for each in look.judgement.findings if each.backend.pid == pid} == {None}
        assert look.judgement.blocked_by_orphans is None
        standby.embedded.stop()


async def test_d11_a_session_that_is_not_logged_in_yet_runs_nothing(server: TestServer) -> None:
    """Rule: a log-in that waits is counted as one, and nothing could have been looked for in it."""
    threads, seen = [], 2 if server.major >= STARTING_FROM else 0
    with watcher(server, roles={"web_app": 0.1}, grace=0.0) as cycle, server.admin() as holder:
        await cycle.look(tick=True)
        with holder.transaction():
            holder.execute("LOCK pg_db_role_setting IN ACCESS EXCLUSIVE MODE")
            threads = [threading.Thread(target=_log_in, args=(server,)) for _ in range(2)]
            for each in threads:
                each.start()
            look = await look_until(cycle, lambda look: look.judgement.unjudged["logging_in"] == seen)
    for each in threads:
        each.join()
    assert (look.judgement.findings, look.judgement.unjudged["no_start"]) == ([], 0)
    assert not any(each.failed for each in not_looked_for(look))


def _log_in(server: TestServer) -> None:
    with psycopg.connect(server.dsn("web_app")):
        pass


def _run(server: TestServer, sql: str) -> None:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(sql)


def _value(server: TestServer, sql: str, *parameters: object) -> object:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute("SET default_transaction_isolation = 'read committed'")
        row = connection.execute(sql, parameters).fetchone()
    assert row is not None
    return row[0]
