"""Connections to the ledger's database: their timeouts, their durability, and how SQLite begins a transaction."""

import os
import time
from pathlib import Path
from sqlite3 import SQLITE_BUSY, OperationalError, connect
from sqlite3 import Connection as SQLiteConnection
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.pool import NullPool

from watchdog.errors import LedgerError
from watchdog.ledger.url import DRIVERS, shown, sqlite_path
from watchdog.system_roots import BUNDLES, system_roots

BUSY_SECONDS = 2.0
PAUSE_SECONDS = 0.02
CONNECT_SECONDS = "3"
"""How long a connection to PostgreSQL may take, unless the URL says it."""


def engine_of(url: str, *, read_only: bool) -> Engine:
    """An engine. It does not connect yet.

    Raises:
        LedgerError: the driver or the system's root certificates are missing.

    """
    parsed = make_url(url)
    parsed = parsed.set(drivername=DRIVERS.get(parsed.drivername, parsed.drivername))
    try:
        if parsed.get_backend_name() != "sqlite":
            options = f"-c synchronous_commit=on -c statement_timeout={int(BUSY_SECONDS * 1000)}"
            options += " -c default_transaction_read_only=on" if read_only else ""
            asked = {key: str(value) for key, value in parsed.query.items()}
            arguments = {"options": options, "application_name": "pgwatchdog-ledger"}
            arguments["connect_timeout"] = asked.get("connect_timeout", CONNECT_SECONDS)
            arguments |= system_roots(asked, env=os.environ, bundles=BUNDLES)
            return create_engine(parsed, pool_size=1, max_overflow=1, pool_pre_ping=True, connect_args=arguments)
        if read_only:
            path = sqlite_path(parsed) or Path()
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
