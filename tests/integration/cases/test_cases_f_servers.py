"""Field cases, section F: servers and pgwatchdog. Each docstring says the rule; the list is docs/field-cases.md."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from support.builders import holders_of, rule
from support.pooling import pgbouncer, pooled_dsn
from support.processes import get, samples
from support.proxy import proxy_to
from support.servers import Connect, TestServer, make_server, make_standby, start, until
from support.watching import Recorder, daemon_on, found, look_until, orphaned, row_of, source_on, watcher

from watchdog.core.acting.verdicts import withheld_reason
from watchdog.core.observed.reasons import Reason
from watchdog.demo.guardian import Guardian
from watchdog.errors import ReadError
from watchdog.postgres.password import Password


@pytest.fixture
def primary(guardian: Guardian) -> Iterator[TestServer]:
    """A primary of its own, for a standby to follow."""
    server = make_server(guardian=guardian)
    yield server
    server.embedded.stop()


async def test_c37_a_standby_is_read_like_a_primary_and_its_promotion_is_seen_without_a_restart(
    primary: TestServer, guardian: Guardian
) -> None:
    """Rule: the poll uses only what works on a standby, and reads `pg_is_in_recovery()` each time."""
    standby = make_standby(primary, guardian=guardian)
    try:
        jobs = rule(copies=1, retry_gap=0.1)
        with (
            contextlib.closing(
                psycopg.connect(standby.dsn("etl_app"), application_name="scan:rep:w1", autocommit=True)
            ) as caller,
            watcher(standby, jobs, roles={"etl_app": 0.5}) as there,
            watcher(primary, jobs) as here,
        ):
            pid = start(caller, "SELECT pg_sleep(60)", standby)
            look = await look_until(there, lambda look: orphaned(look, pid))
            assert look.snapshot.in_recovery
            assert not (await here.look(tick=True)).snapshot.in_recovery
            assert [withheld_reason(v) for v in look.decisions.verdicts] == [None], (
                "a rehearsal works on a standby as well"
            )
            standby.value("SELECT pg_promote(true, 30)")
            promoted = await there.look(tick=True)
            assert not promoted.snapshot.in_recovery
            assert found(promoted, pid) == ["orphan"]
    finally:
        standby.embedded.stop()


async def test_c38_a_prepared_transaction_is_not_claimed_and_its_lock_breaks_nothing(
    server: TestServer, connect: Connect
) -> None:
    """Rule: a prepared transaction has no session and is not reported; `pg_blocking_pids()` returns pid 0 for it."""
    owner = connect(role="etl_app")
    owner.execute("BEGIN")
    owner.execute("UPDATE accounts SET balance = 1 WHERE id = 30")
    owner.execute("PREPARE TRANSACTION 'gid1'")
    try:
        waiter = start(connect(), "UPDATE accounts SET balance = 2 WHERE id = 30", server)
        with watcher(server, roles={"web_app": 0.3}, grace=0.0) as cycle:
            look = await look_until(cycle, lambda look: orphaned(look, waiter))
            blocking = await cycle.source.blocking([waiter])
        assert blocking is not None
        assert holders_of(blocking, waiter) == {0}
        assert [each.blocks for each in look.judgement.findings] == [0]
    finally:
        server.end_sessions()
        server.run("ROLLBACK PREPARED 'gid1'")


async def test_c39_each_look_shows_the_present_and_never_ourselves(server: TestServer, connect: Connect) -> None:
    """Rule: each poll is a transaction of its own (within one the view does not change) and leaves out our sessions."""
    first, second = connect(), connect()
    with watcher(server, default=0.0001, grace=0.0) as cycle, watcher(server) as replica:
        await replica.look(tick=True)
        one = start(first, "SELECT pg_sleep(0.5)", server)
        before = await cycle.look(tick=True)
        while first.pgconn.get_result():
            pass
        two = start(second, "SELECT pg_sleep(60)", server)
        after = await cycle.look(tick=True)
        states = "SELECT array_agg(DISTINCT state) FROM pg_stat_activity WHERE application_name = 'pgwatchdog'"
        assert server.value(states) == ["idle"]
    assert [case.backend.pid for case in before.judgement.cases] == [one]
    assert [case.backend.pid for case in after.judgement.cases] == [two]


async def test_c40_a_hanging_look_costs_one_connection_and_scrapes_are_answered_from_the_last(
    server: TestServer, tmp_path: Path
) -> None:
    """Rule: one session per cluster and a deadline for each round trip; scrapes are answered from the last poll."""
    recorder = Recorder()
    async with proxy_to(server.embedded.port) as proxy:
        config = (
            "poll: {interval: 1s, timeout: 1s}\n"
            f'clusters: [{{name: main, dsn: "{server.dsn()} port={proxy.port}"}}]\nbudgets: {{default: 15min}}\n'
        )
        async with daemon_on(tmp_path, config, sinks=(recorder,)) as (_, address):
            await recorder.until(lambda seen: seen.looks())
            proxy.stall()
            most, slowest = 0, 0.0
            ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgwatchdog'"
            while len(recorder.unread()) < 3:
                begun = time.monotonic()
                pair = await asyncio.gather(*(asyncio.to_thread(get, f"{address}metrics") for _ in range(2)))
                slowest = max(slowest, time.monotonic() - begun)
                most = max(most, int(str(server.value(ours))))
                await asyncio.sleep(0.1)
            proxy.flow()
            proxy.drop()
            known = len(recorder.looks())
            await recorder.until(lambda seen: len(seen.looks()) > known)
    exposed = samples(pair[0].text)
    assert slowest < 5, "five times the second within which a scrape is answered"
    assert most <= 2, "one of ours, and at most one that the server has not noticed to be gone"
    assert exposed['pgwatchdog_last_poll_success_timestamp_seconds{server="main"}'] > 0
    assert {each.reason for each in recorder.unread()} <= {Reason.TIMEOUT, Reason.CONNECTION_LOST, Reason.UNREACHABLE}


async def test_c41_a_password_that_changes_while_connected_is_read_anew(server: TestServer, tmp_path: Path) -> None:
    """Rule: the password is read again at every connect, and a refused one is reported as `authentication`."""
    secret = tmp_path / "password"
    secret.write_text(server.embedded.password)
    with source_on(server.embedded.dsn(role="pgwatchdog"), password=Password(file=secret)) as source:
        await source.census()
        server.run("ALTER ROLE pgwatchdog PASSWORD 'rotated'")
        try:
            await source.snapshot()  # an open session is not harmed
            server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgwatchdog'")
            reasons = []
            for _ in range(2):
                with pytest.raises(ReadError) as caught:
                    await source.snapshot()
                source.close()
                reasons.append(caught.value.reason)
            secret.write_text("rotated")
            await source.snapshot()
        finally:
            server.run(f"ALTER ROLE pgwatchdog PASSWORD '{server.embedded.password}'")
    assert reasons == [Reason.CONNECTION_LOST, Reason.AUTHENTICATION]


async def test_c41_a_locked_catalog_does_not_stop_the_poll(server: TestServer, connect: Connect) -> None:
    """Rule: the poll joins no system catalog; names of roles and databases come from the census."""
    pid = start(connect(), "SELECT pg_sleep(60)", server)
    with watcher(server) as cycle:
        await cycle.look(tick=True)
        with server.admin() as admin:
            admin.execute("BEGIN")
            admin.execute("LOCK TABLE pg_catalog.pg_authid, pg_catalog.pg_database IN ACCESS EXCLUSIVE MODE")
            begun = time.monotonic()
            look = await cycle.look(tick=True)
            assert time.monotonic() - begun < 1
            with pytest.raises(ReadError) as caught:
                await cycle.take_census()
            admin.execute("ROLLBACK")
        assert caught.value.reason is Reason.TIMEOUT
        assert row_of(look.snapshot, pid) is not None


@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_c42_behind_a_pooler_none_of_our_settings_reaches_another_client(
    server: TestServer, guardian: Guardian, tool: Callable[[str], str], mode: str
) -> None:
    """Rule: behind a pooler pgwatchdog changes no settings, because the pooler would hand them on to other clients."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pgbouncer(tool("pgbouncer"), server, guardian=guardian, folder=Path(folder), mode=mode) as port,
        source_on(pooled_dsn(server, port, role="pgwatchdog")) as source,
    ):
        assert (await source.census()).behind_pooler
        for _ in range(7):
            await source.snapshot()
        with psycopg.connect(pooled_dsn(server, port, role="pgwatchdog"), autocommit=True) as other:
            other.prepare_threshold = None
            for setting, value in (("statement_timeout", "0"), ("idle_session_timeout", "0"), ("jit", "on")):
                row = other.execute(f"SHOW {setting}".encode()).fetchone()
                assert row == (value,)


