"""Several daemons on one server, each a separate process: their configuration, metrics, and the holder of the lease."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from support.acting import cancel_rule
from support.builders import book
from support.imitation import ENFORCE
from support.processes import COMMAND, DaemonProcess, environment, samples
from support.servers import Client, TestServer, start, until
from watchdog.cli.wiring import IDLE_INTERVALS
from watchdog.core.acting.acts import Act
from watchdog.core.present.look import Look
from watchdog.demo.guardian import Guardian
from watchdog.ledger.store import Store
from watchdog.ledger.writer import Writer
from watchdog.postgres.lease import KEY, SPACE
from watchdog.web.exposition import Exposition
from watchdog.web.labels import Bounds

INTERVAL = 1.0
TIMEOUT = 1.0
IDLE_LIMIT = IDLE_INTERVALS * INTERVAL + TIMEOUT
"""Seconds of silence after which the server ends the session of a daemon with the configuration `armed`."""

STEP = 0.2
"""Interval in seconds of an actor that runs in the test's event loop. Its warm-up takes two intervals."""

SLACK = 5
"""Number of intervals that the tests allow where the product promises one, because the machine may be busy."""


def folder(base: Path, name: str) -> Path:
    """Create a directory, because each replica has a ledger of its own."""
    made = base / name
    made.mkdir()
    return made


def armed(
    dsn: str,
    ledger: Path | None,
    *,
    policy: str = "enforce",
    cluster: str = ENFORCE,
    disarm_file: Path | None = None,
    lease_database: str = "postgres",
) -> str:
    """The configuration of a daemon, which is armed by default. The budget of web_app is 1 s."""
    return (
        f"poll: {{interval: {INTERVAL:g}s, census_interval: 2s, timeout: {TIMEOUT:g}s}}\n"
        f'clusters: [{{name: main, dsn: "{dsn}", {cluster}, lease_database: {lease_database}}}]\n'
        "budgets: {grace: 0s, roles: {web_app: 1s, etl_app: 1min}}\n"
        f"policy:\n  mode: {policy}\n"
        '  rules: [{name: orphans, finding: orphan, evidence: [over_budget], roles: ["*"], action: cancel}]\n'
        "  limits: {per_minute: 600, share: 1, pause: 0s}\n"
        + ("" if disarm_file is None else f"  disarm_file: {disarm_file}\n")
        + ("" if ledger is None else f'ledger: {{url: "sqlite:///{ledger}"}}\n')
    )


@dataclass(frozen=True, slots=True)
class Exported:
    """The metrics that a daemon exports for the cluster `main`."""

    values: Mapping[str, float]

    @property
    def leads(self) -> float | None:
        return self.values.get('pgwatchdog_leader{server="main"}')

    @property
    def enforcing(self) -> bool:
        return self.values.get('pgwatchdog_enforcing{server="main"}') == 1

    @property
    def disarmed(self) -> set[str]:
        """The reasons why the cluster is disarmed."""
        pattern = re.compile(r'pgwatchdog_disarmed\{reason="(\w+)",server="main"\}')
        return {found[1] for name, value in self.values.items() if value == 1 and (found := pattern.fullmatch(name))}

    def count(self, name: str, **labels: str) -> float:
        """The value of one counter or gauge by its labels, or 0 if the series does not exist."""
        shown = ",".join(f'{key}="{value}"' for key, value in sorted({**labels, "server": "main"}.items()))
        return self.values.get(f"pgwatchdog_{name}{{{shown}}}", 0)


@dataclass(slots=True)
class Replica(DaemonProcess):
    """A running `pgwatchdog run` with its standard output in a separate file.

    `prefix` is a command that runs another command in the daemon's network namespace.
    """

    out: Path = Path()
    prefix: tuple[str, ...] = ()

    def acts(self) -> list[dict[str, Any]]:  # JSON values
        """The acts on standard output. Each line is one act."""
        return [json.loads(line) for line in self.out.read_text().splitlines()]

    def exported(self) -> Exported:
        if not self.prefix:
            return Exported(self.metrics())
        fetch = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read().decode())"
        command = [*self.prefix, sys.executable, "-c", fetch, f"{self.address}metrics"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
        return Exported(samples(done.stdout))

    def reload(self, config: str) -> None:
        """Change the file and send SIGHUP."""
        (self.out.parent / "pgwatchdog.yaml").write_text(config)
        self.process.send_signal(signal.SIGHUP)

    def looks_on(self, *, ticks: int = 2) -> None:
        """Wait until the daemon has taken at least `ticks` further looks."""
        polls = 'pgwatchdog_polls_total{server="main"}'
        before = self.exported().values[polls]
        until(lambda: self.exported().values[polls] >= before + ticks, what="further looks")


@contextmanager
def replicas(
    folder: Path,
    *configs: str,
    guardian: Guardian,
    arguments: tuple[str, ...] = (),
    prefixes: tuple[tuple[str, ...], ...] = (),
) -> Iterator[list[Replica]]:
    """A daemon for each configuration. All listen when the block begins. `prefixes` are commands that start them."""
    started: list[Replica] = []
    try:
        for i, config in enumerate(configs):
            prefix = prefixes[i] if prefixes else ()
            started.append(_started(folder / str(i), config, arguments=arguments, prefix=prefix))
            guardian.mind_process(started[-1].process.pid)
        for each in started:
            _await_address(each)
        yield started
    finally:
        for each in started:
            each.process.send_signal(signal.SIGCONT)
            each.process.kill()
            each.process.wait()


def _started(folder: Path, config: str, *, arguments: tuple[str, ...], prefix: tuple[str, ...]) -> Replica:
    folder.mkdir()
    file = folder / "pgwatchdog.yaml"
    file.write_text(config)
    file.chmod(0o600)
    fixed = ("run", "--log.format", "json", "--web.listen-address", "127.0.0.1:0", "-c", str(file))
    log, out = folder / "stderr", folder / "stdout"
    with log.open("w") as stderr, out.open("w") as stdout:
        command = [*prefix, *COMMAND, *fixed, *arguments]
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True, env=environment())
    return Replica(process, log, out=out, prefix=prefix)


