"""What came of earlier acts: each is held against the rows of a new snapshot.

A run that is still there is given a pause before that is said, growing with each attempt: a signal takes a moment.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from watchdog.core.acting.acts import ObservedEffect, OpenAct, Outcome
from watchdog.core.acting.verdicts import Hand, Withheld
from watchdog.core.judging.cases import Case
from watchdog.core.judging.copies import CopyKey, copy_key
from watchdog.core.observed.activity import RUNNING_STATES, Backend, Clock, Run, Snapshot

COMES_BACK_WITHIN = timedelta(seconds=30)
"""A run that begins under the same key this soon after its cancel is a retry of it."""

Transaction = tuple[int, datetime, datetime]
"""Pid, backend start and transaction start."""

SUCCESSES = frozenset(
    {Outcome.ENDED, Outcome.BETWEEN_STATEMENTS, Outcome.MOVED_ON, Outcome.TRANSACTION_GOES_ON, Outcome.ENDED_BY_ITSELF}
)


@dataclass(frozen=True, slots=True)
class Retry:
    """A run that came back under the key of one that was cancelled by `rule`."""

    key: CopyKey
    rule: str
    act: str


def vanished(acts: Mapping[Run, OpenAct], *, snapshot: Snapshot) -> list[int]:
    """The pids of acts whose rows are not in the snapshot: only a look-up tells an idle session from a gone one."""
    there = {(backend.pid, backend.started) for backend in snapshot.backends}
    return [run.pid for run in acts if (run.pid, run.backend_start) not in there]


def follow(
    acts: Mapping[Run, OpenAct],
    *,
    snapshot: Snapshot,
    alive: frozenset[tuple[int, datetime]],
    interval: timedelta,
    tries: int,
) -> tuple[list[ObservedEffect], dict[Run, OpenAct]]:
    """The effects that this snapshot shows, and the acts that are to be remembered further.

    `alive` are sessions (pid and start) that are not in the snapshot and still there, idle.
    """
    rows = {(backend.pid, backend.started): backend for backend in snapshot.backends}
    effects = []
    kept: dict[Run, OpenAct] = {}
    for run, each in acts.items():
        session = (run.pid, run.backend_start)
        outcome = _outcome(each, rows.get(session), alive=session in alive)
        effect, stays = _followed(run, each, outcome, at=snapshot.at, interval=interval, tries=tries)
        if effect is not None:
            effects.append(effect)
        if stays is not None:
            kept[run] = stays
    return effects, kept


def came_back(
    cancelled: Mapping[CopyKey, tuple[datetime, str, str]], *, cases: Iterable[Case], at: datetime
) -> tuple[list[Retry], dict[CopyKey, tuple[datetime, str, str]]]:
    """The keys under which work has begun again soon after its cancel, and the cancels to be watched further."""
    begun: dict[CopyKey, list[datetime]] = defaultdict(list)
    for case in cases:
        key = copy_key(case)
        if key is not None:
            begun[key].append(case.run.start)
    retries = [
        Retry(key, rule, act)
        for key, (when, rule, act) in cancelled.items()
        if any(when < start <= when + COMES_BACK_WITHIN for start in begun.get(key, ()))
    ]
    done = {retry.key for retry in retries}
    kept = {key: value for key, value in cancelled.items() if key not in done and at - value[0] <= COMES_BACK_WITHIN}
    return retries, kept


def pause_of(attempts: int, *, interval: timedelta) -> timedelta:
    """How long to wait after the last of `attempts` before its effect is said to be none: 1, 2, 4 intervals."""
    return interval * float(2 ** (attempts - 1))


def transaction_of(run: Run, each: OpenAct) -> Transaction | None:
    """The transaction that an act was about, where there was one."""
    return None if each.transaction is None else (run.pid, run.backend_start, each.transaction)


def _outcome(each: OpenAct, backend: Backend | None, *, alive: bool) -> Outcome:
    if backend is None:
        return Outcome.BETWEEN_STATEMENTS if alive else Outcome.ENDED
    statement = backend.start(Clock.STATEMENT)
    at = None if statement is None else statement.at
    if at == each.statement and backend.state in RUNNING_STATES:
        return Outcome.STILL_THERE
    if backend.transaction is not None and backend.transaction.at == each.transaction:
        return Outcome.TRANSACTION_GOES_ON
    return Outcome.MOVED_ON


def _followed(
    run: Run, each: OpenAct, outcome: Outcome, *, at: datetime, interval: timedelta, tries: int
) -> tuple[ObservedEffect | None, OpenAct | None]:
    """The effect to tell of now, if any, and what is remembered of the act, if anything."""
    if each.hand is Hand.REHEARSE:
        return _rehearsed(run, each, outcome, at=at)
    gone = outcome is not Outcome.STILL_THERE
    if each.final is not None or each.again:
        return _waiting(run, each, outcome, at=at, tries=tries)
    if gone:
        return _effect(run, each, outcome, at=at), None
    if at - each.at < pause_of(each.attempts, interval=interval):
        return None, each
    if each.attempts < tries:
        return _effect(run, each, Outcome.STILL_THERE, at=at), replace(each, again=True)
    return _effect(run, each, Outcome.INEFFECTIVE, at=at), replace(each, final=Withheld.INEFFECTIVE)


def _waiting(
    run: Run, each: OpenAct, outcome: Outcome, *, at: datetime, tries: int
) -> tuple[ObservedEffect | None, OpenAct | None]:
    """A run that may be tried again, or never again: remembered while it goes on, a FETCH loop with its transaction."""
    if not _goes_on(each, outcome):
        return None, None
    if each.final is None and each.attempts >= tries:
        return _effect(run, each, Outcome.INEFFECTIVE, at=at), replace(each, final=Withheld.INEFFECTIVE)
    return None, each


def _rehearsed(
    run: Run, each: OpenAct, outcome: Outcome, *, at: datetime
) -> tuple[ObservedEffect | None, OpenAct | None]:
    """A rehearsed run that is over has ended by itself; a keyed one is over with its transaction."""
    if _goes_on(each, outcome):
        return None, each
    return replace(_effect(run, each, Outcome.ENDED_BY_ITSELF, at=at), regret=not each.client_gone), None


def _goes_on(each: OpenAct, outcome: Outcome) -> bool:
    """True while the run is there; a FETCH loop goes on with its transaction."""
    return outcome is Outcome.STILL_THERE or (outcome is Outcome.TRANSACTION_GOES_ON and each.clock is Clock.RUN)


def _effect(run: Run, each: OpenAct, outcome: Outcome, *, at: datetime) -> ObservedEffect:
    return ObservedEffect(each.id, run, each.rule, each.hand, outcome, at)
