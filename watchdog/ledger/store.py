"""The ledger's database: opened, brought to the newest schema, written and read. Every call blocks.

An intent is on the disk when `intend` returns: SQLite in WAL mode with synchronous=FULL, PostgreSQL with
synchronous_commit on.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from sqlite3 import Connection as SQLiteConnection
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, delete, event, insert, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

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
MAX_RECALLED = 10_000
MAX_REASON = 300
_OPEN_RESULTS = (Result.SIGNALLED, Result.TIMED_OUT)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the statement that signals answered to one act."""

    id: str
    result: Result
    detail: str


@dataclass(slots=True)
class Store:
    """One ledger by its URL. Used by one thread at a time; every method raises `LedgerError` with what to do."""

    url: str
    steps: Sequence[Step] = STEPS
    _engine: Engine | None = field(default=None, init=False)
    _sqlite_path: Path | None = field(default=None, init=False)
    _identity: tuple[int, int] | None = field(default=None, init=False)

    def intend(self, acts: Iterable[Act]) -> None:
        """Put intents on record, all or none, durably."""
        rows = [row_of(act) for act in acts]
        with self._transaction() as connection:
            connection.execute(insert(ACTS), rows)

    def answer(
        self, answers: Iterable[Answer], *, effects: Iterable[ObservedEffect], came_back: Iterable[tuple[str, datetime]]
    ) -> None:
        """Put on record what the signals answered, and what later looks showed."""
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
        """What an actor of earlier did on `server`, oldest first; what it left open is closed as unknown."""
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

    def history(self, wanted: Wanted) -> list[dict[str, Any]]:  # rows as the database has them
        """The acts that are wanted, newest first."""
        with self._transaction() as connection:
            return [dict(row) for row in connection.execute(query_of(wanted)).mappings()]

    def prune(self, before: datetime) -> int:
        """Drop the acts that are older; how many those were."""
        with self._transaction() as connection:
            return connection.execute(delete(ACTS).where(ACTS.c.intended_at < before)).rowcount

    def open(self) -> None:
        """Connect and bring the schema up to date, if that has not been done."""
        with self._transaction():
            pass

    def close(self) -> None:
        """Let go of the database; the next call opens it again."""
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
        """The engine, its schema up to date. A file that was taken away is no ledger, although it can be written."""
        if self._engine is not None and self._identity != _identity_of(self._sqlite_path):
            self.close()
        if self._engine is None:
            engine = _engine_of(self.url)
            try:
                with engine.begin() as connection:
                    migrate(connection, self.steps)
            except BaseException:
                engine.dispose()
                raise
            self._engine, self._sqlite_path = engine, _sqlite_path(engine.url)
            self._identity = _identity_of(self._sqlite_path)
        return self._engine


def check_url(url: str) -> str | None:
    """What is wrong with a ledger's URL, or None."""
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


def shown(url: str) -> str:
    """A URL without its user information and its query, which can both hold a password."""
    parsed = make_url(url)
    bare = URL.create(parsed.drivername, host=parsed.host, port=parsed.port, database=parsed.database)
    return bare.render_as_string()


_HARMLESS = frozenset({"host", "hostaddr", "port", "sslmode", "sslrootcert", "connect_timeout", "target_session_attrs"})
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


def _sqlite_path(url: URL) -> Path | None:
    """The file of an SQLite ledger; None where there is none."""
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database is not None else None


def _identity_of(path: Path | None) -> tuple[int, int] | None:
    """Which file it is."""
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _engine_of(url: str) -> Engine:
    """An engine, not connected.

    Raises:
        LedgerError: what the URL asks for is not there.

    """
    parsed = make_url(url)
    parsed = parsed.set(drivername=_DRIVERS.get(parsed.drivername, parsed.drivername))
    try:
        if parsed.get_backend_name() != "sqlite":
            options = f"-c synchronous_commit=on -c statement_timeout={int(BUSY_SECONDS * 1000)}"
            arguments = {"connect_timeout": 3, "options": options, "application_name": "pgwatchdog-ledger"}
            asked = {key: str(value) for key, value in parsed.query.items()}
            arguments |= system_roots(asked, env=os.environ, bundles=BUNDLES)
            return create_engine(parsed, pool_size=1, max_overflow=1, pool_pre_ping=True, connect_args=arguments)
        engine = create_engine(parsed, connect_args={"timeout": BUSY_SECONDS})
    except (FileNotFoundError, NoSuchModuleError) as error:
        raise LedgerError(f"ledger {shown(url)}: {error}") from error
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _configure_sqlite(connection: SQLiteConnection, _: object) -> None:
    # The library's own begin comes late and not before DDL: we begin ourselves.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={int(BUSY_SECONDS * 1000)}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _reason(error: SQLAlchemyError, url: str) -> str:
    """The driver's own sentence on one line. It can quote any part of the URL that it stumbles over."""
    cause = getattr(error, "orig", None) or error
    return masked(" ".join(str(cause).split()), _secrets(url), limit=MAX_REASON)


def _secrets(url: str) -> list[str]:
    """What of a URL may be a password: a mistyped key may have one for its value as well."""
    parsed = make_url(url)
    values = [value for key, each in parsed.normalized_query.items() if key not in _HARMLESS for value in each]
    return [str(parsed.password or ""), *values]
