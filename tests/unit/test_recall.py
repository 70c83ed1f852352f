"""What a new actor takes from the ledger: it knows what a daemon that ran through would know, and acts no more."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.acting import ARMED, DRY, FREE, Play, Step, cancel_rule
from support.builders import BOOT, NOW, backend, book, judge_settings, rule, seconds

from watchdog.core.acting.acts import Act, ObservedEffect, Outcome, Result
from watchdog.core.acting.breakers import BreakerKey
from watchdog.core.acting.limits import Bucket, Limits
from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.protections import Protect
from watchdog.core.acting.recall import Recorded, recall
from watchdog.core.acting.status import ActingStatus
from watchdog.core.acting.verdicts import Hand, UnderWay, Withheld
from watchdog.core.observed.activity import Backend, Run
from watchdog.core.observed.census import UNKNOWN_SERVER, ServerIdentity
from watchdog.ledger.rows import recorded_of, row_of

EMPTY = dict.fromkeys(("result", "detail", "outcome", "outcome_at", "regret", "came_back_at"))
JOBS = book(rule(roles=frozenset({"etl_app"}), budgets={"*": 30}))
JUDGE_SETTINGS, KEYED, OFTEN = judge_settings(book()), judge_settings(JOBS), judge_settings(JOBS, interval=2)


MINE = BreakerKey("orphans", "web_app")


def opened(memory: PolicyMemory) -> dict[BreakerKey, datetime]:
    """The breakers that are open, and since when."""
    return {key: each.opened_at for key, each in memory.breakers.items() if each.opened_at is not None}


def aged(pid: int, age: float, *, at: float = 0, **more: object) -> Backend:
    """A row whose statement began `age` seconds before NOW, seen `at` seconds after it."""
    return backend(pid=pid, query=age + at, started=100_000 + at, now=NOW + seconds(at), **more)  # type: ignore[arg-type]  # names of columns


@dataclass
class Ledger:
    """The ledger's own rows without a database."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)  # as the database has them

    def intend(self, act: Act) -> None:
        self.rows[act.id] = row_of(act) | EMPTY

    def take(self, step: Step, *, at: float) -> None:
        """Put on record what one look brought."""
        for done in step.results:
            self.intend(done.act)
            self.rows[done.act.id]["result"] = str(done.result)
        self.see(step.effects)
        for retry in step.retries:
            self.rows[retry.act]["came_back_at"] = NOW + seconds(at)

    def see(self, effects: Iterable[ObservedEffect]) -> None:
        for effect in effects:
            seen = {"outcome": str(effect.outcome), "outcome_at": effect.at, "regret": effect.regret}
            self.rows[effect.id].update(seen)

    def recalled(self, *, at: float) -> list[Recorded]:
        """What a store tells a new actor; what was left open is closed as unknown."""
        rows = sorted(self.rows.values(), key=lambda row: (row["intended_at"], row["id"]))
        records = [recorded_of(dict(row)) for row in rows]
        for row in rows:
            if row["outcome"] is None and row["result"] in {None, "signalled", "timed_out"}:
                row.update(outcome="unknown", outcome_at=NOW + seconds(at))
        return records


@dataclass
class Daemon:
    """A play whose acts are on record, so that it can be restarted."""

    play: Play
    ledger: Ledger = field(default_factory=Ledger)

    def look(self, *rows: Backend, at: float = 0, alive: frozenset[tuple[int, datetime]] = frozenset()) -> Step:
        step = self.play.look(*rows, at=at, alive=alive)
        self.ledger.take(step, at=at)
        return step

    def restart(self, *, at: float) -> "Daemon":
        """The same daemon anew: it knows what is on record and nothing else."""
        memory = self.remembered(PolicyMemory(), at=at)
        actor = self.play.status.actor + 1
        fresh = Play(
            self.play.policy,
            replace(self.play.status, actor=actor),
            self.play.judge_settings,
            self.play.census,
            self.play.answers,
            policy_memory=memory,
            number=self.play.number,
        )
        return Daemon(fresh, self.ledger)

    def warmed(self, *, at: float) -> "Daemon":
        """Nothing is held back any more for being new: what is withheld now has another reason."""
        memory = self.play.policy_memory
        since = NOW + seconds(at) - timedelta(hours=1)
        full = {each.name: Bucket(float(self.play.policy.limits.per_minute), since) for each in self.play.policy.rules}
        actor = self.play.status.actor
        self.play.policy_memory = replace(memory, actor=actor, since=since, buckets=full)
        return self

    def remembered(self, memory: PolicyMemory, *, at: float) -> PolicyMemory:
        records = self.ledger.recalled(at=at)
        return recall(memory, records, limits=self.play.policy.limits, at=NOW + seconds(at))


