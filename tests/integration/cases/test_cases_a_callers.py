"""Field cases, section A: callers that stop waiting. Each docstring says the rule; the list is docs/field-cases.md."""

import asyncio
import contextlib
import os
import signal

import asyncpg
import psycopg
import pytest
from support.builders import rule
from support.callers import killable
from support.servers import Connect, TestServer, start, until
from support.watching import case_of, found, look_until, orphaned, watcher

from watchdog.core.judging.copies import CopyKey


async def asyncpg_connection(
    server: TestServer, *, role: str = "web_app", name: str = ""
) -> "asyncpg.Connection[asyncpg.Record]":
    return await asyncpg.connect(
        host="127.0.0.1",
        port=server.embedded.port,
        user=role,
        password=server.embedded.password,
        database="postgres",
        server_settings={"application_name": name},
    )


async def test_c01_a_client_side_timeout_leaves_an_orphan_until_the_row_says_idle(
    server: TestServer, connect: Connect
) -> None:
    """Rule: a statement is an orphan only while it runs and is past budget plus grace; every poll decides anew."""
    caller = connect(name="scan:orders:w1")
    pid = start(caller, "SELECT pg_sleep(2.5)", server)
    with watcher(server) as cycle:
        assert found(await cycle.look(tick=True), pid) in ([], ["nearing"])
        orphan = await look_until(cycle, lambda look: orphaned(look, pid))
        case = case_of(orphan, pid)
        assert case is not None
        assert case.budget is not None
        assert case.age >= case.budget.crossing
        gone = await look_until(cycle, lambda look: not found(look, pid))
        assert case_of(gone, pid) is None
    state = server.value("SELECT state FROM pg_stat_activity WHERE pid = %s", pid)
    assert state == "idle", "the session is still in its pool, with the old text and the old query_start"


async def test_c01_a_driver_that_cancels_at_its_own_timeout_is_not_raced(server: TestServer) -> None:
    """Rule: the grace is added to every budget, so that a driver has time to cancel at its own timeout."""
    connection = await asyncpg_connection(server)
    pid = connection.get_server_pid()
    with watcher(server, roles={"web_app": 1.0}, grace=5.0) as cycle:
        query = asyncio.create_task(connection.fetch("SELECT pg_sleep(60)", timeout=1.0))
        seen = []
        while not query.done():
            seen += found(await cycle.look(tick=True), pid)
            await asyncio.sleep(0.05)
        with pytest.raises(TimeoutError):
            await query
        await look_until(cycle, lambda look: case_of(look, pid) is None)
    await connection.close()
    assert "orphan" not in seen


async def test_c02_a_killed_caller_is_judged_by_its_budget_alone_and_vanishes_from_every_count(
    server: TestServer,
) -> None:
    """Rule: the row does not show that its client is dead, so only the budget counts; once gone it is in no count."""
    check = "-c client_connection_check_interval=200"
    with (
        killable(server, "SELECT pg_sleep(60)") as (a_client, a),
        killable(server, "SELECT pg_sleep(60)", options=check) as (b_client, b),
        killable(server, "SELECT 1", commit=False) as (c_client, c),
        watcher(server) as cycle,
    ):
        await look_until(cycle, lambda look: all(case_of(look, pid) for pid in (a, b, c)))
        for client in (a_client, b_client, c_client):
            os.kill(client, signal.SIGKILL)
        look = await look_until(cycle, lambda look: not case_of(look, b) and not case_of(look, c))
        left = case_of(look, a)
        assert left is not None, "nothing in the row says that the client has gone"
        orphan = await look_until(cycle, lambda look: orphaned(look, a))
        assert [each.evidence for each in orphan.judgement.findings if each.backend.pid == a] == [("over_budget",)]
        server.value("SELECT pg_cancel_backend(%s)", a)
        gone = await look_until(cycle, lambda look: case_of(look, a) is None)
        assert gone.judgement.findings == []
    until(lambda: server.value("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", a) == 0)


