"""The ledger's database: opens it, migrates its schema, writes and reads acts. Every call blocks.

An intent is durable when `intend` returns, because SQLite runs in WAL mode with synchronous=FULL and PostgreSQL with
synchronous_commit on.
"""

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from sqlite3 import SQLITE_BUSY, OperationalError, connect
from sqlite3 import Connection as SQLiteConnection
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, delete, event, func, insert, inspect, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from watchdog.core.acting.acts import Act, ObservedEffect, Outcome, Result
from watchdog.core.acting.recall import Recorded
from watchdog.errors import LedgerError
from watchdog.ledger.history import Wanted, query_of
from watchdog.ledger.migration import migrate
from watchdog.ledger.rows import recorded_of, row_of
from watchdog.ledger.steps import STEPS, Step
from watchdog.ledger.tables import ACTS
from watchdog.redact import masked
from watchdog.system_roots import BUNDLES, system_roots

BUSY_SECONDS = 2.0
PAUSE_SECONDS = 0.02
MAX_RECALLED = 10_000
MAX_REASON = 300
_OPEN_RESULTS = (Result.SIGNALLED, Result.TIMED_OUT)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one act: what the guarded cancel statement returned, or why it was not sent."""

    id: str
    result: Result
    detail: str


@dataclass(slots=True)
class Store:
    """One ledger, given by its URL. One thread uses it at a time. A database error is raised as `LedgerError`."""

    url: str
    steps: Sequence[Step] = STEPS
    read_only: bool = False
    """Neither create nor migrate anything. A file that we made would lock out the daemon that runs as another user."""

    _engine: Engine | None = field(default=None, init=False)
    _sqlite_path: Path | None = field(default=None, init=False)
    _identity: tuple[int, int] | None = field(default=None, init=False)

    def intend(self, acts: Iterable[Act]) -> None:
        """Write all intents, or none of them, in one durable transaction."""
        rows = [row_of(act) for act in acts]
        with self._transaction() as connection:
            connection.execute(insert(ACTS), rows)

    def answer(
        self, answers: Iterable[Answer], *, effects: Iterable[ObservedEffect], came_back: Iterable[tuple[str, datetime]]
    ) -> None:
        """Write the results of acts, the outcomes that later looks observed, and when their work came back."""
        with self._transaction() as connection:
            for each in answers:
                values = {"result": str(each.result), "detail": each.detail or None}
                connection.execute(update(ACTS).where(ACTS.c.id == each.id).values(values))
            for effect in effects:
                seen = {"outcome": str(effect.outcome), "outcome_at": effect.at, "regret": effect.regret}
                connection.execute(update(ACTS).where(ACTS.c.id == effect.id).values(seen))
            for act, at in came_back:
                connection.execute(update(ACTS).where(ACTS.c.id == act).values(came_back_at=at))

    def recall(self, server: str, *, since: datetime, at: datetime) -> list[Recorded]:
        """The newest `MAX_RECALLED` acts on `server` that were intended at or after `since`, oldest first.

        An act is open if it has no outcome and may have been signalled. Every open act on `server` gets the outcome
        unknown with the time `at`. The returned acts are as they were before that.
        """
        wanted = (
            select(ACTS)
            .where(ACTS.c.server == server, ACTS.c.intended_at >= since)
            .order_by(ACTS.c.intended_at.desc(), ACTS.c.id.desc())
            .limit(MAX_RECALLED)
        )
        left = update(ACTS).where(
            ACTS.c.server == server,
            ACTS.c.outcome.is_(None),
            ACTS.c.result.is_(None) | ACTS.c.result.in_([str(each) for each in _OPEN_RESULTS]),
        )
        with self._transaction() as connection:
            records = [recorded_of(row) for row in connection.execute(wanted).mappings()]
            connection.execute(left.values(outcome=str(Outcome.UNKNOWN), outcome_at=at))
        return records[::-1]

    def history(self, wanted: Wanted) -> list[dict[str, Any]]:  # the rows have the types of the database
        """The acts that match `wanted`, newest first. Columns that an older schema lacks are None."""
        with self._transaction() as connection:
            if not inspect(connection).has_table(ACTS.name):
                return []
            there = {column["name"] for column in inspect(connection).get_columns(ACTS.name)}
            rows = connection.execute(query_of(wanted, columns=there)).mappings()
            return [dict.fromkeys(ACTS.c.keys()) | dict(row) for row in rows]

    @property
    def is_missing(self) -> bool:
        """True if the file of a SQLite ledger is not there."""
        path = _sqlite_path(make_url(self.url))
        return path is not None and not path.exists()

    def prune(self, now: datetime, *, keep: timedelta) -> int:
        """Delete the acts that were intended longer than `keep` ago. Returns how many were deleted.

        It is counted back from `now`, or from a day after the newest act if that is earlier: a clock of ours that is
        ahead must not delete everything.
        """
        with self._transaction() as connection:
            newest = connection.execute(select(func.max(ACTS.c.intended_at))).scalar()
            if newest is None:
                return 0
            from_when = min(now, newest + timedelta(days=1))
            return connection.execute(delete(ACTS).where(ACTS.c.intended_at < from_when - keep)).rowcount

    def open(self) -> None:
        """Connect and migrate the schema, unless that has been done already."""
        with self._transaction():
            pass

    def close(self) -> None:
        """Close the connections. The next call opens the database again."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._opened().begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            self.close()
            raise LedgerError(f"ledger {shown(self.url)}: {_reason(error, self.url)}") from error

    def _opened(self) -> Engine:
        """The engine, with a migrated schema.

        A SQLite file that was deleted or replaced is opened anew, because writes to a deleted file would be lost.
        """
        if self._engine is not None and self._identity != _identity_of(self._sqlite_path):
            self.close()
        if self._engine is None:
            engine = _engine_of(self.url, read_only=self.read_only)
            try:
                if not self.read_only:
                    with engine.begin() as connection:
                        migrate(connection, self.steps)
            except BaseException:
                engine.dispose()
                raise
            self._engine, self._sqlite_path = engine, _sqlite_path(engine.url)
            self._identity = _identity_of(self._sqlite_path)
        return self._engine


