"""(c) What one poll costs the server: beside a select from the view, and one scrape of a well-known exporter."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg.rows import TupleRow
from support.monitoring import running
from support.processes import get
from support.servers import PATIENCE, TestServer, make_server, until
from support.watching import source_on

from bench.backends import backends_on
from bench.machine import cpu_of, cpu_of_server
from bench.report import Goal, Section, table
from watchdog.demo.guardian import Guardian
from watchdog.demo.server import free_port
from watchdog.postgres.source import PostgresSource

Connection = psycopg.AsyncConnection[TupleRow]

EXPORTER = "prometheus-postgres-exporter"
VIEW = b"""
    SELECT clock_timestamp(), pid, backend_start, usename, datname, application_name, state, wait_event_type,
           wait_event, query_start, xact_start, state_change, backend_xid, query_id, client_addr, client_port
    FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND xact_start IS NOT NULL AND state <> 'idle' AND pid <> pg_backend_pid()
"""
TYPICAL = (1000, 20)
SETTLE = 0.004
"""Seconds after the last answer until a backend has gone to sleep and the scheduler has counted all of it."""


@dataclass(frozen=True, slots=True)
class Size:
    """`rounds` of `polls` statements of each kind, in turn, and of `scrapes`, for each number of connections."""

    connections: tuple[int, ...]
    running: tuple[int, ...]
    rounds: int
    polls: int
    scrapes: int


FULL = Size(connections=(100, 500, 1000, 2000), running=(5, 20, 200), rounds=12, polls=12, scrapes=2)
SHORT = Size(connections=(60,), running=(5, 20), rounds=4, polls=5, scrapes=1)


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of the server's CPU for one of each, on average. None where there is no exporter."""

    connections: int
    running: int
    poll: float
    view: float
    scrape: float | None

    def row(self) -> str:
        scrape, part = ("-", "-") if self.scrape is None else (f"{self.scrape:.1f}", f"{self.poll / self.scrape:.3f}")
        return (
            f"{self.connections} | {self.running} | {self.poll:.2f} | {self.view:.2f} | {self.poll / self.view:.2f} | "
            f"{scrape} | {part}"
        )


@dataclass(frozen=True, slots=True)
class PollCost:
    """The result."""

    costs: tuple[Cost, ...]

    def sections(self) -> tuple[Section, ...]:
        worst = max(cost.poll / cost.view for cost in self.costs)
        goals = [Goal("the poll's CPU, highest share of the view's", 1.1, worst, " times", 2)]
        for cost in self.costs:
            if (cost.connections, cost.running) == TYPICAL:
                where = f"at {cost.connections:,} connections with {cost.running} running"
                goals.append(Goal(f"the poll's CPU {where}, of the view's", 0.45, cost.poll / cost.view, " times", 2))
                if cost.scrape is not None:
                    goals.append(
                        Goal(f"the same, of a scrape's of {EXPORTER}", 0.12, cost.poll / cost.scrape, " times", 3)
                    )
        absent = all(cost.scrape is None for cost in self.costs)
        section = Section(
            "What a poll costs the server",
            "CPU time of the server in milliseconds, as the Linux scheduler counts it. `poll` is the statement that "
            "the daemon polls with, on the daemon's own session, in steady state. It reads the backends by id, or all "
            "of them in one pass, depending on what the last poll saw. `view` is a prepared SELECT from "
            "pg_stat_activity with the same columns and the same condition, and with the names of role and database. "
            f"`scrape` is one scrape of {EXPORTER} with its default settings, summed over all processes of the server. "
            "The three run in turn. Each figure is the mean. Connections that run no statement are idle.",
            table(
                ("connections", "running", "poll", "view", "poll / view", "scrape", "poll / scrape"),
                map(Cost.row, self.costs),
            ),
            tuple(goals),
            (f"{EXPORTER} is not installed here, so its column is empty.",) if absent else (),
        )
        return (section,)


