"""The stage: prepares the server, starts the callers, kills those whose story says so, and keeps the truth.

What the stage knows of the work (when it began, when its caller left, when it ended) it sees for itself; what was
called an orphan, and when, it is told by the daemon, as a sink of its looks.
"""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg.conninfo import make_conninfo

from watchdog.core.evidence import Kind
from watchdog.core.look import Look, Unread
from watchdog.demo.guardian import Guardian
from watchdog.demo.server import EmbeddedServer, clean_environment, python_command
from watchdog.demo.stories import Story, stories

LONGEST = 90.0
"""Seconds after which the play ends whatever is still running."""

CROSS_JOIN_SECONDS = 18.0
SHORTEST = 0.5
"""Seconds for which work counts as begun although no statement of it has been seen yet."""

FAREWELL = 3.0
SETTLE = 1.5
"""Seconds that the stage stays after the last work has ended, so that the daemon has seen the end too."""

Announce = Callable[[float, str], None]
"""Is told a second of the play and what happened."""


@dataclass(slots=True)
class Work:
    """One caller's work on the server, by its backend; times are seconds of the play."""

    story: Story
    pid: int
    began: float
    left: float | None = None
    ended: float | None = None
    named_at: float | None = None
    named: set[str] = field(default_factory=set)
    evidence: set[str] = field(default_factory=set)

    @property
    def for_nobody(self) -> float | None:
        """Seconds that it ran on after its caller had left; None if the caller did not leave."""
        return None if self.left is None or self.ended is None else max(0.0, self.ended - self.left)


@dataclass(slots=True)
class Stage:
    """Plays the stories on a server. A sink of the daemon's looks at the same time."""

    server: EmbeddedServer
    guardian: Guardian
    announce: Announce
    works: dict[int, Work] = field(default_factory=dict)
    _begin: float = field(default_factory=time.monotonic)
    _callers: list[asyncio.subprocess.Process] = field(default_factory=list)
    _playing: int = 0

    def publish(self, state: Look | Unread) -> None:
        """Take note of what the daemon says."""
        if isinstance(state, Unread):
            self._say(f"the daemon cannot read the server: {state.detail}")
            return
        for finding in state.judgement.findings:
            work = self.works.get(finding.backend.pid)
            if work is None:
                continue
            if finding.kind not in work.named:
                self._say(f"{work.story.name} {work.story.application}: {_phrase(finding.kind, finding.evidence)}")
            work.named.add(finding.kind)
            if finding.kind is Kind.ORPHAN:
                work.named_at = self._now() if work.named_at is None else work.named_at
                work.evidence |= set(finding.evidence)

    def prepare(self) -> list[Story]:
        """Make roles and tables, and measure how large a cross join this machine needs."""
        with psycopg.connect(self.server.dsn(), password=self.server.password, autocommit=True) as connection:
            for role in ("web_app", "etl_app", "pgwatchdog"):
                connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{self.server.password}'")
            connection.execute("GRANT pg_monitor TO pgwatchdog")
            connection.execute("CREATE TABLE parallel_rows AS SELECT n FROM generate_series(1, 2400) AS n")
            connection.execute("GRANT SELECT ON parallel_rows TO etl_app")
            connection.execute("ANALYZE parallel_rows")
            rows = _rows_for(connection, seconds=CROSS_JOIN_SECONDS)
        return stories(f"SELECT count(*) FROM generate_series(1, {rows}) a CROSS JOIN generate_series(1, 10000) b")

    async def play(self, cast: Sequence[Story]) -> list[Work]:
        """Play all stories at once, until the last work has ended; the works in order of their stories."""
        self._begin = time.monotonic()
        observer = asyncio.create_task(self._observe())
        self._playing = len(cast)
        try:
            async with asyncio.timeout(LONGEST), asyncio.TaskGroup() as group:
                for story in cast:
                    group.create_task(self._play(story))
                group.create_task(self._until_quiet())
        finally:
            observer.cancel()
            with contextlib.suppress(asyncio.CancelledError, psycopg.Error):
                await observer
            await self._dismiss()
        return sorted(self.works.values(), key=lambda work: (work.story.name, work.began))

    async def _dismiss(self) -> None:
        """End every caller and wait for it: a transport that outlives the loop would complain."""
        for caller in self._callers:
            _kill(caller)
        if self._callers:
            await asyncio.wait({asyncio.ensure_future(caller.wait()) for caller in self._callers}, timeout=FAREWELL)

    async def _play(self, story: Story) -> None:
        arguments = {**story.arguments, "dsn": self._dsn(story)}
        caller = await asyncio.create_subprocess_exec(
            *python_command("watchdog.demo.callers", story.kind, json.dumps(arguments)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**clean_environment(), "PGPASSWORD": self.server.password},
        )
        self._callers.append(caller)
        self.guardian.mind_process(caller.pid)
        assert caller.stdout is not None  # it was asked for
        killer: asyncio.Task[None] | None = None
        started = False
        async for line in caller.stdout:
            self._note(story, **json.loads(line))
            if not started:
                started = True
                self._playing -= 1
            if story.killed_after is not None and killer is None:
                killer = asyncio.create_task(self._kill(story, caller))
        if killer is not None:
            await killer

    def _dsn(self, story: Story) -> str:
        options = {"options": story.options} if story.options else {}
        return make_conninfo(self.server.dsn(role=story.role), application_name=story.application, **options)

    async def _kill(self, story: Story, caller: asyncio.subprocess.Process) -> None:
        await asyncio.sleep(story.killed_after or 0.0)
        _kill(caller)
        for work in self.works.values():
            if work.story is story:
                self._note(story, event="left", pid=work.pid)

    def _note(self, story: Story, *, event: str, pid: int) -> None:
        match event:
            case "started":
                self.works[pid] = Work(story, pid, self._now())
                self._say(f"{story.name} {story.application}: {story.title}" if story.named or story.options else "")
            case "left":
                self.works[pid].left = self._now()
                self._say(f"{story.name} {story.application}: the caller has left, the server is not told")

    async def _observe(self) -> None:
        """See for ourselves when work ends: many times a second, which no watchdog would do."""
        connection = await psycopg.AsyncConnection.connect(
            self.server.dsn(), password=self.server.password, autocommit=True, application_name="stage"
        )
        async with connection:
            while True:
                rows = await (await connection.execute(_RUNNING)).fetchall()
                running = {pid for (pid,) in rows}
                for work in self.works.values():
                    if work.ended is None and work.pid not in running and self._now() - work.began > SHORTEST:
                        work.ended = self._now()
                        if work.left is not None:
                            self._say(
                                f"{work.story.name} {work.story.application}: the work has ended, "
                                f"{work.ended - work.left:.1f} s after its caller left"
                            )
                await asyncio.sleep(0.05)

    async def _until_quiet(self) -> None:
        while self._playing or any(work.ended is None for work in self.works.values()) or not self._all_left():  # noqa: ASYNC110  # three conditions, none of them an event
            await asyncio.sleep(0.1)
        await asyncio.sleep(SETTLE)
        for caller in self._callers:
            if caller.stdin is not None:
                caller.stdin.close()

    def _all_left(self) -> bool:
        """Every attempt of the ladder has been made."""
        for story in {work.story.name: work.story for work in self.works.values()}.values():
            attempts = story.arguments.get("attempts", 1)
            made = [work for work in self.works.values() if work.story is story]
            if isinstance(attempts, int) and len(made) < attempts and not any(w.story.kind == "pool" for w in made):
                return False
        return True

    def _now(self) -> float:
        return time.monotonic() - self._begin

    def _say(self, text: str) -> None:
        if text:
            self.announce(self._now(), text)


