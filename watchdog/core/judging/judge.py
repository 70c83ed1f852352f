"""The judge: one snapshot against the budgets, with what the last looks left behind.

Pure: the same snapshot, book and memory give the same judgement, so a look that has learnt more (who blocks
whom) is simply judged again.
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
from watchdog.core.observed.activity import RUNNING_STATES, Clock, Run, Snapshot
from watchdog.core.observed.blocking import Blocking
from watchdog.core.observed.census import Census
from watchdog.core.observed.sockets import StatementRun

BLIND_REASONS = ("insufficient_privilege", "tracking_off", "unusable_key", "no_budget", "no_start")
"""Why a session is not judged, or only in part."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a budgeted run had come when it was last seen."""

    budget: str
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What one look hands to the next. Bounded by what is there now, and by the hour of the accounts.

    `orphans` are the runs that have been counted as such and are still there; `set_aside` those that went out of
    sight when a right was lost.
    """

    postmaster_start: datetime | None = None
    copies: frozenset[Run] = frozenset()
    superseded: frozenset[Run] = frozenset()
    orphans: frozenset[Run] = frozenset()
    set_aside: frozenset[Run] = frozenset()
    progress: Mapping[Run, Progress] = field(default_factory=dict)
    namings: Namings = field(default_factory=dict)
    accounts: AccountMemory = field(default_factory=AccountMemory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All that one snapshot shows. `crossings` are the waits until further runs become orphans."""

    cases: Sequence[Case]
    findings: Sequence[Finding]
    detected: Sequence[Finding]
    finished: Sequence[Progress]
    copies: Mapping[CopyKey, Sequence[Case]]
    crossings: Sequence[timedelta]
    unjudged: Mapping[str, int]
    blocked_by_orphans: int | None
    increments: CounterIncrements


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """What a cluster is judged by, and how often: it changes with the configuration, not with a look."""

    book: BudgetBook
    interval: timedelta
    pooled: frozenset[str] = frozenset()
    pooled_networks: tuple[Network, ...] = ()


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

    `tick` tells a regular look from one at a crossing: seconds of work are sampled at ticks only. `blocking` is
    None where it was not asked. `gone` are the statements whose clients the kernel has shown to be gone.
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
        interval=settings.interval,
        namings=namings,
        gone=gone,
    )
    groups = copying.group_copies(cases)
    superseded = _still_there(memory.superseded, cases) | copying.superseded_runs(
        groups, seen=memory.copies, blocking=blocking
    )
    findings = _findings(cases, groups=groups, superseded=superseded, nearing=settings.book.nearing)
    findings = with_neighbours(findings, blocking=blocking)
    orphans = frozenset(each.run for each in findings if each.kind is Kind.ORPHAN)
    increments, accounts = account(
        cases, at=snapshot.at, tick=tick, interval=settings.interval, memory=memory.accounts, first=first
    )
    progress = _progress(cases)
    runs = frozenset(case.run for case in cases)
    # A run counts once as detected, whatever it looks like in between; and what is hidden now has not ended.
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
        unjudged=_unjudged(cases, census=census, unreadable=unreadable),
        blocked_by_orphans=blocked_by_orphans(findings, blocking=blocking),
        increments=increments,
    )
    seen = frozenset(case.run for group in groups.values() for case in group)
    return judgement, Memory(
        postmaster_start=snapshot.postmaster_start,
        copies=seen,
        superseded=superseded,
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
    """The budgeted runs that are not over: a statement that has ended is, although its row is still there."""
    return {
        case.run: Progress(case.budget.source, case.used)
        for case in cases
        if case.budget is not None and case.used is not None and not _ended(case)
    }


def _ended(case: Case) -> bool:
    return case.clock is Clock.STATEMENT and case.backend.state not in RUNNING_STATES


def _finished(cases: Sequence[Case], *, memory: Memory, progress: Mapping[Run, Progress]) -> list[Progress]:
    """The runs of the last look that are over, as far as they had come when they were last seen."""
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


def _unjudged(cases: Sequence[Case], *, census: Census, unreadable: int) -> dict[str, int]:
    active = running(cases)
    return dict(
        zip(
            BLIND_REASONS,
            (
                census.hidden,
                census.tracking_off,
                sum(case.unusable_key for case in cases),
                sum(case.budget is None for case in active),
                unreadable,
            ),
            strict=True,
        )
    )
