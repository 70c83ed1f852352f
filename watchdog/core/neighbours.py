"""What a finding does to others, and who is like it: blocked sessions and piles of the same query."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from watchdog.core.activity import Snapshot
from watchdog.core.evidence import ALARMING, Finding, Kind

Pile = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Blocking:
    """For each waiter the pids directly in its way, as the server named them in one pass.

    With one holder and 200 waiters on a row the server names the holder to one of them only; the rest stand
    behind each other, so every question here follows the chains to their end. They are followed once: dense
    queues have as many edges as pairs, and this runs in the event loop.
    """

    edges: Mapping[int, frozenset[int]]
    _bits: dict[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)
    _behind: dict[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Close the relation: for each waiter the set, as bits, of everybody it waits for."""
        for pid in (*self.edges, *(pid for blockers in self.edges.values() for pid in blockers)):
            self._bits.setdefault(pid, 1 << len(self._bits))
        changed = True
        while changed:
            changed = False
            for waiter, blockers in self.edges.items():
                before = self._behind.get(waiter, 0)
                now = before
                for pid in blockers:
                    now |= self._bits[pid] | self._behind.get(pid, 0)
                if now != before:
                    self._behind[waiter] = now
                    changed = True

    def waits_for(self, waiter: int, pid: int) -> bool:
        """True where `waiter` waits for `pid`, directly or through others."""
        return waiter != pid and bool(self._behind.get(waiter, 0) & self._bits.get(pid, 0))

    def blocked(self, *pids: int) -> int:
        """How many sessions wait for at least one of `pids`."""
        wanted = 0
        for pid in pids:
            wanted |= self._bits.get(pid, 0)
        return sum(bool(behind & wanted & ~self._bits[waiter]) for waiter, behind in self._behind.items())

    def holders(self, waiter: int) -> frozenset[int]:
        """Every pid that `waiter` waits for; pid 0 is a prepared transaction."""
        return frozenset(pid for pid in self._bits if self.waits_for(waiter, pid))


def waiters(snapshot: Snapshot) -> list[int]:
    """The pids that wait for a heavyweight lock."""
    return [backend.pid for backend in snapshot.backends if backend.wait_event_type == "Lock"]


def wants_blocking(findings: Iterable[Finding], *, snapshot: Snapshot) -> bool:
    """True where a finding and a waiter stand in the same snapshot: only then is the question worth its cost."""
    return any(each.kind in ALARMING for each in findings) and bool(waiters(snapshot))


def with_neighbours(findings: Sequence[Finding], *, blocking: Blocking | None) -> list[Finding]:
    """The findings with `blocks` and `alike` filled in where they are known."""
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
    """How many sessions wait for at least one orphan; None where it was not asked."""
    if blocking is None:
        return None
    return blocking.blocked(*(each.backend.pid for each in findings if each.kind is Kind.ORPHAN))


def _pile(finding: Finding) -> Pile | None:
    backend = finding.backend
    if finding.kind is not Kind.ORPHAN or backend.query_id is None:
        return None
    return (backend.database, backend.role, backend.query_id)
