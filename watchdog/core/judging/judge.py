"""The judge: one snapshot is compared with the budgets and with the memory of the last looks.

The same snapshot, budgets and memory give the same judgement. So a snapshot is judged a second time with the same
memory once the blocking pids are known. This module knows nothing of rules and acts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from watchdog.core.judging import copies as copying
from watchdog.core.judging.accounts import AccountMemory, CounterIncrements, account
from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.judging.cases import Case, Namings, Network, cases_of, namings_of, running
from watchdog.core.judging.copies import CopyKey
from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.judging.neighbours import blocked_by_orphans, with_neighbours
from watchdog.core.judging.overdue import judge_overdue, until_crossing
from watchdog.core.observed.activity import RUNNING_STATES, ActivityKind, Clock, Run, Snapshot
from watchdog.core.observed.blocking import Blocking
from watchdog.core.observed.census import Census
from watchdog.core.observed.sockets import StatementRun

BLIND_REASONS = ("insufficient_privilege", "tracking_off", "unusable_key", "no_budget", "no_start", "logging_in")
"""Reasons why a session is not judged or only judged in part. They are label values of a metric."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of its budget a run had used when it was last seen. `budget` is the budget's source, `used` a share."""

    budget: str
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the judge remembers from one look for the next one.

    Its size is bounded by the rows of the last look, and by the sessions and windows of the last hour (`accounts`).
    `copies` are the runs of the last look that have a job key. `superseded` are runs that a retry has replaced and that
    are still there. `companions` are runs for which another backend may work. `orphans` are runs that have been counted
    as orphans and are still there. `set_aside` are the orphans that were known when pgwatchdog's role lost the right to
    see other roles' rows.
    """

    postmaster_start: datetime | None = None
    copies: frozenset[Run] = frozenset()
    superseded: frozenset[Run] = frozenset()
    companions: frozenset[Run] = frozenset()
    orphans: frozenset[Run] = frozenset()
    set_aside: frozenset[Run] = frozenset()
    progress: Mapping[Run, Progress] = field(default_factory=dict)
    namings: Namings = field(default_factory=dict)
    accounts: AccountMemory = field(default_factory=AccountMemory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judgement of one snapshot.

    `detected` are the orphans that were not known before. `finished` are the runs with a budget that ended since the
    last look. `crossings` are the times until further runs become orphans, shortest first. `unjudged` counts sessions
    by the reasons in `BLIND_REASONS`. `blocked_by_orphans` is None if the blocking pids are not known.
    """

    cases: Sequence[Case]
    findings: Sequence[Finding]
    detected: Sequence[Finding]
    finished: Sequence[Progress]
    copies: Mapping[CopyKey, Sequence[Case]]
    crossings: Sequence[timedelta]
    unjudged: Mapping[str, int]
    blocked_by_orphans: int | None
    increments: CounterIncrements


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """The part of the configuration that the judge needs for one cluster.

    `interval` is the one in force. `configured` is the one of the configuration, None if it is the same.
    """

    book: BudgetBook
    interval: timedelta
    pooled: frozenset[str] = frozenset()
    pooled_networks: tuple[Network, ...] = ()
    configured: timedelta | None = None

    @property
    def patience(self) -> timedelta:
        """The longer of both intervals: for what spares, and for pauses.

        A small budget shortens the interval in force. It may not shorten the protection of anybody else.
        """
        return max(self.interval, self.configured or self.interval)


