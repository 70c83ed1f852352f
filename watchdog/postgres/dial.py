"""Opens connections: looks up host names in threads, tries every host, and keeps one deadline for all of it.

For a refused connection libpq gives no SQLSTATE, only a message in the server's language. Its protocol trace shows the
SQLSTATE. So if a refusal has not been seen before, the connection is tried a second time with the trace on. This is
done once for each refusal, because each trace costs libpq a little memory that it never frees.
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

from watchdog.core.observed.reasons import Reason
from watchdog.core.observed.versions import MIN_SUPPORTED, major
from watchdog.errors import ReadError
from watchdog.postgres.connection import Connection
from watchdog.postgres.dsn import Endpoint, Parameters, endpoints_of
from watchdog.postgres.failures import connect_failure
from watchdog.threads import ThreadCall

APPLICATION_NAME = "pgwatchdog"
MIN_ATTEMPT = 0.05
MAX_REFUSALS = 32
TRACE_PAUSE = 600.0
"""Minimum seconds between two traces once MAX_REFUSALS different refusals are remembered."""

_STATE = re.compile(rb'ErrorResponse\b.*? C "([0-9A-Z]{5})"')


@dataclass(slots=True)
class Dialer:
    """Opens connections to one cluster. `refusals` has the SQLSTATE of each refusal seen so far, by its message."""

    env: Mapping[str, str]
    refusals: dict[str, str | None] = field(default_factory=dict)
    _traced_at: float = float("-inf")
    _lookups: dict[str, ThreadCall] = field(default_factory=dict)

    async def connect(self, parameters: Parameters, *, timeout: float) -> Connection:
        """Open a connection in autocommit mode within `timeout` seconds. The hosts share that time.

        Raises:
            ReadError: no host could be connected to; `reason` is that of the last attempt.

        """
        base = {key: value for key, value in parameters.items() if key not in _PER_ATTEMPT}
        base |= {"application_name": APPLICATION_NAME, "client_encoding": "SQL_ASCII"}  # no conversion by the server
        plan = _plan(base, endpoints_of(parameters, env=self.env))
        ends = time.monotonic() + timeout
        failure = ReadError(Reason.UNREACHABLE, "no host to connect to")
        for i, (endpoint, chosen) in enumerate(plan):
            share = max(MIN_ATTEMPT, (ends - time.monotonic()) / (len(plan) - i))
            try:
                return await self._endpoint(endpoint, chosen, timeout=share)
            except ReadError as error:
                failure = error
        raise failure

    async def _endpoint(self, endpoint: Endpoint, base: Parameters, *, timeout: float) -> Connection:
        ends = time.monotonic() + timeout
        addresses = await self._addresses(endpoint, timeout=timeout / 2)
        failure = ReadError(Reason.UNREACHABLE, "no address to connect to")
        for i, where in enumerate(addresses):
            share = max(MIN_ATTEMPT, (ends - time.monotonic()) / (len(addresses) - i))
            try:
                return await self._attempt({**base, **where}, timeout=share)
            except ReadError as error:
                failure = error
        raise failure

    async def _addresses(self, endpoint: Endpoint, *, timeout: float) -> list[Parameters]:
        where = {"host": endpoint.host, "hostaddr": endpoint.hostaddr, "port": endpoint.port}
        given = {key: value for key, value in where.items() if value is not None}
        host = endpoint.host
        if host is None or not endpoint.needs_lookup:
            return [given]
        lookup = self._lookups.setdefault(host, ThreadCall())
        try:
            found = await lookup.run(lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM), timeout=timeout)
        except TimeoutError as error:
            raise ReadError(
                Reason.NAME_LOOKUP, f"the name {host!r} was not looked up within {timeout:.1f} s"
            ) from error
        except OSError as error:
            raise ReadError(Reason.NAME_LOOKUP, f"the name {host!r} cannot be looked up: {error.strerror}") from error
        return [{**given, "hostaddr": address} for address in dict.fromkeys(str(each[4][0]) for each in found)]

    async def _attempt(self, attempt: Parameters, *, timeout: float) -> Connection:
        pgconn, _ = await _start(attempt, timeout=timeout, traced=False)
        if pgconn.status == pq.ConnStatus.OK:
            return await _wrapped(pgconn)
        message, no_password = pgconn.get_error_message(), pgconn.needs_password
        pgconn.finish()
        if no_password:
            raise connect_failure(None, message=message, no_password=True)
        # The address comes before "failed: " and may differ each time. The rest of the message is used only as a key.
        refusal = message.partition("failed: ")[2] or message
        if refusal not in self.refusals and self._may_trace():
            again, state = await _start(attempt, timeout=timeout, traced=True)
            if again.status == pq.ConnStatus.OK:
                return await _wrapped(again)
            again.finish()
            self.refusals[refusal] = state
        raise connect_failure(self.refusals.get(refusal), message=message, no_password=False)

    def _may_trace(self) -> bool:
        """True if a new refusal may be traced now.

        It may while fewer than MAX_REFUSALS are remembered. After that it may once in TRACE_PAUSE seconds, and the
        oldest one is dropped.
        """
        now = time.monotonic()
        if len(self.refusals) >= MAX_REFUSALS:
            if now - self._traced_at < TRACE_PAUSE:
                return False
            del self.refusals[next(iter(self.refusals))]
        self._traced_at = now
        return True


_PER_ATTEMPT = frozenset({"host", "hostaddr", "port", "connect_timeout", "application_name", "client_encoding"})


def _plan(base: Parameters, endpoints: list[Endpoint]) -> list[tuple[Endpoint, Parameters]]:
    """The hosts to try, each with its parameters.

    prefer-standby means a first round that accepts only standbys, and a second round that accepts any server.
    """
    if base.get("target_session_attrs") != "prefer-standby":
        return [(endpoint, base) for endpoint in endpoints]
    anybody = {key: value for key, value in base.items() if key != "target_session_attrs"}
    standby = {**anybody, "target_session_attrs": "standby"}
    return [(endpoint, round_) for round_ in (standby, anybody) for endpoint in endpoints]


async def _start(attempt: Parameters, *, timeout: float, traced: bool) -> tuple[PGconn, str | None]:
    """A connection that is established or refused, and the SQLSTATE of the refusal if it was traced."""
    pgconn = pq.PGconn.connect_start(psycopg.conninfo.make_conninfo("", **attempt).encode())
    trace = os.memfd_create("trace") if traced and hasattr(os, "memfd_create") else None
    try:
        if trace is not None:
            pgconn.trace(trace)
        async with asyncio.timeout(timeout):  # not wait_for, which can swallow a cancellation before Python 3.12
            await _poll(pgconn)
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
            case _:  # PGRES_POLLING_ACTIVE, which libpq no longer uses
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


async def _wrapped(pgconn: PGconn) -> Connection:
    pgconn.nonblocking = 1
    if major(pgconn.server_version) < MIN_SUPPORTED:
        version = pgconn.parameter_status(b"server_version") or b"?"
        pgconn.finish()
        raise ReadError(
            Reason.UNSUPPORTED_VERSION,
            f"the server is PostgreSQL {version.decode(errors='replace')}; "
            f"{MIN_SUPPORTED} is the oldest that can be watched",
        )
    connection = Connection(pgconn)
    await connection.set_autocommit(True)
    return connection
