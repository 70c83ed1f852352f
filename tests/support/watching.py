"""A source on a real server, and a daemon in the test's own loop."""

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
from watchdog.cli import assembly, wiring
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
    """A source that reads a server, or what a connection string points to."""
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
    """A daemon with this configuration in the test's loop, and its address."""
    file = folder / "pgwatchdog.yaml"
    file.write_text(config)
    settings = wiring.with_listen(wiring.load_settings(file, env={}), "127.0.0.1:0")
    daemon = assembly.daemon(settings, reload=lambda: wiring.load_settings(file, env={}), sinks=sinks)
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
    """A sink that keeps everything and lets a test wait for what it wants to see."""

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
    """A condition: more has been recorded than so many states."""

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
    """The ordinary cycle over a real server, one look at a time; budgets in seconds (web_app 1, etl_app 60)."""
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
def actor_on(  # noqa: PLR0913  # what a test changes, and no more
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
    """The ordinary cycle with an armed actor and a ledger in `folder`, one look at a time; budgets in seconds.

    `warm`: it has already watched for long enough, and its bucket is not empty.
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


def history(folder: Path) -> list[dict[str, Any]]:  # rows as the ledger has them
    """The acts in a folder's ledger, oldest first."""
    return Store(f"sqlite:///{folder}/ledger.db").history(Wanted())[::-1]


def answer(connection: Client) -> str | None:
    """The SQLSTATE with which the statement under way ended, None if it succeeded; waits for its end."""
    states = []
    while (result := connection.pgconn.get_result()) is not None:
        states.append(result.error_field(DiagnosticField.SQLSTATE))
    found = [state for state in states if state is not None]
    return found[0].decode() if found else None


def verdict_of(look: Look, pid: int) -> Verdict:
    """The one verdict about a backend."""
    [verdict] = [each for each in look.decisions.verdicts if each.finding.backend.pid == pid]
    return verdict


def found(look: Look, pid: int) -> list[str]:
    """The kinds of finding about one backend."""
    return [str(each.kind) for each in look.judgement.findings if each.backend.pid == pid]


def orphaned(look: Look, *pids: int) -> bool:
    """True where every one of these backends is an orphan."""
    return all("orphan" in found(look, pid) for pid in pids)


def case_of(look: Look, pid: int) -> Case | None:
    """The case of one backend in a look."""
    return next((each for each in look.judgement.cases if each.backend.pid == pid), None)


async def look_until(cycle: Cycle, condition: Callable[[Look], object], *, timeout: float = PATIENCE) -> Look:
    """Look again and again until `condition` holds for a look."""
    async with asyncio.timeout(timeout):
        while not condition(look := await cycle.look(tick=True)):  # noqa: ASYNC110  # the server tells no event
            await asyncio.sleep(0.05)
    return look
