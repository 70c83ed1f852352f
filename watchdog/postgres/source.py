"""The source of one cluster's snapshots, and everything else that the runtime asks of its server.

It owns one session and opens a new one when it is lost. It does not judge what it reads.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.status import Lease
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.doctor.facts import Facts
from watchdog.core.observed.activity import Snapshot
from watchdog.core.observed.blocking import Blocking
from watchdog.core.observed.census import Census
from watchdog.core.observed.commands import BackendLookup
from watchdog.core.observed.sockets import OwnConnection
from watchdog.core.observed.statement_failures import StatementFailures
from watchdog.core.present.look import Look
from watchdog.postgres.activity import ACTIVITY, snapshot_of, strangers
from watchdog.postgres.backends import read_backends
from watchdog.postgres.cancel import cancel
from watchdog.postgres.census import take_census
from watchdog.postgres.connection import Connection
from watchdog.postgres.dial import Dialer
from watchdog.postgres.dsn import parameters_of, variables_of
from watchdog.postgres.facts import read_facts
from watchdog.postgres.failure_log import FailureLog
from watchdog.postgres.lease import LEASE_RELEASE, read_lease, release_lease, take_lease
from watchdog.postgres.password import Password
from watchdog.postgres.session import Session, open_session
from watchdog.postgres.sql import own_texts
from watchdog.postgres.statements import Statement

ROW_IN_CONNECTIONS = 6
"""Cost of finding one running row by backend id, as a number of connections that one pass over all of them reads.

It was measured on PostgreSQL 18, from 100 to 1,000 connections. If more than one connection in six runs something, one
pass over all of them is cheaper.
"""

LEASE_DATABASE = "postgres"
"""Database of the lease unless the configuration names another one. An advisory lock belongs to one database."""

MAX_WAITERS = 250
"""Upper bound of the waiters for which the blocking pids are read. Above it, who blocks whom stays unknown.