async def test_c42_a_dead_client_behind_a_pooler_leaves_its_query_running_until_its_budget_ends(
    server: TestServer, guardian: Guardian, tool: Callable[[str], str]
) -> None:
    """Rule: the row does not show that the pooler's client is gone, so only the budget counts."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pgbouncer(tool("pgbouncer"), server, guardian=guardian, folder=Path(folder), mode="transaction") as port,
        watcher(server, roles={"web_app": 1.0}) as cycle,
    ):
        client = psycopg.connect(pooled_dsn(server, port), autocommit=True)
        client.pgconn.send_query(b"SELECT pg_sleep(60)")
        client.pgconn.flush()
        active = "SELECT pid FROM pg_stat_activity WHERE usename = 'web_app' AND state = 'active'"
        until(lambda: server.value(f"SELECT count(*) FROM ({active}) AS s"), what="the pooled query")
        pid = int(str(server.value(active)))
        client.pgconn.finish()
        look = await look_until(cycle, lambda look: orphaned(look, pid))
    assert found(look, pid) == ["orphan"]


async def test_c42_a_stale_name_from_a_transaction_pooler_is_not_believed_for_a_role_marked_as_pooled(
    server: TestServer, connect: Connect
) -> None:
    """Rule: `application_name` is not read for pooled roles; the budget of the role applies."""
    for _ in range(2):
        start(connect(name="scan:stale:w1"), "SELECT pg_sleep(60)", server)
    jobs = rule(copies=1, retry_gap=0.01, budgets={"stale": 0.1})
    with watcher(server, jobs, roles={"web_app": 60.0}, grace=0.0, pooled=frozenset({"web_app"})) as cycle:
        for _ in range(2):
            look = await cycle.look(tick=True)
    assert look.judgement.findings == []
    assert dict(look.judgement.copies) == {}
