"""Sessions that are over their budget and are left alone, each for its own reason, while others beside them are not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from support.acting import FREE, cancel_rule, protecting
from support.builders import book, judge_settings
from support.gates import CANCELED, WAIT, Gates, only_these_are_signalled
from support.servers import Client, Connect, MakeRole, TestServer, start, until
from support.watching import actor_on, answer, found, history, look_until, orphaned, row_of, verdict_of

from watchdog.core.acting.policy import Policy
from watchdog.core.acting.verdicts import Observed, Withheld, withheld_reason

WRITERS_TOO = Policy((cancel_rule(writers=True),), FREE)


@pytest.fixture
def gates(connect: Connect) -> Gates:
    return Gates(connect(role="etl_app"))


def commit_without_a_standby(writer: Client, server: TestServer) -> int:
    """Commit until a commit waits: it takes a moment before the server as a whole knows that it is to wait."""
    pid = writer.info.backend_pid
    waits = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event = 'SyncRep'"

    def waiting() -> object:
        writer.pgconn.consume_input()
        if not writer.pgconn.is_busy():
            assert answer(writer) is None
            writer.pgconn.send_query(b"UPDATE accounts SET balance = 9 WHERE id = 7")
            writer.pgconn.flush()
        return server.value(waits, pid)

    until(waiting, what="the wait for a standby")
    return pid


@asynccontextmanager
async def fetching(server: TestServer, *, name: str) -> AsyncIterator[int]:
    """A session that fetches row after row from a cursor, has done so for an interval, and goes on; its pid."""
    connection = await psycopg.AsyncConnection.connect(server.dsn("web_app"), autocommit=True, application_name=name)
    async with connection:
        await connection.execute("BEGIN")
        await connection.execute("DECLARE c CURSOR FOR SELECT pg_sleep(0.1) FROM generate_series(1, 10000)")
        await connection.execute("SELECT pg_sleep(1.1)")

        async def fetch() -> None:
            while True:
                await connection.execute("FETCH 1 FROM c")

        task = asyncio.create_task(fetch())
        try:
            yield connection.info.backend_pid
        finally:
            assert not task.done(), "the loop was disturbed"
            task.cancel()
            with suppress(asyncio.CancelledError, psycopg.Error):
                await task


async def test_a_superuser_is_left_alone(
    server: TestServer, connect: Connect, make_role: MakeRole, gates: Gates, tmp_path: Path
) -> None:
    victim, boss = connect(), connect(role=make_role("boss", "SUPERUSER"))
    control, pid = start(victim, "SELECT pg_sleep(60)", server), start(boss, f"SELECT {WAIT}", server)
    with actor_on(server, tmp_path, roles={"web_app": 0.5, "boss": 0.5}) as cycle:
        await only_these_are_signalled(cycle, {pid: Withheld.SUPERUSER, control: None})
    gates.open()
    assert (answer(boss), answer(victim)) == (None, CANCELED)
    assert [act["pid"] for act in history(tmp_path)] == [control]


async def test_a_providers_role_is_left_alone_even_where_somebody_gave_it_a_budget(
    server: TestServer, connect: Connect, make_role: MakeRole, gates: Gates, tmp_path: Path
) -> None:
    victim, provider = connect(), connect(role=make_role("rdsadmin"))
    control, pid = start(victim, "SELECT pg_sleep(60)", server), start(provider, f"SELECT {WAIT}", server)
    with actor_on(server, tmp_path, roles={"web_app": 0.5, "rdsadmin": 0.5}) as cycle:
        await only_these_are_signalled(cycle, {pid: Withheld.PROVIDER, control: None})
    gates.open()
    assert (answer(provider), answer(victim)) == (None, CANCELED)


async def test_a_role_younger_than_the_census_is_left_alone_until_its_name_is_known(
    server: TestServer, connect: Connect, make_role: MakeRole, tmp_path: Path
) -> None:
    """It may be a superuser's: nobody knows yet."""
    with actor_on(server, tmp_path) as cycle:
        cycle.judge_settings = judge_settings(book(roles={"web_app": 0.5}, default=0.5, grace=0.0), interval=1.0)
        await cycle.look(tick=True)
        victim, newcomer = connect(), connect(role=make_role("newcomer"))
        control, pid = start(victim, "SELECT pg_sleep(60)", server), start(newcomer, "SELECT pg_sleep(60)", server)
        await only_these_are_signalled(cycle, {pid: Withheld.UNKNOWN_ROLE, control: None})
        assert cycle.source.census_is_stale
        await cycle.take_census()
        await only_these_are_signalled(cycle, {pid: None})
    assert (answer(newcomer), answer(victim)) == (CANCELED, CANCELED)


