"""Sweeps the sockets of known runs between polls. A sweep sends no statement to the server.

If a sweep sees a client gone, the next poll comes early. The poll after a sweep is the second reading of the rows. A
run has lost its client if it was in the poll before, its client was gone at the sweep, and it still runs the same
statement in the poll after. Each sweep asks for all clients anew, so that nothing is believed for longer than the
sockets show it.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from watchdog.core.observed.activity import ActivityKind, Backend, ClientEndpoint, Snapshot
from watchdog.core.observed.sockets import (
    ClientState,
    OwnConnection,
    Session,
    SocketVisibility,
    StatementRun,
    statement_run,
    without_close_wait,
)
from watchdog.runtime.ports import Sockets, Source

_IN_SIGHT = frozenset({SocketVisibility.SEEN, SocketVisibility.NOT_ASKED})


@dataclass(slots=True, kw_only=True)
class Sweeper:
    """The sweeps of one cluster. `sockets` is None if sockets are not looked at."""

    source: Source
    sockets: Sockets | None = None
    spares_half_closed: bool = False
    """True if a client that may have closed only its sending half has not left."""

    socket_visibility: SocketVisibility = SocketVisibility.NOT_ASKED
    clients: Mapping[Session, ClientState] = field(default_factory=dict)
    """The states of the clients of the runs of the last poll, as of the last sweep."""

    _known: tuple[Backend, ...] = ()
    _suspects: frozenset[StatementRun] = frozenset()
    _gone: frozenset[StatementRun] = frozenset()
    _asked_with: OwnConnection | None = None
    _swept_at: float = 0.0

    @property
    def pause(self) -> float | None:
        """Seconds until the next sweep. None if there is no known run whose client could be seen to go."""
        if self.sockets is None or self.socket_visibility not in _IN_SIGHT:
            return None
        watches = any(each.client is not None and statement_run(each) not in self._gone for each in self._known)
        return self.sockets.pause if watches else None

    def sweep_if_due(self) -> None:
        """Sweep before a look, unless the last sweep is less than `pause` seconds ago."""
        pause = self.pause
        if pause is None or time.monotonic() - self._swept_at >= pause:
            self.sweep()

    def sweep(self) -> bool:
        """Look at the sockets of the runs of the last poll. True if a client is gone that was not known to be."""
        own = self.source.own_connection
        asked = {(each.pid, each.started): each.client for each in self._known if each.client is not None}
        if self.sockets is None or own is None:
            return False
        if self._asked_with == own and not asked and self.socket_visibility is SocketVisibility.SEEN:
            return False
        self._asked_with, self._swept_at = own, time.monotonic()
        self.socket_visibility, self.clients = self._read(self.sockets, asked, own=own)
        self._suspects = frozenset(
            run
            for each in self._known
            if self.clients.get((each.pid, each.started)) is ClientState.GONE
            and (run := statement_run(each)) is not None
        )
        return bool(self._suspects - self._gone)

    def confirm(self, snapshot: Snapshot) -> frozenset[StatementRun]:
        """The running statements whose client is gone.

        That is known from `snapshot`, the last sweep before it, and the poll before the sweep.
        """
        running = tuple(each for each in snapshot.backends if each.activity is ActivityKind.RUNNING)
        there = {run for each in running if (run := statement_run(each)) is not None}
        self._gone = self._suspects & there
        self._known = running
        return self._gone

    def is_still_gone(self, backend: Backend) -> bool:
        """Whether the client of one session is gone at this moment. False where that cannot be known."""
        own = self.source.own_connection
        if self.sockets is None or own is None or backend.client is None:
            return False
        session = backend.pid, backend.started
        _, clients = self._read(self.sockets, {session: backend.client}, own=own)
        return clients.get(session) is ClientState.GONE

    def _read(
        self, sockets: Sockets, asked: Mapping[Session, ClientEndpoint], *, own: OwnConnection
    ) -> tuple[SocketVisibility, dict[Session, ClientState]]:
        reading, spares = sockets.read(asked, own=own), self.spares_half_closed
        states = {each: without_close_wait(state, spares_half_closed=spares) for each, state in reading.clients.items()}
        return reading.visibility, states
