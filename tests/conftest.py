"""Fixtures for every test: the embedded server of this worker, and tools that may be missing."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest
from support.demos import public_directory
from support.matrix import IMITATED, ROW, VERSIONS, binaries_of
from support.servers import Client, Connect, MakeRole, TestServer, make_server

from watchdog.demo.guardian import Guardian
from watchdog.logs import Format, Level, configure_logs

# Our own commands refuse unknown variables with this prefix: `support.processes` keeps these from them.
REQUIRE_ALL = os.environ.get("PGWATCHDOG_REQUIRE_ALL") == "1"
WRITE_GOLDEN = os.environ.get("PGWATCHDOG_GOLDEN") == "write"

HOW_TO_GET = {
    "prometheus": "apt-get install prometheus",
    "promtool": "apt-get install prometheus",
    "prometheus-alertmanager": "apt-get install prometheus-alertmanager",
    "openssl": "apt-get install openssl",
    "pgbouncer": "apt-get install pgbouncer",
    "buildah": "apt-get install buildah",
    "debootstrap": "apt-get install debootstrap",
}

GOLDEN = Path(__file__).parent / "golden"


def pytest_configure() -> None:
    """Take SIGINT back where the tests were started with it ignored: in the background of a shell, by a supervisor.

    Children inherit that, and a command of ours that is to be interrupted would not be.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _logs() -> None:
    """Log as the daemon does, whatever the test before has set.

    The library's own default draws every local variable of a traceback, for seconds.
    """
    configure_logs(form=Format.LOGFMT, level=Level.INFO)


@pytest.fixture(scope="session")
def guardian() -> Iterator[Guardian]:
    """Ends what the tests have started, also when they are killed."""
    guardian = Guardian.start()
    yield guardian
    guardian.clean_up()


@pytest.fixture(scope="session")
def shared_server(guardian: Guardian) -> Iterator[TestServer]:
    """One server for all tests of a worker; use `server`, which leaves it clean."""
    server = make_server(guardian=guardian)
    yield server
    server.embedded.stop()


@pytest.fixture
def server(shared_server: TestServer) -> Iterator[TestServer]:
    """The worker's server. Afterwards every session is ended, so that no test leaves an orphan to the next."""
    yield shared_server
    shared_server.end_sessions()


@pytest.fixture
def make_role(server: TestServer) -> Iterator[MakeRole]:
    """Make roles that are gone after the test; `grants` are roles that each gets."""
    made: list[str] = []

    def make(name: str, options: str = "", *, grants: str = "") -> str:
        server.run(f"CREATE ROLE {name} LOGIN {options} PASSWORD '{server.embedded.password}'")
        if grants:
            server.run(f"GRANT {grants} TO {name}")
        made.append(name)
        return name

    yield make
    server.end_sessions()
    for name in reversed(made):
        server.run(f"DROP ROLE {name}")


@pytest.fixture
def own_server(guardian: Guardian) -> Iterator[TestServer]:
    """A server that the test may stop, restart and break."""
    server = make_server(guardian=guardian)
    yield server
    server.embedded.stop()


@pytest.fixture(params=[*sorted(VERSIONS), *({IMITATED} & {ROW})])
def versioned(
    request: pytest.FixtureRequest, guardian: Guardian, missing: Callable[[str], NoReturn]
) -> Iterator[TestServer]:
    """A server of each version that has binaries; in the row of the one that is imitated, of that too."""
    with _server_of(request.param, guardian=guardian, missing=missing) as server:
        yield server


@pytest.fixture(params=[*sorted(VERSIONS), IMITATED])
def every_version(
    request: pytest.FixtureRequest, guardian: Guardian, missing: Callable[[str], NoReturn]
) -> Iterator[TestServer]:
    """A server of each supported version; of 19 the one that imitates it."""
    with _server_of(request.param, guardian=guardian, missing=missing) as server:
        yield server


@contextmanager
def _server_of(major: int, *, guardian: Guardian, missing: Callable[[str], NoReturn]) -> Iterator[TestServer]:
    if not binaries_of(major).exists():
        missing(f"PostgreSQL {major} is not there: make matrix-binaries")
    server = make_server(guardian=guardian, major=major)
    yield server
    server.embedded.stop()
    shutil.rmtree(server.embedded.directory)  # ten of them at once would take the guardian long


@pytest.fixture
def tool() -> Callable[[str], str]:
    """The path of a program; without it the test is skipped, or fails where everything is required."""

    def find(name: str) -> str:
        found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if found is None:
            return lacks(f"{name} is not installed: {HOW_TO_GET[name]}")
        return found

    return find


def lacks(what: str) -> NoReturn:
    """Skip because something is missing, or fail where everything is required."""
    if REQUIRE_ALL:
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture
def missing() -> Callable[[str], NoReturn]:
    """Says what is missing: a skip, or a failure where everything is required."""
    return lacks


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user may pass through: a server may run as another one."""
    with public_directory() as folder:
        yield folder


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with a golden file, or write the file where that was asked for."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if WRITE_GOLDEN:
            file.write_text(text, encoding="utf-8")
        expected = file.read_text(encoding="utf-8") if file.exists() else ""
        assert text == expected, f"{file.name} differs; if the change is meant: make golden"

    return compare


@pytest.fixture
def connect(server: TestServer) -> Iterator[Connect]:
    """Open ordinary client connections to the worker's server; closed at the end of the test."""
    opened: list[Client] = []

    def open_one(*, role: str = "web_app", name: str = "", options: str = "") -> Client:
        connection = psycopg.connect(server.dsn(role), application_name=name, autocommit=True, options=options)
        opened.append(connection)
        return connection

    yield open_one
    for each in opened:
        each.close()