async def test_where_roles_are_hidden_nobody_is_signalled_and_those_stay_protected_until_the_next_census(
    server: TestServer, connect: Connect, make_role: MakeRole, tmp_path: Path
) -> None:
    half = make_role("half_blind")
    server.run(f"GRANT pg_signal_backend, web_app TO {half}")
    seen, hidden = connect(role="web_app"), connect(role="etl_app")
    seen_pid, hidden_pid = start(seen, "SELECT pg_sleep(60)", server), start(hidden, "SELECT pg_sleep(60)", server)
    with actor_on(server, tmp_path, roles={"web_app": 0.5, "etl_app": 0.5}, role=half) as cycle:
        looks = await only_these_are_signalled(cycle, {seen_pid: Withheld.HIDDEN})
        assert not any(look.complete or found(look, hidden_pid) for look in looks)
        server.run(f"GRANT pg_monitor TO {half}")
        await only_these_are_signalled(cycle, {hidden_pid: Withheld.HIDDEN, seen_pid: None})
        await cycle.take_census()
        await only_these_are_signalled(cycle, {hidden_pid: None})
    assert (answer(seen), answer(hidden)) == (CANCELED, CANCELED)


async def test_a_role_that_the_configuration_protects_is_left_alone(
    server: TestServer, connect: Connect, gates: Gates, tmp_path: Path
) -> None:
    victim, chosen = connect(role="etl_app"), connect(role="web_app")
    control, pid = start(victim, "SELECT pg_sleep(60)", server), start(chosen, f"SELECT {WAIT}", server)
    budgets = {"web_app": 0.5, "etl_app": 0.5}
    with actor_on(server, tmp_path, roles=budgets, policy=protecting(roles=("web_*",))) as cycle:
        await only_these_are_signalled(cycle, {pid: Withheld.PROTECTED_ROLE, control: None})
    gates.open()
    assert (answer(chosen), answer(victim)) == (None, CANCELED)


async def test_an_application_that_the_configuration_protects_is_left_alone(
    server: TestServer, connect: Connect, gates: Gates, tmp_path: Path
) -> None:
    victim, chosen = connect(name="Month-end"), connect(name="month-end close")
    control, pid = start(victim, "SELECT pg_sleep(60)", server), start(chosen, f"SELECT {WAIT}", server)
    with actor_on(server, tmp_path, policy=protecting(applications=("month-end*",))) as cycle:
        await only_these_are_signalled(cycle, {pid: Withheld.PROTECTED_APPLICATION, control: None})
    gates.open()
    assert (answer(chosen), answer(victim)) == (None, CANCELED)


async def test_backups_are_known_by_their_application_and_nobody_else_passes_for_one(
    server: TestServer, connect: Connect, gates: Gates, tmp_path: Path
) -> None:
    backups = [connect(name=name) for name in ("pg_dump", "pgBackRest [backup]", "WAL-G/3.0", "pg_dump - 10.0.0.1:9")]
    others = [connect(name=name) for name in ("pg_dumpling", "not pg_dump", "")]
    spared = [start(each, f"SELECT {WAIT}", server) for each in backups]
    victims = [start(each, "SELECT pg_sleep(60)", server) for each in others]
    with actor_on(server, tmp_path) as cycle:
        expected = dict.fromkeys(spared, Withheld.BACKUP) | dict.fromkeys(victims)
        await only_these_are_signalled(cycle, expected)
    gates.open()
    assert {answer(each) for each in backups} == {None}
    assert {answer(each) for each in others} == {CANCELED}


async def test_a_commit_that_waits_for_a_standby_is_left_alone_also_where_writers_are_not(
    own_server: TestServer, tmp_path: Path
) -> None:
    """A cancel would turn the wait into a commit that reports success and is on one machine only."""
    dsn = own_server.dsn("web_app")
    with psycopg.connect(dsn, autocommit=True) as writer, psycopg.connect(dsn, autocommit=True) as reader:
        own_server.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'; SELECT pg_reload_conf()")
        pid = commit_without_a_standby(writer, own_server)
        control = start(reader, "SELECT pg_sleep(60)", own_server)
        with actor_on(own_server, tmp_path, policy=WRITERS_TOO) as cycle:
            await only_these_are_signalled(cycle, {pid: Withheld.SYNC_REP, control: None})
        assert writer.pgconn.is_busy()
        own_server.run("ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()")
        assert (answer(writer), answer(reader)) == (None, CANCELED)


