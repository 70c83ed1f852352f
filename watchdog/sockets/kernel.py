"""Finds the clients that are gone, with as little work for the kernel as possible.

A row shows the address and port of its client, and not which of its own addresses the server uses for it. Another
server may listen on the same port of another address, and to that one a client of the same address and port may be
connected. So a client is gone if its connection was seen before and is now absent or closed, and no other one fits. A
client whose connection was never seen is gone only if nobody but one listener can have accepted it.

It owns the memory of the connections that the kernel has shown. It knows nothing of runs.
"""

import errno
import ipaddress
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from watchdog.core.observed.activity import ClientEndpoint
from watchdog.core.observed.sockets import ClientState, OwnConnection, Session, SocketReading, SocketVisibility
from watchdog.sockets import diag
from watchdog.sockets.diag import CLOSE_WAIT, ESTABLISHED, Connection
from watchdog.sockets.pace import Pace

_NOT_OFFERED = frozenset(
    {errno.ENOSYS, errno.EPERM, errno.EACCES, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ENOENT, errno.EOPNOTSUPP}
)
"""The errors of a system, a sandbox or a kernel that does not offer socket diagnostics at all."""

CONNECTED = ClientState.CONNECTED
_SPARING_FIRST = (CONNECTED, ClientState.UNKNOWN, ClientState.HALF_CLOSED, ClientState.CLOSE_WAIT, ClientState.GONE)

FORGET = 60.0
"""Seconds after which a session that is asked for no more is forgotten."""

DUMP_AGAIN = 1.0
"""Seconds after which a client that a dump did not show is looked for in another dump."""


@dataclass(slots=True, kw_only=True)
class _Known:
    """What is known of the client of one session: its connections, one as a rule, and the answer of the last dump."""

    client: ClientEndpoint
    asked_at: float
    connections: frozenset[Connection] = frozenset()
    dumped_at: float | None = None
    absent: ClientState = ClientState.UNKNOWN
    """What it means that none of its connections is there."""

    def wants_dump(self, now: float) -> bool:
        """True if a dump has to be asked before the client is said to have left."""
        unsure = not self.connections or self.absent is ClientState.UNKNOWN
        return self.dumped_at is None or (unsure and now - self.dumped_at >= DUMP_AGAIN)


@dataclass(slots=True, kw_only=True)
class KernelSockets:
    """The sockets of our own network namespace.

    A call blocks for some ten microseconds for each client, and for milliseconds if there are new or closed ones.
    """

    clock: Callable[[], float] = time.monotonic
    _known: dict[tuple[ClientEndpoint, Session], _Known] = field(default_factory=dict)
    _forgot_at: float = 0.0
    _offered: bool = False
    """True once the kernel has answered a dump."""

    _pace: Pace = field(default_factory=Pace)

    @property
    def pause(self) -> float:
        """Seconds between two sweeps of one cluster, chosen so that the sweeps of all clusters together stay cheap."""
        return self._pace.pause

    def read(self, clients: Mapping[Session, ClientEndpoint], *, own: OwnConnection) -> SocketReading:
        """The state of the client of each of these sessions, and whether that can be known here.

        `own` is our session on the same server. If its four ends are not among the sockets that we see, those of the
        other sessions are not either.
        """
        if own.server is None or own.client is None:
            return SocketReading(SocketVisibility.UNIX_SOCKET)
        begun = self.clock()
        try:
            if not self._offered:
                list(diag.listeners(own.server.port))  # raises where the kernel offers no dump
                self._offered = True
            if not own.direct or not _is_established(own.server, own.client):
                return SocketReading(SocketVisibility.ELSEWHERE)
            return SocketReading(SocketVisibility.SEEN, self._states(clients, server=own.server, now=begun))
        except OSError as error:
            never = error.errno in _NOT_OFFERED
            return SocketReading(SocketVisibility.UNAVAILABLE if never else SocketVisibility.FAILED)
        finally:
            now = self.clock()
            self._pace.note(now - begun, now=now)

    def _states(
        self, clients: Mapping[Session, ClientEndpoint], *, server: ClientEndpoint, now: float
    ) -> dict[Session, ClientState]:
        self._forget(now)
        known = {session: self._entry(server, session, client, now=now) for session, client in clients.items()}
        found = _looked_up(known, server=server)
        # A dump may show another connection that fits, so it is asked before a client is said to have left.
        stale = [each for session, each in known.items() if found[session] is not CONNECTED and each.wants_dump(now)]
        if stale:
            self._dump(stale, port=server.port, now=now)
            found = _looked_up(known, server=server)
        for session, each in known.items():
            if found[session] is CONNECTED:
                each.dumped_at = None  # another dump is asked once it is connected no more
        return found

    def _entry(self, server: ClientEndpoint, session: Session, client: ClientEndpoint, *, now: float) -> _Known:
        entry = self._known.get((server, session))
        if entry is None or entry.client != client:
            entry = self._known[server, session] = _Known(client=client, asked_at=now)
        entry.asked_at = now
        return entry

    def _forget(self, now: float) -> None:
        if now - self._forgot_at >= FORGET:
            self._forgot_at = now
            self._known = {key: each for key, each in self._known.items() if now - each.asked_at < FORGET}

    def _dump(self, wanted: list[_Known], *, port: int, now: float) -> None:
        """Look for all connections of these clients in the kernel's table."""
        shown = _by_client(port)
        if any(not shown[each.client] for each in wanted):
            # A table that changes while it is read may leave an entry out, so these are looked for twice.
            for client, sockets in _by_client(port).items():
                shown[client] += sockets
        sole = _sole_listener(port) if any(not each.connections for each in wanted) else {}
        for each in wanted:
            sockets = shown[each.client]
            fits = {found.connection for found in sockets if found.state == ESTABLISHED}
            found_again = diag.look_up(fits).keys()
            each.connections |= found_again
            is_sole = sole.get(ipaddress.ip_address(each.client.address).version, False)
            if is_sole and not each.connections:
                each.connections = frozenset(found.connection for found in sockets)
            known = bool(each.connections or is_sole) and fits == found_again  # or else it has just ended, or is hidden
            each.absent = ClientState.GONE if known else ClientState.UNKNOWN
            each.dumped_at = now