def daemon(
    *, limits: Limits = FREE, keyed: bool = False, status: ActingStatus = ARMED, answer: Result | None = None
) -> Daemon:
    """A daemon that has been watching for long."""
    one = Play(Policy((cancel_rule(),), limits), status, KEYED if keyed else JUDGE_SETTINGS)
    if answer is not None:
        one.answers = lambda _: answer
    return Daemon(one.warm())


# What is remembered


def test_nothing_on_record_is_nothing_remembered() -> None:
    assert recall(PolicyMemory(), [], limits=FREE, at=NOW) == PolicyMemory()


def test_an_act_whose_effect_was_not_seen_is_followed_further() -> None:
    one = daemon()
    one.look(aged(1, 100))
    again = one.restart(at=2)
    [effect] = again.look(at=2).effects
    assert (effect.id, effect.outcome) == ("act1", Outcome.ENDED)
    assert again.ledger.rows["act1"]["outcome"] == "ended", "the true outcome takes the place of the unknown one"


@pytest.mark.parametrize("result", [None, Result.SIGNALLED, Result.TIMED_OUT])
def test_an_act_that_may_have_been_signalled_counts_as_a_try(result: Result | None) -> None:
    one = daemon()
    one.look(aged(1, 100))
    one.ledger.rows["act1"]["result"] = None if result is None else str(result)
    again = one.restart(at=1).warmed(at=1)
    step = again.look(aged(1, 100, at=1), at=1)
    assert (step.signalled, isinstance(step.verdict(1), UnderWay)) == ([], True), "its effect is awaited"
    step = again.look(aged(1, 100, at=5), at=5)
    assert [each.outcome for each in step.effects] == [Outcome.STILL_THERE]
    assert [each.act.attempt for each in step.results] == [2]


def test_tries_stay_spent() -> None:
    one = daemon()
    attempts = []
    for at in range(0, 60, 5):
        step = one.look(aged(1, 100, at=at), at=at)
        attempts += [each.act.attempt for each in step.results]
        one = one.restart(at=at + 1).warmed(at=at + 1)
    assert attempts == [1, 2, 3]
    assert one.look(aged(1, 100, at=61), at=61).withheld(1) is Withheld.INEFFECTIVE


def test_the_pause_after_a_try_goes_on_over_a_restart() -> None:
    one = daemon()
    one.look(aged(1, 100))
    one.look(aged(1, 100, at=5), at=5)
    assert [each.act.attempt for each in one.play.acts] == [1, 2]
    again = one.restart(at=6).warmed(at=6)
    assert again.look(aged(1, 100, at=14.9), at=14.9).signalled == []
    assert again.look(aged(1, 100, at=15), at=15).signalled == [1], "two intervals of 5 s after the second try"


def test_what_was_ineffective_stays_so() -> None:
    one = daemon()
    for at in range(0, 40, 5):
        one.look(aged(1, 100, at=at), at=at)
    assert one.ledger.rows["act3"]["outcome"] == "ineffective"
    again = one.restart(at=41).warmed(at=41)
    assert again.look(aged(1, 100, at=41), at=41).withheld(1) is Withheld.INEFFECTIVE
    assert again.look(aged(1, 100, at=4100), at=4100).withheld(1) is Withheld.INEFFECTIVE


HERE = ServerIdentity(7, BOOT)


@pytest.mark.parametrize(
    ("where", "follows", "counts"),
    [
        (HERE, True, True),
        (ServerIdentity(7, NOW), False, True),  # restarted, a standby that was promoted, or a restored copy
        (ServerIdentity(8, BOOT), False, False),
        (ServerIdentity(8, NOW), False, False),
        (ServerIdentity(None, BOOT), True, True),  # a service that refuses the identifier
        (ServerIdentity(None, NOW), False, True),
        (UNKNOWN_SERVER, True, True),  # the version that did not record it
    ],
)
def test_open_acts_belong_to_one_start_of_a_server_and_breakers_to_its_cluster(
    where: ServerIdentity, *, follows: bool, counts: bool
) -> None:
    one = daemon(answer=Result.NOT_PERMITTED)
    one.look(aged(1, 100))
    [row] = one.ledger.rows.values()
    records = [replace(recorded_of(row), identity=where)]
    memory = recall(PolicyMemory(), records, limits=FREE, at=NOW + seconds(2), identity=HERE)
    assert (bool(memory.acts), bool(memory.breakers)) == (follows, counts)


