"""What begins between the look and the signal: the guarded statement finds it, says so, and signals nobody."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from support.acting import FREE, cancel_rule
from support.gates import CANCELED, WAIT, WAIT_AGAIN, Gates, acts_of, before_the_signal, only_these_are_signalled
from support.servers import Client, Connect, TestServer, start, until
from support.watching import actor_on, answer, history, look_until, orphaned

from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.rules import Names
from watchdog.core.acting.verdicts import Hand, Withheld
from watchdog.core.present.look import Look
from watchdog.postgres.statements import Statement
from watchdog.runtime.cycle import Cycle

WRITERS_TOO = Policy((cancel_rule(writers=True),), FREE)
TICK = timedelta(microseconds=1)
BOOTSTRAP_ROLE, TEMPLATE1 = 10, 1
"""Object identifiers that are the same on every server."""


@dataclass
class Guard:
    """One orphan at which an act is aimed, and what is to happen before the guarded statement is sent."""

    server: TestServer
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    connect: Connect

    def __post_init__(self) -> None:
        self.gates = Gates(self.connect(role="etl_app"))
        self.victim = self.connect()

    @property
    def pid(self) -> int:
        return self.victim.info.backend_pid

    def shows(self, condition: str) -> None:
        """Wait until the victim's row fulfils a condition."""
        sql = f"SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND {condition}"
        until(lambda: self.server.value(sql, self.pid), what=condition)

    def goes_on(self, _: CancelTarget) -> None:
        """The victim's statement ends, and its next one begins."""
        self.gates.open()
        assert answer(self.victim) is None
        start(self.victim, f"SELECT {WAIT_AGAIN}", self.server)

    async def refuses(
        self,
        happens: Callable[[CancelTarget], CancelTarget | None],
        result: Result,
        withheld: Withheld | None = None,
        *,
        policy: Policy | None = None,
    ) -> None:
        """Aim at the victim, let it happen: the answer is as expected, in the look and on record."""
        before_the_signal(self.monkeypatch, happens)
        with actor_on(self.server, self.folder, policy=policy) as cycle:
            look = await look_until(cycle, lambda look: look.results)
            self.monkeypatch.undo()
        refused(look, self.pid, result, withheld)
        assert cycle.policy_memory.acts == {}, "it was no act: nothing is to be followed"
        [act] = history(self.folder)
        assert (act["id"], act["pid"], act["attempt"]) == (look.results[0].act.id, self.pid, 1)
        assert (act["result"], act["detail"], act["outcome"]) == (result, withheld, None)


def refused(look: Look, pid: int, result: Result, withheld: Withheld | None) -> None:
    """What metrics and page are made of."""
    [done] = look.results
    assert (done.act.finding.backend.pid, done.result, done.withheld) == (pid, result, withheld)
    assert (done.act.hand, done.act.rule.name, done.act.attempt) == (Hand.SIGNAL, "orphans", 1)
    assert done.lag is None, "there was no signal"
    [due] = look.decisions.due
    assert (due.finding, due.rule, due.hand) == (done.act.finding, done.act.rule, done.act.hand)


@pytest.fixture
def guard(server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect: Connect) -> Guard:
    return Guard(server, tmp_path, monkeypatch, connect)


async def test_a_session_that_begins_to_write_is_spared(guard: Guard) -> None:
    start(guard.victim, f"SELECT {WAIT}, pg_current_xact_id(), {WAIT_AGAIN}", guard.server)

    def writes(_: CancelTarget) -> None:
        guard.gates.open()
        guard.shows("backend_xid IS NOT NULL")

    await guard.refuses(writes, Result.PROTECTED, Withheld.WRITER)
    guard.gates.open(2)
    assert answer(guard.victim) is None


async def test_a_session_that_begins_to_write_is_signalled_where_the_rule_allows_writers(
    guard: Guard, server: TestServer, tmp_path: Path
) -> None:
    start(guard.victim, f"SELECT {WAIT}, pg_current_xact_id(), {WAIT_AGAIN}", server)

    def writes(_: CancelTarget) -> None:
        guard.gates.open()
        guard.shows("backend_xid IS NOT NULL")

    before_the_signal(guard.monkeypatch, writes)
    with actor_on(server, tmp_path, policy=WRITERS_TOO) as cycle:
        look = await look_until(cycle, lambda look: look.results)
    assert acts_of(look) == [(guard.pid, Result.SIGNALLED)]
    assert answer(guard.victim) == CANCELED


