"""(d, e) One process over a thousand clusters: what it takes, and what a scrape of it takes while it polls."""

import asyncio
import gzip
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from support.servers import TestServer, make_server

from bench.backends import backends_on
from bench.fleet_daemon import Reading
from bench.machine import allow_many_files
from bench.report import Goal, Section, Spread, table
from watchdog.demo.guardian import Guardian

ROLES = {"web_app": "1h", "etl_app": "2h"}
BEGIN_WITHIN = 180.0
"""Seconds until every cluster must have been read."""


@dataclass(frozen=True, slots=True)
class Size:
    """Clusters on so many servers; `rounds` times `seconds` without scrapes, then with one every `scrape` seconds."""

    clusters: int
    servers: int
    running: int
    interval: float
    warm_up: float
    rounds: int
    seconds: float
    scrape: float


FULL = Size(clusters=1000, servers=4, running=2, interval=5.0, warm_up=20.0, rounds=4, seconds=28.0, scrape=1.1)
SHORT = Size(clusters=20, servers=1, running=2, interval=1.0, warm_up=1.0, rounds=1, seconds=2.0, scrape=0.3)


@dataclass(frozen=True, slots=True)
class Scrape:
    """One answer: seconds, bytes on the wire, and samples in it."""

    seconds: float
    bytes: int
    samples: int


@dataclass(frozen=True, slots=True)
class Fleet:
    """The result: readings without and with scrapes, and the scrapes, compressed as Prometheus asks for it.

    `first` is the first scrape of all, for which the whole text is joined and compressed.
    """

    size: Size
    first: Scrape
    without: tuple[Reading, ...]
    with_scrapes: tuple[Reading, ...]
    scrapes: tuple[Scrape, ...]

    def sections(self) -> tuple[Section, ...]:
        return self._polling(), self._scraping()

    def lag(self, readings: tuple[Reading, ...]) -> Spread:
        """Lateness of the event loop in seconds."""
        return Spread.of(lag for reading in readings for lag in reading.lags)

    def _polling(self) -> Section:
        size, lag = self.size, self.lag(self.without)
        seconds = sum(each.seconds for each in self.without)
        cpu = sum(each.cpu for each in self.without) / seconds
        looks = sum(each.looks for each in self.without) / seconds
        memory = max(each.memory for each in (*self.without, *self.with_scrapes))
        failures = sum(each.failures for each in (*self.without, *self.with_scrapes))
        row = f"{looks:.0f} | {cpu:.0%} | {lag.text(scale=1000)} | {memory:.0f} | {failures}"
        head = ("looks a second", "CPU, of one core", "loop lag ms: p50", "p99", "max", "memory MB", "failed looks")
        return Section(
            f"{size.clusters:,} clusters in one process",
            f"{size.clusters:,} clusters are configured, on {size.servers} servers. Each cluster has a session of its "
            f"own, is polled every {size.interval:g} s and has {size.running} running statements. Two roles have "
            "budgets. The daemon runs in a process of its own. This process also measures every 10 ms how late its "
            "event loop is. The servers run on the same machine.",
            table(head, [row]),
            (
                Goal(f"loop lag over {size.clusters:,} clusters, p99", 10, lag.at(0.99) * 1000, " ms"),
                Goal(f"memory over {size.clusters:,} clusters", 200, memory, " MB", 0),
            ),
        )

    def _scraping(self) -> Section:
        size, lag, before = self.size, self.lag(self.with_scrapes), self.lag(self.without)
        times = Spread.of(each.seconds for each in self.scrapes)
        last = self.scrapes[-1]
        row = (
            f"{len(self.scrapes)} | {last.samples:,} | {last.bytes / 1e6:.1f} | {self.first.seconds * 1000:.0f} | "
            f"{times.text(scale=1000, digits=0)} | "
            f"{before.at(0.99) * 1000:.1f} | {lag.at(0.99) * 1000:.1f}"
        )
        head = (
            "scrapes",
            "series",
            "MB sent",
            "ms: first",
            "p50",
            "p99",
            "max",
            "loop lag p99 without",
            "with scrapes",
        )
        more = (lag.at(0.99) - before.at(0.99)) * 1000
        return Section(
            f"A scrape of {size.clusters:,} clusters",
            f"The same process runs {size.seconds:g} s without scrapes and then {size.seconds:g} s with a scrape every "
            f"{size.scrape:g} s, {size.rounds} times in turn. It goes on polling. Another process scrapes, asks for "
            "gzip as Prometheus does, and waits for the whole answer. For each scrape, the daemon joins the text and "
            "compresses what polls have changed since the last scrape. For the first scrape it compresses everything. "
            "The time of the first scrape has a column of its own.",
            table(head, [row]),
            (
                Goal(f"scrape of {size.clusters:,} clusters, p99", 100, times.at(0.99) * 1000, " ms", 0),
                Goal("loop lag p99 with scrapes, above that without", 5, more, " ms"),
            ),
        )


