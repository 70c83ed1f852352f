"""Field cases, section B: ages and clocks. Each docstring says the rule; the list is docs/field-cases.md."""

import asyncio
import contextlib
import time
from datetime import timedelta
from typing import Self

import psycopg
import pytest
from support.builders import rule
from support.servers import Connect, TestServer, start
from support.watching import case_of, found, look_until, orphaned, watcher

from watchdog.core.acting.verdicts import Observed, withheld_reason
from watchdog.core.observed.activity import ActivityKind, Clock


class FetchLoop:
    """A cursor loop: a short FETCH every tenth of a second in one long transaction."""

    def __init__(self, server: TestServer, *, role: str, name: str) -> None:
        self.dsn, self.name = server.dsn(role), name
        self.pid = 0
        self.fetching = True

    async def __aenter__(self) -> Self:
        self.connection = await psycopg.AsyncConnection.connect(self.dsn, application_name=self.name)
        self.pid = self.connection.info.backend_pid
        await self.connection.execute("DECLARE c CURSOR FOR SELECT pg_sleep(0.05) FROM generate_series(1, 100000)")
        self.task = asyncio.create_task(self._loop())
        return self

    async def _loop(self) -> None:
        while self.fetching:
            await self.connection.execute("FETCH 1 FROM c")
            await asyncio.sleep(0.05)

    async def silence(self) -> None:
        """Fetch no more, and keep the transaction open."""
        self.fetching = False
        await self.task

    async def __aexit__(self, *_: object) -> None:
        await self.silence()
        self.connection.pgconn.finish()


async def test_c06_a_keyed_fetch_loop_is_over_budget_by_its_transaction_and_does_not_flap(server: TestServer) -> None:
    """Rule: a run with a job key counts from the start of its transaction, also in the pauses between statements."""
    async with FetchLoop(server, role="etl_app", name="scan:cur:w1") as loop:
        with watcher(server, rule(budgets={"cur": 1}), interval=1.0) as cycle:
            await look_until(cycle, lambda look: orphaned(look, loop.pid))
            states = set()
            for _ in range(40):
                look = await cycle.look(tick=True)
                assert found(look, loop.pid) == ["orphan"]
                case = case_of(look, loop.pid)
                assert case is not None
                assert case.clock is Clock.RUN
                states.add(case.activity)
                await asyncio.sleep(0.02)
            assert states == {ActivityKind.RUNNING, ActivityKind.HOLDING}, "the loop was seen in both of its states"
            [verdict] = look.decisions.verdicts
            assert withheld_reason(verdict) in {"client_talking", "waits_for_client"}


async def test_c06_a_keyed_run_that_has_fallen_silent_is_holding(server: TestServer) -> None:
    """Rule: if no statement comes for a poll interval, the run is no longer an orphan; its transaction is holding."""
    async with FetchLoop(server, role="etl_app", name="scan:cur:w1") as loop:
        with watcher(server, rule(budgets={"cur": 1}), interval=1.0) as cycle:
            await look_until(cycle, lambda look: orphaned(look, loop.pid))
            await loop.silence()
            await look_until(cycle, lambda look: found(look, loop.pid) == ["holding"])


async def test_c06_the_same_loop_without_a_key_is_holding_and_never_an_orphan(server: TestServer) -> None:
    """Rule: without a job key each statement counts from its own start; the long transaction is reported as holding."""
    async with FetchLoop(server, role="etl_app", name="loader") as loop:
        with watcher(server, roles={"etl_app": 1.0}, interval=1.0) as cycle:
            await look_until(cycle, lambda look: found(look, loop.pid) == ["holding"])
            for _ in range(30):
                assert found(await cycle.look(tick=True), loop.pid) == ["holding"]


async def test_c06_twenty_short_calls_in_one_transaction_are_nothing(server: TestServer, connect: Connect) -> None:
    """Rule: without a job key each statement counts from its own start, however many run in one transaction."""
    connection = connect(name="basket")
    connection.execute("BEGIN")
    with watcher(server, roles={"web_app": 5.0}) as cycle:
        for _ in range(20):
            start(connection, "SELECT pg_sleep(0.1)", server)
            assert (await cycle.look(tick=True)).judgement.findings == []
            while connection.pgconn.get_result():
                pass
    connection.execute("COMMIT")


async def test_c06_a_procedure_that_commits_inside_counts_from_its_call(server: TestServer, connect: Connect) -> None:
    """Rule: a run with a job key counts from the older of `query_start` and `xact_start`; COMMIT in a procedure moves
    only the latter."""
    server.run("DROP PROCEDURE IF EXISTS batches")
    with server.admin() as admin:
        admin.execute(
            "CREATE PROCEDURE batches() LANGUAGE plpgsql AS $$ BEGIN"
            " FOR i IN 1..100 LOOP PERFORM pg_sleep(0.1); COMMIT; END LOOP; END $$"
        )
        admin.execute("GRANT EXECUTE ON PROCEDURE batches TO etl_app")
    pid = start(connect(role="etl_app", name="scan:batch:w1"), "CALL batches()", server)
    with watcher(server, rule(budgets={"batch": 1}), interval=1.0) as cycle:
        look = await look_until(cycle, lambda look: orphaned(look, pid))
        case = case_of(look, pid)
        assert case is not None
        assert case.backend.transaction is not None
        assert case.age > timedelta(seconds=1) > case.backend.transaction.age
        [verdict] = look.decisions.verdicts
        assert withheld_reason(verdict) == "writer", "its statement has committed inside: half the work stays"


