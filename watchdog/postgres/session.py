"""One session on one cluster. It runs one statement at a time, each with a deadline.

It is opened in advance and kept open, because a server in trouble may accept no new connection. When a deadline passes,
the socket is shut down first and the task is cancelled second: the driver would send a cancel request, and that takes
seconds if the server does not answer. Behind a pooler no setting is changed, because the pooler would pass our short
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

from watchdog.core.observed.reasons import Reason
from watchdog.core.observed.sockets import OwnConnection, endpoint_of
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
    """The pid of the backend that answers."""

    pid: int


class OwnTimeoutRow(NamedTuple):
    """The value of the setting after the statement."""

    statement_timeout: str


class SessionSettingsRow(NamedTuple):
    """The values of the settings after the statement."""

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
    transaction_timeout: str | None


class WhoamiRow(NamedTuple):
    """Our own session. For a Unix socket the addresses are NULL, and the client's port is -1."""

    pid: int
    usesysid: int | None
    client_addr: str | None
    client_port: int | None
    server_addr: str | None
    server_port: int | None


class NoRow(NamedTuple):
    """A statement that returns no rows."""


TRANSACTION_BEGIN = Statement("transaction_begin", NoRow)
TRANSACTION_END = Statement("transaction_end", NoRow)
OWN_ISOLATION = Statement("own_isolation", NoRow)
PID = Statement("pid", PidRow)
OWN_TIMEOUT = Statement("own_timeout", OwnTimeoutRow)
SESSION_SETTINGS = Statement("session_settings", SessionSettingsRow)
WHOAMI = Statement("whoami", WhoamiRow)


class Connect(Protocol):
    """Opens a connection within `timeout` seconds."""

    async def __call__(self, *, timeout: float) -> Connection:
        """Open a connection in autocommit mode.

        Raises:
            ReadError: the connection could not be opened; `reason` says why.

        """


@dataclass(slots=True, kw_only=True)
class Session:
    """An open session. `timeout` is the deadline of each statement in seconds.

    `behind_pooler` is true if the backend that answers is not the one that was announced when the connection began.
    """

    connection: Connection
    timeout: float
    own_role: int
    own_pid: int
    behind_pooler: bool
    failures: FailureLog
    own_connection: OwnConnection | None = None
    holds_key: bool = False
    """True if this session has taken the lease's key. Whether it may lead is known once it has looked for others."""

    holds_lease: bool = False
    lease_read_at: float = 0.0
    lease_pause: int = 0
    """For how many calls it does not try to take the lease."""

    @property
    def server_version(self) -> int:
        """The server's version as a number: 180006 for 18.6."""
        return self.connection.info.server_version

    async def rows(self, statement: Statement[Row], parameters: Parameters = (), *, comment: str = "") -> list[Row]:
        """The rows of a statement from `sql/`. `comment` is put before its text and shows in the server's log.

        Raises:
            ReadError: the statement failed or timed out, the connection was lost, or the columns are not the expected
                ones. After our own deadline and after a lost connection the session is closed.

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
        """Close the session without waiting for the server.

        If a statement is running, the socket is shut down. Otherwise the server gets a Terminate message.
        """
        _drop(self.connection)


async def open_session(connect: Connect, *, timeout: float, idle_limit: float, failures: FailureLog) -> Session:
    """Open a session and set it up; `idle_limit` (seconds) is when the server ends it if we fall silent.

    Raises:
        ReadError: the connection could not be opened, or a statement failed; `reason` says why.

    """
    connection = await connect(timeout=timeout)
    connection.prepare_threshold = None
    try:
        greeted = await _answering_pid(connection, timeout=timeout)
        behind_pooler = greeted != connection.info.backend_pid
        if not behind_pooler:
            connection.prepare_threshold = 0
            await _insist(connection, OWN_ISOLATION, (), timeout=timeout)
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
        own_connection=_own_connection(connection, own),
    )


def _own_connection(connection: Connection, own: WhoamiRow) -> OwnConnection:
    """The ends of our session as the server sees them, compared with those of our own socket."""
    server, client = endpoint_of(own.server_addr, own.server_port), endpoint_of(own.client_addr, own.client_port)
    if server is None or client is None:
        return OwnConnection(None, None)
    with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.pgconn.socket)) as end:
        here = (endpoint_of(*_address(end.getpeername())), endpoint_of(*_address(end.getsockname())))
        return OwnConnection(server, client, direct=here == (server, client))
    return OwnConnection(server, client, direct=False)


def _address(name: object) -> tuple[str | None, int | None]:
    """Address and port of a socket's name, which is a path for a Unix socket."""
    if not isinstance(name, tuple):
        return None, None
    return str(name[0]).partition("%")[0], int(name[1])


async def _answering_pid(connection: Connection, *, timeout: float) -> int:
    """The pid of the backend that answers, read in a transaction of an isolation level that works everywhere.

    A very short statement_timeout of our role may cancel one of the statements, so all of them are repeated then.
    """
    for attempt in range(ATTEMPTS + 1):
        try:
            await _bounded(connection, _execute(connection, TRANSACTION_BEGIN, ()), timeout=timeout)
            [row] = await _bounded(connection, _execute(connection, PID, ()), timeout=timeout)
        except ReadError:
            if connection.closed or attempt == ATTEMPTS:
                raise
        else:
            return row.pid
        finally:
            if not connection.closed:
                await _insist(connection, TRANSACTION_END, (), timeout=timeout)
    raise AssertionError("the last attempt returns or raises")


def _limits(*, timeout: float, idle_limit: float) -> tuple[str, str]:
    # The server's timeout is a little shorter than our deadline. So the session survives an ordinary timeout.
    return f"{max(1, int(timeout * 900))}", f"{int(idle_limit * 1000)}"


async def _insist(
    connection: Connection, statement: Statement[Row], parameters: Parameters, *, timeout: float
) -> list[Row]:
    """Run a very short statement, and repeat it if it fails while the connection stays open.

    Our statement_timeout is not set yet, and a very short one of our role may cancel the statement.
    """
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
        if comment:  # the text differs each time, so preparing it would not pay
            await cursor.execute(f"/* {comment} */ ".encode() + text, parameters, prepare=False)
        else:
            await cursor.execute(text, parameters)
        if statement not in connection.checked:
            statement.check([column.name for column in cursor.description or ()])
            connection.checked.add(statement)
        return statement.rows(await cursor.fetchall() if cursor.description is not None else ())


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
    """Shut the socket down first: the driver then sees the end of the stream at once and sends no cancel request."""
    task.add_done_callback(_look_at)
    _cut(connection)
    await asyncio.wait({task}, timeout=0.2)
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.2)
    connection.pgconn.finish()


def _look_at(task: "asyncio.Task[Result]") -> None:
    """Retrieve the task's exception, because asyncio would otherwise log it as never retrieved."""
    if not task.cancelled():
        task.exception()


def _cut(connection: Connection) -> None:
    pgconn = connection.pgconn
    if pgconn.status == psycopg.pq.ConnStatus.OK:
        with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(pgconn.socket)) as end:
            end.shutdown(socket.SHUT_RDWR)


def _drop(connection: Connection) -> None:
    # `finish` sends a Terminate message. Without it the server counts the session in sessions_abandoned, and that
    # counter is one that we export.
    if connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        _cut(connection)
    connection.pgconn.finish()