async def measure(size: Size, *, guardian: Guardian) -> Fleet:
    """Watch many clusters for a while, in turn without and with scrapes."""
    allow_many_files()
    each = size.clusters // size.servers
    with ExitStack() as stack:
        servers = []
        for _ in range(size.servers):
            server = make_server(guardian=guardian, settings={"max_connections": str(each + size.running + 20)})
            stack.callback(server.embedded.stop)
            stack.enter_context(backends_on(server)).grow(connections=size.running, running=size.running)
            servers.append(server)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "pgwatchdog.yaml"
        file.write_text(_configuration(size, servers))
        async with _daemon(file) as daemon:
            await daemon.until_all_read()
            await asyncio.sleep(size.warm_up)
            first = await asyncio.to_thread(_scrape, f"{daemon.address}metrics")
            await asyncio.sleep(1.1)
            await daemon.reading()
            without, with_scrapes, scrapes = [], [], []
            for _ in range(size.rounds):
                await asyncio.sleep(size.seconds)
                without.append(await daemon.reading())
                scrapes += await _scrapes(daemon.address, size)
                with_scrapes.append(await daemon.reading())
        return Fleet(size, first, tuple(without), tuple(with_scrapes), tuple(scrapes))


def _configuration(size: Size, servers: list[TestServer]) -> str:
    # In life each has a lease of its own; here they would contend for one per server, so it lies where none of them is.
    clusters = [
        {"name": f"cluster-{number:04}", "dsn": servers[number % len(servers)].dsn(), "lease_database": "elsewhere"}
        for number in range(size.clusters)
    ]
    poll = {"interval": f"{size.interval:g}s", "timeout": "10s"}  # a crowd that comes up at once is slow on two cores
    return json.dumps({"poll": poll, "clusters": clusters, "budgets": {"roles": ROLES}})


@dataclass(slots=True)
class Daemon:
    """The daemon's process as we speak to it."""

    process: asyncio.subprocess.Process
    address: str

    async def reading(self) -> Reading:
        """What has been since the last reading."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        return Reading(**json.loads(await self.process.stdout.readline()))

    async def until_all_read(self) -> None:
        async with asyncio.timeout(BEGIN_WITHIN):
            while (await self.reading()).unseen:  # noqa: ASYNC110  # it is asked, it tells no event
                await asyncio.sleep(0.5)


@asynccontextmanager
async def _daemon(file: Path) -> AsyncIterator[Daemon]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.fleet_daemon",
        str(file),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        limit=1 << 22,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        address = (await process.stdout.readline()).decode().strip()
        assert address, "the daemon has not come up"
        yield Daemon(process, address)
        process.stdin.close()
        async with asyncio.timeout(30):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _scrapes(address: str, size: Size) -> list[Scrape]:
    """Scrape at a fixed pace for as long as the phase lasts."""
    ends = time.monotonic() + size.seconds
    found = []
    due = time.monotonic()
    while due < ends:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        found.append(await asyncio.to_thread(_scrape, f"{address}metrics"))
        due += size.scrape
    return found


def _scrape(url: str) -> Scrape:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    begun = time.monotonic()
    with urllib.request.urlopen(request, timeout=60) as response:
        body = response.read()
        took = time.monotonic() - begun
        compressed = response.headers.get("Content-Encoding") == "gzip"
    text = gzip.decompress(body) if compressed else body
    samples = text.count(b"\n") - text.count(b"\n#")
    return Scrape(took, len(body), samples)
