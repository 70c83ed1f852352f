"""Sources, cycles and a daemon on a real server, all in the test's event loop, and access to what a look found."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from psycopg.pq import DiagnosticField

from support.acting import FREE, cancel_rule
from support.builders import book, judge_settings
from support.servers import PATIENCE, Client, TestServer
from watchdog.cli import assembly, configuration
from watchdog.cli.daemon import Daemon
from watchdog.core.acting.limits import Bucket
from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.verdicts import Verdict
from watchdog.core.judging.cases import Case
from watchdog.core.judging.jobs import JobRule
from watchdog.core.observed.activity import Backend, Snapshot
from watchdog.core.present.look import Look, Unread
from watchdog.ledger.history import Wanted
from watchdog.ledger.store import Store
from watchdog.ledger.writer import Writer
from watchdog.postgres.password import Password
from watchdog.postgres.source import PostgresSource
from watchdog.runtime.actor import Actor
from watchdog.runtime.arming import Arming
from watchdog.runtime.cycle import Cycle
from watchdog.runtime.outbox import Outbox
from watchdog.runtime.ports import Sink
from watchdog.runtime.read_only_actor import ReadOnlyActor


@contextmanager
def source_on(
    server: TestServer | str,
    *,
    role: str = "pgwatchdog",
    timeout: float = 3.0,
    password: Password | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[PostgresSource]:
    """A source that reads `server`, which is a server or a connection string."""
    dsn = server if isinstance(server, str) else server.dsn(role)
    source = PostgresSource(
        dsn=dsn,
        password=password or Password(),
        timeout=timeout,
        idle_limit=60.0,
        env=os.environ if env is None else env,
    )
    try:
        yield source
    finally:
        source.close()


def row_of(snapshot: Snapshot, pid: int) -> Backend | None:
    return next((each for each in snapshot.backends if each.pid == pid), None)


@asynccontextmanager
async def daemon_on(folder: Path, config: str, *, sinks: tuple[Sink, ...] = ()) -> AsyncIterator[tuple[Daemon, str]]:
    """A daemon with this configuration in the test's event loop, and its URL."""
    file = folder / "pgwatchdog.yaml"
    file.write_text(config)
    settings = configuration.with_listen(configuration.load_settings(file, env={}), "127.0.0.1:0")
    daemon = assembly.daemon(settings, reload=lambda: configuration.load_settings(file, env={}), sinks=sinks)
    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    task = asyncio.create_task(daemon.run(stop=stop, listening=address.set_result))
    try:
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait({task, address}, return_when=asyncio.FIRST_COMPLETED)
        yield daemon, address.result()
    finally:
        stop.set()
        await task


class Recorder:
    """A sink that keeps every state and lets a test wait for a condition on them."""

    def __init__(self) -> None:
        self.states: list[Look | Unread] = []
        self._news = asyncio.Event()

    def publish(self, state: Look | Unread) -> None:
        self.states.append(state)
        self._news.set()

    def looks(self, server: str = "main") -> list[Look]:
        return [each for each in self.states if isinstance(each, Look) and each.server == server]

    def unread(self, server: str = "main") -> list[Unread]:
        return [each for each in self.states if isinstance(each, Unread) and each.server == server]

    async def until(self, condition: Callable[["Recorder"], object], *, timeout: float = PATIENCE) -> None:
        """Wait until `condition` holds for what has been recorded."""
        async with asyncio.timeout(timeout):
            while not condition(self):
                self._news.clear()
                await self._news.wait()


class Later:
    """A condition: at least `unread` failed looks and more than `looks` looks have been recorded."""

    def __init__(self, *, unread: int = 0, looks: int = 0) -> None:
        self.counts = unread, looks

    def __call__(self, seen: Recorder) -> bool:
        unread, looks = self.counts
        return len(seen.unread()) >= unread and len(seen.looks()) > looks


