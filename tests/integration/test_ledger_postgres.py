"""The ledger on PostgreSQL: the same contract, and what only a server can do to it."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import QueryCanceled
from support.builders import NOW
from support.ledger_schema import ADD_NOTE, SchemaContract, counted
from support.ledgers import StoreContract, act, rows, second
from support.servers import TestServer, until

from watchdog.errors import LedgerError, LedgerRefusedError
from watchdog.ledger.engine import BUSY_SECONDS
from watchdog.ledger.steps import STEPS
from watchdog.ledger.store import Store
from watchdog.ledger.writer import Writer

OURS = "application_name = 'pgwatchdog-ledger'"


def url_of(server: TestServer, *, host: str = "127.0.0.1") -> str:
    embedded = server.embedded
    return f"postgresql://canceller:{embedded.password}@{host}:{embedded.port}/ledger"


def make_database(server: TestServer) -> None:
    server.run("DROP DATABASE IF EXISTS ledger WITH (FORCE)")
    server.create_database("ledger", "OWNER canceller")


class TestOnPostgres(StoreContract):
    """The contract on a server."""


class TestSchemaOnPostgres(SchemaContract):
    """The schema's contract on a server."""


@pytest.fixture
def url(server: TestServer) -> Iterator[str]:
    make_database(server)
    yield url_of(server)
    server.run("DROP DATABASE ledger WITH (FORCE)")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    one = Store(url)
    yield one
    one.close()


def test_a_commit_waits_for_the_disk_whatever_role_and_database_say(server: TestServer, store: Store) -> None:
    server.run("ALTER DATABASE ledger SET synchronous_commit = off")
    server.run("ALTER ROLE canceller IN DATABASE ledger SET synchronous_commit = off")
    with second(store.url) as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "off"
    store.open()
    assert store._engine is not None
    with store._engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"
    store.intend([act("a1")])
    assert [row["id"] for row in rows(store.url)] == ["a1"]


def test_it_takes_a_session_or_two_and_says_whose_they_are(server: TestServer, store: Store) -> None:
    for number in range(5):
        store.intend([act(f"a{number}")])
    assert server.value(f"SELECT count(*) FROM pg_stat_activity WHERE {OURS}") == 1
    store.close()
    until(lambda: server.value(f"SELECT count(*) FROM pg_stat_activity WHERE {OURS}") == 0, what="the end of it")


