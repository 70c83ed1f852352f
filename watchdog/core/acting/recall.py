"""What a new actor takes from the ledger, so that starting anew never means acting more.

Open acts are followed further, tries stay spent, the breaker stays open and keys stay at rest.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from watchdog.core.acting.acts import OpenAct, Outcome, Result
from watchdog.core.acting.effects import COMES_BACK_WITHIN, SUCCESSES, transaction_of
from watchdog.core.acting.limits import Limits
from watchdog.core.acting.memory import PolicyMemory, count_failure
from watchdog.core.acting.verdicts import Hand, Withheld
from watchdog.core.judging.copies import CopyKey
from watchdog.core.observed.activity import Clock, Run

_NOT_DONE = frozenset({Result.GONE, Result.MOVED_ON, Result.PROTECTED, Result.NOT_TRIED})


@dataclass(frozen=True, slots=True)
class Recorded:
    """One act of the ledger. A `result` of None: the daemon ended before it knew, so the signal may have been sent."""

    id: str
    rule: str
    hand: Hand
    run: Run
    statement: datetime | None
    transaction: datetime | None
    clock: Clock
    key: CopyKey | None
    client_gone: bool
    attempt: int
    at: datetime
    result: Result | None
    outcome: Outcome | None
    outcome_at: datetime | None
    came_back_at: datetime | None


def recall(memory: PolicyMemory, records: Iterable[Recorded], *, limits: Limits, at: datetime) -> PolicyMemory:
    """The memory with what the ledger knows in it; `records` oldest first. Failures are counted from them alone."""
    stopped_at = memory.stopped_at
    memory = replace(memory, failures=0, stopped_at=None)
    known = list(records)
    for each in known:
        memory = _with_act(memory, each)
        memory = _with_key(memory, each, limits=limits, at=at)
        memory = replace(memory, last_act=max(memory.last_act or each.at, each.at))
    for each in sorted(known, key=lambda record: record.outcome_at or record.at):  # failures count as they were seen
        memory = _with_failure(memory, each, limits=limits)
    stops = [each for each in (stopped_at, memory.stopped_at) if each is not None]
    return replace(memory, stopped_at=max(stops, default=None))  # a ledger that knows less opens no door


def _with_act(memory: PolicyMemory, each: Recorded) -> PolicyMemory:
    if each.result is Result.MOVED_ON and _is_loop(each):
        return replace(memory, acts={**memory.acts, each.run: replace(_tried(each), again=True)})
    if each.result in _NOT_DONE:
        return memory  # nothing was done, and what was done before stays true
    if each.outcome in SUCCESSES:
        acts = {run: act for run, act in memory.acts.items() if run != each.run}
        shut = memory.shut
        transaction = transaction_of(each.run, _tried(each))
        if each.outcome is Outcome.TRANSACTION_GOES_ON and transaction is not None:
            shut |= {transaction}
        return replace(memory, acts=acts, shut=shut)
    return replace(memory, acts={**memory.acts, each.run: _tried(each)})


def _is_loop(each: Recorded) -> bool:
    """A FETCH loop that was met between two statements counts as a try."""
    return each.clock is Clock.RUN and each.statement is not None and each.statement > each.run.start


def _tried(each: Recorded) -> OpenAct:
    final = None
    if each.result is Result.NOT_PERMITTED:
        final = Withheld.REFUSED
    elif each.outcome is Outcome.INEFFECTIVE:
        final = Withheld.INEFFECTIVE
    return OpenAct(
        id=each.id,
        rule=each.rule,
        hand=each.hand,
        attempts=each.attempt,
        at=each.at,
        statement=each.statement,
        transaction=each.transaction,
        clock=each.clock,
        key=each.key,
        client_gone=each.client_gone,
        again=each.outcome is Outcome.STILL_THERE,
        final=final,
    )


def _with_failure(memory: PolicyMemory, each: Recorded, *, limits: Limits) -> PolicyMemory:
    if each.result is Result.NOT_PERMITTED:
        return replace(memory, stopped_at=each.at)
    if each.hand is not Hand.SIGNAL or each.outcome is None:
        return memory
    return count_failure(memory, each.outcome, limits=limits, at=each.outcome_at or each.at)


def _with_key(memory: PolicyMemory, each: Recorded, *, limits: Limits, at: datetime) -> PolicyMemory:
    if each.key is None or each.hand is not Hand.SIGNAL:
        return memory
    if each.came_back_at is not None:
        until = each.came_back_at + limits.rest
        return replace(memory, resting={**memory.resting, each.key: until}) if until > at else memory
    if each.outcome in SUCCESSES and at - each.at <= COMES_BACK_WITHIN:
        return replace(memory, cancelled={**memory.cancelled, each.key: (each.at, each.rule, each.id)})
    return memory