@contextmanager
def watcher(
    server: TestServer | str,
    *jobs: JobRule,
    roles: dict[str, float] | None = None,
    grace: float = 0.2,
    interval: float = 5.0,
    role: str = "pgwatchdog",
    default: float | None = None,
    pooled: frozenset[str] = frozenset(),
) -> Iterator[Cycle]:
    """A read-only cycle on a real server. `roles` are budgets in seconds; the default is web_app 1 and etl_app 60."""
    limits = {"web_app": 1.0, "etl_app": 60.0} if roles is None else roles
    budgets = book(*jobs, roles=limits, grace=grace, default=default)
    with source_on(server, role=role) as source:
        yield Cycle(
            server="main",
            source=source,
            judge_settings=judge_settings(budgets, interval=interval, pooled=pooled),
            actor=ReadOnlyActor(source=source, arming=Arming()),
        )


@contextmanager
def actor_on(  # noqa: PLR0913  # each parameter is changed by some test
    server: TestServer | str,
    folder: Path,
    *jobs: JobRule,
    policy: Policy | None = None,
    roles: dict[str, float] | None = None,
    grace: float = 0.0,
    interval: float = 1.0,
    role: str = "canceller",
    arming: Arming | None = None,
    warm: bool = True,
    enforces: bool = True,
    pooled: frozenset[str] = frozenset(),
    allow_untested: bool = True,
) -> Iterator[Cycle]:
    """A cycle with an armed actor and a ledger in `folder`. `roles` are budgets in seconds.

    With `warm` the warm-up is over and the buckets of the limits are full.
    """
    limits = {"web_app": 0.5, "etl_app": 60.0} if roles is None else roles
    budgets = book(*jobs, roles=limits, grace=grace)
    policy = policy or Policy((cancel_rule(),), FREE)
    with source_on(server, role=role) as source:
        ledger = Writer(Store(f"sqlite:///{folder}/ledger.db"), 5.0)
        actor = Actor(
            source=source,
            arming=arming or Arming(policy_enforces=True),
            outbox=Outbox(server="main", ledger=ledger),
            enforces=enforces,
            allow_untested=allow_untested,
        )
        cycle = Cycle(
            server="main",
            source=source,
            judge_settings=judge_settings(budgets, interval=interval, pooled=pooled),
            actor=actor,
            policy=policy,
        )
        if warm:
            began = datetime.now(UTC) - timedelta(hours=1)
            full = {each.name: Bucket(float(policy.limits.per_minute), began) for each in policy.rules}
            cycle.policy_memory = PolicyMemory(actor=1, since=began, buckets=full)
        yield cycle


def history(folder: Path) -> list[dict[str, Any]]:  # the rows have the types of the ledger
    """The acts in a folder's ledger, oldest first."""
    return Store(f"sqlite:///{folder}/ledger.db").history(Wanted())[::-1]


def answer(connection: Client) -> str | None:
    """Wait for the end of the running statement. Returns its SQLSTATE, or None if it succeeded."""
    states = []
    while (result := connection.pgconn.get_result()) is not None:
        states.append(result.error_field(DiagnosticField.SQLSTATE))
    found = [state for state in states if state is not None]
    return found[0].decode() if found else None


def verdict_of(look: Look, pid: int) -> Verdict:
    """The verdict about a backend. There must be exactly one."""
    [verdict] = [each for each in look.decisions.verdicts if each.finding.backend.pid == pid]
    return verdict


def found(look: Look, pid: int) -> list[str]:
    """The kinds of the findings about a backend."""
    return [str(each.kind) for each in look.judgement.findings if each.backend.pid == pid]


def orphaned(look: Look, *pids: int) -> bool:
    """True if every one of these backends is an orphan."""
    return all("orphan" in found(look, pid) for pid in pids)


def case_of(look: Look, pid: int) -> Case | None:
    """The case of a backend in a look, or None."""
    return next((each for each in look.judgement.cases if each.backend.pid == pid), None)


async def look_until(cycle: Cycle, condition: Callable[[Look], object], *, timeout: float = PATIENCE) -> Look:
    """Look repeatedly until `condition` holds for a look. Returns that look."""
    async with asyncio.timeout(timeout):
        while not condition(look := await cycle.look(tick=True)):  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.05)
    return look