def judge(
    snapshot: Snapshot,
    *,
    settings: JudgeSettings,
    census: Census,
    memory: Memory,
    tick: bool,
    blocking: Blocking | None = None,
    gone: frozenset[StatementRun] = frozenset(),
) -> tuple[Judgement, Memory]:
    """Judge one snapshot.

    `tick` is True for a regular look and False for a look at a crossing. Seconds are sampled at ticks only. `blocking`
    is None if the server was not asked for blocking pids. `gone` are the statements whose client is gone according to
    the kernel's sockets.
    """
    if memory.postmaster_start != snapshot.postmaster_start:
        memory = Memory()
    first = memory.postmaster_start is None
    namings = namings_of(snapshot, before=memory.namings)
    cases, unreadable = cases_of(
        snapshot,
        book=settings.book,
        pooled=settings.pooled,
        networks=settings.pooled_networks,
        patience=settings.patience,
        namings=namings,
        gone=gone,
    )
    groups = copying.group_copies(cases)
    companions = _still_there(memory.companions, cases) | copying.served_by_another(cases)
    replaced = copying.superseded_runs(groups, seen=memory.copies, blocking=blocking, companions=companions)
    superseded = (_still_there(memory.superseded, cases) | replaced) - companions
    findings = _findings(cases, groups=groups, superseded=superseded, nearing=settings.book.nearing)
    findings = with_neighbours(findings, blocking=blocking)
    orphans = frozenset(each.run for each in findings if each.kind is Kind.ORPHAN)
    increments, accounts = account(
        cases, at=snapshot.at, tick=tick, interval=settings.interval, memory=memory.accounts, first=first
    )
    progress = _progress(cases)
    runs = frozenset(case.run for case in cases)
    # A run is detected once, even if it is no orphan at some look in between. A run that is hidden now has not ended.
    before = memory.orphans | memory.set_aside
    known = orphans | (before & runs)
    set_aside: frozenset[Run] = frozenset()
    if not snapshot.sees_all:
        set_aside = memory.set_aside or memory.orphans
    judgement = Judgement(
        cases=cases,
        findings=findings,
        detected=[each for each in findings if each.kind is Kind.ORPHAN and each.run not in before],
        finished=_finished(cases, memory=memory, progress=progress) if snapshot.sees_all else [],
        copies=groups,
        crossings=sorted(wait for case in cases if (wait := until_crossing(case)) is not None),
        unjudged=_unjudged(snapshot, cases, census=census, unreadable=unreadable),
        blocked_by_orphans=blocked_by_orphans(findings, blocking=blocking),
        increments=increments,
    )
    seen = frozenset(case.run for group in groups.values() for case in group)
    return judgement, Memory(
        postmaster_start=snapshot.postmaster_start,
        copies=seen,
        superseded=superseded,
        companions=companions,
        orphans=known,
        set_aside=set_aside,
        progress=progress,
        namings=namings,
        accounts=accounts,
    )


def _findings(
    cases: Sequence[Case],
    *,
    groups: Mapping[CopyKey, Sequence[Case]],
    superseded: frozenset[Run],
    nearing: float,
) -> list[Finding]:
    timed = [found for case in cases if (found := judge_overdue(case, nearing=nearing)) is not None]
    return [_strengthened(each, superseded) for each in timed] + copying.duplicates(groups, superseded=superseded)


def _strengthened(finding: Finding, superseded: frozenset[Run]) -> Finding:
    if finding.kind is not Kind.ORPHAN or finding.run not in superseded:
        return finding
    return replace(finding, evidence=(*finding.evidence, Evidence.SUPERSEDED))


def _still_there(runs: frozenset[Run], cases: Sequence[Case]) -> frozenset[Run]:
    return runs & {case.run for case in cases}


def _progress(cases: Sequence[Case]) -> dict[Run, Progress]:
    """The runs with a budget that have not ended. A statement can have ended although its row is still there."""
    return {
        case.run: Progress(case.budget.source, case.used)
        for case in cases
        if case.budget is not None and case.used is not None and not _ended(case)
    }


def _ended(case: Case) -> bool:
    return case.clock is Clock.STATEMENT and case.backend.state not in RUNNING_STATES


def _finished(cases: Sequence[Case], *, memory: Memory, progress: Mapping[Run, Progress]) -> list[Progress]:
    """The runs of the last look that have ended, with the share of the budget that they had used when last seen.

    The share is exact for a statement that ended inside a transaction that is still open, because its row shows when
    its state changed.
    """
    exact = {
        case.run: (case.backend.changed.at - case.run.start) / case.budget.limit
        for case in cases
        if _ended(case) and case.budget is not None and case.backend.changed is not None
    }
    return [
        Progress(last.budget, max(last.used, exact.get(run, 0.0)))
        for run, last in memory.progress.items()
        if run not in progress
    ]


def _unjudged(snapshot: Snapshot, cases: Sequence[Case], *, census: Census, unreadable: int) -> dict[str, int]:
    active = running(cases)
    return dict(
        zip(
            BLIND_REASONS,
            (
                census.hidden,
                census.tracking_off,
                sum(case.unusable_key for case in cases),
                sum(case.lacks_budget for case in active),
                unreadable,
                sum(each.activity is ActivityKind.LOGGING_IN for each in snapshot.backends),
            ),
            strict=True,
        )
    )
