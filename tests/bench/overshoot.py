"""(a) How far a run gets past its budget before it ends: ours, a 1 s poller, and the server's own timeout."""

import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg.rows import TupleRow
from support.processes import DaemonProcess, daemon_process
from support.servers import TestServer, make_server, until

from bench.machine import busy_cores
from bench.report import Goal, Section, Spread, table
from watchdog.demo.guardian import Guardian

Connection = psycopg.AsyncConnection[TupleRow]

IDLE, BUSY = "idle", "all cores busy"
OURS, POLLER, TIMEOUT = "pgwatchdog", "1 s poller", "statement_timeout"
ROLES = {OURS: "web_app", POLLER: "etl_app", TIMEOUT: "etl_app"}
GOALS = {IDLE: 20.0, BUSY: 40.0}
SPARE = 2.0
"""Seconds that a victim's session has between two trials."""

SHARED = (
    "Crossings of one cluster within 40 ms share one poll, which limits the number of statements that pgwatchdog "
    "sends. Here the crossings are further apart."
)
GIVEN_UP = 10.0
"""Seconds past its crossing after which a victim that nobody ends has been missed."""

POLL = """
    SELECT pg_cancel_backend(pid) FROM pg_stat_activity
    WHERE application_name = %s AND state = 'active' AND clock_timestamp() - query_start >= make_interval(secs => %s)
"""
SPAN = """
    SELECT extract(epoch FROM query_start)::float8, extract(epoch FROM state_change)::float8
    FROM pg_stat_get_activity(%s)
"""


@dataclass(frozen=True, slots=True)
class Size:
    """`trials` of each kind and load, one every `gap` seconds; `crossing` is the budget, without grace."""

    trials: int
    gap: float
    interval: float
    crossing: float
    loads: tuple[str, ...]


FULL = Size(trials=250, gap=0.24, interval=5.0, crossing=6.0, loads=(IDLE, BUSY))
SHORT = Size(trials=8, gap=0.24, interval=1.0, crossing=1.5, loads=(IDLE,))


@dataclass(slots=True)
class Trials:
    """Seconds past the crossing, by kind: until the client had heard of it, and until the server had ended it."""

    heard: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in ROLES})
    ended: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in ROLES})
    missed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROLES, 0))


@dataclass(frozen=True, slots=True)
class Overshoot:
    """The result, by load."""

    size: Size
    loads: dict[str, Trials]

    def p99(self, load: str) -> float:
        """Milliseconds, ours; endless where a run was never cancelled."""
        trials = self.loads[load]
        return float("inf") if trials.missed[OURS] else Spread.of(trials.heard[OURS]).at(0.99) * 1000

    def sections(self) -> tuple[Section, ...]:
        size = self.size
        rows = [
            f"{load} | {kind} | {len(trials.heard[kind])} | {Spread.of(trials.heard[kind]).text(scale=1000)} | "
            + Spread.of(trials.ended[kind]).text(scale=1000)
            for load, trials in self.loads.items()
            for kind in ROLES
        ]
        goals = tuple(
            Goal(f"overshoot past the crossing, {load}, p99", GOALS[load], self.p99(load), " ms") for load in self.loads
        )
        missed = sum(sum(trials.missed.values()) for trials in self.loads.values())
        notes = [SHARED]
        if missed:
            notes.append(f"Never ended within {GIVEN_UP:g} s: {missed}.")
        head = ("load", "ended by", "trials", "p50", "p99", "max", "server: p50", "p99", "max")
        section = Section(
            "Overshoot past the crossing",
            f"Each session runs a statement that sleeps far longer than its budget of {size.crossing:g} s. A third of "
            f"the sessions is ended by pgwatchdog, a third by a poller, and a third by statement_timeout. All three "
            f"run at the same time. In each third, one statement crosses its budget every {size.gap:g} s, at a random "
            f"moment. About {size.crossing / size.gap:.0f} sessions at a time belong to pgwatchdog. They are on a "
            "server of their own. The installed daemon watches it, armed, with a poll interval of "
            f"{size.interval:g} s and its ledger on disk. The poller reads pg_stat_activity every second and cancels "
            "every statement that is over its budget. Times are milliseconds from the crossing (the start of the "
            "statement by the server's clock, plus the budget) until the client has received the error. The columns "
            "from `server: p50` on are the milliseconds until the server had ended the statement. The files of the new "
            "servers are written to disk before the trials begin.",
            table(head, rows),
            goals,
            tuple(notes),
        )
        return (section,)


