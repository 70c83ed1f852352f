"""The real source keeps the contract that the one in memory keeps."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg
import pytest
from support.contracts import ClusterStage, SourceContract
from support.servers import Client, Connect, TestServer, start, until
from support.watching import source_on

from watchdog.runtime.ports import Source

ACTIVE = "SELECT state = 'active' FROM pg_stat_activity WHERE pid = %s"
THERE = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
WAITS = "SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted"


@dataclass
class PostgresStage(ClusterStage):
    """A real server."""

    server: TestServer
    connect: Connect
    clients: dict[int, Client] = field(default_factory=dict)

    def run(self, *, name: str = "") -> int:
        client = self.connect(name=name)
        pid = start(client, "SELECT pg_sleep(600)", self.server)
        self.clients[pid] = client
        return pid

    def finish(self, pid: int) -> None:
        self.server.value("SELECT pg_cancel_backend(%s)", pid)
        until(lambda: not self.server.value(ACTIVE, pid), what="the end of the statement")

    def leave(self, pid: int) -> None:
        self.server.value("SELECT pg_terminate_backend(%s)", pid)
        until(lambda: self.server.value(THERE, pid) == 0, what="the end of the session")

    def block(self) -> tuple[int, int]:
        holder, waiter = self.connect(), self.connect()
        holder.execute("BEGIN")
        holder.execute("UPDATE accounts SET balance = 1 WHERE id = 1")
        held = start(holder, "SELECT pg_sleep(600)", self.server)
        waits = start(waiter, "UPDATE accounts SET balance = 2 WHERE id = 1", self.server)
        until(lambda: self.server.value(WAITS, waits), what="a waiter")
        return waits, held

    @contextmanager
    def source(self) -> Iterator[Source]:
        with suppress(psycopg.Error), source_on(self.server, role="canceller") as source:
            yield source


class TestPostgresSource(SourceContract):
    @pytest.fixture
    def stage(self, server: TestServer, connect: Connect) -> ClusterStage:
        return PostgresStage(server, connect)