def check_url(url: str) -> str | None:
    """The problem of a ledger's URL as text, or None if the URL is usable."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return "is no URL: write sqlite:////absolute/path.db or postgresql://user@host/database"
    if parsed.drivername not in _DRIVERS:
        return f"{parsed.drivername}: is not supported; write sqlite:////absolute/path.db or postgresql://…"
    if parsed.drivername == "sqlite" and not (parsed.database or "").startswith("/"):
        return "needs an absolute path and four slashes: sqlite:////var/lib/pgwatchdog/ledger.db"
    if parsed.drivername != "sqlite" and "@" in f"{parsed.host}{parsed.database}":  # the rest of a password
        return "has an @ in its host or database: inside the password, write @ as %40 and / as %2F"
    return None


def unwritable(url: str) -> str | None:
    """Why the file of a SQLite ledger cannot be written by this user, and what to do. Creates nothing.

    It is None if the file can be written or created, and for a ledger in PostgreSQL, which is not connected to.
    """
    path = _sqlite_path(make_url(url))
    if path is None:
        return None
    folder = path.parent
    try:
        if not stat.S_ISDIR(folder.stat().st_mode):
            return f"{folder} is no folder: name a file in a folder"
    except FileNotFoundError:
        return f"{folder} does not exist: create this folder for the user that runs pgwatchdog"
    except OSError as error:
        return f"{folder} cannot be looked at by {_us()}: {error.strerror}"
    return _file_problem(path, folder)


def _file_problem(path: Path, folder: Path) -> str | None:
    if not _may(folder, os.W_OK | os.X_OK):  # SQLite writes its journal beside the file
        return f"{folder} cannot be written by {_us()}: chown this folder to the user that runs pgwatchdog"
    if path.is_dir():
        return f"{path} is a folder: name a file in it, for example {path / 'ledger.db'}"
    if path.exists() and not _may(path, os.R_OK | os.W_OK):
        return f"{path} cannot be written by {_us()}: chown it to the user that runs pgwatchdog"
    return None


def _us() -> str:
    return f"this user (uid {os.geteuid()})"


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def shown(url: str) -> str:
    """The URL without its user information and its query. Both can contain a password."""
    parsed = make_url(url)
    bare = URL.create(parsed.drivername, host=parsed.host, port=parsed.port, database=parsed.database)
    return bare.render_as_string()


_HARMLESS = frozenset({"host", "hostaddr", "port", "sslmode", "sslrootcert", "connect_timeout", "target_session_attrs"})
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


def _sqlite_path(url: URL) -> Path | None:
    """The file of a SQLite ledger, or None for any other ledger."""
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database is not None else None


def _identity_of(path: Path | None) -> tuple[int, int] | None:
    """The device and inode number of the file, or None if there is no file."""
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _engine_of(url: str, *, read_only: bool) -> Engine:
    """An engine. It does not connect yet.

    Raises:
        LedgerError: the driver or the system's root certificates are missing.

    """
    parsed = make_url(url)
    parsed = parsed.set(drivername=_DRIVERS.get(parsed.drivername, parsed.drivername))
    try:
        if parsed.get_backend_name() != "sqlite":
            options = f"-c synchronous_commit=on -c statement_timeout={int(BUSY_SECONDS * 1000)}"
            options += " -c default_transaction_read_only=on" if read_only else ""
            arguments = {"connect_timeout": 3, "options": options, "application_name": "pgwatchdog-ledger"}
            asked = {key: str(value) for key, value in parsed.query.items()}
            arguments |= system_roots(asked, env=os.environ, bundles=BUNDLES)
            return create_engine(parsed, pool_size=1, max_overflow=1, pool_pre_ping=True, connect_args=arguments)
        if read_only:
            path = _sqlite_path(parsed) or Path()
            return create_engine("sqlite://", creator=lambda: _read_only(path), poolclass=NullPool)
        engine = create_engine(parsed, connect_args={"timeout": BUSY_SECONDS})
    except (FileNotFoundError, NoSuchModuleError) as error:
        raise LedgerError(f"ledger {shown(url)}: {error}") from error
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _read_only(path: Path) -> SQLiteConnection:
    """A connection that only reads.

    A file in WAL mode cannot be read so while nobody has it open, because its index would have to be made. Then nobody
    writes, and it can be read as one that does not change.
    """
    address = f"file:{quote(str(path))}?mode=ro"
    try:
        connection = connect(address, uri=True, timeout=BUSY_SECONDS)
        connection.execute("SELECT count(*) FROM sqlite_master")
    except OperationalError:
        if not path.exists() or path.with_name(f"{path.name}-wal").exists():
            raise
        return connect(f"{address}&immutable=1", uri=True)
    return connection


def _configure_sqlite(connection: SQLiteConnection, _: object) -> None:
    # The sqlite3 module begins a transaction late, and not before DDL. So `_begin_sqlite` begins it explicitly.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")
    _use_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")


def _use_wal(connection: SQLiteConnection) -> None:
    """Switch to WAL. If several switch a new file at once, SQLite refuses some at once, whatever the busy timeout."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except OperationalError as error:
            if error.sqlite_errorcode != SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(PAUSE_SECONDS)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _reason(error: SQLAlchemyError, url: str) -> str:
    """The driver's message on one line, without the secrets of the URL: a driver quotes what it cannot parse."""
    cause = getattr(error, "orig", None) or error
    return masked(" ".join(str(cause).split()), _secrets(url), limit=MAX_REASON)


def _secrets(url: str) -> list[str]:
    """The parts of a URL that can be a password. The value of a mistyped key of the query can be one as well."""
    parsed = make_url(url)
    values = [value for key, each in parsed.normalized_query.items() if key not in _HARMLESS for value in each]
    return [str(parsed.password or ""), *values]
