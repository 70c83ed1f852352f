"""The servers of the tests: embedded Postgres servers with the roles of the field cases, and standbys of them."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from support.imitation import REAL, disguise, door_of, is_disguised, mark, teach
from support.imitation import SETTINGS as IMITATION_SETTINGS
from support.matrix import IMITATED, ROW, binaries_of
from watchdog.demo.guardian import Guardian
from watchdog.demo.server import EmbeddedServer, create_server, server_identity

PATIENCE = 30.0

Client = psycopg.Connection[tuple[object, ...]]
Connect = Callable[..., Client]
"""The type of the fixture `connect`."""
MakeRole = Callable[..., str]
"""The type of the fixture `make_role`."""

ROLES = """
    CREATE ROLE web_app LOGIN PASSWORD '{password}';
    CREATE ROLE etl_app LOGIN PASSWORD '{password}';
    CREATE ROLE pgwatchdog LOGIN PASSWORD '{password}';
    GRANT pg_monitor TO pgwatchdog;
    CREATE ROLE canceller LOGIN PASSWORD '{password}';
    GRANT pg_monitor, pg_signal_backend TO canceller;
    CREATE ROLE blind LOGIN PASSWORD '{password}';
    CREATE DATABASE other;
    CREATE TABLE accounts (id int PRIMARY KEY, balance int);
    INSERT INTO accounts SELECT n, 0 FROM generate_series(1, 100) AS n;
    GRANT ALL ON accounts TO web_app, etl_app;
"""


@dataclass(slots=True)
class TestServer:
    """A running server with the roles of `ROLES`.

    `web_app` and `etl_app` are callers. `pgwatchdog` has pg_monitor. `canceller` also has pg_signal_backend. `blind`
    cannot see the sessions of other roles.
    """

    __test__ = False

    embedded: EmbeddedServer

    def dsn(self, role: str = "pgwatchdog", *, database: str = "postgres") -> str:
        """A connection string with the password."""
        return f"{self.embedded.dsn(role=role, database=database)} password={self.embedded.password}"

    @contextmanager
    def dsn_for_tools(self, role: str = "pgwatchdog") -> Iterator[str]:
        """A connection string for the server's own tools, some of which refuse a server newer than themselves."""
        if not is_disguised(self.embedded):
            yield self.dsn(role)
            return
        with door_of(self.embedded) as port:
            yield self.dsn(role).replace(f"port={self.embedded.port} ", f"port={port} ")

    @property
    def major(self) -> int:
        """The server's major version."""
        return int(str(self.value("SELECT current_setting('server_version')")).partition(".")[0])

    def admin(self) -> Client:
        """A connection as superuser."""
        try:
            return psycopg.connect(self.dsn("postgres"), autocommit=True, application_name="tests")
        except psycopg.Error as error:
            error.add_note(self.embedded.log.read_text(errors="replace")[-3000:])
            raise

    def run(self, sql: str) -> None:
        """Run statements as superuser. They are separated by semicolons and run one after the other."""
        with self.admin() as connection:
            for each in sql.split(";"):
                if each.strip():
                    connection.execute(each)

    def create_database(self, name: str, options: str = "") -> None:
        """Make a database; `options` are what follows its name in the statement."""
        self.run(f"CREATE DATABASE {name} {options}")
        mark(self.embedded)

    def value(self, sql: str, *parameters: object) -> object:
        """The first value of the first row of a query."""
        with self.admin() as connection:
            row = connection.execute(sql, parameters).fetchone()
        assert row is not None
        return row[0]

    def end_sessions(self) -> None:
        """End every other session and wait until they are gone."""
        if self.embedded._process is None:
            return
        with self.admin() as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchall()
            for (pid,) in rows:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(int(str(pid)), signal.SIGCONT)  # because a test may have stopped the process
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE backend_type IN ('client backend', 'walsender') AND pid <> pg_backend_pid()"
            )


def make_standby(primary: TestServer, *, guardian: Guardian, settings: Mapping[str, str] | None = None) -> TestServer:
    """A running streaming standby of `primary`, with the same roles and passwords.

    Its settings say where the primary is, because pg_basebackup may have come by another port (`dsn_for_tools`).
    """
    folder = Path(tempfile.mkdtemp(prefix="pgwatchdog-test-"))
    guardian.mind_directory(folder)
    folder.chmod(0o1777)
    directory = folder / "server"
    directory.mkdir()
    identity = server_identity()
    if identity:
        os.chown(directory, int(str(identity["user"])), int(str(identity["group"])))
    own = {**primary.embedded.settings, "unix_socket_directories": str(folder), **(settings or {})}
    own["primary_conninfo"] = primary.dsn("postgres")
    binaries = primary.embedded.binaries
    embedded = EmbeddedServer(
        directory=directory, binaries=binaries, guardian=guardian, settings=own, password=primary.embedded.password
    )
    with primary.dsn_for_tools("postgres") as source:
        subprocess.run(
            [
                binaries / "pg_basebackup",
                "-d",
                source,
                "-D",
                directory / "data",
                "-R",
                "-X",
                "stream",
                "-c",
                "fast",
                "--no-sync",
            ],
            check=True,
            capture_output=True,
            cwd=directory,
            **identity,  # type: ignore[call-overload]  # mypy cannot match the overloads
        )
    embedded.start()
    return TestServer(embedded)


def start(connection: Client, sql: str, server: TestServer) -> int:
    """Send a statement and wait until the server shows it as active, not until it ends. Returns the backend's pid."""
    connection.pgconn.send_query(sql.encode())
    connection.pgconn.flush()
    pid = connection.info.backend_pid
    shown = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
    until(lambda: server.value(shown, pid), what="the running statement")
    return pid


def make_server(
    *, guardian: Guardian, settings: Mapping[str, str] | None = None, major: int | None = None
) -> TestServer:
    """A running server with the roles of `ROLES`, in a directory that the server's user can read.

    `major` is a version of the matrix, or 19, which an 18 imitates. Without it the environment variable
    PGWATCHDOG_TEST_POSTGRES gives the version. Without both it is the embedded server.
    """
    chosen = major or ROW
    imitates = chosen == IMITATED
    binaries = None if not chosen or (imitates and not binaries_of(REAL).exists()) else binaries_of(chosen)
    folder = Path(tempfile.mkdtemp(prefix="pgwatchdog-test-"))
    guardian.mind_directory(folder)
    folder.chmod(0o755)
    directory = folder / "server"
    own = {
        "unix_socket_directories": str(folder),
        "listen_addresses": "127.0.0.1,::1",
        "max_prepared_transactions": "5",
    }
    folder.chmod(0o1777)  # for the socket of a server that runs as another user
    own |= IMITATION_SETTINGS if imitates else {}
    embedded = create_server(directory, guardian=guardian, settings={**own, **(settings or {})}, binaries=binaries)
    embedded.start()
    server = TestServer(embedded)
    server.run(ROLES.format(password=embedded.password))
    if imitates:
        teach(embedded, databases=("template0", "template1", "postgres", "other"))
        embedded.stop()
        disguise(embedded)
        embedded.start()
    return server


def until(condition: Callable[[], object], *, timeout: float = PATIENCE, what: str = "the condition") -> None:
    """Wait until `condition()` is true."""
    ends = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > ends:
            raise AssertionError(f"{what} did not come about within {timeout:g} s")
        time.sleep(0.02)