def test_a_session_that_has_been_ended_is_opened_anew(server: TestServer, store: Store) -> None:
    store.intend([act("a1")])
    server.run(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {OURS}")
    store.intend([act("a2")])
    assert [row["id"] for row in rows(store.url)] == ["a1", "a2"]


def test_a_table_that_somebody_keeps_locked_is_an_error_after_a_short_wait(server: TestServer, store: Store) -> None:
    store.intend([act("a1")])
    with psycopg.connect(server.dsn("canceller", database="ledger")) as other:
        other.execute("LOCK TABLE pgwatchdog_acts IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(LedgerError, match="statement timeout") as caught:
            store.intend([act("a2")])
        assert isinstance(caught.value.__cause__, Exception)
        assert isinstance(caught.value.__cause__.__cause__, QueryCanceled)
        assert server.embedded.password not in str(caught.value)
    assert BUSY_SECONDS < 3
    store.intend([act("a3")])
    assert [row["id"] for row in rows(store.url)] == ["a1", "a3"]


def test_a_ledger_that_cannot_be_used_holds_no_session(server: TestServer, store: Store) -> None:
    store.open()
    store.close()
    with second(store.url) as connection:
        connection.exec_driver_sql("UPDATE pgwatchdog_schema SET schema_version = 9")
    until(lambda: server.value(f"SELECT count(*) FROM pg_stat_activity WHERE {OURS}") == 0, what="the end of it")
    for _ in range(5):
        with pytest.raises(LedgerRefusedError, match="newer"):
            store.open()
    until(lambda: server.value(f"SELECT count(*) FROM pg_stat_activity WHERE {OURS}") == 0, what="the end of them")


def test_a_role_that_may_not_write_is_an_error_that_says_so(server: TestServer, store: Store) -> None:
    store.intend([act("a1")])
    url = store.url.replace("canceller", "pgwatchdog", 1)
    with pytest.raises(LedgerError, match="permission denied") as caught:
        Store(url).intend([act("a2")])
    assert server.embedded.password not in str(caught.value)
    assert [row["id"] for row in rows(store.url)] == ["a1"]


def test_a_wrong_password_is_an_error_that_names_none(server: TestServer, url: str) -> None:
    wrong = url.replace(server.embedded.password, "wr0ngsecret")
    with pytest.raises(LedgerError, match="password authentication failed") as caught:
        Store(wrong).open()
    assert "wr0ngsecret" not in str(caught.value)


def test_a_read_only_server_is_an_error(server: TestServer, store: Store) -> None:
    store.intend([act("a1")])
    store.close()
    server.run("ALTER DATABASE ledger SET default_transaction_read_only = on")
    with pytest.raises(LedgerError, match="read-only transaction"):
        store.intend([act("a2")])
    assert [row["id"] for row in rows(store.url)] == ["a1"]


def test_two_replicas_that_start_at_once_on_an_empty_database_both_work(url: str) -> None:
    async def start_both() -> None:
        patient = f"{url}?connect_timeout=30"
        writers = [Writer(Store(patient, (*STEPS, ADD_NOTE)), 60) for _ in range(2)]
        await asyncio.gather(*(writer.intend([act(f"a{n}")]) for n, writer in enumerate(writers)))
        for writer in writers:
            await asyncio.to_thread(writer.store.close)

    asyncio.run(start_both())
    assert (counted(url), [row["id"] for row in rows(url)]) == ((1, 3), ["a0", "a1"])


def test_a_ledger_in_a_schema_of_its_own_is_found_there(server: TestServer, url: str) -> None:
    with psycopg.connect(server.dsn("canceller", database="ledger")) as owner:
        owner.execute("CREATE SCHEMA dog")
        owner.execute("ALTER ROLE canceller IN DATABASE ledger SET search_path = dog")
    store = Store(url)
    for number in range(2):
        store.intend([act(f"a{number}")])
        store.close()
    with second(url) as connection:
        where = connection.exec_driver_sql("SELECT schemaname FROM pg_tables WHERE tablename = 'pgwatchdog_acts'")
        assert where.scalars().all() == ["dog"]
    assert len(rows(url)) == 2


async def test_a_restart_of_the_ledgers_server_is_survived(own_server: TestServer) -> None:
    make_database(own_server)
    writer = Writer(Store(url_of(own_server)), 10)
    await writer.intend([act("a1")])
    await asyncio.to_thread(own_server.embedded.stop)
    with pytest.raises(LedgerError):
        await writer.intend([act("a2")])
    with pytest.raises(LedgerError):
        await writer.recall("main", since=NOW, at=NOW)
    await asyncio.to_thread(own_server.embedded.start)
    await writer.intend([act("a3")])
    recalled = await writer.recall("main", since=NOW, at=NOW)
    assert [each.id for each in recalled] == ["a1", "a3"]
    await asyncio.to_thread(own_server.embedded.stop)
    await asyncio.to_thread(own_server.embedded.start)
    await writer.intend([act("a4")])
    assert [row["id"] for row in rows(writer.store.url)] == ["a1", "a3", "a4"]
    await asyncio.to_thread(writer.store.close)


async def test_a_frozen_server_of_the_ledger_fails_within_the_writers_deadline(own_server: TestServer) -> None:
    make_database(own_server)
    writer = Writer(Store(url_of(own_server)), 0.5)
    await writer.intend([act("a1")])
    query = f"SELECT pid FROM pg_stat_activity WHERE {OURS}"
    pid = int(str(own_server.value(query)))
    os.kill(pid, signal.SIGSTOP)
    begun = time.monotonic()
    try:
        with pytest.raises(LedgerError, match="did not answer within"):
            await writer.intend([act("a2")])
        assert time.monotonic() - begun < 3
    finally:
        os.kill(pid, signal.SIGCONT)

    def recovered() -> list[str]:
        return [str(row["result"]) for row in rows(writer.store.url) if row["id"] == "a2"]

    await asyncio.to_thread(until, lambda: recovered() == ["not_tried"], what="the mark")
    await asyncio.to_thread(writer.store.close)
