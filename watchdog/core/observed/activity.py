"""The result of one poll of one cluster: backends, their start times, and what each backend is doing.

This module owns the interpretation of a row's state. It must not know budgets, job keys or SQL. Every age was computed
by the server, so the clock of the machine that runs pgwatchdog is not used.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from watchdog.core.observed.wait_events import CLIENT_READ

UNKNOWN = "unknown"
"""Name that stands for a role or database whose oid is NULL in the row or is not in the census."""

FASTPATH = "fastpath function call"
"""State of a backend that executes a fast-path function, as `pg_stat_activity.state` shows it."""

RUNNING_STATES = frozenset({"active", FASTPATH})
"""States in which a backend executes something."""


STARTING = "starting"
"""State of a session that is not logged in yet, from PostgreSQL 18 on. Before, such a session has no row."""


class ActivityKind(StrEnum):
    """What a backend is doing, derived from its state, its wait event and its transaction."""

    RUNNING = "running"
    HOLDING = "holding"
    LOGGING_IN = "logging in"
    IDLE = "idle"


class Clock(StrEnum):
    """The start from which a run's age is measured: the statement's, or the earlier of statement and transaction."""

    STATEMENT = "statement"
    RUN = "run"


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """An instant on the server's clock, and its age when the snapshot was taken."""

    at: datetime
    age: timedelta


@dataclass(frozen=True, slots=True, order=True)
class ClientEndpoint:
    """The client's address and port of a TCP connection.

    The address is in its shortest form. An IPv4-mapped IPv6 address is stored as the IPv4 address.
    """

    address: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One client backend of `pg_stat_activity`. `pid` and `started` together identify it, because pids are reused."""

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
    database_oid: int | None = None
    client: ClientEndpoint | None = None

    @property
    def activity(self) -> ActivityKind:
        """Running while it executes something and does not wait for its client; otherwise holding or idle.

        A backend is holding if a transaction is open, or if its state is a running one and it waits for its client. A
        session that logs in has a transaction of its own, in which it reads the catalog.
        """
        if self.state == STARTING:
            return ActivityKind.LOGGING_IN
        if self.state in RUNNING_STATES and self.wait_event != CLIENT_READ:
            return ActivityKind.RUNNING
        if self.transaction is not None or self.state in RUNNING_STATES:
            return ActivityKind.HOLDING
        return ActivityKind.IDLE

    def start(self, clock: Clock) -> Moment | None:
        """The start from which `clock` measures, or None if the row does not show it."""
        statement = self.changed if self.state == FASTPATH else self.query
        match clock:
            case Clock.STATEMENT:
                return statement
            case Clock.RUN:
                return min((m for m in (statement, self.transaction) if m is not None), default=None)
        assert_never(clock)


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """The identity of one piece of work of one backend. How it is judged is in `cases.Case`."""

    pid: int
    backend_start: datetime
    start: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One poll of one cluster. `at` is the time of the poll on the server's clock.

    `backends` are the client backends that run a statement or are in a transaction. Idle backends are not read.
    `sees_all` is False if pgwatchdog's role lacks the right to read the rows of other roles (`pg_read_all_stats`).
    """

    at: datetime
    postmaster_start: datetime
    in_recovery: bool
    sees_all: bool
    backends: tuple[Backend, ...]