async def test_a_session_that_begins_to_wait_for_its_client_is_spared(guard: Guard, server: TestServer) -> None:
    """A copy whose trigger takes long, and then its client falls silent."""
    with server.admin() as admin:
        admin.execute("CREATE TABLE inbox (id int); GRANT INSERT ON inbox TO web_app")
        admin.execute(
            f"CREATE FUNCTION screen() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN PERFORM {WAIT}; RETURN NULL; END $$;"
            "CREATE TRIGGER screen BEFORE INSERT ON inbox FOR EACH ROW EXECUTE FUNCTION screen()"
        )
    try:
        start(guard.victim, "COPY inbox FROM STDIN", server)
        guard.victim.pgconn.get_result()
        guard.victim.pgconn.put_copy_data(b"1\n")
        guard.victim.pgconn.flush()
        guard.shows("wait_event = 'advisory'")

        def falls_silent(_: CancelTarget) -> None:
            guard.gates.open()
            guard.shows("wait_event = 'ClientRead'")

        await guard.refuses(falls_silent, Result.PROTECTED, Withheld.WAITS_FOR_CLIENT, policy=WRITERS_TOO)
        guard.victim.pgconn.put_copy_end()
        assert answer(guard.victim) is None
    finally:
        server.end_sessions()
        server.run("DROP TABLE inbox; DROP FUNCTION screen")


