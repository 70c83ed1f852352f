"""Who holds the lease is named, whoever that is and whatever it runs: in the metrics, and in a report."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import command
from support.replicas import STEP, Exported, armed, exported_of, holders
from support.servers import Connect, TestServer
from support.watching import actor_on

from watchdog.core.acting.status import DisarmReason
from watchdog.postgres.password import Password
from watchdog.postgres.source import PostgresSource


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
    assert (look.lease.disarm_reason, look.lease.holder_pid) == (DisarmReason.LEASE_TAKEN, squatter.info.backend_pid)
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
    assert (looks[-1].lease.holder_pid, looks[-1].lease.holder_role) == (None, None)
    exported = await exported_of(looks[-1])
    assert (exported.leads, "lease_taken" in exported.disarmed) == (0, True)
    assert holders_in(exported) == {'pgwatchdog_lease_holder{server="main",usename="unknown"}': 1}
    assert free.lease.leads


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
