"""The statements of looking and acting on every supported version; `make test-matrix` runs the whole suite."""

from pathlib import Path

import psycopg
from support.gates import CANCELED, acts_of, only_these_are_signalled
from support.servers import TestServer, start
from support.statements import checked_rows, declared, received
from support.watching import actor_on, answer, found, history, look_until, orphaned, source_on, watcher

from watchdog.core.acting.acts import Outcome, Result
from watchdog.core.acting.verdicts import Withheld

WITHOUT_ROWS = {"own_isolation", "transaction_begin", "transaction_end"}
SOMETHING_FOR_EVERY_ROW = """
    ALTER ROLE web_app SET work_mem = '8MB';
    CREATE ROLE team;
    CREATE ROLE teammate LOGIN NOINHERIT;
    GRANT team TO teammate
"""


async def test_poll_census_and_blocking_work_and_rows_are_as_declared_on_every_version(versioned: TestServer) -> None:
    versioned.run(SOMETHING_FOR_EVERY_ROW)
    holder = psycopg.connect(versioned.dsn("web_app"), autocommit=True)
    waiter = psycopg.connect(versioned.dsn("etl_app"), autocommit=True, application_name="scan:a:w1")
    try:
        holder.execute("SELECT pg_advisory_lock(1)")
        pid = start(holder, "SELECT pg_sleep(60)", versioned)
        waiting = start(waiter, "SELECT pg_advisory_lock(1)", versioned)
        with watcher(versioned, roles={"web_app": 0.3, "etl_app": 60.0}, grace=0.0) as cycle:
            look = await look_until(cycle, lambda look: orphaned(look, pid))
        await _rows_are_as_declared(versioned, pids=(pid, waiting))
    finally:
        holder.close()
        waiter.close()
    assert look.census.version.startswith(f"{versioned.major}.")
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


async def test_lease_commands_cancel_and_effects_work_on_every_version(versioned: TestServer, tmp_path: Path) -> None:
    """The last act is refused: the text of that differs from version to version."""
    caller, analyzer = (psycopg.connect(versioned.dsn("web_app"), autocommit=True) for _ in range(2))
    holder = psycopg.connect(versioned.dsn("postgres"), autocommit=True)
    try:
        pid = start(caller, "/* VACUUM */ SELECT pg_sleep(60)", versioned)
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE")
        maintenance = start(analyzer, "-- nightly\nANALYZE accounts", versioned)
        with actor_on(versioned, tmp_path) as cycle:
            looks = await only_these_are_signalled(cycle, {pid: None, maintenance: Withheld.MAINTENANCE})
            assert answer(caller) == CANCELED
            versioned.run("REVOKE pg_signal_backend FROM canceller")
            start(caller, "SELECT pg_sleep(60)", versioned)
            refused = await look_until(cycle, lambda look: look.results)
    finally:
        for each in (caller, analyzer, holder):
            each.close()
    assert looks[-1].lease.leads
    assert [each.outcome for look in looks for each in look.effects] == [Outcome.BETWEEN_STATEMENTS]
    assert acts_of(refused) == [(pid, Result.NOT_PERMITTED)]
    assert [act["result"] for act in history(tmp_path)] == ["signalled", "not_permitted"]
