"""Opening a connection: names looked up apart, every host tried, one deadline, and the SQLSTATE of a refusal.

libpq shows no SQLSTATE for a refused connection, only words in the server's language. Its protocol trace does:
a refusal that has not been seen before is asked for once more with the trace on. (Each trace costs libpq a little
memory that it never gives back, hence once.)
"""

import asyncio
import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn

from watchdog.core.look import Reason
from watchdog.errors import ReadError
from watchdog.postgres.apart import run_apart
from watchdog.postgres.dsn import Endpoint, Parameters, endpoints_of
from watchdog.postgres.failures import connect_failure

APPLICATION_NAME = "pgwatchdog"
OLDEST_VERSION = 140000
DEFAULT_PORT = 5432
MOST_TRACES = 32

_STATE = re.compile(rb'ErrorResponse\b.*? C "([0-9A-Z]{5})"')


@dataclass(slots=True)
class Dialer:
    """Opens connections to one cluster. Keeps the SQLSTATE of each refusal that it has seen."""

    env: Mapping[str, str]
    refusals: dict[str, str | None] = field(default_factory=dict)

    async def connect(self, parameters: Parameters, *, timeout: float) -> psycopg.AsyncConnection[tuple[object, ...]]:
        """A connection in autocommit, within `timeout` seconds in all.

        Raises:
            ReadError: with the reason of the last attempt.

        """
        ends = time.monotonic() + timeout
        attempts = await self._attempts(parameters, timeout=timeout)
        failure = ReadError(Reason.UNREACHABLE, "no address to connect to")
        for i, attempt in enumerate(attempts):
            share = max(0.05, (ends - time.monotonic()) / (len(attempts) - i))
            try:
                return await self._attempt(attempt, timeout=share)
            except ReadError as error:
                failure = error
        raise failure

    async def _attempts(self, parameters: Parameters, *, timeout: float) -> list[Parameters]:
        base = {key: value for key, value in parameters.items() if key not in _PER_ATTEMPT}
        base |= {"application_name": APPLICATION_NAME, "client_encoding": "UTF8"}
        attempts: list[Parameters] = []
        failure: ReadError | None = None
        for endpoint in endpoints_of(parameters, env=self.env):
            try:
                attempts += [{**base, **where} for where in await _addresses(endpoint, timeout=timeout)]
            except ReadError as error:
                failure = error
        if failure is not None and not attempts:
            raise failure
        if parameters.get("target_session_attrs") == "prefer-standby":
            loose = [{k: v for k, v in each.items() if k != "target_session_attrs"} for each in attempts]
            return [{**each, "target_session_attrs": "standby"} for each in loose] + loose
        return attempts

    async def _attempt(self, attempt: Parameters, *, timeout: float) -> psycopg.AsyncConnection[tuple[object, ...]]:
        pgconn, _ = await _start(attempt, timeout=timeout, traced=False)
        if pgconn.status == pq.ConnStatus.OK:
            return await _adopt(pgconn)
        message = pgconn.get_error_message()
        pgconn.finish()
        if message not in self.refusals and len(self.refusals) < MOST_TRACES:
            again, state = await _start(attempt, timeout=timeout, traced=True)
            if again.status == pq.ConnStatus.OK:
                return await _adopt(again)
            again.finish()
            self.refusals[message] = state
        raise connect_failure(self.refusals.get(message), message=message)


_PER_ATTEMPT = frozenset({"host", "hostaddr", "port", "connect_timeout", "application_name", "client_encoding"})


async def _addresses(endpoint: Endpoint, *, timeout: float) -> list[Parameters]:
    where = {"host": endpoint.host, "hostaddr": endpoint.hostaddr, "port": endpoint.port}
    given = {key: value for key, value in where.items() if value is not None}
    host = endpoint.host
    if host is None or not endpoint.needs_lookup:
        return [given]
    port = int(endpoint.port) if (endpoint.port or "").isdigit() and endpoint.port else DEFAULT_PORT
    try:
        found = await run_apart(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), timeout=timeout)
    except TimeoutError as error:
        raise ReadError(Reason.NAME_LOOKUP, f"the name {host!r} was not looked up within {timeout:g} s") from error
    except OSError as error:
        raise ReadError(Reason.NAME_LOOKUP, f"the name {host!r} cannot be looked up: {error.strerror}") from error
    addresses = dict.fromkeys(str(each[4][0]) for each in found)
    return [{**given, "hostaddr": address} for address in addresses]


async def _start(attempt: Parameters, *, timeout: float, traced: bool) -> tuple[PGconn, str | None]:
    """A connection that is up or refused, and the SQLSTATE of the refusal where it was traced."""
    pgconn = pq.PGconn.connect_start(psycopg.conninfo.make_conninfo("", **attempt).encode())
    trace = os.memfd_create("trace") if traced and hasattr(os, "memfd_create") else None
    try:
        if trace is not None:
            pgconn.trace(trace)
        await asyncio.wait_for(_poll(pgconn), timeout)
    except TimeoutError as error:
        pgconn.finish()
        raise ReadError(Reason.TIMEOUT, f"no connection within {timeout:.1f} s") from error
    except asyncio.CancelledError:
        pgconn.finish()
        raise
    finally:
        state = None
        if trace is not None:
            pgconn.untrace()
            state = _traced_state(trace)
            os.close(trace)
    return pgconn, state


async def _poll(pgconn: PGconn) -> None:
    while pgconn.status != pq.ConnStatus.BAD:
        status = pgconn.connect_poll()
        match status:
            case pq.PollingStatus.READING | pq.PollingStatus.WRITING:
                await _ready(pgconn.socket, writing=status == pq.PollingStatus.WRITING)
            case pq.PollingStatus.OK | pq.PollingStatus.FAILED:
                return
            case _:  # libpq keeps one more word and never uses it
                await asyncio.sleep(0)


async def _ready(fd: int, *, writing: bool) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    watch, unwatch = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    watch(fd, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        unwatch(fd)


def _traced_state(trace: int) -> str | None:
    os.lseek(trace, 0, os.SEEK_SET)
    found = _STATE.findall(os.read(trace, 1 << 20))
    return found[-1].decode() if found else None


async def _adopt(pgconn: PGconn) -> psycopg.AsyncConnection[tuple[object, ...]]:
    pgconn.nonblocking = 1
    if pgconn.server_version < OLDEST_VERSION:
        version = pgconn.parameter_status(b"server_version") or b"?"
        pgconn.finish()
        raise ReadError(
            Reason.UNSUPPORTED_VERSION,
            f"the server is PostgreSQL {version.decode(errors='replace')}; 14 is the oldest that can be watched",
        )
    connection: psycopg.AsyncConnection[tuple[object, ...]] = psycopg.AsyncConnection(pgconn)
    await connection.set_autocommit(True)
    return connection