def _looked_up(known: Mapping[Session, _Known], *, server: ClientEndpoint) -> dict[Session, ClientState]:
    """The states of these clients, each connection asked for by its four ends."""
    likely = {session: diag.connection_of(server, each.client) for session, each in known.items()}
    sockets = diag.look_up(
        {each for entry in known.values() for each in entry.connections} | {each for each in likely.values() if each}
    )
    found = {}
    for session, entry in known.items():
        candidate = likely[session]
        direct = None if candidate is None else sockets.get(candidate)
        if direct is not None and direct.state == ESTABLISHED:
            entry.connections |= {direct.connection}
            found[session] = CONNECTED
        else:
            found[session] = _state([sockets[each] for each in entry.connections if each in sockets], entry.absent)
    return found


def _state(there: list[diag.Socket], absent: ClientState) -> ClientState:
    """The state of a client by the sockets that may be its own. It is connected if one of them is established."""
    if not there:
        return absent
    states = {_state_of_one(each) for each in there}
    return next(state for state in _SPARING_FIRST if state in states)


def _state_of_one(found: diag.Socket) -> ClientState:
    """A client that has closed its side: its own end tells more, if it is here."""
    if found.state == ESTABLISHED:
        return CONNECTED
    if found.state != CLOSE_WAIT:
        return ClientState.UNKNOWN  # the server is closing the connection itself
    if not diag.is_local(found.connection.client.address):
        return ClientState.CLOSE_WAIT
    end = found.connection.clients_end
    ends = (end, replace(end, interface=0))
    own = diag.look_up(ends)
    return ClientState.HALF_CLOSED if any(each.inode for each in own.values()) else ClientState.GONE


def _by_client(port: int) -> defaultdict[ClientEndpoint, list[diag.Socket]]:
    found: defaultdict[ClientEndpoint, list[diag.Socket]] = defaultdict(list)
    for each in diag.connections(port):
        found[each.connection.client].append(each)
    return found


def _is_established(server: ClientEndpoint, client: ClientEndpoint) -> bool:
    connection = diag.connection_of(server, client)
    return connection is not None and any(each.state == ESTABLISHED for each in diag.look_up([connection]).values())


def _sole_listener(port: int) -> dict[int, bool]:
    """For each IP version: whether one socket alone listens on `port` for clients of that version."""
    found = list(diag.listeners(port))
    six = [each for each in found if len(each.connection.local) == 16]  # noqa: PLR2004  # bytes of an IPv6 address
    four = len(found) - len(six) + sum(not each.v6_only for each in six)
    return {4: four == 1, 6: len(six) == 1}
