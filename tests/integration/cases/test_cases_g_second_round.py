"""Field cases, section G: what people met in a second round. Each names the general rule that makes it right."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from support.gates import WAIT, Gates, before_the_signal, only_these_are_signalled
from support.servers import TestServer, make_server, make_standby, start, until
from support.watching import actor_on, look_until, source_on, watcher

from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.present.not_looked_for import not_looked_for
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
