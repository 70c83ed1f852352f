"""A cluster as a source of snapshots: what the runtime polls. One session, reopened when it is lost."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import cast

from watchdog.core.activity import Snapshot
from watchdog.core.census import Census
from watchdog.core.look import Reason
from watchdog.core.neighbours import Blocking
from watchdog.errors import ReadError
from watchdog.postgres.activity import snapshot_of, strangers
from watchdog.postgres.apart import run_apart
from watchdog.postgres.census import take_census
from watchdog.postgres.dial import Dialer
from watchdog.postgres.dsn import parameters_of
from watchdog.postgres.session import Connection, Session, open_session

FULL_READ_FROM = 70
"""Running rows from which one pass over all slots is cheaper than one pass each (measured on 18)."""

MOST_WAITERS = 500
"""The lock manager is held while it is asked who blocks whom; beyond this many it stays unknown."""


@dataclass(frozen=True, slots=True)
class Password:
    """Where the password comes from, read anew at every connect so that a rotation needs no restart."""

    file: Path | None = None
    command: tuple[str, ...] | None = None

    async def read(self, *, timeout: float) -> str | None:
        """The password, or None where the connection string or libpq's own means provide it.

        Raises:
            ReadError: the file or the command gives none.

        """
        if self.file is not None:
            return await _from_file(self.file, timeout=timeout)
        if self.command is not None:
            return await _from_command(self.command, timeout=timeout)
        return None


@dataclass(slots=True)
class PostgresSource:
    """Reads one cluster. Not safe for concurrent use: its owner asks one thing at a time.

    `idle_limit` (seconds) is when the server may end our session because it has fallen silent.
    """

    dsn: str
    password: Password
    timeout: float
    idle_limit: float
    env: Mapping[str, str]
    _dialer: Dialer = field(init=False)
    _session: Session | None = None
    _census: Census | None = None
    _rows: int = 0
    _outdated: bool = False

    def __post_init__(self) -> None:
        """Make the dialer, which remembers refusals from one connect to the next."""
        self._dialer = Dialer(self.env)

    @property
    def census_is_stale(self) -> bool:
        """True where the last snapshot showed what the census does not know: a stranger, or a changed right."""
        return self._outdated

    @property
    def behind_pooler(self) -> bool:
        """True where the open session's server process is not the one that greeted us."""
        return self._session is not None and self._session.behind_pooler

    async def census(self) -> Census:
        """Take a census and remember it for the names in later snapshots.

        Raises:
            ReadError: with the reason.

        """
        self._census = await take_census(await self._open())
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
        parameters = {"sparse": self._rows < FULL_READ_FROM, "own_role": session.own_role}
        rows = await session.rows("activity", parameters)
        took = timedelta(seconds=time.monotonic() - begun)
        self._rows = len(rows)
        snapshot = snapshot_of(rows, census=census)
        self._outdated = snapshot.sees_all != census.sees_all or strangers(rows, census=census)
        return snapshot, took

    async def blocking(self, waiters: Sequence[int]) -> Blocking | None:
        """Who blocks whom among `waiters`, or None where there are too many to ask.

        Raises:
            ReadError: with the reason.

        """
        if len(waiters) > MOST_WAITERS:
            return None
        session = await self._open()
        rows = cast("list[tuple[int, list[int]]]", await session.rows("blocking", (list(waiters),)))
        return Blocking({pid: frozenset(blockers) for pid, blockers in rows})

    def close(self) -> None:
        """End the session at once, whatever state the server is in; the next call opens a new one."""
        session, self._session = self._session, None
        if session is not None:
            session.drop()

    async def _open(self) -> Session:
        if self._session is None or self._session.connection.closed:
            self._session = await open_session(self._connect, timeout=self.timeout, idle_limit=self.idle_limit)
        return self._session

    async def _connect(self, *, timeout: float) -> Connection:
        parameters = parameters_of(self.dsn, env=self.env)
        password = await self.password.read(timeout=timeout)
        if password is not None:
            parameters["password"] = password
        return await self._dialer.connect(parameters, timeout=timeout)


async def _from_file(file: Path, *, timeout: float) -> str:
    try:
        text = await run_apart(lambda: file.read_text(encoding="utf-8"), timeout=timeout)
    except TimeoutError as error:
        raise ReadError(Reason.CONFIGURATION, f"password_file {file} was not read within {timeout:g} s") from error
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ReadError(Reason.CONFIGURATION, f"password_file {file} cannot be read: {what}") from error
    return text.rstrip("\r\n")


async def _from_command(command: tuple[str, ...], *, timeout: float) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise ReadError(Reason.CONFIGURATION, f"password_command {command[0]}: {error.strerror}") from error
    try:
        output, _ = await asyncio.wait_for(process.communicate(), timeout)
    except TimeoutError as error:
        raise ReadError(Reason.CONFIGURATION, f"password_command {command[0]}: no end within {timeout:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ReadError(Reason.CONFIGURATION, f"password_command {command[0]}: exit code {process.returncode}")
    return output.decode(errors="replace").rstrip("\r\n")
