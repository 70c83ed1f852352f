"""The ledger's database: opens it, migrates its schema, writes and reads acts. Every call blocks.

An intent is durable when `intend` returns, because SQLite runs in WAL mode with synchronous=FULL and PostgreSQL with
synchronous_commit on.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, inspect, select, text, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from watchdog.core.acting.acts import Act, ObservedEffect, Outcome, Result
from watchdog.core.acting.recall import Recorded
from watchdog.core.observed.census import UNKNOWN_SERVER, ServerIdentity
from watchdog.errors import LedgerError
from watchdog.ledger.engine import engine_of
from watchdog.ledger.history import Wanted, query_of
from watchdog.ledger.migration import migrate
from watchdog.ledger.rows import recorded_of, row_of
from watchdog.ledger.steps import STEPS, Step
from watchdog.ledger.tables import ACTS, NAMES
from watchdog.ledger.url import secrets_of, shown, sqlite_path
from watchdog.redact import masked

MAX_RECALLED = 10_000
MAX_REASON = 300
CLAIM_LASTS = timedelta(minutes=3)
"""For how long a name stands for the server that it was last claimed for. It is claimed each minute."""

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

    def claim(self, server: str, identity: ServerIdentity, *, claimant: str) -> bool:
        """Say that `server` is the name of this server. False if another claimant says so of another living one.

        A name is held for `CLAIM_LASTS` after it was last claimed. Whoever watches a server that was restarted or
        failed over claims it for the new one at once; another claimant waits until the old claim has ended.
        """
        mine = {
            "claimant": claimant,
            "system_identifier": identity.system_identifier,
            "postmaster_start": identity.postmaster_start,
        }
        with self._transaction() as connection:
            if connection.dialect.name == "postgresql":  # on SQLite the transaction has begun with the lock
                connection.execute(text("SELECT pg_advisory_xact_lock(1885828964, 3)"))
                mine["seen_at"] = connection.execute(select(func.clock_timestamp())).scalar_one()
            else:
                mine["seen_at"] = datetime.now(UTC)
            row = connection.execute(select(NAMES).where(NAMES.c.server == server)).mappings().one_or_none()
            if row is None:
                connection.execute(insert(NAMES).values(server=server, **mine))
                return True
            other = ServerIdentity(row["system_identifier"], row["postmaster_start"]).is_other_server(identity)
            lives = abs(mine["seen_at"] - row["seen_at"]) < CLAIM_LASTS
            if other and lives and row["claimant"] != claimant:
                return False
            connection.execute(update(NAMES).where(NAMES.c.server == server).values(**mine))
            return True

    def recall(
        self, server: str, *, since: datetime, at: datetime, identity: ServerIdentity = UNKNOWN_SERVER
    ) -> list[Recorded]:
        """The newest `MAX_RECALLED` acts on `server` that were intended at or after `since`, oldest first.

        An act is open if it has no outcome and may have been signalled. Every open act on `server` gets the outcome
        unknown with the time `at`, but for those that were surely on another cluster than `identity`. The returned acts
        are as they were before that.
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
        if identity.system_identifier is not None:
            column = ACTS.c.system_identifier
            left = left.where(column.is_(None) | (column == identity.system_identifier))
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
        path = sqlite_path(make_url(self.url))
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
            engine = engine_of(self.url, read_only=self.read_only)
            try:
                if not self.read_only:
                    with engine.begin() as connection:
                        migrate(connection, self.steps)
            except BaseException:
                engine.dispose()
                raise
            self._engine, self._sqlite_path = engine, sqlite_path(engine.url)
            self._identity = _identity_of(self._sqlite_path)
        return self._engine


def _identity_of(path: Path | None) -> tuple[int, int] | None:
    """The device and inode number of the file, or None if there is no file."""
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _reason(error: SQLAlchemyError, url: str) -> str:
    """The driver's message on one line, without the secrets of the URL: a driver quotes what it cannot parse."""
    cause = getattr(error, "orig", None) or error
    return masked(" ".join(str(cause).split()), secrets_of(url), limit=MAX_REASON)