def test_what_was_refused_stays_refused_and_the_breaker_open_until_its_time_is_over() -> None:
    one = daemon(answer=Result.NOT_PERMITTED)
    one.look(aged(1, 100))
    again = one.restart(at=30).warmed(at=30)
    again.play.answers = lambda _: Result.SIGNALLED
    step = again.look(aged(1, 100, at=30), aged(2, 100, at=30), at=30)
    assert (step.withheld(1), step.withheld(2)) == (Withheld.REFUSED, Withheld.BREAKER)
    assert step.decisions.open_breakers == (BreakerKey(role="web_app"),)
    step = again.look(aged(1, 100, at=599), aged(2, 100, at=599), at=599)
    assert step.withheld(2) is Withheld.BREAKER
    step = again.look(aged(1, 100, at=600), aged(2, 100, at=600), at=600)
    assert (step.withheld(1), step.signalled) == (Withheld.REFUSED, [2])


def test_a_breaker_that_ineffective_acts_have_opened_stays_open_until_its_time_is_over() -> None:
    one = daemon(limits=replace(FREE, tries=1, stop_after_failures=3))
    rows = [1, 2, 3]
    one.look(*(aged(pid, 100) for pid in rows))
    one.look(*(aged(pid, 100, at=5) for pid in rows), at=5)
    assert [row["outcome"] for row in one.ledger.rows.values()] == ["ineffective"] * 3
    again = one.restart(at=300).warmed(at=300)
    assert again.look(aged(4, 100, at=300), at=300).withheld(4) is Withheld.BREAKER
    assert again.look(aged(4, 100, at=604.9), at=604.9).withheld(4) is Withheld.BREAKER, "it opened at 5"
    assert again.look(aged(4, 100, at=605), at=605).signalled == [4]


def test_failures_are_counted_on_over_a_restart_and_an_effect_in_between_closes_the_count() -> None:
    limits = replace(FREE, tries=1, stop_after_failures=3)
    for effective, expected in ((False, Withheld.BREAKER), (True, None)):
        one = daemon(limits=limits)
        for pid, stays in ((1, True), (2, not effective), (3, True)):
            one.look(aged(pid, 100, at=10 * pid), at=10 * pid)
            one.look(*([aged(pid, 100, at=10 * pid + 5)] if stays else []), at=10 * pid + 5)
            one = one.restart(at=10 * pid + 6).warmed(at=10 * pid + 6)
        assert one.look(aged(4, 100, at=40), at=40).withheld(4) is expected


def test_a_key_at_rest_stays_at_rest_until_its_time_is_over() -> None:
    one = daemon(keyed=True)
    one.look(aged(1, 100, role="etl_app", name="scan:a:w1"))
    one.look(at=1)
    assert one.look(aged(2, -2, at=4, role="etl_app", name="scan:a:w1"), at=4).retries
    again = one.restart(at=50).warmed(at=50)
    step = again.look(aged(2, -2, at=50, role="etl_app", name="scan:a:w1"), at=50)
    assert (step.withheld(2), step.retries) == (Withheld.RESTING, []), "and it is not told again"
    assert again.look(aged(2, -2, at=604, role="etl_app", name="scan:a:w1"), at=604).signalled == [2]


def test_work_that_comes_back_while_nobody_looks_is_a_retry_all_the_same() -> None:
    one = daemon(keyed=True)
    one.look(aged(1, 100, role="etl_app", name="scan:a:w1"))
    one.look(at=1)
    again = one.restart(at=3).warmed(at=3)
    step = again.look(aged(2, -2, at=5, role="etl_app", name="scan:a:w1"), at=5)
    assert [each.act for each in step.retries] == ["act1"]
    assert again.look(aged(2, -2, at=60, role="etl_app", name="scan:a:w1"), at=60).withheld(2) is Withheld.RESTING


