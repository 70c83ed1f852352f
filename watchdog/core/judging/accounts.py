"""The increments of the counters: running seconds, orphan seconds, started copies and started windows.

Seconds are sampled at ticks only: each running row adds the time since the last tick. A look at a crossing adds none.
It takes place only because a run becomes an orphan, so orphans would be counted twice. A copy is started when a backend
is first seen with a job key, not with each statement. This module knows nothing of metrics and their labels' bounds.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from watchdog.core.judging.cases import Case, running
from watchdog.core.judging.copies import CopyKey, copy_key

FORGET_AFTER = timedelta(hours=1)
"""Time after which a session or window that is no longer seen is forgotten."""

ZERO = timedelta(0)

Worker = tuple[str, str]
"""Role and job. The job is '' for rows without one. They are label values of the counters of seconds."""


@dataclass(frozen=True, slots=True)
class JobSession:
    """The key with which a backend was last seen, and the time of that look."""

    backend_start: datetime
    key: CopyKey
    seen: datetime


@dataclass(frozen=True, slots=True)
class AccountMemory:
    """What must be remembered so that nothing is counted twice. An entry is dropped an hour after it was last seen.

    The keys of `sessions` are pids. A session is remembered while it is idle and in no snapshot, so that its next
    statement is not counted as a new copy. The values of `windows` are the times at which a window was last seen.
    """

    last_tick: datetime | None = None
    sessions: Mapping[int, JobSession] = field(default_factory=dict)
    windows: Mapping[CopyKey, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CounterIncrements:
    """What one look adds to the counters. Seconds are wall-clock seconds, added up over the running rows."""

    running: Mapping[Worker, timedelta] = field(default_factory=dict)
    orphaned: Mapping[Worker, timedelta] = field(default_factory=dict)
    copies_started: Mapping[str, int] = field(default_factory=dict)
    windows_started: Mapping[str, int] = field(default_factory=dict)


def account(
    cases: Iterable[Case], *, at: datetime, tick: bool, interval: timedelta, memory: AccountMemory, first: bool
) -> tuple[CounterIncrements, AccountMemory]:
    """The increments of one look, and the memory for the next one.

    `first` is True for the first look after a start. It counts no copy and no window as started, because those that it
    sees were there before.
    """
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
    """True if the whole time since the last tick counts as orphan seconds of this row.

    The row may have passed its budget only after the last tick. The whole time is counted all the same, because a run
    also goes on for some time after the last tick that saw it. To count only the time past the budget would lose a
    fifth of all orphan seconds under the workload of `make truth`.
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
