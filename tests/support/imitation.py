"""A PostgreSQL 18 that answers like 19 where that matters here: there are no binaries of 19 in the package index yet.

It says 19.0 to its clients, and its progress function knows REPACK and refuses CLUSTER (`imitate19.sql`). Its program
marks a database that is made later as one of 18 and then refuses to connect to it, until `mark` was called.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import psycopg

from watchdog.demo.server import EmbeddedServer

IMITATED, REAL = 19, 18

ENFORCE = "mode: enforce" + (", allow_untested: true" if os.environ.get("PGWATCHDOG_TEST_POSTGRES") == "19" else "")
"""What arms a cluster in a test that is about something else: an untested server is not acted on without leave."""

SETTINGS = {"allow_system_table_mods": "on"}

_SQL = Path(__file__).with_name("imitate19.sql")
_SAYS, _IS_TO_SAY = b"PostgreSQL 18.6\x00", b"PostgreSQL 19.0\x00"
"""In the program: where the parameter `server_version` lies, at the end of a longer text. initdb asks another one."""


def teach(embedded: EmbeddedServer, *, databases: Iterable[str]) -> None:
    """Exchange the functions of a running server in these databases; template0 is opened for it."""
    for database in databases:
        _accept_connections(embedded, database, accepts=True)
        dsn = f"{embedded.dsn(database=database)} password={embedded.password}"
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(_SQL.read_bytes())
    _accept_connections(embedded, "template0", accepts=False)


def disguise(embedded: EmbeddedServer) -> None:
    """Give a server that has been stopped a program of its own that says 19.0, and mark its files as made by it."""
    package = embedded.binaries.parent.parent
    copy = embedded.directory / "nineteen"
    shutil.copytree(package, copy / package.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    embedded.binaries = copy / embedded.binaries.relative_to(package.parent)
    program = embedded.binaries / "postgres"
    text = program.read_bytes()
    assert text.count(_SAYS) == 1, "another build: look for where its server_version lies"
    program.write_bytes(text.replace(_SAYS, _IS_TO_SAY))
    mark(embedded)


def mark(embedded: EmbeddedServer) -> None:
    """Mark the files of every database as made by 19, if the server is one that says 19."""
    if embedded.binaries.is_relative_to(embedded.directory):
        for file in (embedded.directory / "data").rglob("PG_VERSION"):
            if file.read_text() != f"{IMITATED}\n":  # the others may be read at this moment
                file.write_text(f"{IMITATED}\n")


def _accept_connections(embedded: EmbeddedServer, database: str, *, accepts: bool) -> None:
    dsn = f"{embedded.dsn(database='postgres')} password={embedded.password}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS {accepts}".encode())