async def test_c06_a_leaked_transaction_that_a_pool_reuses_is_not_over_budget_at_birth(
    server: TestServer, connect: Connect
) -> None:
    """Rule: without a job key a statement counts from its own start, not from that of a transaction left open."""
    connection = connect(name="web")
    connection.execute("BEGIN")
    connection.execute("SELECT pg_sleep(1.5)")
    pid = start(connection, "SELECT pg_sleep(30)", server)
    with watcher(server, roles={"web_app": 1.0}) as cycle:
        look = await cycle.look(tick=True)
    assert "orphan" not in found(look, pid)


async def test_c09_ages_are_the_servers_numbers_whatever_its_date_style_and_zone(
    server: TestServer, connect: Connect
) -> None:
    """Rule: ages are seconds computed by the server with clock_timestamp() and clamped at 0; no text is parsed."""
    pid = start(connect(), "SELECT pg_sleep(60)", server)
    ages = []
    for style, zone in (
        ("ISO", "UTC"),
        ("German", "Asia/Tokyo"),
        ("SQL, DMY", "America/St_Johns"),
        ("Postgres", "UTC"),
    ):
        server.run(f"ALTER ROLE pgwatchdog SET DateStyle = '{style}'; ALTER ROLE pgwatchdog SET TimeZone = '{zone}'")
        try:
            with watcher(server) as cycle:
                case = case_of(await cycle.look(tick=True), pid)
        finally:
            server.run("ALTER ROLE pgwatchdog RESET ALL")
        assert case is not None
        ages.append(case.age)
    assert ages == sorted(ages)
    assert timedelta(0) <= ages[0] < ages[-1] < timedelta(seconds=30)


async def test_c09_a_monitor_with_a_wrong_clock_comes_to_the_same_verdicts(
    server: TestServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: the clock of the monitoring host is not used for ages; the server computes them."""
    pid = start(connect(), "SELECT pg_sleep(60)", server)
    real = time.time
    with watcher(server) as cycle:
        await look_until(cycle, lambda look: orphaned(look, pid))
        straight = case_of(await cycle.look(tick=True), pid)
        monkeypatch.setattr(time, "time", lambda: real() - 90)
        skewed = case_of(await cycle.look(tick=True), pid)
    assert straight is not None
    assert skewed is not None
    assert timedelta(0) <= skewed.age - straight.age < timedelta(seconds=5)


async def test_c10_idle_and_listening_sessions_are_nothing_however_old_their_last_statement(
    server: TestServer, connect: Connect
) -> None:
    """Rule: sessions in state `idle` are not read, so they are in no count and no finding."""
    pooled, listening = connect(name="scan:pool:w1"), connect(name="scan:pool:w1")
    pooled.execute("SELECT 1")
    listening.execute("LISTEN orders")
    with watcher(server, rule(copies=1, retry_gap=0.1), roles={"web_app": 0.1}, grace=0.0) as cycle:
        await asyncio.sleep(0.3)  # three times the budget
        look = await cycle.look(tick=True)
    assert (list(look.judgement.cases), list(look.judgement.findings), dict(look.judgement.copies)) == ([], [], {})


async def test_c11_a_transaction_left_open_is_holding_by_its_age_and_not_an_executing_query(
    server: TestServer, connect: Connect
) -> None:
    """Rule: `idle in transaction` is reported as holding, by the age of `xact_start`, and is not cancelled."""
    connection = connect(name="scan:upd:w1")
    connection.execute("BEGIN")
    connection.execute("UPDATE accounts SET balance = 5 WHERE id = 11")
    pid = connection.info.backend_pid
    with watcher(server, interval=0.3) as cycle:
        look = await look_until(cycle, lambda look: found(look, pid) == ["holding"])
        case = case_of(look, pid)
        assert case is not None
        assert case.activity is ActivityKind.HOLDING
        assert look.judgement.copies == {}
        assert [type(verdict) for verdict in look.decisions.verdicts] == [Observed]


async def test_c11_an_aborted_transaction_holds_nothing(server: TestServer, connect: Connect) -> None:
    """Rule: after an error in a transaction `xact_start` is NULL, and the session is not reported."""
    connection = connect(name="scan:upd:w1")
    connection.execute("BEGIN")
    with contextlib.suppress(psycopg.Error):
        connection.execute("SELECT 1/0")
    with watcher(server, roles={"web_app": 0.1}, grace=0.0) as cycle:
        await asyncio.sleep(0.3)  # three times the budget
        assert (await cycle.look(tick=True)).judgement.findings == []
