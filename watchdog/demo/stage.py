"""The stage: starts the callers of one round, kills those whose story requires it, and records what happened.

The stage itself observes when work began, when its caller left and when it ended. It learns from the daemon's looks
what was called an orphan and what was done about it. For that it is a sink of the daemon.
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

from watchdog.core.acting.acts import Result
from watchdog.core.present.look import Look, Unread
from watchdog.demo.guardian import Guardian
from watchdog.demo.server import EmbeddedServer, clean_environment, python_command
from watchdog.demo.stories import Story
from watchdog.demo.works import Work, server_log

MAX_ROUND = 90.0
"""Seconds after which a round is aborted."""

MIN_AGE = 0.5
"""Seconds after its start for which work is not taken as ended, because its statement may not be visible yet."""

FAREWELL = 3.0
"""Seconds to wait for killed callers to exit."""

SETTLE = 1.5
"""Seconds to wait after the last work has ended, so that the daemon has seen the end too."""

EFFECTS_WITHIN = 5.0
"""Upper bound of the seconds to wait until the daemon has seen the outcome of every act."""

Announce = Callable[[float, str], None]
"""It is called with the seconds since the start of the round and a sentence about what happened."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """One round: it runs the stories on a server once. It is a sink of the daemon's looks at the same time."""

    server: EmbeddedServer
    guardian: Guardian
    announce: Announce
    works: dict[int, Work] = field(default_factory=dict)
    _begin: float = field(default_factory=time.monotonic)
    _callers: list[asyncio.subprocess.Process] = field(default_factory=list)
    _playing: int = 0
    _open_acts: set[str] = field(default_factory=set)

    def publish(self, state: Look | Unread) -> None:
        """Learn from a state of the daemon what it found and did."""
        if isinstance(state, Unread):
            self._say(f"the daemon cannot read the server: {state.detail}")
            return
        for work in self.works.values():
            for news in work.learn(state, at=self._now()):
                self._tell(work.story, news)
        followed = (Result.SIGNALLED, Result.REHEARSED, Result.TIMED_OUT)
        self._open_acts |= {done.act.id for done in state.results if done.result in followed}
        self._open_acts -= {effect.id for effect in state.effects}

    async def play(self, cast: Sequence[Story]) -> list[Work]:
        """Run all stories at the same time until the last work has ended. Returns the works in order of stories."""
        self._begin = time.monotonic()
        log_begins = self.server.log.stat().st_size
        observer = asyncio.create_task(self._observe())
        self._playing = len(cast)
        try:
            async with asyncio.timeout(MAX_ROUND), asyncio.TaskGroup() as group:
                for story in cast:
                    group.create_task(self._play(story))
                group.create_task(self._until_quiet())
        finally:
            observer.cancel()
            with contextlib.suppress(asyncio.CancelledError, psycopg.Error):
                await observer
            await self._dismiss()
        for work in self.works.values():
            work.logged = server_log(self.server.log, pid=work.pid, since=log_begins)
        return sorted(self.works.values(), key=lambda work: (work.story.name, work.began))

    async def _dismiss(self) -> None:
        """Kill every caller and wait for it, because asyncio warns of a transport that outlives its event loop."""
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
        assert caller.stdout is not None  # because it was requested as a pipe
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
        elif await caller.wait():
            self._tell(story, "the caller has failed")

    def _dsn(self, story: Story) -> str:
        options = {"options": story.options} if story.options else {}
        return make_conninfo(self.server.dsn(role=story.role), application_name=story.application, **options)

    async def _kill(self, story: Story, caller: asyncio.subprocess.Process) -> None:
        await asyncio.sleep(story.killed_after or 0.0)
        _kill(caller)
        for work in self._works_of(story):
            self._note(story, event="left", pid=work.pid)

    def _note(self, story: Story, *, event: str, pid: int) -> None:
        match event:
            case "started":
                self.works[pid] = Work(story=story, pid=pid, began=self._now())
                if story.named or story.options:
                    self._tell(story, story.title)
            case "left":
                self.works[pid].left = self._now()
                self._tell(story, "the caller has left, the server is not told")
            case "cancelled":
                self._tell(story, "the caller is told that its query was cancelled")
            case "done":
                self.works[pid].served = True
                if all(work.served for work in self._works_of(story)):
                    self._tell(story, "the caller has had what it wanted")

    async def _observe(self) -> None:
        """Query every 50 ms which work has ended. A watchdog would not query that often."""
        connection = await psycopg.AsyncConnection.connect(
            self.server.dsn(), password=self.server.password, autocommit=True, application_name="stage"
        )
        async with connection:
            while True:
                rows = await (await connection.execute(_RUNNING)).fetchall()
                self._see({pid for (pid,) in rows})
                await asyncio.sleep(0.05)

    def _see(self, running: set[int]) -> None:
        """Record the work that has ended."""
        now = self._now()
        for work in self.works.values():
            if work.ended is None and work.pid not in running and now - work.began > MIN_AGE:
                work.ended = now
                if work.for_nobody is not None:
                    self._tell(work.story, f"the work has ended, {work.for_nobody:.1f} s after its caller left")

    async def _until_quiet(self) -> None:
        while self._playing or any(work.ended is None for work in self.works.values()) or not self._all_left():  # noqa: ASYNC110  # there is no event for these conditions
            await asyncio.sleep(0.1)
        await asyncio.sleep(SETTLE)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._until_effects_seen(), EFFECTS_WITHIN)
        for caller in self._callers:
            if caller.stdin is not None:
                caller.stdin.close()

    async def _until_effects_seen(self) -> None:
        while self._open_acts:  # noqa: ASYNC110  # there is no event for an empty set
            await asyncio.sleep(0.1)

    def _all_left(self) -> bool:
        """True if every story with several attempts has begun all of them."""
        for story in {work.story.name: work.story for work in self.works.values()}.values():
            attempts = story.arguments.get("attempts", 1)
            if isinstance(attempts, int) and len(self._works_of(story)) < attempts:
                return False
        return True

    def _works_of(self, story: Story) -> list[Work]:
        return [work for work in self.works.values() if work.story is story]

    def _now(self) -> float:
        return time.monotonic() - self._begin

    def _tell(self, story: Story, news: str) -> None:
        self._say(f"{story.name} {story.application}: {news}")

    def _say(self, text: str) -> None:
        self.announce(self._now(), text)


def _kill(caller: asyncio.subprocess.Process) -> None:
    # The transport's own kill() polls first and so takes the exit code away from the event loop's child watcher.
    if caller.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(caller.pid, signal.SIGKILL)


_RUNNING = """
    SELECT pid FROM pg_catalog.pg_stat_activity
    WHERE backend_type = 'client backend' AND (state = 'active' OR xact_start IS NOT NULL)
      AND pid <> pg_catalog.pg_backend_pid()
"""
