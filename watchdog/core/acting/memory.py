"""What policy remembers from one look to the next: the acts and their effects, and the keys that rest.

`PolicyMemory` is immutable: each function takes one and returns a new one. An entry is dropped when its run or session
is over, or after a time that is set by `Limits` or `COMES_BACK_WITHIN`. This module decides nothing about a finding.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from watchdog.core.acting.acts import SUCCESSES, ActResult, ObservedEffect, Outcome
from watchdog.core.acting.breakers import Breakers, after_failure, after_refusal, after_success, pruned
from watchdog.core.acting.effects import RecentCancel, Retry, Transaction, transaction_of
from watchdog.core.acting.lifecycle import (
    SIGNALLED_NOBODY,
    ActState,
    OpenAct,
    awaits_effect,
    may_have_cancelled,
    open_act,
    state_after_answer,
)
from watchdog.core.acting.limits import Buckets, Limits
from watchdog.core.acting.misses import ROW_HAS_CHANGED, Misses, Session, missed
from watchdog.core.acting.verdicts import Hand, Withheld
from watchdog.core.judging.copies import CopyKey
from watchdog.core.judging.evidence import Kind
from watchdog.core.observed.activity import Run
from watchdog.core.observed.census import UNKNOWN_SERVER, ServerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyMemory:
    """What policy remembers from one look for the next one. Its times are steady times (see `observed.steady`).

    Its size is bounded by the rows of the last look and by the times in `Limits`.

    - `actor` is the number of the actor (see `ActingStatus`), `since` the time of its first look.
    - `said` are the verdicts that have been reported: run, rule name, and the reason for withholding.
    - `found` is the time since which each run is a finding of a kind.
    - `identity` is that of the server of the last look. After a restart or a failover no run is there any more.
    - `acts` are the acts on runs that may still be there.
    - `shut` are the transactions in which no further attempt is made.
    - `breakers` are those that are open, and the failures that may open one.
    - `watched` are the runs that were there when the server's clock was stepped, and since when we have watched them.
    - `misses` are the attempts on each session that signalled nobody.
    - `cancelled` are the recent cancels by key.
    - `resting` are the keys that rest, and until when.
    """

    actor: int | None = None
    since: datetime | None = None
    identity: ServerIdentity = UNKNOWN_SERVER
    said: frozenset[tuple[Run, str, str]] = frozenset()
    found: Mapping[tuple[Run, Kind], datetime] = field(default_factory=dict)
    acts: Mapping[Run, OpenAct] = field(default_factory=dict)
    shut: frozenset[Transaction] = frozenset()
    buckets: Buckets = field(default_factory=dict)
    last_act: datetime | None = None
    breakers: Breakers = field(default_factory=dict)
    watched: Mapping[Run, datetime] = field(default_factory=dict)
    misses: Mapping[Session, Misses] = field(default_factory=dict)
    cancelled: Mapping[CopyKey, RecentCancel] = field(default_factory=dict)
    resting: Mapping[CopyKey, datetime] = field(default_factory=dict)


def record_result(
    memory: PolicyMemory, result: ActResult, *, limits: Limits, interval: timedelta, at: datetime
) -> PolicyMemory:
    """Remember an act that was carried out.

    An act that signalled nobody costs no token. If that was because the row had changed, its session is left alone for
    a while, so that one that changes all the time does not keep others from being acted on.
    """
    act, backend = result.act, result.act.finding.backend
    if result.result in SIGNALLED_NOBODY:
        memory = _refunded(memory, act.rule.name, limits=limits)
    changed = result.result in ROW_HAS_CHANGED and not act.is_on_fetch_loop
    if changed or result.withheld is Withheld.RENAMED:  # the next census may show the same name, if it cannot be read
        memory = replace(memory, misses=missed(memory.misses, backend, interval=interval, at=at))
    state = state_after_answer(result.result, fetch_loop=act.is_on_fetch_loop)
    if state is None:
        return memory
    memory = replace(memory, acts={**memory.acts, act.finding.run: open_act(act, state=state, at=at)}, last_act=at)
    if state is not ActState.REFUSED:
        return memory
    return replace(memory, breakers=after_refusal(memory.breakers, role=backend.role, limits=limits, at=at))


def on_server(
    memory: PolicyMemory, identity: ServerIdentity, *, at: datetime
) -> tuple[PolicyMemory, list[ObservedEffect]]:
    """The memory for the server that was read, and the outcome `unknown` of acts whose effect can not be seen any more.

    After a restart, or a failover behind one address, a row that is gone shows nothing: its session may go on
    elsewhere.
    """
    before, memory = memory.identity, replace(memory, identity=identity)
    if not identity.is_other_server(before):
        return memory, []
    effects = [
        ObservedEffect(id=act.id, run=run, rule=act.rule, hand=act.hand, outcome=Outcome.UNKNOWN, at=at, regret=False)
        for run, act in memory.acts.items()
        if awaits_effect(act) or act.state in (ActState.PENDING, ActState.REHEARSED)
    ]
    return replace(memory, acts={}, shut=frozenset(), misses={}, watched={}, cancelled={}), effects


def record_effects(
    memory: PolicyMemory,
    *,
    effects: Iterable[ObservedEffect],
    acts: Mapping[Run, OpenAct],
    limits: Limits,
    at: datetime,
) -> PolicyMemory:
    """Remember the outcomes of earlier acts. `acts` are those that are followed further."""
    breakers = memory.breakers
    cancelled, shut = dict(memory.cancelled), set(memory.shut)
    for effect in effects:
        if effect.hand is not Hand.SIGNAL:
            continue
        before = memory.acts[effect.run]
        transaction = transaction_of(effect.run, before)
        if effect.outcome is Outcome.TRANSACTION_GOES_ON and transaction is not None:
            shut.add(transaction)
        answered = before.state is not ActState.UNANSWERED
        if may_have_cancelled(effect.outcome, answered=answered) and before.key is not None:
            cancelled[before.key] = RecentCancel(before.at, before.rule, before.id)
        breakers = count_outcome(breakers, effect.outcome, rule=before.rule, role=before.role, limits=limits, at=at)
    return replace(memory, breakers=breakers, acts=acts, cancelled=cancelled, shut=frozenset(shut))


def count_outcome(
    breakers: Breakers, outcome: Outcome, *, rule: str, role: str, limits: Limits, at: datetime
) -> Breakers:
    """The breakers after an outcome that was seen at `at`: an ineffective act is a failure, a success ends a row."""
    if outcome in SUCCESSES:
        return after_success(breakers, rule=rule, role=role)
    if outcome is Outcome.INEFFECTIVE:
        return after_failure(breakers, rule=rule, role=role, limits=limits, at=at)
    return breakers


def back_off(
    memory: PolicyMemory,
    *,
    retries: Iterable[Retry],
    cancelled: Mapping[CopyKey, RecentCancel],
    limits: Limits,
    at: datetime,
) -> PolicyMemory:
    """Let the keys of retried runs rest, because to cancel each retry would only cause the next one."""
    resting = {retry.key: at + limits.rest for retry in retries}
    return replace(memory, cancelled=cancelled, resting={**memory.resting, **resting})


def prune(memory: PolicyMemory, *, present: frozenset[Run], limits: Limits, at: datetime) -> PolicyMemory:
    """Drop what was remembered about runs that are over, and the keys whose rest is over.

    `said` is kept for runs in `present`, so that the same verdict is not reported twice.
    """
    sessions = {(run.pid, run.backend_start) for run in present}
    return replace(
        memory,
        said=frozenset(word for word in memory.said if word[0] in present),
        shut=frozenset(each for each in memory.shut if each[:2] in sessions),
        watched={run: since for run, since in memory.watched.items() if run in present},
        misses={session: each for session, each in memory.misses.items() if session in sessions},
        breakers=pruned(memory.breakers, limits=limits, at=at),
        resting={key: until for key, until in memory.resting.items() if until > at},
    )


def _refunded(memory: PolicyMemory, rule: str, *, limits: Limits) -> PolicyMemory:
    bucket = memory.buckets.get(rule)
    if bucket is None:
        return memory
    return replace(memory, buckets={**memory.buckets, rule: bucket.refunded(per_minute=limits.per_minute)})
