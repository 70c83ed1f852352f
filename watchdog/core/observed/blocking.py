"""Which sessions wait for which other sessions, from the answers of `pg_blocking_pids`.

This module knows no budgets and no findings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from watchdog.core.observed.activity import Snapshot
from watchdog.core.observed.wait_events import LOCK


@dataclass(frozen=True, slots=True)
class Blocking:
    """For each waiting pid, the pids that block it directly, as the server returned them.

    `opaque` are blockers of which it is not known whether they wait themselves. The process that replays WAL on a
    standby is one: it waits for sessions, and the server does not say for which.

    If one session holds a row lock and 200 sessions wait for it, the server names the holder to only one of them. The
    others wait for each other. So every method also counts sessions that are blocked through others.

    The relation is closed once, when the object is made: a long queue has as many edges as pairs of waiters, and this
    code runs in the event loop.
    """

    edges: Mapping[int, frozenset[int]]
    opaque: frozenset[int] = frozenset()
    _bits: dict[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)
    _behind: dict[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Compute the transitive closure: for each waiter, a bit set of all pids that it waits for."""
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
        """True if `waiter` waits for `pid`, directly or through other sessions."""
        return waiter != pid and bool(self._behind.get(waiter, 0) & self._bits.get(pid, 0))

    def may_wait_for(self, waiter: int, pid: int) -> bool:
        """True if `waiter` waits for `pid`, or for a process of which it is not known whom it waits for."""
        return self.waits_for(waiter, pid) or bool(self._behind.get(waiter, 0) & self._all(self.opaque))

    def blocked(self, *pids: int) -> int | None:
        """The number of sessions that wait for at least one of `pids`, directly or through others.

        It is None if it is not known of some session.
        """
        wanted, opaque, found = self._all(pids), self._all(self.opaque), 0
        for waiter, behind in self._behind.items():
            waits = bool(behind & wanted & ~self._bits[waiter])
            if pids and not waits and behind & opaque:
                return None
            found += waits
        return found

    def _all(self, pids: Iterable[int]) -> int:
        bits = 0
        for pid in pids:
            bits |= self._bits.get(pid, 0)
        return bits


def waiters(snapshot: Snapshot) -> list[int]:
    """The pids of the backends that wait for a heavyweight lock."""
    return [backend.pid for backend in snapshot.backends if backend.wait_event_type == LOCK]
