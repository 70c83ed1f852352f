"""Which running statements have lost their client, according to the kernel's TCP sockets.

The rows are read, then the sockets, then the rows again. A statement has lost its client if it is in both readings of
the rows and its client's connection was closed in between. This module knows nothing of how sockets are read.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from watchdog.core.observed.activity import ActivityKind, Backend, ClientEndpoint, Clock


class SocketVisibility(StrEnum):
    """Whether the sockets of a cluster's connections are visible to pgwatchdog, and if not, why."""

    SEEN = "seen"
    UNIX_SOCKET = "unix_socket"
    ELSEWHERE = "elsewhere"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"
    NOT_ASKED = "not_asked"


class ClientState(StrEnum):
    """What the sockets say of the client of one session.

    - `connected`: its connection is established.
    - `gone`: its connection is absent, or closed by a client whose own end is here and belongs to nobody.
    - `close_wait`: closed by the client, whose own end is not here. It may be gone, or it may have closed only its
      sending half and still read.
    - `half_closed`: closed by the client, whose own end is here and still belongs to a process.
    - `unknown`: it cannot be told which of the sockets is its own.
    """

    CONNECTED = "connected"
    GONE = "gone"
    CLOSE_WAIT = "close_wait"
    HALF_CLOSED = "half_closed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OwnConnection:
    """Our own session by its four ends, as the server sees them. Both are None for a Unix socket.

    `direct` is true if our own socket has the same ends. Otherwise something stands between us and the server (a
    tunnel, a pooler, address translation), and ends that look alike here are those of others.
    """

    server: ClientEndpoint | None
    client: ClientEndpoint | None
    direct: bool = True


Session = tuple[int, datetime]
"""Pid and backend start."""


@dataclass(frozen=True, slots=True)
class SocketReading:
    """One reading of the sockets: whether they are visible, and if so the state of each client that was asked for."""

    visibility: SocketVisibility
    clients: Mapping[Session, ClientState] = field(default_factory=dict)


MAX_ADDRESSES = 10_000
"""Upper bound of the addresses whose shortest form is cached. They are cached because parsing an address takes longer
than reading the rest of a row."""

StatementRun = tuple[int, datetime, datetime]
"""Pid, backend start and statement start. They must be equal in both readings of the rows."""


def endpoint_of(address: str | None, port: int | None) -> ClientEndpoint | None:
    """The client endpoint from the columns of a row; None for a Unix-domain socket and if the row does not show it."""
    if address is None or port is None or port <= 0:
        return None
    shortest = _shortest(address)
    return None if shortest is None else ClientEndpoint(shortest, port)


@lru_cache(maxsize=MAX_ADDRESSES)
def _shortest(address: str) -> str | None:
    """The form in which addresses are compared, or None if `address` is not an IP address."""
    try:
        found = ipaddress.ip_address(address.partition("/")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def statement_run(backend: Backend) -> StatementRun | None:
    """The identity of the statement that `backend` runs, or None if it runs none or its start is not known."""
    statement = backend.start(Clock.STATEMENT)
    if backend.activity is not ActivityKind.RUNNING or statement is None:
        return None
    return backend.pid, backend.started, statement.at


def without_close_wait(state: ClientState, *, spares_half_closed: bool) -> ClientState:
    """What a client counts as whose own end is out of sight: half-closed or gone, as the configuration has it."""
    if state is not ClientState.CLOSE_WAIT:
        return state
    return ClientState.HALF_CLOSED if spares_half_closed else ClientState.GONE