async def test_a_session_that_begins_to_wait_for_a_standby_is_spared_also_where_writers_are_not(
    own_server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its one statement is all the same to look at: only what it waits for has changed."""
    own_server.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    own_server.embedded.stop()
    own_server.embedded.start()
    with (
        psycopg.connect(own_server.dsn("etl_app"), autocommit=True) as holder,
        psycopg.connect(own_server.dsn("web_app"), autocommit=True) as victim,
    ):
        gates, warnings = Gates(holder), list[object]()
        victim.add_notice_handler(warnings.append)
        pid = start(victim, f"UPDATE accounts SET balance = 9 WHERE id = 7 AND {WAIT} IS NOT NULL", own_server)
        waits = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event = 'SyncRep'"

        def commits(_: CancelTarget) -> None:
            gates.open()
            until(lambda: own_server.value(waits, pid), what="the wait for a standby")

        before_the_signal(monkeypatch, commits)
        with actor_on(own_server, tmp_path, policy=WRITERS_TOO) as cycle:
            look = await look_until(cycle, lambda look: look.results)
        refused(look, pid, Result.PROTECTED, Withheld.SYNC_REP)
        assert own_server.value(waits, pid) == 1
        own_server.run("ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()")
        assert answer(victim) is None
        assert warnings == [], "a cancelled wait ends with a warning and a commit that looks like any other"


async def test_c30_the_innocent_statement_that_follows_is_spared(guard: Guard) -> None:
    """Rule: a run is identified by its starts too, and they are compared in the statement that signals."""
    start(guard.victim, f"SELECT {WAIT}", guard.server)
    await guard.refuses(guard.goes_on, Result.MOVED_ON)
    guard.gates.open(2)
    assert answer(guard.victim) is None


async def test_c30_the_next_statement_of_the_same_transaction_is_spared(guard: Guard) -> None:
    """Rule: the transaction is the same, the statement is another."""
    guard.victim.execute("BEGIN")
    start(guard.victim, f"SELECT {WAIT}", guard.server)
    await guard.refuses(guard.goes_on, Result.MOVED_ON)
    guard.gates.open(2)
    assert answer(guard.victim) is None


@pytest.mark.parametrize("first", ["SELECT 1", "BEGIN"])
async def test_c30_a_session_between_statements_is_spared(first: str, guard: Guard) -> None:
    """Rule: an idle row keeps its starts, so the state is compared as well; a signal would do nothing, or too late."""
    guard.victim.execute(first)
    start(guard.victim, f"SELECT {WAIT}", guard.server)

    def ends(_: CancelTarget) -> None:
        guard.gates.open()
        assert answer(guard.victim) is None
        guard.shows("state LIKE 'idle%%'")

    await guard.refuses(ends, Result.MOVED_ON)
    guard.victim.execute("SELECT 1")


async def test_c30_a_session_that_has_gone_is_no_failure(guard: Guard, server: TestServer, connect: Connect) -> None:
    """Rule: nothing there is an answer; whoever comes after is somebody else."""
    pid = start(guard.victim, f"SELECT {WAIT}", server)
    successor = connect()

    def goes(_: CancelTarget) -> None:
        server.value("SELECT pg_terminate_backend(%s, 5000)", pid)
        start(successor, f"SELECT {WAIT}", server)

    await guard.refuses(goes, Result.GONE)
    guard.gates.open()
    assert answer(successor) is None


async def test_c30_a_session_that_has_got_the_pid_of_another_is_spared(guard: Guard, connect: Connect) -> None:
    """Rule: a pid alone is nobody: the start of the backend belongs to it. Pids cannot be made to come back, so the
    aim is bent to the pid of a session that differs in nothing but its starts."""
    start(guard.victim, f"SELECT {WAIT}", guard.server)
    successor = connect()
    await guard.refuses(
        lambda target: replace(target, pid=start(successor, f"SELECT {WAIT}", guard.server)),
        Result.GONE,
    )
    guard.gates.open()
    assert (answer(successor), answer(guard.victim)) == (None, None)


async def test_a_session_that_takes_another_name_is_spared(guard: Guard) -> None:
    """The judgement may have been about its name; everything else in its row is as it was."""
    rename = "set_config('application_name', 'somebody else', false)"
    start(guard.victim, f"SELECT {WAIT}, {rename}, {WAIT_AGAIN}", guard.server)

    def renames(_: CancelTarget) -> None:
        guard.gates.open()
        guard.shows("application_name = 'somebody else'")

    await guard.refuses(renames, Result.MOVED_ON)
    guard.gates.open(2)
    assert answer(guard.victim) is None


async def test_a_procedure_that_commits_meanwhile_is_spared(guard: Guard) -> None:
    """What it has done stays, what it still would do would be lost; only the transaction's start tells."""
    start(guard.victim, f"DO $$ BEGIN PERFORM {WAIT}; COMMIT; PERFORM {WAIT_AGAIN}; END $$", guard.server)

    def commits(_: CancelTarget) -> None:
        guard.gates.open()
        guard.shows("xact_start > query_start AND wait_event = 'advisory'")

    await guard.refuses(commits, Result.MOVED_ON, policy=WRITERS_TOO)
    guard.gates.open(2)
    assert answer(guard.victim) is None


@pytest.fixture
def one_look(server: TestServer, connect: Connect, tmp_path: Path) -> Iterator[tuple[Cycle, Client, Gates]]:
    """A cycle that has one orphan to aim at, which waits at a gate."""
    gates, victim = Gates(connect(role="etl_app")), connect(name="scan:orders:w1")
    start(victim, f"SELECT {WAIT}", server)
    with actor_on(server, tmp_path) as cycle:
        yield cycle, victim, gates


BENT: dict[str, tuple[Callable[[CancelTarget], CancelTarget], Result]] = {
    "backend start": (lambda target: replace(target, backend_start=target.backend_start - TICK), Result.GONE),
    "statement": (
        lambda target: replace(target, statement=(target.statement or target.backend_start) + TICK),
        Result.MOVED_ON,
    ),
    "transaction": (
        lambda target: replace(target, transaction=(target.transaction or target.backend_start) - TICK),
        Result.MOVED_ON,
    ),
    "no transaction": (lambda target: replace(target, transaction=None), Result.MOVED_ON),
    "state": (lambda target: replace(target, state="idle in transaction"), Result.MOVED_ON),
    "fast path": (lambda target: replace(target, state="fastpath function call"), Result.MOVED_ON),
    "role": (lambda target: replace(target, role_oid=BOOTSTRAP_ROLE, role="postgres"), Result.MOVED_ON),
    "role's name": (lambda target: replace(target, role="web_App"), Result.NOT_TRIED),
    "dropped role": (lambda target: replace(target, role_oid=target.role_oid + 100_000), Result.NOT_TRIED),
    "database": (lambda target: replace(target, database_oid=TEMPLATE1, database="template1"), Result.MOVED_ON),
    "database's name": (lambda target: replace(target, database="postgres2"), Result.NOT_TRIED),
    "dropped database": (lambda target: replace(target, database_oid=target.database_oid + 100_000), Result.NOT_TRIED),
    "no name": (lambda target: replace(target, application_name=""), Result.MOVED_ON),
    "name in other letters": (lambda target: replace(target, application_name="scan:orders:W1"), Result.MOVED_ON),
    "age": (lambda target: replace(target, least_age=timedelta(hours=1)), Result.MOVED_ON),
}


async def test_each_thing_that_was_judged_is_compared_again(
    one_look: tuple[Cycle, Client, Gates], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bent by the least amount, one at a time, each makes the act one at nobody; unbent, it hits."""
    cycle, victim, _ = one_look
    answers = {}
    for name, (bend, _) in BENT.items():
        before_the_signal(monkeypatch, bend)
        [act] = acts_of(await look_until(cycle, lambda look: look.results))
        monkeypatch.undo()
        answers[name] = act
        cycle.policy_memory = replace(cycle.policy_memory, misses={})  # it would be left alone for an interval
    pid = victim.info.backend_pid
    assert answers == {name: (pid, result) for name, (_, result) in BENT.items()}
    assert victim.pgconn.is_busy()
    assert acts_of(await look_until(cycle, lambda look: look.results)) == [(pid, Result.SIGNALLED)]
    assert answer(victim) == CANCELED


async def test_a_database_that_took_the_name_of_another_since_the_census_is_not_acted_on_for_its_old_name(
    server: TestServer, tmp_path: Path
) -> None:
    """A restored copy becomes production by two renames. A rule for staging would go on cancelling there."""
    staging = Policy((cancel_rule(only=Names(databases=("*_staging",))),), FREE)
    with server.admin() as admin, actor_on(server, tmp_path, policy=staging) as cycle:
        server.create_database("app_staging")
        await cycle.take_census()
        admin.execute("ALTER DATABASE app_staging RENAME TO app")
        with psycopg.connect(server.dsn("web_app", database="app"), autocommit=True) as caller:
            start(caller, "SELECT pg_sleep(60)", server)
            look = await look_until(cycle, lambda look: look.results)
            refused(look, caller.info.backend_pid, Result.NOT_TRIED, Withheld.RENAMED)
            assert cycle.census_is_stale, "the next census comes early"
            assert full(cycle) == FREE.per_minute, "the token is given back"
            await cycle.renew_census()
            looks = [await cycle.look(tick=True) for _ in range(2)]
            assert [(orphaned(each, caller.info.backend_pid), each.results) for each in looks] == [(True, ())] * 2
            assert [each.rule for each in looks[1].decisions.verdicts] == [None], "no rule speaks about `app`"
            caller.cancel()
            assert answer(caller) == CANCELED
        admin.execute("DROP DATABASE app WITH (FORCE)")


async def test_names_that_cannot_be_read_just_before_the_signal_spare(
    one_look: tuple[Cycle, Client, Gates], server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle, victim, _ = one_look
    with psycopg.connect(server.dsn("postgres")) as admin:

        def locks(_: CancelTarget) -> None:
            admin.execute("LOCK TABLE pg_database IN ACCESS EXCLUSIVE MODE")

        before_the_signal(monkeypatch, locks)
        look = await look_until(cycle, lambda look: look.results)
        monkeypatch.undo()
        refused(look, victim.info.backend_pid, Result.NOT_TRIED, Withheld.NAMES_UNREAD)
        assert (cycle.census_is_stale, full(cycle)) == (True, FREE.per_minute)
        assert victim.pgconn.is_busy()
        admin.rollback()
    assert acts_of(await look_until(cycle, lambda look: look.results)) == [(victim.info.backend_pid, Result.SIGNALLED)]
    assert answer(victim) == CANCELED


def full(cycle: Cycle) -> int:
    [bucket] = cycle.policy_memory.buckets.values()
    return round(bucket.tokens)


class OtherRow(NamedTuple):
    word: str


async def test_an_answer_that_cannot_be_read_leaves_open_whether_the_signal_was_sent(
    one_look: tuple[Cycle, Client, Gates], monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle, victim, _ = one_look
    monkeypatch.setattr("watchdog.postgres.cancel.CANCEL", Statement("cancel", OtherRow))
    look = await look_until(cycle, lambda look: look.results)
    assert acts_of(look) == [(victim.info.backend_pid, Result.TIMED_OUT)]
    assert answer(victim) == CANCELED


async def test_the_watchdogs_own_session_is_nobody_to_aim_at(
    one_look: tuple[Cycle, Client, Gates], server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle, victim, gates = one_look

    def at_ourselves(target: CancelTarget) -> CancelTarget:
        with server.admin() as admin:
            own = "SELECT pid, backend_start FROM pg_stat_activity WHERE usename = 'canceller'"
            [(pid, started)] = admin.execute(own).fetchall()
        return replace(target, pid=pid, backend_start=started)  # type: ignore[arg-type]  # as the server has them

    before_the_signal(monkeypatch, at_ourselves)
    look = await look_until(cycle, lambda look: look.results)
    refused(look, victim.info.backend_pid, Result.GONE, None)
    gates.open()
    assert answer(victim) is None


@contextmanager
def parallel_query(server: TestServer, connect: Connect) -> Iterator[tuple[Client, Callable[[], int]]]:
    """A session that runs a query with the help of others, and how many of those are at work."""
    server.run(
        "CREATE TABLE pages AS SELECT n, repeat('x', 1000) AS filler FROM generate_series(1, 100) AS n;"
        "GRANT SELECT ON pages TO web_app"
    )
    costs = "-c min_parallel_table_scan_size=0 -c parallel_setup_cost=0 -c parallel_tuple_cost=0"
    leader = connect(options=costs)
    try:
        pid = start(leader, "SELECT count(*) FROM pages WHERE pg_sleep(n + 60) IS NOT NULL", server)
        workers = "SELECT count(*) FROM pg_stat_activity WHERE leader_pid = %s AND wait_event = 'PgSleep'"
        until(lambda: server.value(workers, pid), what="a parallel worker")
        yield leader, lambda: int(str(server.value(workers, pid)))
    finally:
        server.end_sessions()
        server.run("DROP TABLE pages")


async def test_only_the_leader_of_a_parallel_query_is_found_and_its_workers_go_with_it(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    with parallel_query(server, connect) as (leader, workers):
        pid = leader.info.backend_pid
        with actor_on(server, tmp_path) as cycle:
            looks = await only_these_are_signalled(cycle, {pid: None})
        assert {each.pid for look in looks for each in look.snapshot.backends} == {pid}
        assert answer(leader) == CANCELED
        until(lambda: not workers(), what="the workers' end")


async def test_a_parallel_worker_is_nobody_to_aim_at(
    server: TestServer, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row has its leader's role, name, state and starts: only the type of the backend tells them apart."""
    with parallel_query(server, connect) as (leader, workers):

        def at_a_worker(target: CancelTarget) -> CancelTarget:
            with server.admin() as admin:
                columns = "pid, backend_start, query_start, xact_start"
                sql = f"SELECT {columns} FROM pg_stat_activity WHERE leader_pid = %s LIMIT 1"
                [(pid, started, statement, transaction)] = admin.execute(sql, [target.pid]).fetchall()
            changes = {"pid": pid, "backend_start": started, "statement": statement, "transaction": transaction}
            return replace(target, **changes)  # type: ignore[arg-type]  # as the server has them

        before_the_signal(monkeypatch, at_a_worker)
        with actor_on(server, tmp_path) as cycle:
            look = await look_until(cycle, lambda look: look.results)
            refused(look, leader.info.backend_pid, Result.MOVED_ON, None)
            assert (leader.pgconn.is_busy(), workers() > 0) == (1, True)
