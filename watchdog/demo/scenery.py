"""Prepares a new server for the stories: roles, tables, and the size of a cross join that fits this machine."""

import time
from collections.abc import Sequence

import psycopg

from watchdog.demo.server import EmbeddedServer
from watchdog.demo.stories import Story, stories

CROSS_JOIN_SECONDS = 18.0

Connection = psycopg.Connection[tuple[object, ...]]

_TABLES = (
    "CREATE TABLE parallel_rows AS SELECT n FROM generate_series(1, 2400) AS n",
    "GRANT SELECT ON parallel_rows TO etl_app",
    "ANALYZE parallel_rows",
    "CREATE TABLE receipts (n integer NOT NULL)",
    "GRANT INSERT ON receipts TO web_app",
)


def prepare(server: EmbeddedServer) -> Sequence[Story]:
    """Create roles and tables, and return the stories.

    One story is a cross join that runs for about `CROSS_JOIN_SECONDS` on this machine. Its size is measured here.
    """
    with _superuser(server) as connection:
        for role in ("web_app", "etl_app", "pgwatchdog"):
            connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{server.password}'")
        connection.execute("GRANT pg_monitor TO pgwatchdog")
        for statement in _TABLES:
            connection.execute(statement)
        rows = _rows_for(connection, seconds=CROSS_JOIN_SECONDS)
    return stories(f"SELECT count(*) FROM generate_series(1, {rows}) a CROSS JOIN generate_series(1, 10000) b")


def allow_to_cancel(server: EmbeddedServer) -> None:
    """Grant pg_signal_backend to the role `pgwatchdog`, because acting needs it."""
    with _superuser(server) as connection:
        connection.execute("GRANT pg_signal_backend TO pgwatchdog")


def _superuser(server: EmbeddedServer) -> Connection:
    return psycopg.connect(server.dsn(), password=server.password, autocommit=True)


def _rows_for(connection: Connection, *, seconds: float) -> int:
    """The number of rows whose cross join with 10,000 rows takes about `seconds`, extrapolated from a small sample."""
    sample = 300
    begun = time.monotonic()
    connection.execute(f"SELECT count(*) FROM generate_series(1, {sample}) a CROSS JOIN generate_series(1, 10000) b")
    return max(sample, int(sample * seconds / (time.monotonic() - begun)))
