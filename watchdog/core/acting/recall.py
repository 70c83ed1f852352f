"""What a new actor takes from the ledger, so that a restart does not lead to more acts.

Open acts are followed further, attempts stay counted, the breaker stays open, and keys that rest go on resting. This
module does not read the ledger: it gets records.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from watchdog.core.acting.acts import Outcome, Result
from watchdog.core.acting.breakers import after_refusal, later_opened
from watchdog.core.acting.effects import COMES_BACK_WITHIN, RecentCancel
from watchdog.core.acting.lifecycle import ActState, OpenAct, may_have_cancelled, state_on_record
from watchdog.core.acting.limits import Limits
from watchdog.core.acting.memory import PolicyMemory, count_outcome
from watchdog.core.acting.verdicts import Hand
from watchdog.core.judging.cases import is_fetch_loop
from watchdog.core.judging.copies import CopyKey
from watchdog.core.observed.activity import Clock, Run
from watchdog.core.observed.census import UNKNOWN_SERVER, ServerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One act in the ledger.

    A `result` of None means that the process ended before it had the answer, so the signal may have been sent.
    """

    id: str
    rule: str
    hand: Hand
    run: Run
    statement: datetime | None
    transaction: datetime | None
    clock: Clock
    role: str
    key: CopyKey | None
    client_gone: bool
    attempt: int
    at: datetime
    result: Result | None
    outcome: Outcome | None
    outcome_at: datetime | None
    came_back_at: datetime | None
    identity: ServerIdentity = UNKNOWN_SERVER

    @property
    def is_on_fetch_loop(self) -> bool:
        """True for a run of several statements, such as a loop of FETCH."""
        return is_fetch_loop(self.clock, start=self.run.start, statement=self.statement)


def recall(
    memory: PolicyMemory,
    records: Iterable[Recorded],
    *,
    limits: Limits,
    at: datetime,
    ahead: timedelta = timedelta(0),
    identity: ServerIdentity = UNKNOWN_SERVER,
) -> PolicyMemory:
    """Add the acts of the ledger to the memory. `records` are oldest first.

    `at` is the steady time, and `ahead` by how much it is ahead of the server's clock, whose times the ledger has.

    `identity` is that of the server. Acts on another start of its postmaster have no run there any more, and those on
    another cluster say nothing of its breakers and keys. Where it is not known, they do.

    Ineffective acts are counted from the records alone. If a breaker was opened both in the memory and in the records,
    the later time counts.
    """
    before = memory.breakers
    memory = replace(memory, breakers={})
    known = [_moved(each, by=ahead) for each in records if not each.identity.is_other_cluster(identity)]
    for each in known:
        memory = memory if each.identity.is_other_server(identity) else _with_act(memory, each)
        memory = _with_key(memory, each, limits=limits, at=at)
        memory = replace(memory, last_act=max(memory.last_act or each.at, each.at))
    for each in sorted(known, key=lambda record: record.outcome_at or record.at):  # in the order of their outcomes
        memory = _with_failure(memory, each, limits=limits)
    # Records without the cause do not close a breaker.
    return replace(memory, breakers=later_opened(before, memory.breakers))


def _moved(each: Recorded, *, by: timedelta) -> Recorded:
    def moved(at: datetime | None) -> datetime | None:
        return None if at is None else at + by

    return replace(each, at=each.at + by, outcome_at=moved(each.outcome_at), came_back_at=moved(each.came_back_at))


def _with_act(memory: PolicyMemory, each: Recorded) -> PolicyMemory:
    """Add one act to the memory. A record of an act that was not done changes nothing."""
    left = state_on_record(each.result, each.outcome, hand=each.hand, fetch_loop=each.is_on_fetch_loop)
    if left is None:
        return memory
    if left.state is not None:
        return replace(memory, acts={**memory.acts, each.run: _open_act(each, state=left.state)})
    acts = {run: act for run, act in memory.acts.items() if run != each.run}
    shut = memory.shut
    if left.outcome is Outcome.TRANSACTION_GOES_ON and each.transaction is not None:
        shut |= {(each.run.pid, each.run.backend_start, each.transaction)}
    return replace(memory, acts=acts, shut=shut)


def _open_act(each: Recorded, *, state: ActState) -> OpenAct:
    return OpenAct(
        id=each.id,
        rule=each.rule,
        state=state,
        attempts=each.attempt,
        at=each.at,
        statement=each.statement,
        transaction=each.transaction,
        clock=each.clock,
        role=each.role,
        key=each.key,
        client_gone=each.client_gone,
    )


def _with_failure(memory: PolicyMemory, each: Recorded, *, limits: Limits) -> PolicyMemory:
    if each.result is Result.NOT_PERMITTED:
        return replace(memory, breakers=after_refusal(memory.breakers, role=each.role, limits=limits, at=each.at))
    if each.hand is not Hand.SIGNAL or each.outcome is None:
        return memory
    # What ended late was ineffective before, and was counted then.
    outcome = Outcome.INEFFECTIVE if each.outcome is Outcome.ENDED_LATE else each.outcome
    seen = each.outcome_at or each.at
    breakers = count_outcome(memory.breakers, outcome, rule=each.rule, role=each.role, limits=limits, at=seen)
    return replace(memory, breakers=breakers)


def _with_key(memory: PolicyMemory, each: Recorded, *, limits: Limits, at: datetime) -> PolicyMemory:
    if each.key is None or each.hand is not Hand.SIGNAL:
        return memory
    if each.came_back_at is not None:
        until = each.came_back_at + limits.rest
        return replace(memory, resting={**memory.resting, each.key: until}) if until > at else memory
    if may_have_cancelled(each.outcome, answered=each.result is not None) and at - each.at <= COMES_BACK_WITHIN:
        return replace(memory, cancelled={**memory.cancelled, each.key: RecentCancel(each.at, each.rule, each.id)})
    return memory