async def test_c04_copies_are_counted_by_window_role_and_database_and_are_no_orphans(
    server: TestServer, connect: Connect
) -> None:
    """Rule: copies are running backends with the same database, role, job and window; their age does not matter."""
    name = "scan:orders:2026-01"
    jobs = rule(copies=1, retry_gap=0.2)
    first = start(connect(role="etl_app", name=name), "SELECT pg_sleep(60)", server)
    await asyncio.sleep(0.3)  # the retry gap
    second = start(connect(role="etl_app", name=name), "SELECT pg_sleep(60)", server)
    connect(role="etl_app", name=name).execute("SELECT 1")
    start(connect(role="etl_app", name="scan:orders:2026-02"), "SELECT pg_sleep(60)", server)
    elsewhere = psycopg.connect(server.dsn("etl_app", database="other"), application_name=name, autocommit=True)
    with watcher(server, jobs, roles={"etl_app": 60.0, "web_app": 60.0}) as cycle, contextlib.closing(elsewhere):
        start(elsewhere, "SELECT pg_sleep(60)", server)
        start(connect(role="web_app", name=name), "SELECT pg_sleep(60)", server)
        await cycle.look(tick=True)
        look = await cycle.look(tick=True)
    sizes = {key: len(group) for key, group in look.judgement.copies.items()}
    assert sizes == {
        CopyKey("postgres", "etl_app", "orders", "2026-01"): 2,
        CopyKey("postgres", "etl_app", "orders", "2026-02"): 1,
        CopyKey("other", "etl_app", "orders", "2026-01"): 1,
        CopyKey("postgres", "web_app", "orders", "2026-01"): 1,
    }
    assert [(str(f.kind), f.backend.pid) for f in look.judgement.findings] == [("duplicate", first)]
    assert found(look, second) == []


async def test_c04_a_lone_keyed_orphan_is_an_orphan_although_it_is_every_copy_of_its_key(
    server: TestServer, connect: Connect
) -> None:
    """Rule: a run over its budget is an orphan, whether or not it has copies."""
    pid = start(connect(role="etl_app", name="scan:orders:2026-01"), "SELECT pg_sleep(60)", server)
    with watcher(server, rule(copies=1, retry_gap=1), roles={"etl_app": 0.3}) as cycle:
        look = await look_until(cycle, lambda look: orphaned(look, pid))
    assert found(look, pid) == ["orphan"]


async def test_c04_a_retry_that_waits_for_the_older_copys_lock_does_not_supersede_it(
    server: TestServer, connect: Connect
) -> None:
    """Rule: a younger copy that waits for a lock of the older one does not prove a retry, so nothing is superseded."""
    name = "scan:orders:w1"
    older = connect(role="etl_app", name=name)
    older.execute("SELECT pg_advisory_lock(7)")
    first = start(older, "SELECT pg_sleep(60)", server)
    await asyncio.sleep(0.3)  # the retry gap
    waiting = start(connect(role="etl_app", name=name), "SELECT pg_advisory_lock(7)", server)
    with watcher(server, rule(copies=1, retry_gap=0.2)) as cycle:
        for _ in range(2):
            look = await cycle.look(tick=True)
    [duplicate] = [each for each in look.judgement.findings if each.backend.pid == first]
    assert (str(duplicate.kind), duplicate.evidence, duplicate.blocks) == ("duplicate", (), 1)
    assert found(look, waiting) == []


async def test_c04_a_retry_that_skips_when_the_lock_is_taken_leaves_no_trace(
    server: TestServer, connect: Connect
) -> None:
    """Rule: only running backends are copies, and a younger one must be seen in two polls to supersede the older."""
    older = connect(role="etl_app", name="scan:orders:w1")
    older.execute("SELECT pg_advisory_lock(7)")
    start(older, "SELECT pg_sleep(60)", server)
    retry = connect(role="etl_app", name="scan:orders:w1")
    with watcher(server, rule(copies=1, retry_gap=0.01)) as cycle:
        for _ in range(2):
            row = retry.execute("SELECT pg_try_advisory_lock(7)").fetchone()
            assert row == (False,)
            look = await cycle.look(tick=True)
    assert look.judgement.findings == []


async def test_c04_four_connections_of_one_process_are_copies_and_no_retries(
    server: TestServer, connect: Connect
) -> None:
    """Rule: copies that began within the retry gap of each other may be duplicates, but none supersedes another."""
    for _ in range(4):
        start(connect(role="etl_app", name="scan:orders:w1"), "SELECT pg_sleep(60)", server)
    with watcher(server, rule(copies=4, retry_gap=30)) as allowed, watcher(server, rule(copies=1, retry_gap=30)) as one:
        for cycle, duplicates in ((allowed, 0), (one, 3)):
            await cycle.look(tick=True)
            look = await cycle.look(tick=True)
            assert [each.evidence for each in look.judgement.findings] == [()] * duplicates


async def test_two_clusters_with_the_same_pids_stay_apart(server: TestServer, connect: Connect) -> None:
    """Rule: pids are compared within one cluster only; what was seen of one cluster is not used for another."""
    start(connect(role="etl_app", name="scan:orders:w1"), "SELECT pg_sleep(60)", server)
    jobs = rule(copies=1, retry_gap=0.01)
    with watcher(server, jobs) as one, watcher(server, jobs) as two:
        looks = [await cycle.look(tick=True) for cycle in (one, two, one, two)]
    assert [look.judgement.findings for look in looks] == [[], [], [], []]