def _kill(caller: asyncio.subprocess.Process) -> None:
    # Not by the transport's own kill: it polls first, and so takes the exit code from the loop's watcher.
    if caller.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(caller.pid, signal.SIGKILL)


_RUNNING = """
    SELECT pid FROM pg_catalog.pg_stat_activity
    WHERE backend_type = 'client backend' AND (state = 'active' OR xact_start IS NOT NULL)
      AND pid <> pg_catalog.pg_backend_pid()
"""


def server_log(server: EmbeddedServer, work: Work) -> str:
    """What the server's log says first about a work's backend; empty if nothing."""
    marker = f"[{work.pid}] "
    for line in server.log.read_text(encoding="utf-8", errors="replace").splitlines():
        _, found, message = line.partition(marker)
        if found and message.startswith(("ERROR:", "FATAL:", "LOG:")):
            return " ".join(message.partition(":")[2].split())
    return ""


def _phrase(kind: Kind, evidence: Sequence[str]) -> str:
    return f"{kind} ({', '.join(evidence).replace('_', ' ')})" if evidence else str(kind)


def _rows_for(connection: "psycopg.Connection[tuple[object, ...]]", *, seconds: float) -> int:
    """How many rows times 10,000 keep this machine busy for `seconds`, from a measurement of a small one."""
    sample = 300
    begun = time.monotonic()
    connection.execute(f"SELECT count(*) FROM generate_series(1, {sample}) a CROSS JOIN generate_series(1, 10000) b")
    return max(sample, int(sample * seconds / (time.monotonic() - begun)))
