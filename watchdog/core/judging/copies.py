"""Copies of one job and window: which of them are duplicates, and which have been superseded by a retry.

Copies of different windows, roles or databases are never grouped. This module needs the runs of the last look, because
a younger copy must have been seen in two looks. For a younger copy that waits for a lock it needs the blocking pids. It
knows nothing of what is done about a duplicate.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from watchdog.core.judging.cases import Case, running
from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.judging.overdue import finding
from watchdog.core.observed.activity import ClientEndpoint, Run
from watchdog.core.observed.blocking import Blocking
from watchdog.core.observed.wait_events import EXTENSION, LOCK


@dataclass(frozen=True, slots=True, order=True)
class CopyKey:
    """The values that are equal for all copies of each other on one server."""

    database: str
    role: str
    job: str
    window: str


def group_copies(cases: Iterable[Case]) -> dict[CopyKey, list[Case]]:
    """The running cases with a usable job key, grouped by `CopyKey`. A group keeps the order, which is oldest first."""
    groups: dict[CopyKey, list[Case]] = defaultdict(list)
    for case in running(cases):
        if (key := copy_key(case)) is not None:
            groups[key].append(case)
    return dict(groups)


def copy_key(of: Case | Finding) -> CopyKey | None:
    """The group that a case or finding belongs to, or None without a usable job key."""
    if of.key is None:
        return None
    return CopyKey(of.backend.database, of.backend.role, of.key.job, of.key.window)


def duplicates(groups: Mapping[CopyKey, Sequence[Case]], *, superseded: frozenset[Run]) -> list[Finding]:
    """A finding for each of the oldest copies beyond the configured number; none if no number is configured.

    Each group is oldest first.
    """
    found = []
    for group in groups.values():
        for case in group[: _excess(group)]:
            evidence = (Evidence.SUPERSEDED,) if case.run in superseded else ()
            found.append(finding(case, kind=Kind.DUPLICATE, evidence=evidence))
    return found


def superseded_runs(
    groups: Mapping[CopyKey, Sequence[Case]],
    *,
    seen: frozenset[Run],
    blocking: Blocking | None,
    companions: frozenset[Run] = frozenset(),
) -> frozenset[Run]:
    """The runs that have been replaced by a retry.

    A run is superseded if it has at least as many younger copies as the job allows at once. Each of them must have
    started at least `retry_gap` later, must have been seen in two looks, and must not wait for the older run. A younger
    copy that waits for a lock does not count if the blocking pids are not known. Nothing is proved of a run in
    `companions`, nor by a copy that may work for the older one.
    """
    return frozenset(
        older.run
        for group in groups.values()
        for older in group
        if older.run not in companions and _is_superseded(older, group, seen, blocking)
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
        and not _may_work_for(younger, older)
    ]
    return len(successors) >= rule.copies


def _may_wait_for(younger: Case, older: Case, blocking: Blocking | None) -> bool:
    if younger.backend.wait_event_type != LOCK:
        return False
    return blocking is None or blocking.may_wait_for(younger.backend.pid, older.backend.pid)


def served_by_another(cases: Iterable[Case]) -> frozenset[Run]:
    """The runs that may now have work of their own done by another backend under their name.

    A statement that reads a foreign table of the same server, or calls dblink, waits for an extension. The backend that
    works for it can carry its name, and cannot be told from a retry.
    """
    return frozenset(case.run for case in cases if case.backend.wait_event_type == EXTENSION)


def _may_work_for(younger: Case, older: Case) -> bool:
    """True if the younger backend's client may be the server itself, and the older one's is not at the same place."""
    return _is_local(younger.backend.client) and not _is_local(older.backend.client)


def _is_local(client: ClientEndpoint | None) -> bool:
    return client is None or ip_address(client.address).is_loopback