`pg_blocking_pids` holds the lock manager's shared state exclusively while it runs.
"""


class BlockingRow(NamedTuple):
    """One waiter, the pids that block it directly, and whether it may wait for others that nobody names."""

    pid: int
    blocking_pids: list[int]
    opaque: bool


BLOCKING = Statement("blocking", BlockingRow)

PREPARED = 0
"""What pg_blocking_pids() returns for a prepared transaction."""

MAX_HOPS = 4
"""Upper bound of the questions about one queue. Each goes on at the processes that are no clients of the last poll."""


@dataclass(slots=True, kw_only=True)
class PostgresSource:
    """Reads one cluster. It is not safe for concurrent use: its owner makes one call at a time.

    `timeout` is the deadline of each statement. The server may end our session after `idle_limit` seconds in which we
    send nothing.
    """

    dsn: str
    password: Password
    timeout: float
    idle_limit: float
    env: Mapping[str, str]
    lease_database: str = LEASE_DATABASE
    _dialer: Dialer = field(init=False)
    _failures: FailureLog = field(init=False)
    _session: Session | None = None
    _census: Census | None = None
    _rows: int = 0
    _clients: frozenset[int] = frozenset()
    _census_start: datetime | None = None
    """The start of the postmaster from which the census is, once a poll has shown it."""

    _outdated: bool = False
    _strangers: frozenset[int] = frozenset()
    _accepted: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Create the dialer. It remembers refusals from one connect to the next."""
        self._dialer = Dialer(env=self.env)
        self._failures = FailureLog(name for name in sorted(own_texts().by_name) if name != ACTIVITY.name)

    @property
    def census_is_stale(self) -> bool:
        """True if the last snapshot shows an unknown role or database, or a change of our right to see all rows."""
        return self._outdated

    @property
    def statement_failures(self) -> StatementFailures:
        """The failures of the statements beside the poll, by name; those of the poll make a cluster unread."""
        return self._failures.read()

    @property
    def is_open(self) -> bool:
        """True while the session is open. A statement that the server refuses does not close it."""
        return self._session is not None and not self._session.connection.closed

    @property
    def identity(self) -> tuple[object, ...]:
        """What is read and how. The password's value is not part of it, because it is read at every connect."""
        return (
            self.dsn,
            self.password.file,
            self.password.command,
            self.timeout,
            self.idle_limit,
            self.lease_database,
        )

    @property
    def own_connection(self) -> OwnConnection | None:
        """The four ends of our session, or None while there is none. A reading of the sockets needs them."""
        return None if self._session is None else self._session.own_connection

    def inherit_state(self, before: object) -> None:
        """Go on with the counts of failures of an earlier source of the same cluster."""
        if isinstance(before, PostgresSource):
            self._failures.go_on_from(before._failures)  # noqa: SLF001  # of the same class

    async def census(self) -> Census:
        """Take a census and keep it, because later snapshots get their names from it.

        Raises:
            ReadError: the cluster could not be read; `reason` says why.

        """
        self._census = await take_census(await self._open())
        # A role or database that is still unknown after a census has been dropped. It needs no further census.
        self._accepted = self._strangers
        self._outdated, self._census_start = False, None
        return self._census

    async def snapshot(self) -> tuple[Snapshot, timedelta]:
        """Poll once, and say how long it took. If there is no census yet, one is taken first.

        Raises:
            ReadError: the cluster could not be read; `reason` says why.

        """
        session = await self._open()
        census = self._census
        if census is None:
            census = await self.census()
        begun = time.monotonic()
        sparse = self._rows * ROW_IN_CONNECTIONS < census.connections_used
        parameters = {"sparse": sparse, "own_role": session.own_role}
        rows = await session.rows(ACTIVITY, parameters)
        took = timedelta(seconds=time.monotonic() - begun)
        self._rows, self._clients = len(rows), frozenset(row.pid for row in rows if row.pid is not None)
        snapshot = snapshot_of(rows, census=census)
        self._strangers = strangers(rows, census=census)
        self._census_start = self._census_start or snapshot.postmaster_start
        is_other = self._census_start != snapshot.postmaster_start  # another server, perhaps, after a failover
        self._outdated = snapshot.sees_all != census.sees_all or not self._strangers <= self._accepted or is_other
        return snapshot, took

    async def blocking(self, waiters: Sequence[int]) -> Blocking | None:
        """The pids that block each of `waiters`, or None if there are more than MAX_WAITERS.

        Raises:
            ReadError: the cluster could not be read; `reason` says why.

        """
        if len(waiters) > MAX_WAITERS:
            return None
        session, pids, outside = await self._open(), list(waiters), False
        edges: dict[int, frozenset[int]] = {}
        opaque = set()
        for _ in range(MAX_HOPS):
            rows = await session.rows(BLOCKING, {"pids": pids, "outside": outside})
            edges |= {row.pid: frozenset(row.blocking_pids) for row in rows}
            opaque |= {row.pid for row in rows if row.opaque}
            # A queue may go on through processes that are no clients, such as one that applies changes.
            blockers = {pid for row in rows for pid in row.blocking_pids}
            pids, outside = sorted(blockers - edges.keys() - self._clients - {PREPARED}), True
            if not pids:
                break
        return Blocking(edges, frozenset(opaque).union(pids))

    async def backends(self, *, commands: Sequence[int] = (), alive: Sequence[int] = ()) -> BackendLookup:
        """The first words of what the pids in `commands` run, and which pids of both lists are still there.

        No statement is sent if both lists are empty.

        Raises:
            ReadError: the cluster could not be read; `reason` says why.

        """
        if not commands and not alive:
            return BackendLookup()
        return await read_backends(await self._open(), commands=commands, alive=alive)

    async def facts(self, look: Look) -> Facts:
        """What the doctor needs to know in addition to `look`, which was just taken.

        Raises:
            ReadError: the cluster could not be read; `reason` says why.

        """
        session = await self._open()
        lease = await read_lease(session, database=self.lease_database)
        silence = timedelta(seconds=self.idle_limit)
        return await read_facts(session, look, lease=lease, silence=silence, variables=variables_of(self.dsn, self.env))

    async def lease(self) -> Lease:
        """Take the lease, or say why we do not have it.

        Raises:
            ReadError: the cluster could not be read; `reason` says why.

        """
        lease = await take_lease(await self._open(), database=self.lease_database)
        if lease.leads:  # it is wanted again, so it does not matter any more that it could not be released
            self._failures.succeeded(LEASE_RELEASE.name)
        return lease

    async def lease_holder(self) -> Lease:
        """Read who holds the lease, without taking it.

        Raises:
            ReadError: the cluster could not be read; `reason` says why.

        """
        return await read_lease(await self._open(), database=self.lease_database)

    async def release_lease(self) -> None:
        """Release the lease if the open session holds it.

        Raises:
            ReadError: the cluster could not be read; `reason` says why.

        """
        if self._session is not None and self.is_open:
            await release_lease(self._session)

    async def cancel(
        self, target: CancelTarget, *, act: str, manual: bool = False
    ) -> tuple[Result, Withheld | None, str]:
        """Run the guarded statement on the open session. If no session is open, nothing is tried."""
        session = self._session
        if session is None or not self.is_open:
            return Result.NOT_TRIED, None, "the session is lost"
        return await cancel(session, target, act=act, manual=manual)

    def close(self) -> None:
        """End the session at once, even if the server does not answer. The next call opens a new one."""
        session, self._session = self._session, None
        if session is not None:
            session.drop()

    async def _open(self) -> Session:
        if not self.is_open or self._session is None:
            self.close()
            self._failures.succeeded(LEASE_RELEASE.name)  # a lease ends with its session
            self._session = await open_session(
                self._connect, timeout=self.timeout, idle_limit=self.idle_limit, failures=self._failures
            )
        return self._session

    async def _connect(self, *, timeout: float) -> Connection:
        parameters = parameters_of(self.dsn, env=self.env)
        secrets = (parameters.get("password"), parameters.get("sslpassword"), self.env.get("PGPASSWORD"))
        password = await self.password.read(timeout=timeout, secrets=secrets)
        if password is not None:
            parameters["password"] = password
        return await self._dialer.connect(parameters, timeout=timeout)
