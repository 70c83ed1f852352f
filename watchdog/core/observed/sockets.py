"""What the kernel's sockets say about clients: whose end of the connection is gone while its query runs on.

The order makes it sound: rows were read, then the sockets, then the rows again. Only a run that stands in both readings
and whose client had no established connection in between has lost its client.
"""

import ipaddress
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from watchdog.core.observed.activity import ActivityKind, Backend, ClientEndpoint, Clock


class SocketVisibility(StrEnum):
    """Whether a cluster's sockets can be seen from here."""

    SEEN = "seen"
    UNIX_SOCKET = "unix_socket"
    ELSEWHERE = "elsewhere"
    UNAVAILABLE = "unavailable"
    NOT_ASKED = "not_asked"


MAX_ADDRESSES = 10_000
"""That are remembered in their shortest form: reading one takes longer than all else that is read of a row."""

StatementRun = tuple[int, datetime, datetime]
"""Pid, backend start and statement start: what must be the same in both readings."""


def endpoint_of(address: str | None, port: int | None) -> ClientEndpoint | None:
    """A client's end from a row's columns; None for a Unix socket, and where the row does not show it."""
    if address is None or port is None or port <= 0:
        return None
    shortest = _shortest(address)
    return None if shortest is None else ClientEndpoint(shortest, port)


@lru_cache(maxsize=MAX_ADDRESSES)
def _shortest(address: str) -> str | None:
    """The form in which addresses are compared; None for what is none."""
    try:
        found = ipaddress.ip_address(address.partition("/")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def statement_run(backend: Backend) -> StatementRun | None:
    """What identifies the statement that a running backend runs."""
    statement = backend.start(Clock.STATEMENT)
    if backend.activity is not ActivityKind.RUNNING or statement is None:
        return None
    return backend.pid, backend.started, statement.at


def without_client(backends: Iterable[Backend], *, closed: frozenset[ClientEndpoint]) -> frozenset[StatementRun]:
    """The running statements whose client's end is among the closed ones."""
    return frozenset(
        run for backend in backends if backend.client in closed and (run := statement_run(backend)) is not None
    )
