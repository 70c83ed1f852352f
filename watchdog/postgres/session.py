"""One session on one cluster: opened before trouble, one statement at a time, a deadline for each.

A deadline closes the socket first and cancels the task second: the driver's own way, a cancel request to a frozen
server, takes seconds. Behind a pooler nothing is set on the session, because the pooler would hand our short
timeouts on to other clients.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import psycopg

from watchdog.core.observed.activity import ClientEndpoint
from watchdog.core.observed.reasons import Reason
from watchdog.core.observed.sockets import endpoint_of
from watchdog.errors import ReadError
from watchdog.postgres import sql
from watchdog.postgres.connection import Connection
from watchdog.postgres.failure_log import FailureLog
from watchdog.postgres.failures import statement_failure
from watchdog.postgres.statements import Row, Statement

Result = TypeVar("Result")
Parameters = Sequence[object] | Mapping[str, object]

ATTEMPTS = 5


class PidRow(NamedTuple):
    """The server process that answers."""

    pid: int


class OwnTimeoutRow(NamedTuple):
    """The setting as it is now."""

    statement_timeout: str


class SessionSettingsRow(NamedTuple):
    """The settings as they are now."""

    search_path: str
    lock_timeout: str
    idle_session_timeout: str
    jit: str
    plan_cache_mode: str
    timezone: str
    tcp_keepalives_idle: str
    tcp_keepalives_interval: str
    tcp_keepalives_count: str
    tcp_user_timeout: str


class WhoamiRow(NamedTuple):
    """Our own session. The client's address and port are NULL for a Unix socket."""

    pid: int
    usesysid: int | None
    client_addr: str | None
    client_port: int | None


PID = Statement("pid", PidRow)
OWN_TIMEOUT = Statement("own_timeout", OwnTimeoutRow)
SESSION_SETTINGS = Statement("session_settings", SessionSettingsRow)
WHOAMI = Statement("whoami", WhoamiRow)


class Connect(Protocol):
    """Opens a connection within a number of seconds."""

    async def __call__(self, *, timeout: float) -> Connection:
        """A connection in autocommit.

        Raises:
            ReadError: with the reason.

        """


@dataclass(slots=True, kw_only=True)
class Session:
    """An open session. `behind_pooler`: the server process is not the one that greeted us."""

    connection: Connection
    timeout: float
    own_role: int
    own_pid: int
    behind_pooler: bool
    failures: FailureLog
    own_endpoint: ClientEndpoint | None = None
    holds_lease: bool = False

    @property
    def server_version(self) -> int:
        """As the server counts: 180006 for 18.6."""
        return self.connection.info.server_version

    async def rows(self, statement: Statement[Row], parameters: Parameters = (), *, comment: str = "") -> list[Row]:
        """The rows of a statement from `sql/`; `comment` goes before it, for the server's log.

        Raises:
            ReadError: refused, timed out or lost (after the last two the session is closed), or not the columns that
                were expected.

        """
        work = _execute(self.connection, statement, parameters, comment=comment)
        try:
            rows = await _bounded(self.connection, work, timeout=self.timeout)
        except ReadError as error:
            self.failures.failed(statement.name, detail=str(error))
            raise
        self.failures.succeeded(statement.name)
        return rows

    def drop(self) -> None:
        """Close without waiting for the server: with a farewell where no statement is under way, else cut."""
        _drop(self.connection)


async def open_session(connect: Connect, *, timeout: float, idle_limit: float, failures: FailureLog) -> Session:
    """Open a session and settle it; `idle_limit` (seconds) is when the server ends it if we fall silent.

    Raises:
        ReadError: with the reason.

    """
    connection = await connect(timeout=timeout)
    connection.prepare_threshold = None
    try:
        [(greeted,)] = await _insist(connection, PID, (), timeout=timeout)
        behind_pooler = greeted != connection.info.backend_pid
        if not behind_pooler:
            connection.prepare_threshold = 0
            limit, idle = _limits(timeout=timeout, idle_limit=idle_limit)
            await _insist(connection, OWN_TIMEOUT, (limit,), timeout=timeout)
            await _bounded(connection, _execute(connection, SESSION_SETTINGS, (idle, idle)), timeout=timeout)
        [own] = await _bounded(connection, _execute(connection, WHOAMI, ()), timeout=timeout)
    except BaseException:
        _drop(connection)
        raise
    return Session(
        failures=failures,
        connection=connection,
        timeout=timeout,
        own_role=own.usesysid or 0,
        own_pid=own.pid,
        behind_pooler=behind_pooler,
        own_endpoint=endpoint_of(own.client_addr, own.client_port),
    )


def _limits(*, timeout: float, idle_limit: float) -> tuple[str, str]:
    # The server gives up a little before we do, so that an ordinary timeout keeps the session.
    return f"{max(1, int(timeout * 900))}", f"{int(idle_limit * 1000)}"


async def _insist(
    connection: Connection, statement: Statement[Row], parameters: Parameters, *, timeout: float
) -> list[Row]:
    """A tiny statement, again where our role's own statement_timeout, not ours yet, has cancelled it."""
    for _ in range(ATTEMPTS):
        try:
            return await _bounded(connection, _execute(connection, statement, parameters), timeout=timeout)
        except ReadError:
            if connection.closed:
                raise
    return await _bounded(connection, _execute(connection, statement, parameters), timeout=timeout)


async def _execute(
    connection: Connection, statement: Statement[Row], parameters: Parameters, *, comment: str = ""
) -> list[Row]:
    text = sql.statement(statement.name, version=connection.info.server_version)
    async with connection.cursor(binary=True) as cursor:
        if comment:  # a text of its own each time: not worth a prepared statement
            await cursor.execute(f"/* {comment} */ ".encode() + text, parameters, prepare=False)
        else:
            await cursor.execute(text, parameters)
        if statement not in connection.checked:
            statement.check([column.name for column in cursor.description or ()])
            connection.checked.add(statement)
        return statement.rows(await cursor.fetchall())


async def _bounded(connection: Connection, work: Coroutine[object, object, Result], *, timeout: float) -> Result:
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        await _abandon(connection, task)
        raise
    if not done:
        await _abandon(connection, task)
        raise ReadError(Reason.TIMEOUT, f"no answer within {timeout:g} s")
    try:
        return task.result()
    except psycopg.Error as error:
        raise statement_failure(error) from error


async def _abandon(connection: Connection, task: "asyncio.Task[Result]") -> None:
    """Socket first: the driver then sees the end of the stream at once and has nobody to send a cancel to."""
    task.add_done_callback(_look_at)
    _cut(connection)
    await asyncio.wait({task}, timeout=0.2)
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.2)
    connection.pgconn.finish()


def _look_at(task: "asyncio.Task[Result]") -> None:
    """So that a failure that comes when nobody waits any more is not reported as never retrieved."""
    if not task.cancelled():
        task.exception()


def _cut(connection: Connection) -> None:
    pgconn = connection.pgconn
    if pgconn.status == psycopg.pq.ConnStatus.OK:
        with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(pgconn.socket)) as end:
            end.shutdown(socket.SHUT_RDWR)


def _drop(connection: Connection) -> None:
    # Without the farewell the server would count the session as abandoned, in the very counter that we export.
    if connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        _cut(connection)
    connection.pgconn.finish()