def _await_address(replica: Replica) -> None:
    until(lambda: replica.events("listening") or replica.process.poll() is not None, what="the daemon's address")
    assert replica.process.poll() is None, replica.log.read_text()
    replica.address = replica.events("listening")[0]["address"]


def leader_of(daemons: list[Replica]) -> tuple[Replica, Replica]:
    """Wait until one of two daemons leads and is armed. Returns that one and the other one."""

    def leader() -> Replica | None:
        return next((each for each in daemons if each.exported().enforcing), None)

    until(leader, what="a leader")
    first = leader()
    assert first is not None
    [second] = [each for each in daemons if each is not first]
    return first, second


class Held(Writer):
    """A ledger whose `intend` writes the intents, sets `reached` and then waits for `go`."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, 5.0)
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def intend(self, acts: Sequence[Act]) -> None:
        await super().intend(acts)
        self.reached.set()
        await self.go.wait()


def freeze(process: subprocess.Popen[str]) -> None:
    """Stop a process and wait until it has stopped."""
    process.send_signal(signal.SIGSTOP)
    stat = Path(f"/proc/{process.pid}/stat")
    until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", what="the stop")


def holders(server: TestServer) -> list[int]:
    """The pids of the sessions that hold the lease, in all databases."""
    locks = (
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
        " AND classid::bigint = %s AND objid::bigint = %s"
    )
    with server.admin() as admin:
        return [int(str(pid)) for (pid,) in admin.execute(locks, (SPACE, KEY)).fetchall()]


def holder_pid(look: Look) -> int | None:
    """The pid of the other session that holds the lease, or None."""
    return None if look.lease.holder is None else look.lease.holder.pid


def seconds_until_led_by_another(server: TestServer, before: int) -> float:
    """Wait until another session than `before` holds the lease. Returns the seconds that took."""
    begun = time.monotonic()
    until(lambda: holders(server) not in ([], [before]), what="another holder of the lease")
    return time.monotonic() - begun


def orphan(connection: Client, server: TestServer) -> int:
    """Start a statement that outlives its budget. Returns the backend's pid."""
    return start(connection, "SELECT pg_sleep(60)", server)


def over_budget(server: TestServer, pid: int, *, seconds: float) -> None:
    """Wait until a backend's statement is older than `seconds`."""
    age = "SELECT clock_timestamp() - query_start > make_interval(secs => %s) FROM pg_stat_activity WHERE pid = %s"
    until(lambda: server.value(age, seconds, pid), what="the end of the budget")


async def exported_of(look: Look) -> Exported:
    """The metrics that a daemon would export after only this look."""
    exposition = Exposition(book=book(), rules=(cancel_rule(),), bounds=Bounds(), process_values=dict)
    exposition.publish(look)
    return Exported(samples((await exposition.text()).decode()))


@contextmanager
def apart(*, guardian: Guardian, subnet: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """A network namespace behind a veth link. Yields the command prefix that runs in it, and the link's name in it.

    Our end of the link has the address `subnet`.1, the other end has `subnet`.2. The namespace ends with a process that
    lives in it, even if the tests are killed. The link is deleted first, because open connections without a peer would
    keep the namespace alive for a while.

    Raises:
        subprocess.CalledProcessError: such a link cannot be created here.

    """
    keeper = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    guardian.mind_process(keeper.pid)
    ours, theirs = f"pgwa{keeper.pid}", f"pgwb{keeper.pid}"
    inside = ("nsenter", "-t", str(keeper.pid), "-n")
    try:
        until(lambda: keeper.poll() is not None or _has_left(keeper.pid), what="the network")
        for line in (
            f"ip link add {ours} type veth peer name {theirs} netns {keeper.pid}",
            f"ip address add {subnet}.1/30 dev {ours}",
            f"ip link set {ours} up",
            f"{' '.join(inside)} ip address add {subnet}.2/30 dev {theirs}",
            f"{' '.join(inside)} ip link set {theirs} up",
            f"{' '.join(inside)} ip link set lo up",
        ):
            subprocess.run(line.split(), check=True, capture_output=True, timeout=20)
        yield inside, theirs
    finally:
        subprocess.run(["ip", "link", "delete", ours], check=False, capture_output=True, timeout=20)
        keeper.kill()
        keeper.wait()


def apart_or_skipped(
    stack: ExitStack, *, guardian: Guardian, missing: Callable[[str], NoReturn], subnet: str
) -> tuple[tuple[str, ...], str]:
    """As `apart`, until `stack` is closed. The test is skipped where no namespace can be made."""
    for program in ("ip", "iptables", "unshare", "nsenter"):
        if shutil.which(program) is None:
            missing(f"{program} is not installed: apt-get install iproute2 iptables util-linux")
    if os.geteuid() != 0:
        pytest.skip("only root can make a network of its own")
    try:
        return stack.enter_context(apart(guardian=guardian, subnet=subnet))
    except subprocess.CalledProcessError as error:
        # A sandbox that forbids it is no tool that is missing.
        pytest.skip(f"no network of its own can be made here: {error.stderr!r}")


def _has_left(pid: int) -> bool:
    """True once the process is in another network namespace than we are."""
    try:
        return Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    except OSError:
        return False