def test_a_transaction_that_lost_its_statement_is_not_tried_again() -> None:
    one = daemon()
    one.look(backend(pid=1, query=100))
    goes_on = {"pid": 1, "state": "idle in transaction", "changed": 0.5}
    one.look(backend(started=100_001, query=101, xact=101, now=NOW + seconds(1), **goes_on), at=1)  # type: ignore[arg-type]  # names of columns
    assert one.ledger.rows["act1"]["outcome"] == "transaction_goes_on"
    again = one.restart(at=2).warmed(at=2)
    again.look(backend(started=100_003, query=103, xact=103, now=NOW + seconds(3), **goes_on), at=3)  # type: ignore[arg-type]  # names of columns
    later = backend(pid=1, started=100_101, query=100, xact=201, now=NOW + seconds(101))
    assert again.look(later, at=101).withheld(1) is Withheld.TRANSACTION_TRIED
    other = backend(pid=1, started=100_301, query=100, xact=100, now=NOW + seconds(301))
    assert again.look(other, at=301).signalled == [1]


def test_the_pause_after_the_last_act_counts() -> None:
    one = daemon(limits=replace(FREE, pause=seconds(60)))
    one.look(aged(1, 100))
    one.look(at=5)
    again = one.restart(at=10).warmed(at=10)
    assert again.look(aged(2, 100, at=59), at=59).withheld(2) is Withheld.PAUSE
    assert again.look(aged(2, 100, at=60), at=60).signalled == [2]


def test_acts_that_are_under_way_take_their_share() -> None:
    one = daemon(limits=replace(FREE, share=0.25))
    eight = [aged(pid, 200 - pid) for pid in range(1, 9)]
    assert one.look(*eight).signalled == [1, 2]
    again = one.restart(at=1).warmed(at=1)
    step = again.look(*(aged(pid, 200 - pid, at=1) for pid in range(1, 9)), at=1)
    assert (step.signalled, step.withheld(3)) == ([], Withheld.SHARE)


@pytest.mark.parametrize("result", [Result.GONE, Result.MOVED_ON, Result.PROTECTED, Result.NOT_TRIED])
def test_what_was_not_done_leaves_its_run_as_it_was(result: Result) -> None:
    one = daemon(answer=result)
    one.look(aged(1, 100))
    again = one.restart(at=1).warmed(at=1)
    again.play.answers = lambda _: Result.SIGNALLED
    assert again.look(aged(1, 100, at=1), at=1).signalled == [1]
    assert again.play.policy_memory.breakers == {}


@pytest.mark.parametrize("result", [Result.GONE, Result.MOVED_ON, Result.PROTECTED, Result.NOT_TRIED])
def test_a_second_try_that_was_not_done_does_not_make_the_first_forgotten(result: Result) -> None:
    one = daemon()
    one.look(aged(1, 100))
    one.play.answers = lambda _: result
    one.look(aged(1, 100, at=5), at=5)
    assert [row["attempt"] for row in one.ledger.rows.values()] == [1, 2]
    again = one.restart(at=6)
    for memory in (one.play.policy_memory, again.play.policy_memory):
        assert [each.attempts for each in memory.acts.values()] == [1]


def test_a_try_at_a_fetch_loop_that_had_just_moved_on_counts() -> None:
    policy = Policy((cancel_rule(),), FREE, replace(Protect(), talking=False))
    one = Daemon(Play(policy, judge_settings=KEYED, answers=lambda _: Result.MOVED_ON).warm())
    one.look(backend(pid=1, role="etl_app", name="scan:a:w", query=1, xact=100))
    for memory in (one.play.policy_memory, one.remembered(PolicyMemory(), at=1)):
        assert [each.attempts for each in memory.acts.values()] == [1]


def test_failures_count_in_the_order_in_which_they_were_seen() -> None:
    """An effect that came before them closes no count, although its act was begun between theirs."""
    one = daemon(limits=replace(FREE, tries=1, stop_after_failures=3))
    one.look(aged(1, 100))
    one.look(aged(1, 100, at=1), aged(2, 100, at=1), at=1)
    one.look(aged(1, 100, at=2), at=2)
    for at in (5, 10):
        one.look(*(aged(pid, 100, at=at) for pid in (1, 3, 4)), at=at)
    told = [(row["pid"], row["outcome"]) for row in one.ledger.rows.values()]
    assert told == [(1, "ineffective"), (2, "ended"), (3, "ineffective"), (4, "ineffective")]
    assert opened(one.play.policy_memory) == {MINE: NOW + seconds(10)}
    assert opened(one.remembered(PolicyMemory(), at=11)) == {MINE: NOW + seconds(10)}


