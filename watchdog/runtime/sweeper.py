"""Sweeps the sockets of known runs between polls. A sweep sends no statement to the server.

If a sweep sees a socket closed, the next poll comes early. The poll after a sweep is the second reading of the rows. A
run has lost its client if it was in the poll before, its client had no established connection at the sweep, and it
still runs the same statement in the poll after.
"""

import time
from dataclasses import dataclass

from watchdog.core.observed.activity import ActivityKind, Backend, ClientEndpoint, Snapshot
from watchdog.core.observed.sockets import SocketVisibility, StatementRun, statement_run, without_client
from watchdog.runtime.ports import Sockets, Source


@dataclass(slots=True, kw_only=True)
class Sweeper:
    """The sweeps of one cluster. `sockets` is None if sockets are not looked at."""

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
        """Seconds until the next sweep. None if there is no known run whose client could be seen to go."""
        if self.sockets is None or self._is_out_of_sight:
            return None
        watches = any(each.client is not None and statement_run(each) not in self._gone for each in self._known)
        return self.sockets.pause if watches else None

    def sweep_if_due(self) -> None:
        """Sweep before a look, unless the last sweep is less than `pause` seconds ago."""
        pause = self.pause
        if pause is None or time.monotonic() - self._swept_at >= pause:
            self.sweep()

    def sweep(self) -> bool:
        """Look at the sockets of the runs of the last poll. True if one is closed that was not known to be."""
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
        """The running statements whose client is gone.

        That is known from `snapshot`, the sweep before it, and the poll before the sweep.
        """
        running = tuple(each for each in snapshot.backends if each.activity is ActivityKind.RUNNING)
        there = {run for each in running if (run := statement_run(each)) is not None}
        self._gone = (self._gone | self._suspects) & there
        self._suspects = frozenset()
        self._known = running
        return self._gone

    @property
    def _is_out_of_sight(self) -> bool:
        return self.socket_visibility not in {SocketVisibility.SEEN, SocketVisibility.NOT_ASKED}
