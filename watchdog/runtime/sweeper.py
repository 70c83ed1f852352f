"""Sweeping the sockets of known runs between polls: no statement is sent until one is seen closed.

The poll that follows is the second reading of the rows: a run that stood in the poll before, whose client had no
established connection in between, and that still runs the same statement, has lost its client.
"""

import time
from dataclasses import dataclass

from watchdog.core.observed.activity import ActivityKind, Backend, ClientEndpoint, Snapshot
from watchdog.core.observed.sockets import SocketVisibility, StatementRun, statement_run, without_client
from watchdog.runtime.ports import Sockets, Source


@dataclass(slots=True, kw_only=True)
class Sweeper:
    """The sweeps of one cluster. `sockets` is None where there is nothing to look at."""

    source: Source
    sockets: Sockets | None = None
    socket_visibility: SocketVisibility = SocketVisibility.NOT_ASKED
    _known: tuple[Backend, ...] = ()
    _suspects: frozenset[StatementRun] = frozenset()
    _gone: frozenset[StatementRun] = frozenset()
    _asked_with: ClientEndpoint | None = None
    _swept_at: float = 0.0

    @property
    def pause(self) -> float | None:
        """Seconds until the next sweep; None where no known run's client could be seen to go."""
        if self.sockets is None or self._is_out_of_sight:
            return None
        watches = any(each.client is not None and statement_run(each) not in self._gone for each in self._known)
        return self.sockets.pause if watches else None

    def sweep_if_due(self) -> None:
        """Sweep before a look, unless one has just come anyway."""
        pause = self.pause
        if pause is None or time.monotonic() - self._swept_at >= pause:
            self.sweep()

    def sweep(self) -> bool:
        """Look at the sockets of the runs of the last poll; True where one is seen closed that was not before."""
        own, port = self.source.endpoints
        watched = [each for each in self._known if statement_run(each) not in self._gone]
        ends = {each.client for each in watched if each.client is not None}
        nothing_new = self._is_out_of_sight or (self.socket_visibility is SocketVisibility.SEEN and not ends)
        if self.sockets is None or port is None or (nothing_new and self._asked_with == own):
            return False
        self._asked_with, self._swept_at = own, time.monotonic()
        self.socket_visibility, closed = self.sockets.closed(ends, port=port, own=own)
        self._suspects = without_client(watched, closed=closed)
        return bool(self._suspects)

    def confirm(self, snapshot: Snapshot) -> frozenset[StatementRun]:
        """The running statements whose client is gone, by this poll, the sweep before it and the poll before that."""
        running = tuple(each for each in snapshot.backends if each.activity is ActivityKind.RUNNING)
        there = {run for each in running if (run := statement_run(each)) is not None}
        self._gone = (self._gone | self._suspects) & there
        self._suspects = frozenset()
        self._known = running
        return self._gone

    @property
    def _is_out_of_sight(self) -> bool:
        return self.socket_visibility not in {SocketVisibility.SEEN, SocketVisibility.NOT_ASKED}
