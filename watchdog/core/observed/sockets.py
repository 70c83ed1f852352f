"""Which running statements have lost their client, according to the kernel's TCP sockets.

The rows are read, then the sockets, then the rows again. A statement has lost its client if it is in both readings of
the rows and its client had no established connection in between. This module knows nothing of how sockets are read.
"""

import ipaddress
from collections.abc import Iterable
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


def without_client(backends: Iterable[Backend], *, closed: frozenset[ClientEndpoint]) -> frozenset[StatementRun]:
    """The running statements whose client endpoint is in `closed`."""
    return frozenset(
        run for backend in backends if backend.client in closed and (run := statement_run(backend)) is not None
    )