async def measure(size: Size, *, guardian: Guardian) -> Overshoot:
    """Play the trials on a server of their own."""
    slots = int((size.crossing + SPARE) / size.gap) + 1
    with ExitStack() as stack:
        settings = {"max_connections": str(2 * slots + 20)}
        watched, other = (make_server(guardian=guardian, settings=settings) for _ in range(2))
        stack.callback(watched.embedded.stop)
        stack.callback(other.embedded.stop)
        servers = {OURS: watched, POLLER: other, TIMEOUT: other}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = _configuration(watched, folder, size)
        daemon = stack.enter_context(daemon_process(folder, guardian=guardian, config=config))
        await asyncio.to_thread(until, lambda: _is_armed(daemon), timeout=60, what="an armed daemon")
        return Overshoot(size, {load: await _trials(servers, size, slots, load=load) for load in size.loads})


def _configuration(server: TestServer, folder: Path, size: Size) -> str:
    rule = {"name": "over", "finding": "orphan", "evidence": ["over_budget"], "roles": ["web_app"], "action": "cancel"}
    return json.dumps(
        {
            "poll": {"interval": f"{size.interval:g}s"},
            "clusters": [{"name": "main", "dsn": server.dsn("canceller"), "mode": "enforce"}],
            "budgets": {"grace": "0s", "roles": {"web_app": f"{size.crossing:g}s"}},
            "policy": {
                "mode": "enforce",
                "rules": [rule],
                "limits": {"per_minute": 600, "share": 1, "pause": "0s"},
            },
            "ledger": {"url": f"sqlite:///{folder}/ledger.db"},
        }
    )


def _is_armed(daemon: DaemonProcess) -> bool:
    metrics = daemon.metrics()
    return metrics.get('pgwatchdog_enforcing{server="main"}') == 1.0


async def _trials(servers: Mapping[str, TestServer], size: Size, slots: int, *, load: str) -> Trials:
    """All trials under one load, each kind in its own sessions."""
    rng = random.Random(load)
    found = Trials()
    async with AsyncExitStack() as stack:
        watchers = {
            kind: await stack.enter_async_context(await _connect(servers[kind], "postgres", "watcher"))
            for kind in ROLES
        }
        poller = await stack.enter_async_context(_polling(servers[POLLER], size))
        sessions = {
            kind: [await stack.enter_async_context(await _victim(servers[kind], kind, size)) for _ in range(slots)]
            for kind in ROLES
        }
        stack.enter_context(busy_cores(os.cpu_count() or 1) if load == BUSY else nullcontext())
        locks = {id(each): asyncio.Lock() for victims in sessions.values() for each in victims}
        asking = {kind: asyncio.Lock() for kind in ROLES}
        await asyncio.to_thread(os.sync)  # else the new servers' files go to the disk before the first acts' records
        begun = time.monotonic() + 0.2

        async def trial(kind: str, number: int, at: float) -> None:
            connection = sessions[kind][number % slots]
            async with locks[id(connection)]:
                await asyncio.sleep(begun + at - time.monotonic())
                heard = await _heard(connection, size)
                async with asking[kind]:
                    row = await (await watchers[kind].execute(SPAN, (connection.info.backend_pid,))).fetchone()
            assert row is not None
            if heard is None:
                found.missed[kind] += 1
                return
            found.heard[kind].append(heard - row[0] - size.crossing)
            found.ended[kind].append(row[1] - row[0] - size.crossing)

        async with asyncio.TaskGroup() as group:
            for number in range(size.trials):
                for place, kind in enumerate(ROLES):
                    at = (number + place / len(ROLES) + rng.uniform(0, 1 / len(ROLES))) * size.gap
                    group.create_task(trial(kind, number, at))
        assert not poller.done(), "the poller has gone on to the end"
    return found


async def _heard(connection: Connection, size: Size) -> float | None:
    """When the client had the error, by the clock that it shares with the server; None where none came."""
    try:
        await connection.execute(f"SELECT pg_sleep({size.crossing + GIVEN_UP})".encode())
    except psycopg.errors.QueryCanceled:
        return time.time()
    return None


@asynccontextmanager
async def _polling(server: TestServer, size: Size) -> AsyncIterator[asyncio.Task[None]]:
    """The ordinary alternative: every second, the view, and a cancel by pid."""

    async def poll(connection: Connection) -> None:
        while True:
            await connection.execute(POLL, (POLLER, size.crossing))
            await asyncio.sleep(1.0)

    async with await _connect(server, "postgres", "the poller") as connection:
        task = asyncio.create_task(poll(connection))
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _victim(server: TestServer, kind: str, size: Size) -> Connection:
    connection = await _connect(server, ROLES[kind], kind)
    if kind == TIMEOUT:
        await connection.execute(f"SET statement_timeout = {int(size.crossing * 1000)}".encode())
    return connection


async def _connect(server: TestServer, role: str, name: str) -> Connection:
    return await Connection.connect(server.dsn(role), autocommit=True, application_name=name)
