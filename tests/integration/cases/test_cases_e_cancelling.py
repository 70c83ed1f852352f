"""Field cases, section E: what would be cancelled; docs/field-cases.md also lists the tests that do cancel."""

import os
import signal
from pathlib import Path

from support.servers import Connect, TestServer, start, until
from support.watching import case_of, found, look_until, orphaned, watcher

from watchdog.core.acting.verdicts import Observed, withheld_reason
from watchdog.core.observed.activity import ActivityKind


async def test_c30_the_next_statement_of_the_same_session_is_another_run(server: TestServer, connect: Connect) -> None:
    """Rule: a run is identified by pid, `backend_start` and its own start; the next statement is another run."""
    session = connect()
    pid = start(session, "SELECT pg_sleep(1.5)", server)
    with watcher(server, roles={"web_app": 0.5}) as cycle:
        before = await look_until(cycle, lambda look: orphaned(look, pid))
        while session.pgconn.get_result():
            pass
        start(session, "SELECT pg_sleep(60)", server)
        after = await cycle.look(tick=True)
    one, two = case_of(before, pid), case_of(after, pid)
    assert one is not None
    assert two is not None
    assert (one.run.pid, one.run.backend_start) == (two.run.pid, two.run.backend_start)
    assert one.run != two.run
    assert found(after, pid) == []


async def test_c31_a_server_stuck_sending_to_a_client_that_does_not_read_is_an_orphan(
    server: TestServer, connect: Connect
) -> None:
    """Rule: an active session that waits in `ClientWrite` is running; one that waits in `ClientRead` is not."""
    pid = start(connect(), "SELECT repeat('x', 10000) FROM generate_series(1, 100000)", server)
    waits = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
    until(lambda: server.value(waits, pid) == "ClientWrite", what="a full socket")
    with watcher(server, roles={"web_app": 0.3}, grace=0.0) as cycle:
        look = await look_until(cycle, lambda look: orphaned(look, pid))
    case = case_of(look, pid)
    assert case is not None
    assert (case.activity, case.backend.wait_event) == (ActivityKind.RUNNING, "ClientWrite")


async def test_c31_a_copy_whose_client_has_fallen_silent_holds_and_is_no_orphan(
    server: TestServer, connect: Connect
) -> None:
    """Rule: an active session that waits in `ClientRead` is holding and not cancelled: it would react only when
    its client sends something."""
    pid = start(connect(), "COPY accounts FROM STDIN", server)
    waits = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
    until(lambda: server.value(waits, pid) == "ClientRead", what="the wait for the client")
    with watcher(server, roles={"web_app": 0.3}, grace=0.0) as cycle:
        look = await look_until(cycle, lambda look: "holding" in found(look, pid))
    assert found(look, pid) == ["holding"]
    assert [type(verdict) for verdict in look.decisions.verdicts] == [Observed]


async def test_c33_a_backend_that_reacts_to_nothing_stays_an_orphan_and_the_watchdog_goes_on(
    server: TestServer, connect: Connect
) -> None:
    """Rule: a backend that does not react to a cancel stays an orphan, and the poll does not wait for it."""
    pid = start(connect(), "SELECT pg_sleep(1)", server)
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: "T" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
        with watcher(server, roles={"web_app": 0.3}, grace=0.0) as cycle:
            await look_until(cycle, lambda look: orphaned(look, pid))
            server.value("SELECT pg_cancel_backend(%s)", pid)
            for _ in range(3):
                assert found(await cycle.look(tick=True), pid) == ["orphan"]
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_c34_superusers_are_left_alone_and_provider_roles_are_out_of_the_default_budget(
    server: TestServer, connect: Connect
) -> None:
    """Rule: superusers are not cancelled, and roles of cloud providers get no default budget."""
    server.run(
        f"CREATE ROLE rdsadmin LOGIN PASSWORD '{server.embedded.password}';"
        f"CREATE ROLE boss LOGIN SUPERUSER PASSWORD '{server.embedded.password}'"
    )
    try:
        provider = start(connect(role="rdsadmin"), "SELECT pg_sleep(60)", server)
        boss = start(connect(role="boss", name="scan:su:w1"), "SELECT pg_sleep(60)", server)
        ordinary = start(connect(role="web_app"), "SELECT pg_sleep(60)", server)
        with watcher(server, roles={}, default=0.3, grace=0.0) as cycle:
            look = await look_until(cycle, lambda look: orphaned(look, boss, ordinary))
    finally:
        server.end_sessions()
        server.run("DROP ROLE rdsadmin; DROP ROLE boss")
    assert found(look, provider) == []
    reasons = {verdict.finding.backend.pid: withheld_reason(verdict) for verdict in look.decisions.verdicts}
    assert reasons == {boss: "superuser", ordinary: None}


async def test_a_writer_is_left_alone(server: TestServer, connect: Connect) -> None:
    """Rule: a transaction with an id (`backend_xid`) is not cancelled, because its writes would be rolled back."""
    writer, reader = connect(), connect()
    for each in (writer, reader):
        each.execute("BEGIN")
    writer.execute("UPDATE accounts SET balance = 9 WHERE id = 20")
    pids = [start(each, "SELECT pg_sleep(60)", server) for each in (writer, reader)]
    with watcher(server, roles={"web_app": 0.3}, grace=0.0) as cycle:
        look = await look_until(cycle, lambda look: orphaned(look, *pids))
    reasons = {verdict.finding.backend.pid: withheld_reason(verdict) for verdict in look.decisions.verdicts}
    assert [reasons[pid] for pid in pids] == ["writer", None]
