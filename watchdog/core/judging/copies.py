"""Copies of one job and window: who is a duplicate, and who has been superseded by a retry.

Windows, roles and databases never merge. Needs the runs of the last look (a younger copy must have stood
in two) and, for a younger copy that waits for a lock, to know for whom.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from watchdog.core.judging.cases import Case, running
from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.judging.overdue import finding
from watchdog.core.observed.activity import Run
from watchdog.core.observed.blocking import Blocking
from watchdog.core.observed.wait_events import LOCK


@dataclass(frozen=True, slots=True, order=True)
class CopyKey:
    """What makes two running backends copies of each other on one server."""

    database: str
    role: str
    job: str
    window: str


def group_copies(cases: Iterable[Case]) -> dict[CopyKey, list[Case]]:
    """The running, keyed cases by what they are copies of, each group oldest first."""
    groups: dict[CopyKey, list[Case]] = defaultdict(list)
    for case in running(cases):
        if (key := copy_key(case)) is not None:
            groups[key].append(case)
    return dict(groups)


def copy_key(of: Case | Finding) -> CopyKey | None:
    """What it is a copy of, or None without a usable key."""
    if of.key is None:
        return None
    return CopyKey(of.backend.database, of.backend.role, of.key.job, of.key.window)


def duplicates(groups: Mapping[CopyKey, Sequence[Case]], *, superseded: frozenset[Run]) -> list[Finding]:
    """The oldest copies beyond the configured number; none for jobs that configure no number."""
    found = []
    for group in groups.values():
        for case in group[: _excess(group)]:
            evidence = (Evidence.SUPERSEDED,) if case.run in superseded else ()
            found.append(finding(case, kind=Kind.DUPLICATE, evidence=evidence))
    return found


def superseded_runs(
    groups: Mapping[CopyKey, Sequence[Case]], *, seen: frozenset[Run], blocking: Blocking | None
) -> frozenset[Run]:
    """The runs that a retry has taken the place of.

    That needs as many younger copies as the job allows at once, each started at least `retry_gap` later, seen
    in two looks and not waiting for the older one. Where it is unknown for whom it waits, nothing is proved.
    """
    return frozenset(
        older.run for group in groups.values() for older in group if _is_superseded(older, group, seen, blocking)
    )


def _excess(group: Sequence[Case]) -> int:
    claim = group[0].claim
    allowed = claim.rule.copies if claim is not None else None
    return 0 if allowed is None else max(0, len(group) - allowed)


def _is_superseded(older: Case, group: Sequence[Case], seen: frozenset[Run], blocking: Blocking | None) -> bool:
    rule = older.claim.rule if older.claim is not None else None
    if rule is None or rule.copies is None or rule.retry_gap is None:
        return False
    successors = [
        younger
        for younger in group
        if younger.run in seen
        and younger.run.start - older.run.start >= rule.retry_gap
        and not _may_wait_for(younger, older, blocking)
    ]
    return len(successors) >= rule.copies


def _may_wait_for(younger: Case, older: Case, blocking: Blocking | None) -> bool:
    if younger.backend.wait_event_type != LOCK:
        return False
    return blocking is None or blocking.waits_for(younger.backend.pid, older.backend.pid)
