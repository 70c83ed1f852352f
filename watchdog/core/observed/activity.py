"""What one poll of one cluster saw: backends, their starts and what each of them is doing.

Owns the reading of a row's state. Knows no budgets, no job keys and no SQL; every age in here was
computed by the server, so the clock of the machine that watches enters nowhere.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from watchdog.core.observed.wait_events import CLIENT_READ

UNKNOWN = "unknown"
"""The name of a role or database that the row or the census does not tell."""

FASTPATH = "fastpath function call"
RUNNING_STATES = frozenset({"active", FASTPATH})


class ActivityKind(StrEnum):
    """What a backend is doing, from its state and its wait event."""

    RUNNING = "running"
    HOLDING = "holding"
    IDLE = "idle"


class Clock(StrEnum):
    """Which start a run is measured from; the two are never mixed."""

    STATEMENT = "statement"
    RUN = "run"


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """An instant on the server's clock, and how long ago it was when the snapshot was taken."""

    at: datetime
    age: timedelta


@dataclass(frozen=True, slots=True, order=True)
class ClientEndpoint:
    """The client's end of a TCP connection. The address is in its shortest form, of v4-mapped ones the IPv4."""

    address: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One client backend of the activity view; its identity is pid and `started`, never the pid alone."""

    pid: int
    started: datetime
    role: str
    database: str
    application_name: str
    state: str
    wait_event_type: str | None
    wait_event: str | None
    query: Moment | None
    transaction: Moment | None
    changed: Moment | None
    has_xid: bool
    query_id: int | None
    role_oid: int | None = None
    client: ClientEndpoint | None = None

    @property
    def activity(self) -> ActivityKind:
        """Running, unless the server waits for its own client; holding, if a transaction is open."""
        if self.state in RUNNING_STATES and self.wait_event != CLIENT_READ:
            return ActivityKind.RUNNING
        if self.transaction is not None or self.state in RUNNING_STATES:
            return ActivityKind.HOLDING
        return ActivityKind.IDLE

    def start(self, clock: Clock) -> Moment | None:
        """The start that `clock` counts from, or None where the row does not show it."""
        statement = self.changed if self.state == FASTPATH else self.query
        match clock:
            case Clock.STATEMENT:
                return statement
            case Clock.RUN:
                return min((m for m in (statement, self.transaction) if m is not None), default=None)
        assert_never(clock)


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """One backend doing one piece of work. Only the noun: what it is worth is in `cases.Case`."""

    pid: int
    backend_start: datetime
    start: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One poll of one cluster, stamped with the server's clock.

    `backends` are the client backends that run or are in a transaction; idle ones are not read.
    `sees_all` is False where the role has lost, or never had, the right to read other roles' rows.
    """

    at: datetime
    postmaster_start: datetime
    in_recovery: bool
    sees_all: bool
    backends: tuple[Backend, ...]
