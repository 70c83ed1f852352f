"""What policy remembers from one look to the next: who was acted on and with what effect, and what is to rest.

`PolicyMemory` is handed in and handed back, never changed. Nothing in it outlives its cause by more than the times in
`Limits`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from watchdog.core.acting.acts import ActResult, ObservedEffect, OpenAct, Outcome, Result, open_act
from watchdog.core.acting.effects import SUCCESSES, Retry, Transaction, transaction_of
from watchdog.core.acting.limits import Buckets, Limits
from watchdog.core.acting.verdicts import Hand, Withheld
from watchdog.core.judging.copies import CopyKey
from watchdog.core.judging.evidence import Kind
from watchdog.core.observed.activity import Run


@dataclass(frozen=True, slots=True)
class PolicyMemory:
    """What one look leaves to the next. Bounded by what is there now, and by the times in `Limits`.

    `said`: the words about runs that have been news. `found`: since when each run is a finding of its kind. `acts` are
    the runs that were acted on and may be there; `shut` the transactions that are never tried again. `cancelled` are
    recent cancels by key, `resting` the keys at rest and until when.
    """

    actor: int | None = None
    since: datetime | None = None
    said: frozenset[tuple[Run, str, str]] = frozenset()
    found: Mapping[tuple[Run, Kind], datetime] = field(default_factory=dict)
    acts: Mapping[Run, OpenAct] = field(default_factory=dict)
    shut: frozenset[Transaction] = frozenset()
    buckets: Buckets = field(default_factory=dict)
    last_act: datetime | None = None
    failures: int = 0
    stopped_at: datetime | None = None
    cancelled: Mapping[CopyKey, tuple[datetime, str, str]] = field(default_factory=dict)
    resting: Mapping[CopyKey, datetime] = field(default_factory=dict)


def record_result(memory: PolicyMemory, done: ActResult, *, at: datetime) -> PolicyMemory:
    """Remember what has been carried out. A refusal stops everything: our idea of our rights is wrong."""
    act = done.act
    run = act.finding.run
    match done.result:
        case Result.SIGNALLED | Result.REHEARSED | Result.TIMED_OUT:
            hand = Hand.REHEARSE if done.result is Result.REHEARSED else Hand.SIGNAL
            return replace(memory, acts={**memory.acts, run: open_act(act, hand=hand)}, last_act=at)
        case Result.NOT_PERMITTED:
            refused = replace(open_act(act, hand=Hand.SIGNAL), final=Withheld.REFUSED)
            return replace(memory, acts={**memory.acts, run: refused}, last_act=at, stopped_at=at)
        case Result.MOVED_ON if act.verdict.finding.talking:
            # A FETCH loop between two statements: it counts as an attempt and is tried again.
            missed = replace(open_act(act, hand=Hand.SIGNAL), again=True)
            return replace(memory, acts={**memory.acts, run: missed}, last_act=at)
        case Result.GONE | Result.MOVED_ON | Result.PROTECTED | Result.NOT_TRIED:
            return memory


def record_effects(
    memory: PolicyMemory,
    *,
    effects: Iterable[ObservedEffect],
    acts: Mapping[Run, OpenAct],
    limits: Limits,
    at: datetime,
) -> PolicyMemory:
    """Remember what came of earlier acts; `acts` are those that go on being followed."""
    counted = memory
    cancelled, shut = dict(memory.cancelled), set(memory.shut)
    for effect in effects:
        if effect.hand is not Hand.SIGNAL:
            continue
        before = memory.acts[effect.run]
        transaction = transaction_of(effect.run, before)
        if effect.outcome is Outcome.TRANSACTION_GOES_ON and transaction is not None:
            shut.add(transaction)
        if effect.outcome in SUCCESSES and before.key is not None:
            cancelled[before.key] = (before.at, before.rule, before.id)
        counted = count_failure(counted, effect.outcome, limits=limits, at=at)
    return replace(counted, acts=acts, cancelled=cancelled, shut=frozenset(shut))


def count_failure(memory: PolicyMemory, outcome: Outcome, *, limits: Limits, at: datetime) -> PolicyMemory:
    """Count an act without effect, seen at `at`: enough of them in a row open the breaker, a success begins anew."""
    if outcome in SUCCESSES:
        return replace(memory, failures=0)
    if outcome is not Outcome.INEFFECTIVE:
        return memory
    failures = memory.failures + 1
    if failures < limits.stop_after_failures:
        return replace(memory, failures=failures)
    return replace(memory, failures=0, stopped_at=at)


def back_off(
    memory: PolicyMemory,
    *,
    retries: Iterable[Retry],
    cancelled: Mapping[CopyKey, tuple[datetime, str, str]],
    limits: Limits,
    at: datetime,
) -> PolicyMemory:
    """Let the keys rest whose work came back at once: to cancel it again and again would only feed the loop."""
    resting = {retry.key: at + limits.rest for retry in retries}
    return replace(memory, cancelled=cancelled, resting={**memory.resting, **resting})


def prune(memory: PolicyMemory, *, present: frozenset[Run], at: datetime) -> PolicyMemory:
    """Drop what was kept about runs that are over; what was said about the others is not news again."""
    sessions = {(run.pid, run.backend_start) for run in present}
    return replace(
        memory,
        said=frozenset(word for word in memory.said if word[0] in present),
        shut=frozenset(each for each in memory.shut if each[:2] in sessions),
        resting={key: until for key, until in memory.resting.items() if until > at},
    )
