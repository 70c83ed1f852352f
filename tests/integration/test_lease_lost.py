"""A session that is lost takes the lease, the power to act and the export of both with it, at whatever moment."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from support.gates import CANCELED
from support.replicas import STEP, Held, exported_of, folder, holder_pid, holders, orphan, over_budget
from support.servers import Connect, TestServer, until
from support.watching import actor_on, answer, history, look_until, verdict_of

from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Withheld, withheld_reason
from watchdog.core.observed.commands import BackendLookup
from watchdog.ledger.store import Store
from watchdog.postgres.lease import KEY, SPACE
from watchdog.postgres.password import Password
from watchdog.postgres.source import PostgresSource
from watchdog.runtime.actor import Actor


async def test_what_was_decided_on_a_session_that_is_lost_before_the_act_is_not_done_on_the_next_one(
    server: TestServer, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease would be free, and a new session could take it: but that is another actor, which has seen nothing."""
    caller, real = connect(), PostgresSource.backends

    async def asked_and_lost(source: PostgresSource, **pids: Sequence[int]) -> BackendLookup:
        asked = await real(source, **pids)
        assert source._session is not None
        source._session.drop()
        return asked

    with actor_on(server, tmp_path, interval=STEP) as cycle:
        before = await look_until(cycle, lambda look: not look.disarmed)
        [holder] = holders(server)
        pid = orphan(caller, server)
        over_budget(server, pid, seconds=0.55)
        monkeypatch.setattr(PostgresSource, "backends", asked_and_lost)
        look = await cycle.look(tick=True)
        monkeypatch.undo()
        assert [(each.result, each.withheld) for each in look.results] == [(Result.NOT_TRIED, Withheld.NOT_LEADER)]
        assert not look.lease.leads
        after = await cycle.look(tick=True)
        assert holders(server) not in ([], [holder])
        await look_until(cycle, lambda look: look.results)
    assert after.lease.just_acquired
    assert after.status.actor > before.status.actor
    assert (after.disarmed, withheld_reason(verdict_of(after, pid))) == (
        (DisarmReason.WARMING_UP,),
        Withheld.WARMING_UP,
    )
    assert answer(caller) == CANCELED
    assert [row["result"] for row in history(tmp_path)] == ["not_tried", "signalled"]


async def test_who_lost_its_session_in_the_act_does_not_export_that_it_leads(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    orphan(connect(), server)
    one, two = folder(tmp_path, "one"), folder(tmp_path, "two")
    with actor_on(server, one, interval=STEP) as first, actor_on(server, two, interval=STEP) as second:
        assert isinstance(first.source, PostgresSource)
        assert isinstance(first.actor, Actor)
        first.source.idle_limit = 2.0  # more than a starved process pauses between two statements
        first.actor.outbox.ledger = held = Held(Store(f"sqlite:///{one}/ledger.db"))
        looking = asyncio.create_task(look_until(first, lambda look: look.results))
        async with asyncio.timeout(30):
            await held.reached.wait()
        takes_over = await look_until(second, lambda look: look.lease.leads)
        held.go.set()
        late = await looking
    assert [each.result for each in late.results] == [Result.TIMED_OUT]
    exported = [await exported_of(late), await exported_of(takes_over)]
    assert [each.leads for each in exported] == [0, 1]


async def test_a_holder_that_vanishes_while_an_answer_is_under_way_loses_the_lease(server: TestServer) -> None:
    """Its backend waits to send, so it is not idle: another limit ends it than one that has fallen silent."""
    source = PostgresSource(dsn=server.dsn("canceller"), password=Password(), timeout=1.0, idle_limit=4.0, env={})
    try:
        assert (await source.lease()).leads
        assert source._session is not None
        pgconn = source._session.connection.pgconn
        pgconn.send_query(b"SELECT repeat('x', 1000) FROM generate_series(1, 20000)")  # nobody reads it
        pgconn.flush()
        sending = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'canceller' AND wait_event = 'ClientWrite'"
        until(lambda: server.value(sending), what="a backend that cannot get its answer out")
        assert len(holders(server)) == 1
        until(lambda: not holders(server), timeout=20, what="the end of the silent holder's lease")
    finally:
        with suppress(psycopg.Error):
            source.close()


async def test_the_statement_that_signals_reads_the_lease_itself(
    server: TestServer, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever took the lock from the session after everything was decided: another one may hold it by now."""
    caller, squatter, real = connect(), connect(), PostgresSource.cancel

    async def cancel(source: PostgresSource, target: CancelTarget, *, act: str) -> tuple[Result, Withheld | None, str]:
        assert source._session is not None
        await source._session.connection.execute("SELECT pg_advisory_unlock_all()")
        squatter.execute("SELECT pg_advisory_lock(%s, %s)", (SPACE, KEY))
        return await real(source, target, act=act)

    with actor_on(server, tmp_path, interval=STEP) as cycle:
        await look_until(cycle, lambda look: not look.disarmed)
        pid = orphan(caller, server)
        over_budget(server, pid, seconds=0.55)
        monkeypatch.setattr(PostgresSource, "cancel", cancel)
        look = await look_until(cycle, lambda look: look.results)
        monkeypatch.undo()
        assert [(each.result, each.withheld) for each in look.results] == [(Result.NOT_TRIED, Withheld.NOT_LEADER)]
        assert (look.lease.leads, holder_pid(look)) == (False, squatter.info.backend_pid)
        after = await cycle.look(tick=True)
        assert after.disarmed[0] == DisarmReason.LEASE_TAKEN
        assert server.value("SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND state = 'active'", pid) == 1
    assert [(row["result"], row["detail"]) for row in history(tmp_path)] == [("not_tried", "not_leader")]
