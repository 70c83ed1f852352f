"""The daemon: all clusters watched, the web server up, until it is told to stop."""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass

from watchdog.core.policy import Rule
from watchdog.errors import ConfigurationError
from watchdog.logs import Event, get_logger
from watchdog.runtime.board import Board
from watchdog.runtime.fleet import Fleet
from watchdog.runtime.watch import Watch
from watchdog.settings.tree import Settings
from watchdog.web.exposition import Exposition
from watchdog.web.own import OwnState
from watchdog.web.server import Listener, Shown, listen


@dataclass(slots=True)
class Daemon:
    """A configured daemon. `reload` reads the configuration anew; None where there is nothing to read."""

    settings: Settings
    watches: Callable[[Settings], list[Watch]]
    board: Board
    fleet: Fleet
    exposition: Exposition
    own: OwnState
    rules: tuple[Rule, ...]
    reload: Callable[[], Settings] | None

    async def run(self, *, stop: asyncio.Event, listening: Callable[[str], None] | None = None) -> None:
        """Run until `stop` is set; `listening` is told the address once the server is up.

        Raises:
            UsageError: the address to listen on cannot be had.

        """
        self.board.list_servers(cluster.name for cluster in self.settings.clusters)
        host, port = self.settings.listen
        listener = await listen(self._shown(), host=host, port=port)
        try:
            await self._run(listener, stop=stop, listening=listening)
        finally:
            await listener.close()
            get_logger().info(Event.STOPPED)

    async def _run(self, listener: Listener, *, stop: asyncio.Event, listening: Callable[[str], None] | None) -> None:
        log = get_logger()
        for warning in self.settings.warnings:
            log.warning(Event.CONFIGURATION_WARNING, detail=warning)
        log.info(Event.LISTENING, address=listener.address, clusters=len(self.settings.clusters), mode="dry-run")
        if listening is not None:
            listening(listener.address)
        lag = asyncio.create_task(self.own.measure_lag(), name="lag")
        try:
            await self.fleet.run(self.watches(self.settings), stop=stop)
        finally:
            lag.cancel()

    def handle_signals(self, stop: asyncio.Event) -> None:
        """Stop on SIGTERM and SIGINT, reload on SIGHUP."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self.try_reload)

    def try_reload(self) -> list[str]:
        """Swap in the configuration if it is good; otherwise go on with the one in force. Returns the problems."""
        if self.reload is None:
            return ["there is no file to reload"]
        try:
            settings = self.reload()
        except ConfigurationError as error:
            self.own.reload_failed = True
            get_logger().error(Event.RELOAD_FAILED, problems=list(error.problems))
            return list(error.problems)
        servers = [cluster.name for cluster in settings.clusters]
        self.settings = settings
        self.board.list_servers(servers)
        self.exposition.settle(settings.book, rules=self.rules, servers=servers)
        self.fleet.replace(self.watches(settings))
        self.own.loaded(len(servers))
        get_logger().info(Event.RELOADED, clusters=len(servers))
        return []

    def _shown(self) -> Shown:
        return Shown(
            exposition=self.exposition,
            states=lambda: list(self.board),
            judges=lambda: not self.settings.book.empty,
            ready=lambda: self.board.ready,
            reload=self.try_reload if self.settings.lifecycle else None,
        )
