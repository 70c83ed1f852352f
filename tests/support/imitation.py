"""A PostgreSQL 18 that answers like 19 where that matters here: there are no binaries of 19 in the package index yet.

It says 19.0 to its clients, and its progress function knows REPACK and refuses CLUSTER (`imitate19.sql`). Its program
marks a database that is made later as one of 18 and then refuses to connect to it, until `mark` was called. The other
programs of 18 (pg_dump, pg_basebackup) refuse a server that says 19.0: they come in by `door_of`.
"""

import shutil
import socket
import socketserver
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from support.matrix import IMITATED, ROW
from watchdog.demo.server import EmbeddedServer

REAL, OWN_PROGRAM = 18, "nineteen"

ENFORCE = "mode: enforce" + (", allow_untested: true" if ROW == IMITATED else "")
"""What arms a cluster in a test that is about something else: an untested server is not acted on without leave."""

SETTINGS = {"allow_system_table_mods": "on"}

_SQL = Path(__file__).with_name("imitate19.sql")
_SAYS, _IS_TO_SAY = b"PostgreSQL 18.6\x00", b"PostgreSQL 19.0\x00"
"""In the program: where the parameter `server_version` lies, at the end of a longer text. initdb asks another one."""
_TOLD, _TRUE = b"server_version\x0019.0\x00", b"server_version\x0018.6\x00"
"""In the protocol: how a client is told of that parameter."""


def teach(embedded: EmbeddedServer, *, databases: Iterable[str]) -> None:
    """Exchange the functions of a running server in these databases; template0 is opened for it.

    Vacuumed, so that whoever reads a catalog first writes no hint into it; with a checkpoint, so that no replay marks
    the files of a database as those of 18.
    """
    for database in databases:
        _accept_connections(embedded, database, accepts=True)
        dsn = f"{embedded.dsn(database=database)} password={embedded.password}"
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(_SQL.read_bytes())
            connection.execute("VACUUM")
    _accept_connections(embedded, "template0", accepts=False)
    _run(embedded, "CHECKPOINT")


def disguise(embedded: EmbeddedServer) -> None:
    """Give a server that has been stopped a program of its own that says 19.0, and mark its files as made by it."""
    package = embedded.binaries.parent.parent
    copy = embedded.directory / OWN_PROGRAM
    shutil.copytree(package, copy / package.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    embedded.binaries = copy / embedded.binaries.relative_to(package.parent)
    program = embedded.binaries / "postgres"
    text = program.read_bytes()
    assert text.count(_SAYS) == 1, "another build: look for where its server_version lies"
    program.write_bytes(text.replace(_SAYS, _IS_TO_SAY))
    _mark(embedded)


def is_disguised(embedded: EmbeddedServer) -> bool:
    """True for a server with a program of its own that says 19.0."""
    return embedded.binaries.is_relative_to(embedded.directory / OWN_PROGRAM)


def mark(embedded: EmbeddedServer) -> None:
    """Mark the files of a database that was just made as made by 19, if the server is one that says 19."""
    if is_disguised(embedded):
        _run(embedded, "CHECKPOINT")  # or a replay would make the files again
        _mark(embedded)


def _mark(embedded: EmbeddedServer) -> None:
    for file in (embedded.directory / "data").rglob("PG_VERSION"):
        if file.read_text() != f"{IMITATED}\n":  # the others may be read at this moment
            file.write_text(f"{IMITATED}\n")


@contextmanager
def door_of(embedded: EmbeddedServer) -> Iterator[int]:
    """A port on loopback that leads to the server, and on which a client is told that it is the 18.6 that it is."""
    with _Door(embedded.port) as door:
        threading.Thread(target=door.serve_forever, daemon=True).start()
        try:
            yield door.server_address[1]
        finally:
            door.shutdown()


class _Door(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, target: int) -> None:
        super().__init__(("127.0.0.1", 0), _Visit)
        self.target = target


class _Visit(socketserver.BaseRequestHandler):
    server: _Door

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.target)) as there:
            asking = threading.Thread(target=_forward, args=(self.request, there), daemon=True)
            asking.start()
            _forward(there, self.request)
            asking.join()


def _forward(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data.replace(_TOLD, _TRUE))
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


def _accept_connections(embedded: EmbeddedServer, database: str, *, accepts: bool) -> None:
    _run(embedded, f"ALTER DATABASE {database} ALLOW_CONNECTIONS {accepts}")


def _run(embedded: EmbeddedServer, sql: str) -> None:
    dsn = f"{embedded.dsn(database='postgres')} password={embedded.password}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.encode())
