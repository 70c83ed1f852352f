"""A source on a real server, and a daemon in the test's own loop."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from support.servers import PATIENCE, TestServer
from watchdog.cli import wiring
from watchdog.cli.daemon import Daemon
from watchdog.core.activity import Backend, Snapshot
from watchdog.core.look import Look, Unread
from watchdog.postgres.source import Password, PostgresSource
from watchdog.runtime.ports import Sink


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
    source = PostgresSource(dsn, password or Password(), timeout, 60.0, os.environ if env is None else env)
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
    daemon = wiring.daemon(settings, reload=lambda: wiring.load_settings(file, env={}), sinks=sinks)
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
