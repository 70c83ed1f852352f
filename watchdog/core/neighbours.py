"""What a finding does to others, and who is like it: blocked sessions and piles of the same query."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from watchdog.core.activity import Snapshot
from watchdog.core.cases import Case
from watchdog.core.evidence import ALARMING, Finding, Kind

Pile = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Blocking:
    """For each waiter the pids directly in its way, as the server named them in one pass.

    With one holder and 200 waiters on a row the server names the holder to one of them only; the rest stand
    behind each other, so every question here follows the chain to its end.
    """

    edges: Mapping[int, frozenset[int]]

    def holders(self, waiter: int) -> frozenset[int]:
        """Every pid that `waiter` waits for, directly or through others; pid 0 is a prepared transaction."""
        seen: set[int] = set()
        todo = list(self.edges.get(waiter, ()))
        while todo:
            pid = todo.pop()
            if pid not in seen:
                seen.add(pid)
                todo.extend(self.edges.get(pid, ()))
        return frozenset(seen - {waiter})

    def blocked_by(self) -> Counter[int]:
        """For each pid how many sessions wait for it, transitively."""
        return Counter(pid for waiter in self.edges for pid in self.holders(waiter))


def waiters(snapshot: Snapshot) -> list[int]:
    """The pids that wait for a heavyweight lock."""
    return [backend.pid for backend in snapshot.backends if backend.wait_event_type == "Lock"]


def wants_blocking(findings: Iterable[Finding], *, snapshot: Snapshot) -> bool:
    """True where a finding and a waiter stand in the same snapshot: only then is the question worth its cost."""
    return any(each.kind in ALARMING for each in findings) and bool(waiters(snapshot))


def with_neighbours(findings: Iterable[Finding], *, cases: Iterable[Case], blocking: Blocking | None) -> list[Finding]:
    """The findings with `blocks` and `alike` filled in where they are known."""
    piles = Counter(pile for case in cases if _over(case) and (pile := _pile(case)) is not None)
    blocked = None if blocking is None else blocking.blocked_by()
    return [
        replace(
            each,
            blocks=None if blocked is None else blocked[each.backend.pid],
            alike=_alike(each, piles),
        )
        for each in findings
    ]


def blocked_by_orphans(findings: Iterable[Finding], *, blocking: Blocking | None) -> int | None:
    """How many sessions wait for at least one orphan; None where it was not asked."""
    if blocking is None:
        return None
    orphans = {each.backend.pid for each in findings if each.kind is Kind.ORPHAN}
    return sum(1 for waiter in blocking.edges if orphans & blocking.holders(waiter))


def _over(case: Case) -> bool:
    return case.budget is not None and case.age >= case.budget.crossing


def _pile(case: Case) -> Pile | None:
    backend = case.backend
    return None if backend.query_id is None else (backend.database, backend.role, backend.query_id)


def _alike(finding: Finding, piles: Mapping[Pile, int]) -> int | None:
    backend = finding.backend
    if finding.kind is not Kind.ORPHAN or backend.query_id is None:
        return None
    return piles.get((backend.database, backend.role, backend.query_id))
