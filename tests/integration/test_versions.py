"""The statements of looking and acting on every supported version; `make test-matrix` runs the whole suite."""

from pathlib import Path

import psycopg
from support.gates import CANCELED, acts_of, only_these_are_signalled
from support.servers import TestServer, start
from support.statements import checked_rows, declared, received
from support.watching import actor_on, answer, found, history, look_until, orphaned, source_on, watcher

from watchdog.core.acting.acts import Outcome, Result
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.observed.names import MIN_CUT, matches_application

WITHOUT_ROWS = {"own_isolation", "transaction_begin", "transaction_end"}
SOMETHING_FOR_EVERY_ROW = """
    ALTER ROLE web_app SET work_mem = '8MB';
    CREATE ROLE team;
    CREATE ROLE teammate LOGIN NOINHERIT;
    GRANT team TO teammate
"""


async def test_poll_census_and_blocking_work_and_rows_are_as_declared_on_every_version(
    every_version: TestServer,
) -> None:
    every_version.run(SOMETHING_FOR_EVERY_ROW)
    holder = psycopg.connect(every_version.dsn("web_app"), autocommit=True)
    waiter = psycopg.connect(every_version.dsn("etl_app"), autocommit=True, application_name="scan:a:w1")
    try:
        holder.execute("SELECT pg_advisory_lock(1)")
        pid = start(holder, "SELECT pg_sleep(60)", every_version)
        waiting = start(waiter, "SELECT pg_advisory_lock(1)", every_version)
        with watcher(every_version, roles={"web_app": 0.3, "etl_app": 60.0}, grace=0.0) as cycle:
            look = await look_until(cycle, lambda look: orphaned(look, pid))
        await _rows_are_as_declared(every_version, pids=(pid, waiting))
    finally:
        holder.close()
        waiter.close()
    assert look.census.version.startswith(f"{every_version.major}.")
    assert found(look, waiting) == []
    assert [each.blocks for each in look.judgement.findings] == [1]
    assert look.judgement.unjudged["insufficient_privilege"] == 0


async def _rows_are_as_declared(server: TestServer, *, pids: tuple[int, ...]) -> None:
    """Every statement of the daemon, its names and its types; only a managed service has the settings of one."""
    with source_on(server) as source:
        await source.census()
        session = source._session
        assert session is not None
        names = {each.name: await received(session, each, pids=pids) for each in declared()}
        rows = {each.name: await checked_rows(session, each, pids=pids) for each in declared()}
    assert names == {each.name: each.row._fields for each in declared()}
    assert {name for name, count in rows.items() if not count} == {"facts_parameters", *WITHOUT_ROWS}


async def test_lease_commands_cancel_and_effects_work_on_every_version(
    every_version: TestServer, tmp_path: Path
) -> None:
    """The last act is refused: the text of that differs from version to version."""
    caller, analyzer = (psycopg.connect(every_version.dsn("web_app"), autocommit=True) for _ in range(2))
    holder = psycopg.connect(every_version.dsn("postgres"), autocommit=True)
    try:
        pid = start(caller, "/* VACUUM */ SELECT pg_sleep(60)", every_version)
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE")
        maintenance = start(analyzer, "-- nightly\nANALYZE accounts", every_version)
        with actor_on(every_version, tmp_path) as cycle:
            looks = await only_these_are_signalled(cycle, {pid: None, maintenance: Withheld.MAINTENANCE})
            assert answer(caller) == CANCELED
            every_version.run("REVOKE pg_signal_backend FROM canceller")
            start(caller, "SELECT pg_sleep(60)", every_version)
            refused = await look_until(cycle, lambda look: look.results)
    finally:
        for each in (caller, analyzer, holder):
            each.close()
    assert looks[-1].lease.leads
    assert [each.outcome for look in looks for each in look.effects] == [Outcome.BETWEEN_STATEMENTS]
    assert acts_of(refused) == [(pid, Result.NOT_PERMITTED)]
    assert [act["result"] for act in history(tmp_path)] == ["signalled", "not_permitted"]


NAMES = (
    "sidekiq 7.0 shop [3 of 10 busy]",
    "Monatsabschluss täglich",
    "com.example.reporting.nightly.MonthEndCloseJobForAllTenantsAndYears",
    "Zeitplan für den nächtlichen Abschluss aller Mandanten, zweiter Lauf",
)


def test_d07_what_every_version_makes_of_a_protected_name_is_known(every_version: TestServer) -> None:
    """Rule: what spares is compared with what the server shows, which is not what the application has set."""
    for name in NAMES:
        with psycopg.connect(every_version.dsn("web_app"), application_name=name) as caller:
            [[shown]] = caller.execute("SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()")
            assert matches_application(shown, (name,), spares=True), shown
            assert not matches_application(shown, (name[:-1],), spares=True) or len(shown) >= MIN_CUT
