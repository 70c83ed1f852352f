"""The tests that every `Source` and every `Ledger` must pass: the real ones and those in memory."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from support.acting import cancel_rule
from support.builders import BOOT, NOW, book, census, judge_settings, seconds, snapshot
from support.ledgers import act, effect
from watchdog.core.acting.acts import ActResult, CancelTarget, Outcome, Result, cancel_target
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.judging.judge import Memory, judge
from watchdog.core.observed.activity import ActivityKind, Backend
from watchdog.core.observed.census import UNKNOWN_SERVER, ServerIdentity
from watchdog.errors import LedgerError
from watchdog.runtime.ports import Ledger, Source


class ClusterStage(ABC):
    """A cluster whose sessions a test controls."""

    @abstractmethod
    def run(self, *, name: str = "") -> int:
        """Begin a statement of `web_app` that does not end by itself. Returns the pid of its session."""

    @abstractmethod
    def finish(self, pid: int) -> None:
        """End the statement. Its session stays."""

    @abstractmethod
    def leave(self, pid: int) -> None:
        """End the session."""

    @abstractmethod
    def block(self) -> tuple[int, int]:
        """Let one running session wait for a lock of another running session. Returns the pids of waiter and holder."""

    @abstractmethod
    @contextmanager
    def source(self) -> Iterator[Source]:
        """A source that reads the cluster and may cancel."""


async def row(source: Source, pid: int) -> Backend | None:
    seen, _ = await source.snapshot()
    return next((each for each in seen.backends if each.pid == pid), None)


async def target_on(source: Source, pid: int) -> CancelTarget:
    """The target of an act on the session."""
    seen = await row(source, pid)
    assert seen is not None
    limits = judge_settings(book(roles={"web_app": 0.000_001}, grace=0.0))
    judgement, _ = judge(snapshot(seen), settings=limits, census=census(), memory=Memory(), tick=True)
    [finding] = judgement.findings
    target = cancel_target(finding, rule=cancel_rule())
    assert target is not None
    return replace(target, least_age=timedelta(0))


class SourceContract:
    """The tests of a source. A subclass defines the fixture `stage`."""

    async def test_a_snapshot_shows_who_runs_what_since_when(self, stage: ClusterStage) -> None:
        pid = stage.run(name="scan:orders:w1")
        with stage.source() as source:
            facts = await source.census()
            found = await row(source, pid)
            seen, took = await source.snapshot()
        assert found is not None
        assert (found.role, found.application_name, found.state) == ("web_app", "scan:orders:w1", "active")
        assert found.activity is ActivityKind.RUNNING
        assert found.query is not None
        assert found.query.at <= seen.at
        assert found.query.age >= timedelta(0)
        assert (seen.sees_all, facts.sees_all, facts.may_cancel_of("web_app")) == (True, True, True)
        assert took > timedelta(0)

    async def test_a_session_that_is_idle_is_in_no_snapshot_and_one_that_has_left_is_nowhere(
        self, stage: ClusterStage
    ) -> None:
        pid, other = stage.run(), stage.run()
        with stage.source() as source:
            before = await row(source, pid)
            assert before is not None
            stage.finish(pid)
            stage.leave(other)
            asked = await source.backends(alive=[pid, other])
            assert await row(source, pid) is None
            assert await row(source, other) is None
        assert asked.alive == frozenset({(pid, before.started)})

    async def test_first_words_are_told_only_of_those_that_are_asked_for(self, stage: ClusterStage) -> None:
        pid, other = stage.run(), stage.run()
        with stage.source() as source:
            await source.snapshot()
            asked = await source.backends(commands=[pid], alive=[other])
        assert [(key[0], command.words) for key, command in asked.commands.items()] == [(pid, frozenset({"SELECT"}))]

    async def test_who_waits_for_whom_is_told(self, stage: ClusterStage) -> None:
        waiter, holder = stage.block()
        with stage.source() as source:
            await source.snapshot()
            blocking = await source.blocking([waiter])
        assert blocking is not None
        assert blocking.waits_for(waiter, holder)

    async def test_one_session_at_a_time_holds_the_lease(self, stage: ClusterStage) -> None:
        with stage.source() as one, stage.source() as two:
            for source in (one, two):
                await source.snapshot()
            first, again, other = await one.lease(), await one.lease(), await two.lease()
            assert [(each.leads, each.just_acquired) for each in (first, again)] == [(True, True), (True, False)]
            assert (other.leads, other.held_by_other, other.disarm_reason) == (False, True, DisarmReason.NOT_LEADER)
            assert other.holder is not None
            assert other.holder.pid is not None
            assert (await two.lease_holder()).leads is False
            await two.release_lease()
            assert (await one.lease()).leads, "nobody lets go of another's lease"
            await one.release_lease()
            assert (await two.lease()).just_acquired

    async def test_a_session_that_ends_loses_the_lease(self, stage: ClusterStage) -> None:
        with stage.source() as one, stage.source() as two:
            await one.lease()
            one.close()
            assert not one.is_open
            taken = await two.lease()
            while not taken.leads:  # because a server may take a moment to end a session
                taken = await two.lease()
            assert (await one.lease()).leads is False, "and the next call opens another session"

    async def test_a_signal_ends_the_statement_that_was_aimed_at(self, stage: ClusterStage) -> None:
        pid, other = stage.run(), stage.run()
        with stage.source() as source:
            await source.lease()
            target = await target_on(source, pid)
            assert await source.cancel(target, act="contract") == (Result.SIGNALLED, None, "")
            while await row(source, pid) is not None:
                pass
            assert await row(source, other) is not None
            result, _, _ = await source.cancel(target, act="contract")
        assert result is Result.MOVED_ON, "its session is idle now"

    async def test_what_is_no_longer_there_is_not_signalled(self, stage: ClusterStage) -> None:
        pid = stage.run()
        with stage.source() as source:
            await source.lease()
            target = await target_on(source, pid)
            earlier = replace(target, backend_start=target.backend_start - timedelta(seconds=1))
            assert (await source.cancel(earlier, act="contract"))[0] is Result.GONE
            assert target.statement is not None
            another = replace(target, statement=target.statement - timedelta(seconds=1))
            assert (await source.cancel(another, act="contract"))[0] is Result.MOVED_ON
            assert await row(source, pid) is not None

    async def test_only_the_holder_of_the_lease_or_a_person_signals(self, stage: ClusterStage) -> None:
        pid = stage.run()
        with stage.source() as one, stage.source() as two:
            await one.lease()
            target = await target_on(two, pid)
            assert (await two.cancel(target, act="contract"))[:2] == (Result.NOT_TRIED, Withheld.NOT_LEADER)
            assert await row(two, pid) is not None
            assert (await two.cancel(target, act="contract", manual=True))[0] is Result.SIGNALLED

    async def test_without_an_open_session_nothing_is_tried(self, stage: ClusterStage) -> None:
        pid = stage.run()
        with stage.source() as source:
            await source.lease()
            target = await target_on(source, pid)
            source.close()
            assert (await source.cancel(target, act="contract"))[0] is Result.NOT_TRIED
            assert not source.is_open

    async def test_sources_of_one_cluster_can_stand_in_for_each_other(self, stage: ClusterStage) -> None:
        with stage.source() as one, stage.source() as two:
            assert one.identity == two.identity


class LedgerContract:
    """The tests of a ledger. A subclass defines the fixture `ledger`, which is empty."""

    async def test_what_was_intended_is_recalled_with_what_came_of_it(self, ledger: Ledger) -> None:
        first, second = act("a1"), act("a2", at=NOW + seconds(1))
        await ledger.intend([first, second])
        answers = [ActResult(act=first, result=Result.SIGNALLED, took=seconds(0))]
        await ledger.record(answers, effects=[effect("a1", at=NOW + seconds(5))], came_back=[("a1", NOW + seconds(6))])
        told = await ledger.recall("main", since=NOW, at=NOW + seconds(9))
        assert [(each.id, each.result, each.outcome) for each in told] == [
            ("a1", Result.SIGNALLED, Outcome.ENDED),
            ("a2", None, None),
        ]
        assert (told[0].outcome_at, told[0].came_back_at) == (NOW + seconds(5), NOW + seconds(6))
        assert (told[0].rule, told[0].run, told[0].attempt) == ("orphans", first.finding.run, 1)

    async def test_what_was_left_open_is_closed_as_unknown(self, ledger: Ledger) -> None:
        one = act("a1")
        await ledger.intend([one])
        await ledger.recall("main", since=NOW, at=NOW + seconds(1))
        [again] = await ledger.recall("main", since=NOW, at=NOW + seconds(2))
        assert (again.outcome, again.outcome_at) == (Outcome.UNKNOWN, NOW + seconds(1))

    async def test_intents_are_taken_all_or_none(self, ledger: Ledger) -> None:
        await ledger.intend([act("a1")])
        with pytest.raises(LedgerError):
            await ledger.intend([act("a2"), act("a1")])
        assert [each.id for each in await ledger.recall("main", since=NOW, at=NOW)] == ["a1"]

    async def test_each_server_recalls_its_own_and_nothing_before_since(self, ledger: Ledger) -> None:
        await ledger.intend([act("a1", at=NOW - seconds(100)), act("a2"), act("b1", server="other")])
        assert [each.id for each in await ledger.recall("main", since=NOW, at=NOW)] == ["a2"]
        assert [each.id for each in await ledger.recall("other", since=NOW, at=NOW)] == ["b1"]

    async def test_a_name_stands_for_one_living_server(self, ledger: Ledger) -> None:
        """A restored copy shares the identifier, a server that refuses it has none; both have a start of their own."""
        server = ServerIdentity(7, BOOT)
        assert await ledger.claim("main", server, claimant="one")
        assert await ledger.claim("main", server, claimant="two"), "another pgwatchdog of the same server"
        for other in (ServerIdentity(7, NOW), ServerIdentity(8, BOOT), ServerIdentity(None, NOW)):
            assert not await ledger.claim("main", other, claimant="three")
            assert await ledger.claim("other", other, claimant="two"), "whoever claimed it sees another server now"
        assert await ledger.claim("main", server, claimant="one")

    async def test_acts_say_on_which_server_they_were(self, ledger: Ledger) -> None:
        await ledger.intend([replace(act("a1"), identity=ServerIdentity(2**62 + 1, BOOT)), act("a2")])
        told = await ledger.recall("main", since=NOW, at=NOW)
        assert [each.identity for each in told] == [ServerIdentity(2**62 + 1, BOOT), UNKNOWN_SERVER]

    async def test_what_is_said_of_an_act_that_is_not_there_adds_nothing(self, ledger: Ledger) -> None:
        await ledger.record((), effects=[effect("zz")], came_back=[("yy", NOW)])
        assert await ledger.recall("main", since=NOW, at=NOW) == []
