"""Each statement beside the poll broken in turn: what is said, counted and not done, and that it means nothing else."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.builders import book
from support.gates import acts_of
from support.replicas import STEP, exported_of, orphan, over_budget
from support.servers import Client, Connect, TestServer, start, until
from support.watching import actor_on, look_until, orphaned, source_on, verdict_of

from watchdog.cli.render import markdown
from watchdog.core.acting.acts import Outcome, Result
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Withheld, withheld_reason
from watchdog.core.observed.statement_failures import failing
from watchdog.core.present.look import Look
from watchdog.core.present.records import cluster_record
from watchdog.errors import ReadError
from watchdog.postgres.sql import Texts
from watchdog.runtime.actor import NAMES_AND_RIGHTS, Actor
from watchdog.runtime.cycle import Cycle
from watchdog.web.page import Page

WHY = "broken on purpose"
Break = Callable[[str], None]


@pytest.fixture
def broken(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Break]:
    """Let one statement call a function that raises; it takes the same parameters as before."""
    with server.admin() as admin:
        admin.execute(
            "CREATE FUNCTION raises() RETURNS int LANGUAGE plpgsql AS $$"
            f"BEGIN RAISE EXCEPTION '{WHY}' USING ERRCODE = '22023'; END $$"
        )
    real = Texts.pick

    def break_it(broken: str) -> None:
        def pick(texts: Texts, name: str, *, version: int) -> bytes:
            text = real(texts, name, version=version)
            return _raising(text) if name == broken else text

        monkeypatch.setattr(Texts, "pick", pick)

    yield break_it
    monkeypatch.undo()
    server.run("DROP FUNCTION raises()")


def _raising(text: bytes) -> bytes:
    """A statement with the same parameters, each of them used, that does nothing but raise."""
    found = re.findall(rb"%(?:\(\w+\))?s", text)
    used = b" AND ".join(each + b" IS NOT DISTINCT FROM " + each for each in found) or b"true"
    return b"SELECT public.raises() WHERE " + used.replace(b"%s IS NOT DISTINCT FROM %s", b"%s::text IS NOT NULL")


async def warmed(cycle: Cycle) -> Look:
    return await look_until(cycle, lambda look: not look.disarmed)


async def said(look: Look, statement: str) -> None:
    """It is counted, and stands on the page, in the report and in the JSON, with the server's sentence."""
    assert look.statement_failures[statement].count >= 1
    assert WHY in failing(look.statement_failures)[statement]
    sentence = f"The statement {statement} fails: {WHY}"
    page = Page().render([("main", look)], judges=True)
    assert sentence in page
    assert sentence in markdown([look], book=book(), arming=True)
    record = cluster_record(look, server="main", judges=True)
    assert record["statements_failing"] == failing(look.statement_failures)
    exported = await exported_of(look)
    assert exported.values[f'pgwatchdog_statement_failures_total{{server="main",statement="{statement}"}}'] >= 1


