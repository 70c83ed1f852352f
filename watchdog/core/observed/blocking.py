"""Who waits for whom, as the server named them in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from watchdog.core.observed.activity import Snapshot
from watchdog.core.observed.wait_events import LOCK


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


def waiters(snapshot: Snapshot) -> list[int]:
    """The pids that wait for a heavyweight lock."""
    return [backend.pid for backend in snapshot.backends if backend.wait_event_type == LOCK]
