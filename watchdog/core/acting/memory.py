"""What policy remembers from one look to the next: who was acted on and with what effect, and which keys rest.

`PolicyMemory` is handed in and handed back, never changed. Nothing in it outlives its cause by more than the times in
`Limits`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from watchdog.core.acting.acts import SUCCESSES, ActResult, ObservedEffect, Outcome
from watchdog.core.acting.effects import RecentCancel, Retry, Transaction, transaction_of
from watchdog.core.acting.lifecycle import ActState, OpenAct, open_act, state_after_answer
from watchdog.core.acting.limits import Buckets, Limits
from watchdog.core.acting.verdicts import Hand
from watchdog.core.judging.copies import CopyKey
from watchdog.core.judging.evidence import Kind
from watchdog.core.observed.activity import Run


@dataclass(frozen=True, slots=True, kw_only=True)
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
    cancelled: Mapping[CopyKey, RecentCancel] = field(default_factory=dict)
    resting: Mapping[CopyKey, datetime] = field(default_factory=dict)


def record_result(memory: PolicyMemory, result: ActResult, *, at: datetime) -> PolicyMemory:
    """Remember what has been carried out. A refusal opens the breaker: what we know about our rights is wrong."""
    act = result.act
    state = state_after_answer(result.result, fetch_loop=act.is_on_fetch_loop)
    if state is None:
        return memory
    memory = replace(memory, acts={**memory.acts, act.finding.run: open_act(act, state=state)}, last_act=at)
    return replace(memory, stopped_at=at) if state is ActState.REFUSED else memory


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
            cancelled[before.key] = RecentCancel(before.at, before.rule, before.id)
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
    cancelled: Mapping[CopyKey, RecentCancel],
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
