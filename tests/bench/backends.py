"""Sessions by the hundred: idle ones, and some that run a statement."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from support.servers import Client, TestServer

STATEMENT = "SELECT pg_sleep(3600)"
CHEAP_PASSWORDS = (
    "SET scram_iterations = 1; ALTER ROLE web_app PASSWORD '{password}'; ALTER ROLE etl_app PASSWORD '{password}'"
)
SCRAM_ITERATIONS_FROM = 16


@dataclass(slots=True)
class Backends:
    """Open sessions on one server, as many of them running as was asked for."""

    server: TestServer
    sessions: list[Client] = field(default_factory=list)
    running: int = 0

    def grow(self, *, connections: int, running: int) -> None:
        """Have so many sessions, so many of them running; never fewer than before."""
        while len(self.sessions) < connections:
            session = psycopg.connect(self.server.dsn("web_app"), autocommit=True, application_name="crowd")
            session.execute("SELECT 1")
            self.sessions.append(session)
        while self.running < running:
            pgconn = self.sessions[self.running].pgconn
            pgconn.send_query(STATEMENT.encode())
            pgconn.flush()
            self.running += 1

    def rest(self) -> None:
        """Make those that run idle again."""
        for session in self.sessions[: self.running]:
            session.cancel_safe()
            while session.pgconn.get_result() is not None:
                pass
        self.running = 0


@contextmanager
def backends_on(server: TestServer) -> Iterator[Backends]:
    """A crowd that leaves at the end; its passwords are made cheap to check, it is not what is measured."""
    if server.major >= SCRAM_ITERATIONS_FROM:
        server.run(CHEAP_PASSWORDS.format(password=server.embedded.password))
    backends = Backends(server)
    try:
        yield backends
    finally:
        for each in backends.sessions:
            each.close()