@pytest.mark.parametrize("statement", NAMES_AND_RIGHTS)
async def test_a_census_that_fails_is_said_and_disarms_until_one_succeeds(
    server: TestServer, connect: Connect, tmp_path: Path, broken: Break, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        await warmed(cycle)
        pid = orphan(connect(), server)
        broken(statement)
        await cycle.renew_census()
        over_budget(server, pid, seconds=0.55)
        look = await cycle.look(tick=True)
        assert cycle.census_is_stale, "it is taken again soon"
        await said(look, statement)
        assert (look.disarmed, look.results) == ((DisarmReason.STATEMENT_FAILED,), ())
        assert withheld_reason(verdict_of(look, pid)) is Withheld.NOT_ARMED
        assert (await exported_of(look)).disarmed == {"statement_failed"}
        monkeypatch.undo()
        await cycle.renew_census()
        after = await look_until(cycle, lambda look: look.results)
    assert acts_of(after) == [(pid, Result.SIGNALLED)]
    assert failing(after.statement_failures) == {}
    assert after.statement_failures[statement].count == 1, "the count stays"


async def test_first_words_that_cannot_be_asked_for_are_unread_not_unreadable_and_spare(
    server: TestServer, connect: Connect, tmp_path: Path, broken: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        await warmed(cycle)
        broken("backends")
        pid = orphan(connect(), server)
        look = await look_until(cycle, lambda look: orphaned(look, pid))
        assert withheld_reason(verdict_of(look, pid)) is Withheld.COMMAND_UNREAD
        await said(look, "backends")
        after = await cycle.look(tick=True)
        assert after.disarmed == (DisarmReason.STATEMENT_FAILED,)
        assert (look.results, after.results) == ((), ())
        monkeypatch.undo()
        acted = await look_until(cycle, lambda look: look.results)
    assert acts_of(acted) == [(pid, Result.SIGNALLED)]


async def test_while_nobody_can_be_asked_for_the_effect_of_an_act_stays_open(
    server: TestServer, connect: Connect, tmp_path: Path, broken: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = connect()
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        await warmed(cycle)
        pid = orphan(caller, server)
        await look_until(cycle, lambda look: look.results)
        broken("backends")
        until(lambda: server.value("SELECT state FROM pg_stat_activity WHERE pid = %s", pid) == "idle", what="the end")
        looks = [await cycle.look(tick=True) for _ in range(3)]
        assert [look.effects for look in looks] == [()] * 3, "neither ended nor still there"
        await said(looks[-1], "backends")
        monkeypatch.undo()
        told = await look_until(cycle, lambda look: look.effects)
    assert [each.outcome for each in told.effects] == [Outcome.BETWEEN_STATEMENTS]


async def test_a_question_about_blocking_that_fails_leaves_it_unknown_and_disarms_nothing(
    server: TestServer, connect: Connect, tmp_path: Path, broken: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, waiter = connect(), connect()
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        await warmed(cycle)
        broken("blocking")
        pid = _holds(holder, server)
        start(waiter, "SELECT pg_advisory_lock(77)", server)
        look = await look_until(cycle, lambda look: orphaned(look, pid) and failing(look.statement_failures))
        await said(look, "blocking")
        waiter.close()
        monkeypatch.undo()
        after = await look_until(cycle, lambda look: not failing(look.statement_failures))
    assert after.statement_failures["blocking"].count >= 1, "it is asked again although nobody waits"
    assert look.judgement.blocked_by_orphans is None
    assert [each.blocks for each in look.judgement.findings if each.backend.pid == pid] == [None]
    assert DisarmReason.STATEMENT_FAILED not in look.disarmed
    assert "sessions_blocked_by_orphans" not in "".join((await exported_of(look)).values)


def _holds(client: Client, server: TestServer) -> int:
    client.execute("SELECT pg_advisory_lock(77)")
    return orphan(client, server)


async def test_a_lease_that_cannot_be_taken_is_unread_and_says_of_nobody_that_he_holds_it(
    server: TestServer, connect: Connect, tmp_path: Path, broken: Break
) -> None:
    broken("lease")
    pid = orphan(connect(), server)
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        look = await look_until(cycle, lambda look: orphaned(look, pid))
    await said(look, "lease")
    assert (look.disarmed, look.results) == ((DisarmReason.LEASE_UNREAD,), ())
    assert withheld_reason(verdict_of(look, pid)) is Withheld.NOT_LEADER
    assert (look.lease.leads, look.lease.held_by_other) == (False, False)


async def test_a_follower_that_cannot_read_who_leads_says_so(server: TestServer, tmp_path: Path, broken: Break) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with actor_on(server, tmp_path / "one", interval=STEP) as leader:
        await warmed(leader)
        broken("lease_holder")
        with actor_on(server, tmp_path / "two", interval=STEP) as follower:
            look = await follower.look(tick=True)
    await said(look, "lease_holder")
    assert DisarmReason.LEASE_UNREAD in look.disarmed
    assert DisarmReason.NOT_LEADER not in look.disarmed


async def test_a_guarded_statement_that_fails_is_an_attempt_that_signalled_nobody(
    server: TestServer, connect: Connect, tmp_path: Path, broken: Break
) -> None:
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        await warmed(cycle)
        pid = orphan(connect(), server)
        broken("cancel")
        look = await look_until(cycle, lambda look: look.results)
    await said(look, "cancel")
    assert acts_of(look) == [(pid, Result.NOT_TRIED)]
    assert WHY in look.results[0].detail
    assert server.value("SELECT state FROM pg_stat_activity WHERE pid = %s", pid) == "active"


async def test_a_lease_that_could_not_be_released_is_said_until_it_does_not_matter_any_more(
    server: TestServer, tmp_path: Path, broken: Break
) -> None:
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        await warmed(cycle)
        broken("lease_release")
        assert isinstance(cycle.actor, Actor)
        await cycle.actor.leadership.give_up()
        assert failing(cycle.source.statement_failures) == {"lease_release": WHY}
        after = await cycle.look(tick=True)
    assert after.lease.leads, "it is wanted again, and was never lost"
    assert (failing(after.statement_failures), after.statement_failures["lease_release"].count) == ({}, 1)


async def test_a_reload_that_changes_how_a_cluster_is_read_keeps_its_counts(server: TestServer, broken: Break) -> None:
    with source_on(server) as before, source_on(server) as after:
        await before.census()
        broken("blocking")
        with pytest.raises(ReadError):
            await before.blocking([1])
        after.inherit_state(before)
    assert after.statement_failures["blocking"].count == 1
    assert failing(after.statement_failures) == {}
