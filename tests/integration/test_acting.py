"""Acting on a real server: the guarded statement, its effect at the next look, and the record of both."""

import os
import signal
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from support.acting import FREE, cancel_rule
from support.callers import killable
from support.gates import CANCELED, WAIT, Gates, acts_of, only_these_are_signalled
from support.servers import Client, Connect, TestServer, make_server, start, until
from support.watching import actor_on, answer, case_of, history, look_until, orphaned, verdict_of

from watchdog.core.acting.acts import Outcome, Result
from watchdog.core.acting.limits import Limits
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.verdicts import Withheld, withheld_reason
from watchdog.core.present.look import Look
from watchdog.demo.guardian import Guardian
from watchdog.runtime.cycle import Cycle

BITES_NEVER = """DO $$
BEGIN
    WHILE NOT pg_try_advisory_lock(9) LOOP
        BEGIN
            PERFORM pg_sleep(60);
        EXCEPTION WHEN query_canceled THEN
            RAISE NOTICE 'swallowed';
        END;
    END LOOP;
END $$"""


async def tried_in_vain(cycle: Cycle, pid: int, folder: Path) -> list[dict[str, Any]]:  # rows as the ledger has them
    """Look until nothing more is tried; the looks never wait for what does not react. The acts on record."""
    looks: list[Look] = []
    while not looks or not looks[-1].stuck:
        looks.append(await look_until(cycle, lambda look: look.results or look.effects))
    waited = [look.took for look in looks] + [each.took for look in looks for each in look.results]
    assert max(waited) < timedelta(seconds=1), "a second is far less than the deadline of a statement"
    assert [act for look in looks for act in acts_of(look)] == [(pid, Result.SIGNALLED)] * 3
    assert [each.outcome for look in looks for each in look.effects] == [
        Outcome.STILL_THERE,
        Outcome.STILL_THERE,
        Outcome.INEFFECTIVE,
    ]
    for _ in range(3):
        after = await cycle.look(tick=True)
        assert (withheld_reason(verdict_of(after, pid)), after.stuck) == (Withheld.INEFFECTIVE, 1)
        assert (after.results, after.effects) == ((), ())
    return [act for act in history(folder) if act["pid"] == pid]


def pauses_of(acts: list[dict[str, Any]]) -> list[timedelta]:  # as above
    """From each act to what came next: another, or the word that there was no effect."""
    times = [act["intended_at"] for act in acts] + [acts[-1]["outcome_at"]]
    return [later - earlier for earlier, later in pairwise(times)]