def test_failures_are_not_counted_twice_by_a_memory_that_knows_them() -> None:
    one = daemon(limits=replace(FREE, tries=1, stop_after_failures=3))
    one.look(aged(1, 100))
    one.look(aged(1, 100, at=5), at=5)
    memory = one.play.policy_memory
    for _ in range(3):
        memory = one.remembered(memory, at=6)
    assert (memory.breakers[MINE].failures, opened(memory)) == (1, {})


def test_recalling_does_not_let_the_breaker_close_earlier() -> None:
    one = daemon(limits=replace(FREE, tries=1, stop_after_failures=3))
    for at, pid in ((0, 1), (10, 2), (20, 3)):
        one.look(aged(pid, 100, at=at), at=at)
        one.look(aged(pid, 100, at=at + 5), at=at + 5)
    one.ledger.rows.clear()
    assert opened(one.remembered(one.play.policy_memory, at=26)) == {MINE: NOW + seconds(25)}


def test_work_that_begins_long_after_a_cancel_is_no_retry_for_a_new_daemon_either() -> None:
    def worked() -> Daemon:
        one = daemon(keyed=True)
        one.look(aged(1, 100, role="etl_app", name="scan:a:w1"))
        one.look(at=1)
        one.look(at=60)
        return one

    row = aged(2, -3000, at=3600, role="etl_app", name="scan:a:w1")
    for one in (worked(), worked().restart(at=3590)):
        assert one.look(row, at=3600).retries == []


def test_a_rehearsed_run_is_not_rehearsed_again_and_ends_once() -> None:
    one = daemon(status=DRY)
    one.look(aged(1, 100))
    for at in (10, 20, 30):
        one = one.restart(at=at).warmed(at=at)
        step = one.look(aged(1, 100, at=at), at=at)
        assert (step.signalled, isinstance(step.verdict(1), UnderWay)) == ([], True)
    [effect] = one.look(at=40).effects
    assert (effect.outcome, effect.regret) == (Outcome.ENDED_BY_ITSELF, True)
    assert one.restart(at=50).look(at=50).effects == []


def test_another_run_of_the_same_session_is_another_run() -> None:
    one = daemon()
    for at in range(0, 40, 5):
        one.look(aged(1, 100, at=at), at=at)
    again = one.restart(at=100).warmed(at=100)
    step = again.look(aged(1, -50, at=100), at=100)
    assert (step.withheld(1), step.signalled) == (None, [1]), "only the statement has been stubborn, not the session"


def test_runs_that_are_over_are_forgotten_at_the_first_look() -> None:
    one = daemon(keyed=True)
    for pid in range(20):
        one.look(aged(pid, 100, at=pid, role="etl_app", name=f"scan:j{pid}:w"), at=pid)
    again = one.restart(at=1000)
    again.look(at=1000)
    memory = again.play.policy_memory
    assert (memory.acts, memory.shut, memory.cancelled, memory.resting) == ({}, frozenset(), {}, {})


def test_the_order_in_which_runs_were_acted_on_is_kept() -> None:
    one = daemon()
    one.look(aged(1, 100))
    one.look(aged(1, 100, at=5), aged(2, 100, at=5), at=5)
    memory = one.remembered(PolicyMemory(), at=6)
    assert {run.pid: open_act.attempts for run, open_act in memory.acts.items()} == {1: 2, 2: 1}
    assert memory.last_act == NOW + seconds(5)


# Recalling on top of what is known


def known(memory: PolicyMemory) -> Mapping[str, object]:
    """What decides over acts; what was said, and since when, does not."""
    return {
        "acts": memory.acts,
        "shut": memory.shut,
        "resting": dict(memory.resting),
        "breakers": dict(memory.breakers),
        "last_act": memory.last_act,
        "cancelled": memory.cancelled,
    }


def some_days_work() -> Daemon:
    """Acts of every kind: one stubborn, one that ended, one whose work came back, one that is open."""
    one = daemon(keyed=True)
    for at in range(0, 36, 5):
        rows = [aged(1, 100, at=at)]
        if at == 0:
            rows += [aged(2, 100), aged(3, 100, role="etl_app", name="scan:a:w1")]
        if at >= 10:
            rows.append(aged(4, -7, at=at, role="etl_app", name="scan:a:w1"))
        if at == 35:
            rows.append(aged(5, 100, at=at))
        one.look(*rows, at=at)
    return one