async def measure(size: Size, *, guardian: Guardian) -> PollCost:
    """Fill a server step by step, and measure at each."""
    server = make_server(guardian=guardian, settings={"max_connections": str(max(size.connections) + 30)})
    costs = []
    try:
        with backends_on(server) as backends, _exporter(server, guardian) as scrape, source_on(server) as source:
            async with await Connection.connect(server.dsn(), autocommit=True, prepare_threshold=0) as view:
                contest = Contest(size, server, source, view, scrape)
                for connections in size.connections:
                    for count in (each for each in size.running if each <= connections):
                        backends.grow(connections=connections, running=count)
                        await contest.wait_until_running(running=count)
                        costs.append(await contest.cost(connections, count))
                    backends.rest()
        return PollCost(tuple(costs))
    finally:
        server.embedded.stop()


@dataclass(slots=True)
class Contest:
    """The three that take turns."""

    size: Size
    server: TestServer
    source: PostgresSource
    view: Connection
    scrape: Callable[[], None] | None

    async def wait_until_running(self, *, running: int) -> None:
        """Take the census that a minute would bring, and poll until the last poll saw what the next one will see."""
        await self.source.census()
        before = -1
        async with asyncio.timeout(PATIENCE):
            while before != running:
                before = len((await self.source.snapshot())[0].backends)
                await self._select()
        await self.source.snapshot()

    async def cost(self, connections: int, running: int) -> Cost:
        """Let them take turns."""
        session = self.source._session
        assert session is not None
        poll = view = scrape = 0.0
        for _ in range(self.size.rounds):
            poll += await self._spent(self.source.snapshot, pid=session.own_pid)
            view += await self._spent(self._select, pid=self.view.info.backend_pid)
            if self.scrape is not None:
                scrape += await self._scraped(self.scrape)
        times = self.size.rounds * self.size.polls
        scraped = 1000 * scrape / (self.size.rounds * self.size.scrapes) if self.scrape is not None else None
        return Cost(connections, running, 1000 * poll / times, 1000 * view / times, scraped)

    async def _select(self) -> None:
        async with self.view.cursor(binary=True) as cursor:
            await cursor.execute(VIEW)
            await cursor.fetchall()

    async def _spent(self, ask: Callable[[], Awaitable[object]], *, pid: int) -> float:
        before = cpu_of(pid)
        for _ in range(self.size.polls):
            await ask()
        await asyncio.sleep(SETTLE)
        return cpu_of(pid) - before

    async def _scraped(self, scrape: Callable[[], None]) -> float:
        before = cpu_of_server(self.server.embedded.pid)
        for _ in range(self.size.scrapes):
            scrape()
        await asyncio.sleep(SETTLE)
        return cpu_of_server(self.server.embedded.pid) - before


@contextmanager
def _exporter(server: TestServer, guardian: Guardian) -> Iterator[Callable[[], None] | None]:
    """The exporter on a session of a monitoring role, and how to scrape it once; None where it is not installed."""
    binary = shutil.which(EXPORTER)
    if binary is None:
        yield None
        return
    embedded, port = server.embedded, free_port()
    where = f"127.0.0.1:{embedded.port}/postgres?sslmode=disable"
    env = {"DATA_SOURCE_NAME": f"postgresql://pgwatchdog:{embedded.password}@{where}"}
    url = f"http://127.0.0.1:{port}/metrics"
    command = [
        "env",
        *(f"{name}={value}" for name, value in env.items()),
        binary,
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(command, guardian=guardian):
        until(lambda: _is_up(url), what="the exporter")
        yield lambda: _scrape(url)


def _scrape(url: str) -> None:
    answer = get(url)
    assert answer.status == 200
    assert "pg_up 1" in answer.text, "the exporter reads the server"


def _is_up(url: str) -> bool:
    try:
        return "pg_up 1" in get(url).text
    except OSError:
        return False
