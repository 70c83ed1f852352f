"""Who holds the lease is named, whoever that is and whatever it runs: in the metrics, and in a report."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.processes import command
from support.replicas import STEP, Exported, armed, exported_of, holder_pid, holders
from support.servers import Connect, TestServer
from support.watching import actor_on, look_until

from watchdog.core.acting.status import DisarmReason
from watchdog.core.present.phrases import ignored_holders, lease_holder
from watchdog.postgres.lease import LeaseReleaseRow
from watchdog.postgres.password import Password
from watchdog.postgres.source import PostgresSource
from watchdog.postgres.statements import Statement


def holders_in(exported: Exported) -> dict[str, float]:
    return {name: value for name, value in exported.values.items() if name.startswith("pgwatchdog_lease_holder")}


@pytest.fixture
def migrator(server: TestServer) -> Iterator[str]:
    """A role that no budget and no other test names."""
    server.run(f"CREATE ROLE migrator LOGIN PASSWORD '{server.embedded.password}'")
    yield "migrator"
    server.end_sessions()
    server.run("DROP ROLE migrator")


async def test_a_holder_that_is_no_pgwatchdog_is_exported_by_its_role_although_it_runs_nothing(
    server: TestServer, connect: Connect, migrator: str, tmp_path: Path
) -> None:
    squatter = connect(role=migrator)
    squatter.execute("SELECT pg_advisory_lock(1885828964, 1)")
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        look = await cycle.look(tick=True)
    assert (look.lease.disarm_reason, holder_pid(look)) == (DisarmReason.LEASE_TAKEN, squatter.info.backend_pid)
    assert holders_in(await exported_of(look)) == {'pgwatchdog_lease_holder{server="main",usename="migrator"}': 1}


async def test_another_pgwatchdog_that_leads_is_exported_by_its_role(server: TestServer, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        actor_on(server, tmp_path / "one", interval=STEP) as first,
        actor_on(server, tmp_path / "two", interval=STEP) as second,
    ):
        leads, follows = await first.look(tick=True), await second.look(tick=True)
    assert follows.lease.disarm_reason is DisarmReason.NOT_LEADER
    assert holders_in(await exported_of(follows)) == {'pgwatchdog_lease_holder{server="main",usename="canceller"}': 1}
    assert holders_in(await exported_of(leads)) == {}


async def test_a_prepared_transaction_on_the_key_is_somebody_elses_lock_although_no_session_holds_it(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    squatter = connect(role="etl_app")
    squatter.execute("BEGIN")
    squatter.execute("SELECT pg_advisory_xact_lock(1885828964, 1)")
    squatter.execute("PREPARE TRANSACTION 'squat'")
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        try:
            looks = [await cycle.look(tick=True) for _ in range(3)]
        finally:
            squatter.execute("ROLLBACK PREPARED 'squat'")
        free = await cycle.look(tick=True)
    assert {look.lease.disarm_reason for look in looks} == {DisarmReason.LEASE_TAKEN}
    assert lease_holder(looks[-1]) == "the prepared transaction 'squat' of etl_app"
    exported = await exported_of(looks[-1])
    assert (exported.leads, "lease_taken" in exported.disarmed) == (0, True)
    assert holders_in(exported) == {'pgwatchdog_lease_holder{server="main",usename="etl_app"}': 1}
    assert free.lease.leads


async def test_a_squatter_is_told_by_its_role_and_not_by_the_name_it_gives_itself(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    connect(role="etl_app", name="pgwatchdog").execute("SELECT pg_advisory_lock_shared(1885828964, 1)")
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        look = await cycle.look(tick=True)
    assert look.lease.disarm_reason is DisarmReason.LEASE_TAKEN


@pytest.mark.parametrize("role", ["postgres", "canceller", "signaller"])
async def test_whoever_could_signal_and_holds_the_key_in_another_database_keeps_us_from_leading(
    server: TestServer, tmp_path: Path, role: str
) -> None:
    """It may be a pgwatchdog with another lease_database. Once it has gone we lead, after a random pause."""
    with server.admin() as admin:
        admin.execute(f"CREATE ROLE signaller LOGIN PASSWORD '{server.embedded.password}'")
        admin.execute("GRANT pg_signal_backend TO signaller")
    try:
        other = psycopg.connect(server.dsn(role, database="other"), autocommit=True)
        other.execute("SELECT pg_advisory_lock(1885828964, 1)")
        with actor_on(server, tmp_path, interval=STEP) as cycle:
            looks = [await cycle.look(tick=True) for _ in range(6)]
            assert {look.lease.disarm_reason for look in looks} == {DisarmReason.NOT_LEADER}
            assert {lease_holder(look) for look in looks} == {f"{role}, pid {other.info.backend_pid} in database other"}
            assert holders(server) == [other.info.backend_pid], "the key of our own database is let go of"
            other.close()
            await look_until(cycle, lambda look: look.lease.leads)
    finally:
        server.end_sessions()
        server.run("DROP ROLE signaller")


async def test_a_member_of_a_login_role_could_signal_and_rights_that_come_later_are_noticed(
    server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watchdog.postgres.lease.READ_AGAIN", 0.0)
    other = psycopg.connect(server.dsn("etl_app", database="other"), autocommit=True)
    other.execute("SELECT pg_advisory_lock(1885828964, 1)")
    try:
        with actor_on(server, tmp_path, interval=STEP) as cycle:
            assert (await cycle.look(tick=True)).lease.leads
            server.run("GRANT web_app TO etl_app")
            assert not (await cycle.look(tick=True)).lease.leads
            assert holders(server) == [other.info.backend_pid]
            server.run("REVOKE web_app FROM etl_app")
            await look_until(cycle, lambda look: look.lease.leads)
    finally:
        server.run("REVOKE web_app FROM etl_app")
        other.close()


async def test_a_tenant_that_holds_the_key_in_its_own_database_is_named_and_disarms_nobody(
    server: TestServer, tmp_path: Path
) -> None:
    tenant = psycopg.connect(server.dsn("etl_app", database="other"), autocommit=True)
    tenant.execute("SELECT pg_advisory_lock(1885828964, 1)")
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        look = await cycle.look(tick=True)
    pid = tenant.info.backend_pid
    tenant.close()
    assert look.lease.leads
    [words] = ignored_holders(look)
    assert f"etl_app, pid {pid} in database other: ignored" in words


async def test_of_many_with_different_lease_databases_one_leads_and_never_two(server: TestServer) -> None:
    databases = ("postgres", "other", "template1")
    sources = [
        PostgresSource(
            dsn=server.dsn("canceller", database=each),
            password=Password(),
            timeout=3.0,
            idle_limit=60.0,
            env={},
            lease_database=each,
        )
        for each in databases
    ]
    led: list[int] = []
    try:
        for source in sources:
            await source.census()
        async with asyncio.timeout(60):
            while len(led) < 20:
                leases = await asyncio.gather(*(each.lease() for each in sources))
                leaders = [i for i, each in enumerate(leases) if each.leads]
                assert len(leaders) <= 1
                again = [each.leads for each in await asyncio.gather(*(each.lease() for each in sources))]
                assert again.count(True) <= 1
                assert all(again[i] for i in leaders), "who leads goes on, and nobody else does"
                for i in (i for i, leads in enumerate(again) if leads):
                    led.append(i)
                    await sources[i].release_lease()
        assert len(set(led)) > 1, "each has its turn"
        assert holders(server) == []
    finally:
        for source in sources:
            source.close()


async def test_who_has_the_key_and_could_not_look_for_others_does_not_lead(
    server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with actor_on(server, tmp_path, interval=STEP) as cycle, monkeypatch.context() as patched:
        patched.setattr("watchdog.postgres.lease.LEASE_HOLDER", Statement("lease_holder", LeaseReleaseRow))
        assert not (await cycle.look(tick=True)).lease.leads
        assert len(holders(server)) == 1
        patched.undo()
        assert (await cycle.look(tick=True)).lease.leads
        assert isinstance(cycle.source, PostgresSource)
        await cycle.source.release_lease()
        assert holders(server) == [], "it was taken once"


async def test_a_report_says_who_leads_also_where_the_cluster_is_armed(server: TestServer, tmp_path: Path) -> None:
    file = tmp_path / "pgwatchdog.yaml"
    file.write_text(armed(server.dsn("canceller"), tmp_path / "ledger.db"))
    file.chmod(0o600)
    leader = PostgresSource(dsn=server.dsn("canceller"), password=Password(), timeout=3.0, idle_limit=60.0, env={})
    try:
        assert (await leader.lease()).leads
        [holder] = holders(server)
        led = await asyncio.to_thread(command, "report", "-c", str(file))
    finally:
        leader.close()
    assert led.returncode == 0
    assert f"the lease is held by canceller, pid {holder}" in " ".join(led.stdout.split())
