"""(f) What the daemon costs a busy server: pgbench with and without it, in pairs."""

import asyncio
import json
import math
import re
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from support.processes import DaemonProcess, daemon_process
from support.servers import TestServer, make_server, until

from bench.report import Section, table
from watchdog.demo.guardian import Guardian
from watchdog.demo.server import clean_environment

CLIENTS = 4
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)
"""Student's t for a 95 % interval, from one degree of freedom on."""


@dataclass(frozen=True, slots=True)
class Size:
    """`rounds` pairs of runs of so many seconds, on tables of this scale."""

    rounds: int
    seconds: int
    scale: int
    interval: float


FULL = Size(rounds=20, seconds=5, scale=10, interval=5.0)
SHORT = Size(rounds=2, seconds=1, scale=1, interval=1.0)


@dataclass(frozen=True, slots=True)
class Throughput:
    """Transactions per second of each pair: without the daemon, with it."""

    size: Size
    pairs: tuple[tuple[float, float], ...]

    @property
    def differences(self) -> list[float]:
        """Of each pair, in percent of the run without; negative where the daemon costs something."""
        return [100 * (watched - alone) / alone for alone, watched in self.pairs]

    @property
    def interval(self) -> float:
        """Half of the 95 % interval of the mean difference."""
        return t_95(len(self.pairs) - 1) * statistics.stdev(self.differences) / math.sqrt(len(self.pairs))

    def sections(self) -> tuple[Section, ...]:
        size, mean = self.size, statistics.mean(self.differences)
        alone, watched = (statistics.mean(column) for column in zip(*self.pairs, strict=True))
        row = f"{len(self.pairs)} | {alone:,.0f} | {watched:,.0f} | {mean:+.2f} % ± {self.interval:.2f} %"
        verdict = (
            "The interval contains zero: no difference has been shown."
            if abs(mean) <= self.interval
            else "The interval does not contain zero."
        )
        section = Section(
            "Throughput of a watched server",
            f"pgbench runs SELECT statements only, prepared, with {CLIENTS} clients, for {size.seconds} s a run. It "
            "keeps every core busy, so anything else that runs lowers the result. A pair is one run with a daemon that "
            "polls the server and one run without. Which of the two comes first alternates. Daemon, server and pgbench "
            "run on the same machine.",
            table(("pairs", "tps without", "tps with", "mean difference, 95 % interval"), [row]),
            notes=(verdict,),
        )
        return (section,)


async def measure(size: Size, *, guardian: Guardian) -> Throughput:
    """Run the pairs."""
    return await asyncio.to_thread(_measure, size, guardian)


def t_95(degrees: int) -> float:
    """Student's t for a 95 % interval."""
    return T_95[degrees - 1] if degrees <= len(T_95) else 1.96 + 2.4 / degrees


def _measure(size: Size, guardian: Guardian) -> Throughput:
    server = make_server(guardian=guardian, settings={"shared_buffers": "256MB"})
    try:
        _pgbench(server, "-i", "-q", "-s", str(size.scale))
        _run(server, size)  # what is read for the first time is no part of it
        pairs = []
        for number in range(size.rounds):
            found = {watched: _one(server, size, guardian, watched=watched) for watched in _order(number)}
            pairs.append((found[False], found[True]))
        return Throughput(size, tuple(pairs))
    finally:
        server.embedded.stop()


def _order(number: int) -> tuple[bool, bool]:
    return (False, True) if number % 2 == 0 else (True, False)


def _one(server: TestServer, size: Size, guardian: Guardian, *, watched: bool) -> float:
    with _daemon(server, size, guardian) if watched else nullcontext():
        return _run(server, size)


@contextmanager
def _daemon(server: TestServer, size: Size, guardian: Guardian) -> Iterator[None]:
    """A daemon that has looked once."""
    config = {
        "poll": {"interval": f"{size.interval:g}s"},
        "clusters": [{"name": "main", "dsn": server.dsn()}],
        "budgets": {"roles": {"web_app": "30s", "etl_app": "15min"}},
    }
    with (
        tempfile.TemporaryDirectory() as name,
        daemon_process(Path(name), guardian=guardian, config=json.dumps(config)) as daemon,
    ):
        until(lambda: _has_looked(daemon), what="the first look")
        yield


def _has_looked(daemon: DaemonProcess) -> bool:
    return daemon.metrics().get('pgwatchdog_up{server="main"}') == 1.0


def _run(server: TestServer, size: Size) -> float:
    text = _pgbench(server, "-S", "-M", "prepared", "-n", "-c", str(CLIENTS), "-j", "2", "-T", str(size.seconds))
    match = re.search(r"tps = ([0-9.]+) \(without initial connection time\)", text)
    assert match is not None, text
    return float(match[1])


def _pgbench(server: TestServer, *arguments: str) -> str:
    done = subprocess.run(
        [server.embedded.binaries / "pgbench", *arguments, server.dsn("postgres")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
