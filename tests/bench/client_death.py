"""(b) From a client's death to the finding, beside what the server's own check of its clients takes."""

import asyncio
import json
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from support.servers import PATIENCE, TestServer, make_server
from support.watching import daemon_on

from bench.report import Goal, Section, Spread, table
from watchdog.core.judging.evidence import Evidence
from watchdog.core.present.look import Look, Unread
from watchdog.demo.guardian import Guardian
from watchdog.demo.server import clean_environment

WATCHED, CHECKED = "watched", "checked"
CHECK_INTERVAL = "1s"
GOAL = 300.0


@dataclass(frozen=True, slots=True)
class Size:
    """`kills` of each kind, with pauses between them that are drawn from `pauses` seconds."""

    kills: int
    interval: float
    pauses: tuple[float, float]


FULL = Size(kills=100, interval=5.0, pauses=(0.1, 0.4))
SHORT = Size(kills=6, interval=5.0, pauses=(0.1, 0.3))


@dataclass(slots=True)
class Witness:
    """A sink that notes which victims stand in a look, and when one was first said to have lost its client."""

    seen: set[str] = field(default_factory=set)
    found_at: dict[str, float] = field(default_factory=dict)

    def publish(self, state: Look | Unread) -> None:
        if isinstance(state, Unread):
            return
        self.seen |= {each.application_name for each in state.snapshot.backends}
        for finding in state.judgement.findings:
            if Evidence.CLIENT_GONE in finding.evidence:
                self.found_at.setdefault(finding.backend.application_name, time.time())


@dataclass(frozen=True, slots=True)
class ClientDeaths:
    """Seconds from each kill to the finding, and from each kill to the end by the server's own check."""

    size: Size
    found: Spread
    checked: Spread

    def sections(self) -> tuple[Section, ...]:
        size = self.size
        median = self.found.at(0.5) * 1000
        rows = (
            f"pgwatchdog, poll every {size.interval:g} s: until the finding | {size.kills} | "
            + self.found.text(scale=1000, digits=0),
            f"client_connection_check_interval {CHECK_INTERVAL}: until the end | {size.kills} | "
            + self.checked.text(scale=1000, digits=0),
        )
        section = Section(
            "From the client's death to the finding",
            f"{2 * size.kills} psql processes each wait for a statement. They are killed with SIGKILL one at a time, "
            f"with {size.pauses[0]:g} to {size.pauses[1]:g} s in between. Every second one has "
            "client_connection_check_interval set in its session: for these, the time until the server ends the "
            "session is measured. For the others, the time until the daemon reports the finding is measured. Each of "
            "them was seen in a poll before it was killed. Times are milliseconds.",
            table(("who notices", "kills", "p50", "p99", "max"), rows),
            (Goal("client's death to the finding, median", GOAL, median, " ms", 0),),
        )
        return (section,)


async def measure(size: Size, *, guardian: Guardian) -> ClientDeaths:
    """Kill them all, on a server of their own."""
    settings = {"max_connections": str(2 * size.kills + 20), "log_timezone": "UTC"}
    server = make_server(guardian=guardian, settings=settings)
    try:
        with tempfile.TemporaryDirectory() as name, _clients(server, size) as clients:
            witness = Witness()
            config = json.dumps(
                {
                    "poll": {"interval": f"{size.interval:g}s"},
                    "clusters": [{"name": "main", "dsn": server.dsn()}],
                    "budgets": {"roles": {"etl_app": "1h"}},
                }
            )
            async with daemon_on(Path(name), config, sinks=(witness,)):
                await _until(lambda: witness.seen >= clients.keys())
                pids = _pids(server)
                killed = await _kill(clients, size)
                await _until(lambda: _of(WATCHED, killed) <= witness.found_at.keys())
                await _until(lambda: {pids[each] for each in _of(CHECKED, killed)} <= _ends(server.embedded.log).keys())
            ends = _ends(server.embedded.log)
            return ClientDeaths(
                size,
                Spread.of(witness.found_at[each] - killed[each] for each in _of(WATCHED, killed)),
                Spread.of(ends[pids[each]] - killed[each] for each in _of(CHECKED, killed)),
            )
    finally:
        server.embedded.stop()


@contextmanager
def _clients(server: TestServer, size: Size) -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    """The victims by application name: psql, which starts fast and does nothing but wait."""
    found: dict[str, subprocess.Popen[bytes]] = {}
    check = f" options='-c client_connection_check_interval={CHECK_INTERVAL}'"
    try:
        for number in range(size.kills):
            for kind, options in ((WATCHED, ""), (CHECKED, check)):
                name = f"{kind} {number}"
                dsn = f"{server.dsn('web_app')} application_name='{name}'{options}"
                found[name] = subprocess.Popen(
                    [server.embedded.binaries / "psql", "-X", "-q", "-c", "SELECT pg_sleep(600)", dsn],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=clean_environment(),
                )
        yield found
    finally:
        for each in found.values():
            each.kill()
            each.wait()


async def _kill(clients: dict[str, "subprocess.Popen[bytes]"], size: Size) -> dict[str, float]:
    """Kill each, and say when."""
    rng = random.Random(1)
    killed = {}
    for name, process in clients.items():
        await asyncio.sleep(rng.uniform(*size.pauses))
        killed[name] = time.time()
        process.kill()
        process.wait()
    return killed


def _of(kind: str, killed: dict[str, float]) -> set[str]:
    return {name for name in killed if name.startswith(kind)}


def _pids(server: TestServer) -> dict[str, int]:
    with server.admin() as admin:
        rows = admin.execute("SELECT application_name, pid FROM pg_stat_activity WHERE state = 'active'").fetchall()
    return {str(name): int(str(pid)) for name, pid in rows}


def _ends(log: Path) -> dict[int, float]:
    """When each session was lost, by pid, as the server's log says it (to the millisecond)."""
    found = {}
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        match = re.match(r"(\S+ \S+) UTC \[(\d+)\] FATAL: +connection to client lost", line)
        if match:
            found[int(match[2])] = datetime.fromisoformat(f"{match[1]}+00:00").timestamp()
    return found


async def _until(condition: Callable[[], object]) -> None:
    """Wait for what a sink will have noted."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  # the sink tells no event
            await asyncio.sleep(0.02)