async def test_a_copy_from_a_silent_client_holds_and_is_no_orphan(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    copying, victim = connect(), connect()
    pid, control = start(copying, "COPY accounts FROM STDIN", server), start(victim, "SELECT pg_sleep(60)", server)
    with actor_on(server, tmp_path) as cycle:
        [*_, look] = await only_these_are_signalled(cycle, {control: None})
        assert found(look, pid) == ["holding"]
        assert isinstance(verdict_of(look, pid), Observed)
    copying.pgconn.get_result()
    copying.pgconn.put_copy_end()
    assert (answer(copying), answer(victim)) == (None, CANCELED)


async def test_a_keyed_run_that_waits_for_its_client_is_left_alone(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    """A signal would stay pending and bite whatever the client sends next."""
    copying, victim = connect(name="scan:orders:w1"), connect()
    copying.execute("BEGIN")
    copying.execute("SELECT pg_sleep(2.2)")
    with actor_on(server, tmp_path, interval=2.0) as cycle:
        await cycle.look(tick=True)
        control = start(victim, "SELECT pg_sleep(60)", server)
        pid = start(copying, "COPY accounts FROM STDIN", server)
        await only_these_are_signalled(cycle, {pid: Withheld.WAITS_FOR_CLIENT, control: None})
    copying.pgconn.get_result()
    copying.pgconn.put_copy_end()
    assert (answer(copying), answer(victim)) == (None, CANCELED)


async def test_a_client_that_is_still_talking_is_left_alone(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    victim = connect()
    control = start(victim, "SELECT pg_sleep(60)", server)
    async with fetching(server, name="scan:orders:w1") as pid:
        with actor_on(server, tmp_path) as cycle:
            looks = [await look_until(cycle, lambda look: orphaned(look, pid)) for _ in range(10)]
            await look_until(cycle, lambda look: withheld_reason(verdict_of(look, pid)) is Withheld.CLIENT_TALKING)
    # Between two statements it waits for its client, which is asked first.
    said = {withheld_reason(verdict_of(look, pid)) for look in looks}
    assert said <= {Withheld.CLIENT_TALKING, Withheld.WAITS_FOR_CLIENT}
    assert [act["pid"] for act in history(tmp_path)] == [control]
    assert answer(victim) == CANCELED


async def test_a_writer_is_left_alone_unless_its_rule_allows_it(
    server: TestServer, connect: Connect, gates: Gates, tmp_path: Path
) -> None:
    reader, writer, locker = connect(), connect(), connect()
    for each in (writer, locker):
        each.execute("BEGIN")
    writer.execute("UPDATE accounts SET balance = 9 WHERE id = 20")
    locker.execute("SELECT FROM accounts WHERE id = 21 FOR UPDATE")
    pids = [start(each, f"SELECT {WAIT}", server) for each in (writer, locker)]
    control = start(reader, "SELECT pg_sleep(60)", server)
    (tmp_path / "strict").mkdir()
    with actor_on(server, tmp_path / "strict") as cycle:
        await only_these_are_signalled(cycle, {**dict.fromkeys(pids, Withheld.WRITER), control: None})
    with actor_on(server, tmp_path, policy=WRITERS_TOO) as cycle:
        await only_these_are_signalled(cycle, dict.fromkeys(pids))
    gates.open()
    assert [answer(each) for each in (reader, writer, locker)] == [CANCELED] * 3
    assert server.value("SELECT balance FROM accounts WHERE id = 20") == 0, "its own transaction is rolled back whole"


async def test_a_procedure_that_has_committed_inside_is_left_alone(
    server: TestServer, connect: Connect, gates: Gates, tmp_path: Path
) -> None:
    """Half of its work is done and stays; its row has no transaction id to show for it."""
    caller, victim = connect(), connect()
    steps = "UPDATE accounts SET balance = balance + 1 WHERE id = 30; COMMIT"
    pid = start(caller, f"DO $$ BEGIN {steps}; PERFORM {WAIT}; {steps}; END $$", server)
    control = start(victim, "SELECT pg_sleep(60)", server)
    with actor_on(server, tmp_path) as cycle:
        looks = await only_these_are_signalled(cycle, {pid: Withheld.WRITER, control: None})
    row = row_of(looks[-1].snapshot, pid)
    assert row is not None
    assert not row.has_xid
    gates.open()
    assert (answer(caller), answer(victim)) == (None, CANCELED)
    assert server.value("SELECT balance FROM accounts WHERE id = 30") == 2


async def test_a_walsender_is_never_found_whatever_it_runs(
    server: TestServer, connect: Connect, make_role: MakeRole, gates: Gates, tmp_path: Path
) -> None:
    victim = connect()
    dsn = server.dsn(make_role("replicator", "REPLICATION"))
    with psycopg.connect(dsn, replication="database", autocommit=True) as sender:
        pid, control = start(sender, f"SELECT {WAIT}", server), start(victim, "SELECT pg_sleep(60)", server)
        assert server.value("SELECT backend_type FROM pg_stat_activity WHERE pid = %s", pid) == "walsender"
        with actor_on(server, tmp_path, roles={"web_app": 0.5, "replicator": 0.1}) as cycle:
            looks = await only_these_are_signalled(cycle, {control: None})
        assert not any(row_of(look.snapshot, pid) for look in looks)
        gates.open()
        assert (answer(sender), answer(victim)) == (None, CANCELED)