def test_recalling_what_is_known_changes_nothing_that_matters() -> None:
    one = some_days_work()
    before = one.play.policy_memory
    assert before.acts
    assert before.resting
    once = one.remembered(before, at=36)
    assert known(once) == known(before)
    assert known(one.remembered(once, at=36)) == known(once)


def test_a_restarted_daemon_knows_what_one_that_ran_through_knows() -> None:
    one = some_days_work()
    assert known(one.remembered(PolicyMemory(), at=36)) == known(one.play.policy_memory)


def test_a_memory_that_is_handed_in_is_not_changed() -> None:
    one = some_days_work()
    memory = PolicyMemory()
    one.remembered(memory, at=36)
    assert memory == PolicyMemory()


# A daemon that is restarted does not act more


@dataclass
class Workload:
    """Runs that begin at a second, and how they take a signal.

    `stubborn` do not end by one. `returns`: the work begins again this long after it was cancelled, `left` times.
    """

    name: str
    begins: Mapping[int, float]
    limits: Limits
    stubborn: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    keys: Mapping[int, str] = field(default_factory=dict)
    returns: float | None = None
    left: int = 0


@dataclass
class World:
    """A workload while it is played: what runs, and how often each run was signalled."""

    load: Workload
    running: dict[int, float] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    returning: list[tuple[float, str | None]] = field(default_factory=list)
    returned: int = 0
    fresh: Iterator[int] = field(default_factory=lambda: count(1000))
    sent: dict[Run, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.running = {pid: LATE + begun for pid, begun in self.load.begins.items()}
        self.keys = dict(self.load.keys)

    def answer(self, act: Act) -> Result:
        refused = act.finding.backend.pid in self.load.refused
        return Result.NOT_PERMITTED if refused else Result.SIGNALLED

    def rows(self, at: int) -> list[Backend]:
        for begun, key in [each for each in self.returning if each[0] <= at]:
            self.returning.remove((begun, key))
            pid = next(self.fresh)
            self.running[pid] = begun
            if key is not None:
                self.keys[pid] = key
        return [_row(pid, begun, at=at, key=self.keys.get(pid)) for pid, begun in self.running.items() if begun < at]

    def take(self, step: Step, *, at: int) -> None:
        """Let the signals of one look have their effects."""
        for done in step.results:
            run, pid = done.act.finding.run, done.act.finding.backend.pid
            self.sent[run] = self.sent.get(run, 0) + 1
            if done.result is Result.SIGNALLED and pid not in self.load.stubborn:
                del self.running[pid]
                if self.load.returns is not None and self.returned < self.load.left:
                    self.returned += 1
                    self.returning.append((at + self.load.returns, self.keys.get(pid)))


def played(load: Workload, *, restarts: frozenset[int], kills: bool = False) -> tuple[int, dict[Run, int]]:
    """Signals in all, and by run, over a look each two seconds, which is the interval.

    `kills`: of the last look before a restart the intents are on record and nothing else; the signals were sent.
    """
    world = World(load)
    one = Daemon(Play(Policy((cancel_rule(),), load.limits), judge_settings=OFTEN, answers=world.answer))
    for at in range(0, UNTIL, 2):
        if at in restarts:
            one = one.restart(at=at)
        step = one.play.look(*world.rows(at), at=at)
        if kills and at + 2 in restarts:
            for done in step.results:
                one.ledger.intend(done.act)
        else:
            one.ledger.take(step, at=at)
        world.take(step, at=at)
    return sum(world.sent.values()), world.sent


def _row(pid: int, begun: float, *, at: float, key: str | None) -> Backend:
    role, name = ("etl_app", f"scan:{key}:w") if key is not None else ("web_app", "")
    return aged(pid, -begun, at=at, role=role, name=name)


LATE = -40.0
"""The seconds at which runs begin count from here: at 0 there are orphans already."""

ONE_AT_A_TIME = replace(FREE, per_minute=60, share=0.01)

LOADS = [
    Workload("a flood", {pid: 3.0 * pid for pid in range(1, 80)}, Limits(per_minute=12, share=1.0)),
    Workload("a flood at once", dict.fromkeys(range(1, 40), 0.0), Limits(per_minute=20)),
    Workload(
        "stubborn runs",
        {pid: 20.0 * pid for pid in range(1, 12)},
        replace(FREE, stop_after_failures=1000),
        stubborn=frozenset(range(1, 12)),
    ),
    Workload(
        "stubborn runs until it stops",
        {pid: 30.0 * pid for pid in range(8)},
        replace(ONE_AT_A_TIME, stop_for=timedelta(hours=1)),
        stubborn=frozenset(range(8)),
    ),
    Workload(
        "one try each until it stops",
        {pid: 10.0 * pid for pid in range(1, 24)},
        replace(ONE_AT_A_TIME, tries=1, stop_for=timedelta(hours=1)),
        stubborn=frozenset(range(1, 24)),
    ),
    Workload(
        "a refusal",
        {pid: 10.0 * pid for pid in range(1, 24)},
        replace(ONE_AT_A_TIME, stop_for=timedelta(minutes=2)),
        refused=frozenset(range(1, 24)),
    ),
    Workload(
        "work that comes back",
        {1: 0.0, 2: 5.0, 3: 9.0},
        replace(FREE, rest=timedelta(minutes=3)),
        keys={1: "a", 2: "b", 3: "c"},
        returns=5.0,
        left=40,
    ),
    Workload("a long pause", {pid: 2.0 * pid for pid in range(1, 40)}, replace(FREE, pause=timedelta(seconds=25))),
]

UNTIL = 240
THIRTY = frozenset(range(6, UNTIL, 8))


@cache
def through(name: str) -> int:
    """The acts of a daemon that ran through."""
    [load] = [each for each in LOADS if each.name == name]
    acts, runs = played(load, restarts=frozenset())
    assert max(runs.values(), default=0) <= load.limits.tries
    return acts


@pytest.mark.parametrize("kills", [False, True])
@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_a_daemon_that_is_restarted_thirty_times_does_not_act_more_than_one_that_ran_through(
    load: Workload, *, kills: bool
) -> None:
    assert len(THIRTY) >= 30
    restarted, runs = played(load, restarts=THIRTY, kills=kills)
    assert 0 < restarted <= through(load.name)
    assert max(runs.values()) <= load.limits.tries


@settings(max_examples=12, deadline=None)
@given(
    load=st.sampled_from(LOADS),
    restarts=st.frozensets(st.integers(3, UNTIL // 2).map(lambda n: 2 * n), max_size=30),
    kills=st.booleans(),
)
def test_whenever_it_is_restarted_no_run_is_tried_more_often_and_no_more_is_done(
    *, load: Workload, restarts: frozenset[int], kills: bool
) -> None:
    restarted, runs = played(load, restarts=restarts, kills=kills)
    # A refusal whose answer was lost with the process is not known to have been one, so its run is tried once more.
    unknown_refusals = len(restarts) if kills and load.refused else 0
    assert restarted <= through(load.name) + unknown_refusals
    assert max(runs.values(), default=0) <= load.limits.tries


@settings(max_examples=5, deadline=None)
@given(restarts=st.frozensets(st.integers(5, 149), max_size=30), per_minute=st.integers(1, 12))
def test_in_no_minute_there_is_more_than_the_bucket_and_what_flows_into_it(
    *, restarts: frozenset[int], per_minute: int
) -> None:
    one = Daemon(Play(Policy((cancel_rule(),), Limits(per_minute=per_minute, share=1.0)), judge_settings=OFTEN))
    ended: set[int] = set()
    moments: list[int] = []
    for at in range(150):
        if at in restarts:
            one = one.restart(at=at)
        rows = [_row(pid, LATE, at=at, key=None) for pid in range(25) if pid not in ended]
        step = one.look(*rows, at=at)
        ended.update(step.signalled)
        moments += [at] * len(step.signalled)
    assert max(sum(begin <= moment < begin + 60 for moment in moments) for begin in range(150)) <= 2 * per_minute


def test_rehearsals_are_not_repeated_by_restarts_either() -> None:
    ran_through, restarted = daemon(status=DRY), daemon(status=DRY)
    for at in range(120):
        rows = [aged(pid, 100 - 5 * pid, at=at) for pid in range(1, 20)]
        ran_through.look(*rows, at=at)
        if at % 15 == 0:
            restarted = restarted.restart(at=at)
        restarted.look(*rows, at=at)
    assert len(restarted.ledger.rows) <= len(ran_through.ledger.rows)
    assert len({row["pid"] for row in restarted.ledger.rows.values()}) == len(restarted.ledger.rows)
    assert {row["hand"] for row in restarted.ledger.rows.values()} == {str(Hand.REHEARSE)}
