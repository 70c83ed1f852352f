"""A cluster as a source of snapshots: what the runtime polls. One session, reopened when it is lost."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.status import Lease
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.doctor.facts import Facts
from watchdog.core.observed.activity import ClientEndpoint, Snapshot
from watchdog.core.observed.blocking import Blocking
from watchdog.core.observed.census import Census
from watchdog.core.observed.commands import BackendLookup
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
from watchdog.postgres.lease import read_lease, release_lease, take_lease
from watchdog.postgres.password import Password
from watchdog.postgres.session import Session, open_session
from watchdog.postgres.sql import own_texts
from watchdog.postgres.statements import Statement

ROW_IN_CONNECTIONS = 6
"""Finding one running row by id costs the server as much as passing six connections by (measured on 18, from 100 to
1,000 connections): with more running than that share of all connections, one pass over all is cheaper."""

LEASE_DATABASE = "postgres"
"""Where the lease lives unless the configuration says otherwise: an advisory lock is one database's own."""

MAX_WAITERS = 250
"""The lock manager is held while it is asked who blocks whom; beyond this many it stays unknown."""


class BlockingRow(NamedTuple):
    """One waiter, and the pids directly in its way."""

    pid: int
    blocking_pids: list[int]


BLOCKING = Statement("blocking", BlockingRow)


@dataclass(slots=True, kw_only=True)
class PostgresSource:
    """Reads one cluster. Not safe for concurrent use: its owner asks one thing at a time.

    `idle_limit` (seconds) is when the server may end our session because it has fallen silent.
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
    _outdated: bool = False
    _strangers: frozenset[int] = frozenset()
    _accepted: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Make the dialer, which remembers refusals from one connect to the next."""
        self._dialer = Dialer(env=self.env)
        self._failures = FailureLog(name for name in sorted(own_texts().by_name) if name != ACTIVITY.name)

    @property
    def census_is_stale(self) -> bool:
        """True where the last snapshot showed what the census does not know: a stranger, or a changed right."""
        return self._outdated

    @property
    def statement_failures(self) -> StatementFailures:
        """The failures of the statements beside the poll, by name; those of the poll make a cluster unread."""
        return self._failures.read()

    @property
    def is_open(self) -> bool:
        """True while the session stands, also after a statement that the server has refused."""
        return self._session is not None and not self._session.connection.closed

    @property
    def identity(self) -> tuple[object, ...]:
        """What it reads and how; the password's own value is no part of it, it is read at every connect."""
        return (
            self.dsn,
            self.password.file,
            self.password.command,
            self.timeout,
            self.idle_limit,
            self.lease_database,
        )

    @property
    def endpoints(self) -> tuple[ClientEndpoint | None, int | None]:
        """Our own end as the server sees it, and the server's port: where sockets would have to be looked for."""
        port = None if self._census is None else self._census.settings.server.get("port")
        own = None if self._session is None else self._session.own_endpoint
        return own, None if port is None else int(port)

    async def census(self) -> Census:
        """Take a census and remember it for the names in later snapshots.

        Raises:
            ReadError: with the reason.

        """
        self._census = await take_census(await self._open())
        # Whoever is still unknown after a census has been dropped: no reason to take another.
        self._accepted = self._strangers
        self._outdated = False
        return self._census

    async def snapshot(self) -> tuple[Snapshot, timedelta]:
        """One poll and how long it took; a census must have been taken.

        Raises:
            ReadError: with the reason.

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
        self._rows = len(rows)
        snapshot = snapshot_of(rows, census=census)
        self._strangers = strangers(rows, census=census)
        self._outdated = snapshot.sees_all != census.sees_all or not self._strangers <= self._accepted
        return snapshot, took

    async def blocking(self, waiters: Sequence[int]) -> Blocking | None:
        """Who blocks whom among `waiters`, or None where there are too many to ask.

        Raises:
            ReadError: with the reason.

        """
        if len(waiters) > MAX_WAITERS:
            return None
        session = await self._open()
        rows = await session.rows(BLOCKING, (list(waiters),))
        return Blocking({row.pid: frozenset(row.blocking_pids) for row in rows})

    async def backends(self, *, commands: Sequence[int] = (), alive: Sequence[int] = ()) -> BackendLookup:
        """The first words of what the backends behind `commands` run, and which sessions behind either are there.

        Nothing is sent where nothing is asked.

        Raises:
            ReadError: with the reason.

        """
        if not commands and not alive:
            return BackendLookup()
        return await read_backends(await self._open(), commands=commands, alive=alive)

    async def facts(self, look: Look) -> Facts:
        """What the doctor wants to know besides a look that was just taken.

        Raises:
            ReadError: with the reason.

        """
        session = await self._open()
        lease = await read_lease(session, database=self.lease_database)
        silence = timedelta(seconds=self.idle_limit)
        return await read_facts(session, look, lease=lease, silence=silence, variables=variables_of(self.dsn, self.env))

    async def lease(self) -> Lease:
        """Take the lease or say why not.

        Raises:
            ReadError: with the reason.

        """
        return await take_lease(await self._open(), database=self.lease_database)

    async def lease_holder(self) -> Lease:
        """Who holds the lease, without taking it.

        Raises:
            ReadError: with the reason.

        """
        return await read_lease(await self._open(), database=self.lease_database)

    async def release_lease(self) -> None:
        """Let go of the lease if the open session holds it.

        Raises:
            ReadError: with the reason.

        """
        if self._session is not None and self.is_open:
            await release_lease(self._session)

    async def cancel(
        self, target: CancelTarget, *, act: str, manual: bool = False
    ) -> tuple[Result, Withheld | None, str]:
        """Send the guarded statement on the session that is open; without one nothing is tried."""
        session = self._session
        if session is None or not self.is_open:
            return Result.NOT_TRIED, None, "the session is lost"
        return await cancel(session, target, act=act, manual=manual)

    def close(self) -> None:
        """End the session at once, whatever state the server is in; the next call opens a new one."""
        session, self._session = self._session, None
        if session is not None:
            session.drop()

    async def _open(self) -> Session:
        if not self.is_open or self._session is None:
            self.close()
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
