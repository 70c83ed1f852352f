"""What a poll and a census see of a real server."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg
import pytest
from support.builders import holders_of
from support.servers import Connect, TestServer, start
from support.watching import row_of, source_on

from watchdog.core.observed.activity import UNKNOWN, ActivityKind
from watchdog.core.observed.reasons import Reason
from watchdog.errors import ReadError
from watchdog.postgres.session import Session
from watchdog.postgres.source import PostgresSource
from watchdog.postgres.statements import Row, Statement


async def test_an_empty_answer_is_an_answer(server: TestServer) -> None:
    with source_on(server) as source:
        snapshot, took = await source.snapshot()
    assert snapshot.backends == ()
    assert snapshot.sees_all
    assert not snapshot.in_recovery
    assert took > timedelta(0)


async def test_a_running_statement_is_seen_with_the_servers_ages(server: TestServer, connect: Connect) -> None:
    pid = start(connect(role="etl_app", name="scan:a:w1"), "SELECT pg_sleep(60)", server)
    with source_on(server) as source:
        first = row_of((await source.snapshot())[0], pid)
        second = row_of((await source.snapshot())[0], pid)
    assert first is not None
    assert second is not None
    assert (first.role, first.database, first.application_name) == ("etl_app", "postgres", "scan:a:w1")
    assert (first.activity, first.wait_event, first.has_xid) == (ActivityKind.RUNNING, "PgSleep", False)
    assert first.query is not None
    assert second.query is not None
    assert first.query.at == second.query.at
    assert timedelta(0) < first.query.age < second.query.age


async def test_idle_and_listening_sessions_are_not_read(server: TestServer, connect: Connect) -> None:
    idle, listening = connect(), connect()
    idle.execute("SELECT 1")
    listening.execute("LISTEN orders")
    with source_on(server) as source:
        assert (await source.snapshot())[0].backends == ()


async def test_an_open_transaction_holds_and_a_writer_has_an_xid(server: TestServer, connect: Connect) -> None:
    reader, writer = connect(), connect()
    reader.execute("BEGIN")
    reader.execute("SELECT 1")
    writer.execute("BEGIN")
    writer.execute("UPDATE accounts SET balance = 1 WHERE id = 1")
    with source_on(server) as source:
        snapshot, _ = await source.snapshot()
    rows = {pid: row_of(snapshot, pid) for pid in (reader.info.backend_pid, writer.info.backend_pid)}
    assert [row and (row.activity, row.has_xid) for row in rows.values()] == [
        (ActivityKind.HOLDING, False),
        (ActivityKind.HOLDING, True),
    ]


async def test_our_own_sessions_and_those_of_replicas_are_not_read(server: TestServer) -> None:
    replica = psycopg.connect(server.dsn("pgwatchdog"), application_name="pgwatchdog", autocommit=True)
    with source_on(server) as source, replica:
        replica.execute("BEGIN")
        assert (await source.snapshot())[0].backends == ()


async def test_a_session_of_another_role_cannot_hide_behind_our_name(server: TestServer, connect: Connect) -> None:
    pid = start(connect(name="pgwatchdog"), "SELECT pg_sleep(60)", server)
    with source_on(server) as source:
        assert row_of((await source.snapshot())[0], pid) is not None


async def test_the_sparse_and_the_full_read_see_the_same(
    server: TestServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, real = [], Session.rows

    async def rows(session: Session, statement: Statement[Row], parameters: Mapping[str, object]) -> list[Row]:
        asked.append(parameters["sparse"])
        return await real(session, statement, parameters)

    start(connect(), "SELECT pg_sleep(60)", server)
    connect().execute("BEGIN")
    connect().execute("SELECT 1")
    with source_on(server) as source:
        await source.census()
        monkeypatch.setattr(Session, "rows", rows)
        sparse, _ = await source.snapshot()
        source._rows = 1000  # as many as the last poll saw
        full, _ = await source.snapshot()
    assert asked == [True, False]
    assert len(sparse.backends) == 2
    assert {(row.pid, row.state, row.query and row.query.at) for row in sparse.backends} == {
        (row.pid, row.state, row.query and row.query.at) for row in full.backends
    }


class OtherRow(NamedTuple):
    process_id: int


async def test_columns_with_other_names_are_an_internal_error_and_the_session_goes_on(server: TestServer) -> None:
    with source_on(server) as source:
        await source.census()
        session = source._session
        assert session is not None
        for _ in range(2):
            with pytest.raises(ReadError, match="pid: expected the columns process_id; received pid") as caught:
                await session.rows(Statement("pid", OtherRow))
            assert caught.value.reason is Reason.INTERNAL
        await source.snapshot()
        assert source._session is session


async def test_the_names_of_a_statements_columns_are_compared_once_a_session(
    server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    real = Statement.check

    def check(statement: Statement[Any], columns: list[str]) -> None:  # each has a type of its own
        compared.append(statement.name)
        real(statement, columns)

    monkeypatch.setattr(Statement, "check", check)
    with source_on(server) as source:
        for _ in range(2):
            await source.census()
            for _ in range(2):
                await source.snapshot()
            assert len(compared) == len(set(compared))
            assert "activity" in compared
            source.close()
            compared.clear()


async def test_a_right_that_is_lost_between_two_polls_is_seen_at_once(server: TestServer, connect: Connect) -> None:
    start(connect(), "SELECT pg_sleep(60)", server)
    with source_on(server) as source:
        before, _ = await source.snapshot()
        server.run("REVOKE pg_monitor FROM pgwatchdog")
        try:
            after, _ = await source.snapshot()
        finally:
            server.run("GRANT pg_monitor TO pgwatchdog")
    assert (before.sees_all, len(before.backends)) == (True, 1)
    assert (after.sees_all, len(after.backends)) == (False, 0)


async def test_a_role_without_rights_counts_what_is_hidden(server: TestServer, connect: Connect) -> None:
    start(connect(role="etl_app", name="scan:priv:w1"), "SELECT pg_sleep(60)", server)
    with source_on(server, role="blind") as source:
        census = await source.census()
        snapshot, _ = await source.snapshot()
    assert census.hidden >= 1
    assert "etl_app" in census.hidden_roles
    assert not snapshot.sees_all
    assert snapshot.backends == ()


async def test_sessions_with_tracking_off_are_counted(server: TestServer, connect: Connect) -> None:
    server.run("ALTER ROLE etl_app SET track_activities = off")
    try:
        connection = connect(role="etl_app")
        connection.execute("SELECT 1")
        with source_on(server) as source:
            assert (await source.census()).tracking_off == 1
    finally:
        server.run("ALTER ROLE etl_app RESET track_activities")


async def test_the_census_knows_superusers_connections_and_version(server: TestServer, connect: Connect) -> None:
    connect()
    with source_on(server) as source:
        census = await source.census()
    assert "postgres" in census.superusers
    assert "web_app" not in census.superusers
    assert census.connections_used >= 2
    assert census.connections_max == 60
    assert census.version.startswith(f"{server.major}.")


async def test_a_role_younger_than_the_census_is_unknown_and_makes_a_new_census_due(server: TestServer) -> None:
    with source_on(server) as source:
        await source.census()
        server.run(f"CREATE ROLE newcomer LOGIN PASSWORD '{server.embedded.password}'")
        try:
            with psycopg.connect(server.dsn("newcomer"), autocommit=True) as connection:
                connection.execute("BEGIN")
                stranger = row_of((await source.snapshot())[0], connection.info.backend_pid)
                assert stranger is not None
                assert stranger.role == UNKNOWN
                assert source.census_is_stale
                await source.census()
                known = row_of((await source.snapshot())[0], connection.info.backend_pid)
                assert known is not None
                assert known.role == "newcomer"
                assert not source.census_is_stale
        finally:
            server.end_sessions()
            server.run("DROP ROLE newcomer")


async def test_the_end_of_a_queue_is_led_back_to_its_holder(server: TestServer, connect: Connect) -> None:
    holder = connect()
    holder.execute("BEGIN")
    holder.execute("UPDATE accounts SET balance = 1 WHERE id = 7")
    waiting = [start(connect(), "UPDATE accounts SET balance = 2 WHERE id = 7", server) for _ in range(4)]
    with source_on(server) as source:
        await source.snapshot()
        blocking = await source.blocking(waiting)
    assert blocking is not None
    assert all(holder.info.backend_pid in holders_of(blocking, pid) for pid in waiting)
    assert blocking.blocked(holder.info.backend_pid) == 4


async def test_too_many_waiters_are_not_asked_about(server: TestServer) -> None:
    with source_on(server) as source:
        assert await source.blocking(range(1, 10_000)) is None


async def test_our_session_never_stands_in_a_transaction_and_its_settings_are_ours(server: TestServer) -> None:
    server.run("ALTER ROLE pgwatchdog SET statement_timeout = 1; ALTER ROLE pgwatchdog SET search_path = nowhere")
    server.run("ALTER ROLE pgwatchdog SET DateStyle = 'German'; ALTER ROLE pgwatchdog SET TimeZone = 'Asia/Tokyo'")
    try:
        with source_on(server) as source:
            await source.census()
            await source.snapshot()
            shown = "SELECT state FROM pg_stat_activity WHERE application_name = 'pgwatchdog'"
            assert server.value(shown) == "idle"
            settings = await _settings(source)
    finally:
        server.run("ALTER ROLE pgwatchdog RESET ALL")
    assert settings == ["2700ms", "200ms", "off", "pg_catalog", "1min", "UTC"]


async def _settings(source: PostgresSource) -> list[object]:
    session = source._session
    assert session is not None
    names = ("statement_timeout", "lock_timeout", "jit", "search_path", "idle_session_timeout", "TimeZone")
    values = []
    for name in names:
        cursor = await session.connection.execute(f"SHOW {name}".encode())
        row = await cursor.fetchone()
        assert row is not None
        values.append(row[0])
    return values
