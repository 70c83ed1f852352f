"""Who may lead at all, and what ends it: one look at a time, in figures that a test can wait for."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from support.gates import CANCELED
from support.pooling import pgbouncer, pooled_dsn
from support.processes import command
from support.replicas import STEP, Held, armed, exported_of, folder, holder_pid, holders, orphan, over_budget
from support.servers import Connect, TestServer
from support.watching import actor_on, answer, history, look_until, verdict_of

from watchdog.core.acting.acts import Result
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Withheld, withheld_reason
from watchdog.core.present.look import Look
from watchdog.demo.guardian import Guardian
from watchdog.errors import ReadError
from watchdog.ledger.store import Store
from watchdog.postgres.password import Password
from watchdog.postgres.source import PostgresSource
from watchdog.runtime.actor import Actor
from watchdog.runtime.arming import Arming


def warm(look: Look) -> bool:
    """True where the actor has watched for long enough: whatever is in the way is something else."""
    return DisarmReason.WARMING_UP not in look.disarmed


async def test_what_was_decided_before_a_freeze_is_not_signalled_after_the_lease_was_lost(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    caller = connect()
    pid = orphan(caller, server)
    one, two = folder(tmp_path, "one"), folder(tmp_path, "two")
    with actor_on(server, one, interval=STEP) as first, actor_on(server, two, interval=STEP) as second:
        assert isinstance(first.source, PostgresSource)
        assert isinstance(first.actor, Actor)
        first.source.idle_limit = 2.0  # more than a starved process pauses between two statements
        first.actor.outbox.ledger = held = Held(Store(f"sqlite:///{one}/ledger.db"))
        looking = asyncio.create_task(look_until(first, lambda look: look.results))
        async with asyncio.timeout(30):
            await held.reached.wait()
        [holder] = holders(server)
        follower = await second.look(tick=True)
        await look_until(second, lambda look: look.lease.leads)
        assert holders(server) not in ([], [holder])
        held.go.set()
        late = await looking
        state = server.value("SELECT state FROM pg_stat_activity WHERE pid = %s", pid)
        comes_back = await first.look(tick=True)
        await look_until(second, lambda look: look.results)
    assert holder_pid(follower) == holder
    assert [each.result for each in late.results] == [Result.TIMED_OUT], "its session was gone, so nothing was sent"
    assert state == "active"
    assert (comes_back.lease.leads, comes_back.disarmed[0]) == (False, DisarmReason.NOT_LEADER)
    assert answer(caller) == CANCELED
    assert [row["result"] for row in history(one) + history(two)] == ["timed_out", "signalled"]


async def test_losing_the_session_ends_the_power_to_act_and_the_next_look_is_that_of_a_new_actor(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    caller = connect()
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        before = await look_until(cycle, lambda look: not look.disarmed)
        pid = orphan(caller, server)
        over_budget(server, pid, seconds=0.5)
        [holder] = holders(server)
        server.value("SELECT pg_terminate_backend(%s, 5000)", holder)
        with pytest.raises(ReadError):
            await cycle.look(tick=True)
        anew = await cycle.look(tick=True)
        acts = await look_until(cycle, lambda look: look.results)
        assert holders(server) not in ([], [holder])
    assert anew.lease.just_acquired
    assert anew.status.actor > before.status.actor
    assert (anew.disarmed, withheld_reason(verdict_of(anew, pid))) == ((DisarmReason.WARMING_UP,), Withheld.WARMING_UP)
    exported = await exported_of(anew)
    assert (exported.leads, exported.enforcing, exported.disarmed) == (1, False, {"warming_up"})
    assert acts.snapshot.at - anew.snapshot.at >= timedelta(seconds=2 * STEP)
    assert answer(caller) == CANCELED


async def test_a_daemon_in_another_database_than_the_lease_never_leads_also_where_nobody_else_does(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    caller = connect()
    pid = orphan(caller, server)
    over_budget(server, pid, seconds=0.5)
    elsewhere = server.dsn("canceller", database="other")
    one, two = folder(tmp_path, "one"), folder(tmp_path, "two")
    with actor_on(elsewhere, one, interval=STEP) as outside, actor_on(server, two, interval=STEP) as inside:
        alone = [await look_until(outside, warm), await outside.look(tick=True)]
        assert holders(server) == []
        acts = await look_until(inside, lambda look: look.results)
        beside = await outside.look(tick=True)
        assert len(holders(server)) == 1
    assert acts.lease.leads
    for look in (*alone, beside):
        assert (look.lease.leads, look.disarmed, look.results) == (False, (DisarmReason.OTHER_DATABASE,), ())
    assert {withheld_reason(verdict_of(look, pid)) for look in alone} == {Withheld.NOT_LEADER}
    exported = await exported_of(alone[0])
    assert (exported.leads, exported.enforcing, exported.disarmed) == (0, False, {"other_database"})
    assert answer(caller) == CANCELED
    assert history(one) == []


async def test_a_daemon_leads_in_whatever_database_its_configuration_keeps_the_lease_in(
    server: TestServer, tmp_path: Path
) -> None:
    with actor_on(server.dsn("canceller", database="other"), tmp_path, interval=STEP) as cycle:
        assert isinstance(cycle.source, PostgresSource)
        cycle.source.lease_database = "other"
        assert await look_until(cycle, lambda look: not look.disarmed)
        assert len(holders(server)) == 1


async def test_behind_a_transaction_pooler_nobody_leads_although_both_would_get_the_lock(
    server: TestServer,
    connect: Connect,
    tmp_path: Path,
    public_folder: Path,
    guardian: Guardian,
    tool: Callable[[str], str],
) -> None:
    pid = orphan(connect(), server)
    over_budget(server, pid, seconds=0.5)
    one, two = folder(tmp_path, "one"), folder(tmp_path, "two")
    pooler = pgbouncer(
        tool("pgbouncer"),
        server,
        guardian=guardian,
        folder=public_folder,
        mode="transaction",
        extra="max_db_connections = 1",
    )
    with pooler as port:
        dsn = pooled_dsn(server, port, role="pgwatchdog")
        lock = "SELECT pg_backend_pid(), pg_try_advisory_lock(1885828964, 1)"
        with psycopg.connect(dsn, autocommit=True) as a, psycopg.connect(dsn, autocommit=True) as b:
            trap = [each.execute(lock).fetchone() for each in (a, b)]
            a.execute("SELECT pg_advisory_unlock_all()")
        with actor_on(dsn, one, interval=STEP) as first, actor_on(dsn, two, interval=STEP) as second:
            looks = [await look_until(each, warm) for each in (first, second)]
            looks += [await each.look(tick=True) for each in (first, second)]
            assert holders(server) == []
    assert trap[0] == trap[1], "one server session for two clients"
    assert trap[0] is not None
    assert trap[0][1] is True
    for look in looks:
        assert not look.lease.leads
        assert DisarmReason.BEHIND_POOLER in look.disarmed
        assert (withheld_reason(verdict_of(look, pid)), look.results) == (Withheld.NOT_LEADER, ())
    assert "behind_pooler" in (await exported_of(looks[0])).disarmed
    assert server.value("SELECT state FROM pg_stat_activity WHERE pid = %s", pid) == "active"


async def test_in_dry_run_somebody_elses_lock_withholds_nothing_and_another_pgwatchdogs_does(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    pid = orphan(connect(), server)
    squatter = connect(role="etl_app")
    squatter.execute("SELECT pg_advisory_lock(1885828964, 1)")
    dry = Arming(policy_enforces=False)
    with actor_on(server, folder(tmp_path, "one"), interval=STEP, arming=dry) as cycle:
        taken = await look_until(cycle, lambda look: look.results)
        squatter.close()
        await look_until(cycle, lambda look: look.lease.leads)
        with actor_on(server, folder(tmp_path, "two"), interval=STEP, arming=dry) as other:
            follows = await look_until(other, warm)
    assert [each.result for each in taken.results] == [Result.REHEARSED]
    assert set(taken.disarmed) == {DisarmReason.POLICY_MODE, DisarmReason.LEASE_TAKEN}
    assert (withheld_reason(verdict_of(follows, pid)), follows.results) == (Withheld.NOT_LEADER, ())
    assert set(follows.disarmed) == {DisarmReason.POLICY_MODE, DisarmReason.NOT_LEADER}


async def test_a_report_takes_no_lease_and_says_who_holds_it_and_whether_the_cluster_is_armed(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "pgwatchdog.yaml"
    file.write_text(armed(server.dsn("canceller"), tmp_path / "ledger.db"))
    file.chmod(0o600)
    alone = await asyncio.to_thread(command, "report", "-c", str(file))
    assert holders(server) == []
    squatter = connect(role="etl_app")
    squatter.execute("SELECT pg_advisory_lock(1885828964, 1)")
    pid = squatter.info.backend_pid
    taken = await asyncio.to_thread(command, "report", "-c", str(file))
    squatter.close()
    leader = PostgresSource(dsn=server.dsn("canceller"), password=Password(), timeout=3.0, idle_limit=60.0, env={})
    try:
        await look_until_taken(leader)
        [holder] = holders(server)
        file.write_text(armed(server.dsn("canceller"), tmp_path / "ledger.db", policy="dry-run"))
        led = await asyncio.to_thread(command, "report", "-c", str(file))
        assert holders(server) == [holder]
    finally:
        leader.close()
    assert [done.returncode for done in (alone, taken, led)] == [0, 0, 0]
    assert "Armed by this configuration. nobody holds the lease, so no pgwatchdog acts now" in words(alone.stdout)
    assert "Not armed: nothing is signalled. somebody who is no pgwatchdog holds the lease's key" in words(taken.stdout)
    assert f"the lease is held by etl_app, pid {pid}" in words(taken.stdout)
    assert f"policy.mode is dry-run; the lease is held by canceller, pid {holder}" in words(led.stdout)


async def look_until_taken(source: PostgresSource) -> None:
    async with asyncio.timeout(30):
        while not (await source.lease()).leads:  # noqa: ASYNC110  # the server tells no event
            await asyncio.sleep(0.05)


def words(text: str) -> str:
    """A report on one line."""
    return " ".join(text.split())


async def test_a_restored_copy_under_the_same_name_in_the_same_ledger_is_not_acted_on(
    server: TestServer, own_server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    """Each has its own lease; but breakers, rests and attempts of one name are remembered together."""
    caller = connect()
    with (
        actor_on(server, tmp_path, interval=STEP) as first,
        actor_on(own_server, tmp_path, interval=STEP) as second,
    ):
        on_copy = psycopg.connect(own_server.dsn("web_app"), autocommit=True)
        assert isinstance(second.actor, Actor)
        second.actor.outbox.claimant = "another process"
        await look_until(first, lambda look: not look.disarmed)
        orphan(on_copy, own_server)
        looks = [await second.look(tick=True) for _ in range(4)]
        orphan(caller, server)
        acted = await look_until(first, lambda look: look.results)
        exported = await exported_of(looks[-1])
        on_copy.close()
    assert {look.disarmed for look in looks[1:]} <= {
        (DisarmReason.NAME_TAKEN,),
        (DisarmReason.NAME_TAKEN, DisarmReason.WARMING_UP),
    }
    assert not any(look.results for look in looks)
    assert "name_taken" in exported.disarmed
    [act] = acted.results
    assert act.act.identity.system_identifier == server.value("SELECT system_identifier FROM pg_control_system()")
    assert [row["system_identifier"] for row in history(tmp_path)] == [act.act.identity.system_identifier]
    assert answer(caller) == CANCELED


async def test_a_server_that_refuses_its_identifier_is_known_by_its_start(
    own_server: TestServer, tmp_path: Path
) -> None:
    own_server.run("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    with actor_on(own_server, tmp_path, interval=STEP) as cycle:
        look = await look_until(cycle, lambda look: not look.disarmed)
    assert look.census.system_identifier is None
    assert look.statement_failures["census_identity"].count == 0, "what may not be asked is not asked"