async def test_an_orphan_is_cancelled_and_the_record_says_so(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    caller = connect()
    pid = start(caller, "SELECT pg_sleep(60)", server)
    with actor_on(server, tmp_path) as cycle:
        look = await look_until(cycle, lambda look: look.results)
        assert acts_of(look) == [(pid, Result.SIGNALLED)]
        after = await look_until(cycle, lambda look: look.effects)
    assert answer(caller) == CANCELED
    assert [each.outcome for each in after.effects] == [Outcome.BETWEEN_STATEMENTS]
    [act] = history(tmp_path)
    assert (act["id"], act["pid"], act["result"]) == (look.results[0].act.id, pid, "signalled")
    assert act["outcome"] == "between_statements"


async def test_the_signal_carries_the_acts_id_into_the_servers_log(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    server.run("ALTER ROLE canceller SET log_statement = 'all'")
    try:
        start(connect(), "SELECT pg_sleep(60)", server)
        with actor_on(server, tmp_path) as cycle:
            look = await look_until(cycle, lambda look: look.results)
    finally:
        server.run("ALTER ROLE canceller RESET log_statement")
    assert f"/* pgwatchdog act {look.results[0].act.id} */" in server.embedded.log.read_text()


async def test_a_statement_lost_to_a_savepoint_is_the_only_one_that_its_transaction_loses(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    """Drivers that set a savepoint for each statement go on as if nothing had happened; so does the next one."""
    gates, caller = Gates(connect(role="etl_app")), connect()
    caller.execute("BEGIN")
    caller.execute("SAVEPOINT one")
    pid = start(caller, "SELECT pg_sleep(60)", server)
    with actor_on(server, tmp_path) as cycle:
        await look_until(cycle, lambda look: look.results)
        after = await look_until(cycle, lambda look: look.effects)
        assert [each.outcome for each in after.effects] == [Outcome.TRANSACTION_GOES_ON]
        assert answer(caller) == CANCELED
        caller.execute("ROLLBACK TO one")

        start(caller, f"SELECT {WAIT}", server)
        again = await look_until(cycle, lambda look: orphaned(look, pid))
        assert (withheld_reason(verdict_of(again, pid)), again.results) == (Withheld.TRANSACTION_TRIED, ())
        gates.open()
        assert answer(caller) is None
        caller.execute("COMMIT")

        caller.execute("BEGIN")
        start(caller, "SELECT pg_sleep(60)", server)
        third = await look_until(cycle, lambda look: look.results)
        assert acts_of(third) == [(pid, Result.SIGNALLED)]
        assert answer(caller) == CANCELED
        last = await look_until(cycle, lambda look: look.effects)
    assert [each.outcome for each in last.effects] == [Outcome.BETWEEN_STATEMENTS], (
        "an aborted transaction holds nothing"
    )
    assert [(act["attempt"], act["outcome"]) for act in history(tmp_path)] == [
        (1, "transaction_goes_on"),
        (1, "between_statements"),
    ]


async def test_a_transaction_stays_shut_while_it_is_idle_between_its_statements(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    gates, caller = Gates(connect(role="etl_app")), connect()
    caller.execute("BEGIN")
    caller.execute("SAVEPOINT one")
    pid = start(caller, "SELECT pg_sleep(60)", server)
    with actor_on(server, tmp_path) as cycle:
        await look_until(cycle, lambda look: look.results)
        assert answer(caller) == CANCELED
        await look_until(cycle, lambda look: look.effects)
        for sql in ("ROLLBACK TO one", "SELECT 1"):
            await cycle.look(tick=True)
            caller.execute(sql)
        await cycle.look(tick=True)
        start(caller, f"SELECT {WAIT}", server)
        again = await look_until(cycle, lambda look: orphaned(look, pid))
    assert (withheld_reason(verdict_of(again, pid)), again.results) == (Withheld.TRANSACTION_TRIED, ())
    gates.open()
    assert answer(caller) is None


@pytest.mark.parametrize("keyed", [False, True])
async def test_a_loop_that_swallows_every_cancel_is_tried_three_times_with_growing_pauses(
    keyed: bool,  # noqa: FBT001  # a parameter
    server: TestServer,
    connect: Connect,
    tmp_path: Path,
) -> None:
    notices: list[object] = []
    caller = connect(name="scan:orders:w1" if keyed else "")
    caller.add_notice_handler(notices.append)
    holder = connect(role="etl_app")
    holder.execute("SELECT pg_advisory_lock(9)")
    pid = start(caller, BITES_NEVER, server)
    may_write = Policy((cancel_rule(writers=True),), FREE)  # a DO block may
    with actor_on(server, tmp_path, policy=may_write, interval=0.2) as cycle:
        acts = await tried_in_vain(cycle, pid, tmp_path)
    assert [(act["attempt"], act["result"], act["outcome"]) for act in acts] == [
        (1, "signalled", "still_there"),
        (2, "signalled", "still_there"),
        (3, "signalled", "ineffective"),
    ]
    least = [timedelta(seconds=each) for each in (0.2, 0.4, 0.8)]
    assert all(pause >= wanted for pause, wanted in zip(pauses_of(acts), least, strict=True))
    holder.execute("SELECT pg_advisory_unlock(9)")
    server.value("SELECT pg_cancel_backend(%s)", pid)
    assert answer(caller) is None
    assert len(notices) == 4, "our three, and the test's own"


async def test_c31_a_client_that_does_not_read_is_tried_once_and_the_others_go_on(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    """Rule: success is judged by the row, never by what the call returned; one that does not react stops nobody."""
    caller, other = connect(), connect()
    pid = start(caller, "SELECT repeat('x', 30000000) FROM generate_series(1, 2)", server)  # beyond every buffer
    waits = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
    until(lambda: server.value(waits, pid) == "ClientWrite", what="a full socket")
    with actor_on(server, tmp_path, interval=0.2) as cycle:
        tried = await look_until(cycle, lambda look: look.effects)
        assert [each.outcome for each in tried.effects] == [Outcome.WAITS_FOR_CLIENT]
        assert withheld_reason(verdict_of(tried, pid)) is Withheld.WAITS_FOR_CLIENT
        second = start(other, "SELECT pg_sleep(60)", server)
        look = await look_until(cycle, lambda look: look.results)
        assert acts_of(look) == [(second, Result.SIGNALLED)]
        assert answer(other) == CANCELED
        assert answer(caller) == CANCELED, "the signal bites once its client reads"
        await look_until(cycle, lambda look: any(each.run.pid == pid for each in look.effects))
    acts = [(act["pid"], act["attempt"], act["outcome"]) for act in history(tmp_path)]
    assert acts == [(pid, 1, "between_statements"), (second, 1, "between_statements")]


async def test_c33_a_backend_that_reacts_to_nothing_never_holds_up_the_watchdog(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    """Rule: bounded tries with growing pauses, one gauge of what is stuck, and no form of waiting for an effect."""
    caller = connect()
    pid = start(caller, "SELECT pg_sleep(60)", server)
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: "T" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
        with actor_on(server, tmp_path, interval=0.2) as cycle:
            acts = await tried_in_vain(cycle, pid, tmp_path)
            os.kill(pid, signal.SIGCONT)
            assert answer(caller) == CANCELED
            await look_until(cycle, lambda look: not look.stuck)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert [act["outcome"] for act in acts] == ["still_there", "still_there", "ineffective"]


async def test_c02_the_whole_session_of_a_killed_caller_ends_with_its_statement(
    server: TestServer, tmp_path: Path
) -> None:
    """Rule: a row that has gone is a success, and not an error."""
    there = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
    with killable(server, "SELECT pg_sleep(60)") as (caller, pid), actor_on(server, tmp_path) as cycle:
        await look_until(cycle, lambda look: case_of(look, pid))
        os.kill(caller, signal.SIGKILL)
        look = await look_until(cycle, lambda look: look.results)
        assert acts_of(look) == [(pid, Result.SIGNALLED)]
        until(lambda: server.value(there, pid) == 0, what="the session's end")
        after = await look_until(cycle, lambda look: look.effects)
    assert [each.outcome for each in after.effects] == [Outcome.ENDED]
    assert [(act["result"], act["outcome"]) for act in history(tmp_path)] == [("signalled", "ended")]


async def test_the_open_session_sees_and_acts_when_no_other_can_be_opened(guardian: Guardian, tmp_path: Path) -> None:
    server = make_server(guardian=guardian, settings={"max_connections": "10"})
    opened: list[Client] = []
    try:
        with actor_on(server, tmp_path) as cycle:
            await cycle.look(tick=True)
            with suppress(psycopg.OperationalError):
                while len(opened) < 10:
                    opened.append(psycopg.connect(server.dsn("web_app"), autocommit=True))
            with pytest.raises(psycopg.OperationalError, match="connection slots"):
                psycopg.connect(server.dsn("canceller"))
            pids = [start(each, "SELECT pg_sleep(60)", server) for each in opened]
            assert len(pids) > 1
            await only_these_are_signalled(cycle, dict.fromkeys(pids))
            assert {answer(each) for each in opened} == {CANCELED}
    finally:
        for each in opened:
            each.close()
        server.embedded.stop()


async def test_a_run_that_renames_itself_all_the_time_keeps_nobody_from_being_cancelled(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    """One unprivileged statement, older than all others, that every attempt misses."""
    renaming = connect()
    sql = (
        "SELECT set_config('application_name', 'x' || g, false), pg_sleep(0.0005) FROM generate_series(1, 200000) AS g"
    )
    pid = start(renaming, sql, server)
    limits = Limits(pause=timedelta(0))
    with actor_on(server, tmp_path, policy=Policy((cancel_rule(),), limits), interval=0.2) as cycle:
        await look_until(cycle, lambda look: orphaned(look, pid))
        others = [connect() for _ in range(3)]
        pids = {start(each, "SELECT pg_sleep(60)", server) for each in others}
        ended: set[int] = set()
        while ended < pids:
            look = await look_until(cycle, lambda look: look.effects)
            ended |= {each.run.pid for each in look.effects}
        left = await look_until(cycle, lambda look: withheld_reason(verdict_of(look, pid)) is Withheld.KEEPS_CHANGING)
    assert [answer(each) for each in others] == [CANCELED] * 3
    assert left.status.disarm_reasons == (), "no breaker has opened, and nothing is disarmed"
    tried = [(act["result"], act["outcome"]) for act in history(tmp_path) if act["pid"] == pid]
    assert tried == [("moved_on", None)] * 4
