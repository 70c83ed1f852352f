"""What accumulates: seconds of work, the part of it for nobody, copies and windows begun.

Seconds are sampled at ticks only, rows times the time since the last tick: a look at a crossing happens
because an orphan is there, and counting it would weigh orphans double. A copy begins when a backend begins
to carry a key, not with each statement.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from watchdog.core.judging.cases import Case, running
from watchdog.core.judging.copies import CopyKey, copy_key

FORGET_AFTER = timedelta(hours=1)
ZERO = timedelta(0)

Worker = tuple[str, str]
"""Role and job, '' for no job: the labels of the shares."""


@dataclass(frozen=True, slots=True)
class JobSession:
    """The key that one backend was last seen with, and when."""

    backend_start: datetime
    key: CopyKey
    seen: datetime


@dataclass(frozen=True, slots=True)
class AccountMemory:
    """What must be remembered so that nothing is counted twice; forgotten an hour after it was last seen.

    `sessions` is kept by pid: an idle worker is in no snapshot, and its next statement is not a new copy.
    """

    last_tick: datetime | None = None
    sessions: Mapping[int, JobSession] = field(default_factory=dict)
    windows: Mapping[CopyKey, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CounterIncrements:
    """What one look adds to the counters. Seconds are wall-clock seconds of running rows."""

    running: Mapping[Worker, timedelta] = field(default_factory=dict)
    orphaned: Mapping[Worker, timedelta] = field(default_factory=dict)
    copies_started: Mapping[str, int] = field(default_factory=dict)
    windows_started: Mapping[str, int] = field(default_factory=dict)


def account(
    cases: Iterable[Case], *, at: datetime, tick: bool, interval: timedelta, memory: AccountMemory, first: bool
) -> tuple[CounterIncrements, AccountMemory]:
    """Add up one look; `first` looks after a start take stock and count nothing as begun."""
    active = running(cases)
    span = _span(at, tick=tick, interval=interval, memory=memory)
    sessions, copies = _sessions_of(active, at=at, memory=memory)
    windows, begun = _windows(active, at=at, memory=memory)
    increments = CounterIncrements(
        running=_sum(active, lambda _: span) if span else {},
        orphaned=_sum(active, lambda case: span if _past_budget(case) else ZERO) if span else {},
        copies_started={} if first else copies,
        windows_started={} if first else begun,
    )
    return increments, AccountMemory(at if tick else memory.last_tick, sessions, windows)


def _span(at: datetime, *, tick: bool, interval: timedelta, memory: AccountMemory) -> timedelta:
    if not tick or memory.last_tick is None:
        return ZERO
    return max(ZERO, min(at - memory.last_tick, 2 * interval))


def _past_budget(case: Case) -> bool:
    """Whether it counts as work for nobody, with the whole span, like the running seconds.

    To count only the known part of the first span would lose, on average, what a run still does after its last tick:
    a fifth of all orphan seconds under the workload of `make truth`.
    """
    late = case.budget is not None and case.age > case.budget.limit
    return late or case.client_gone or case.deadline_passed


def _sum(cases: Iterable[Case], share: Callable[[Case], timedelta]) -> dict[Worker, timedelta]:
    total: dict[Worker, timedelta] = {}
    for case in cases:
        worker = (case.backend.role, case.job)
        total[worker] = total.get(worker, ZERO) + share(case)
    return total


def _sessions_of(
    cases: Iterable[Case], *, at: datetime, memory: AccountMemory
) -> tuple[dict[int, JobSession], Counter[str]]:
    kept = {pid: each for pid, each in memory.sessions.items() if at - each.seen < FORGET_AFTER}
    begun: Counter[str] = Counter()
    for case in cases:
        key = copy_key(case)
        if key is None:
            continue
        before = kept.get(case.backend.pid)
        if before is None or (before.backend_start, before.key) != (case.backend.started, key):
            begun[key.job] += 1
        kept[case.backend.pid] = JobSession(case.backend.started, key, at)
    return kept, begun


def _windows(
    cases: Iterable[Case], *, at: datetime, memory: AccountMemory
) -> tuple[dict[CopyKey, datetime], Counter[str]]:
    kept = {key: seen for key, seen in memory.windows.items() if at - seen < FORGET_AFTER}
    begun: Counter[str] = Counter()
    for case in cases:
        key = copy_key(case)
        if key is None:
            continue
        if key not in kept:
            begun[key.job] += 1
        kept[key] = at
    return kept, begun
