"""How many sessions a finding blocks, and how many orphans run the same query.

This module knows nothing of how the server is asked for blocking pids.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from watchdog.core.judging.evidence import ALARMING, Finding, Kind
from watchdog.core.observed.activity import Snapshot
from watchdog.core.observed.blocking import Blocking, waiters

Pile = tuple[str, str, int]
"""Database, role and query id."""


def wants_blocking(findings: Iterable[Finding], *, snapshot: Snapshot) -> bool:
    """True if the server should be asked for blocking pids: the snapshot has an alarming finding and a lock waiter."""
    return any(each.kind in ALARMING for each in findings) and bool(waiters(snapshot))


def with_neighbours(findings: Sequence[Finding], *, blocking: Blocking | None) -> list[Finding]:
    """The findings, with `blocks` and `alike` filled in if they are known."""
    piles = Counter(pile for each in findings if (pile := _pile(each)) is not None)
    return [
        replace(
            each,
            blocks=None if blocking is None else blocking.blocked(each.backend.pid),
            alike=None if (pile := _pile(each)) is None else piles[pile],
        )
        for each in findings
    ]


def blocked_by_orphans(findings: Iterable[Finding], *, blocking: Blocking | None) -> int | None:
    """The number of sessions that wait for at least one orphan, or None if the server was not asked."""
    if blocking is None:
        return None
    return blocking.blocked(*(each.backend.pid for each in findings if each.kind is Kind.ORPHAN))


def _pile(finding: Finding) -> Pile | None:
    backend = finding.backend
    if finding.kind is not Kind.ORPHAN or backend.query_id is None:
        return None
    return (backend.database, backend.role, backend.query_id)
