"""The daemon: all clusters watched, the web server up, until it is told to stop."""

import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Never

from watchdog.errors import ConfigurationError, LedgerError
from watchdog.logs import Event, get_logger
from watchdog.runtime.arming import Arming
from watchdog.runtime.cluster_watcher import ClusterWatcher
from watchdog.runtime.latest_states import LatestStates
from watchdog.runtime.supervisor import Supervisor
from watchdog.settings.tree import Settings
from watchdog.web.exposition import Exposition
from watchdog.web.own import OwnState
from watchdog.web.server import Listener, Shown, listen

DAY = 86_400.0

SWITCH_INTERVAL = 0.0005
"""Seconds for which the ledger's thread may keep the event loop waiting for the interpreter; Python's own choice is ten
times that, and an act that waited for it was late by as much."""


COLLECTIONS = (10_000, 20, 100)
"""Far above Python's own thresholds: next to nothing here is part of a cycle, and a full collection over a thousand
clusters was seen to stop the loop for a third of a second, several times a minute, to find nothing."""


def tune_interpreter() -> None:
    """Set this process up for a life on one event loop, once, before the daemon runs."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*COLLECTIONS)
    gc.collect()
    gc.freeze()  # what has been imported stays for good: no collection need walk it again


@dataclass(slots=True, kw_only=True)
class Daemon:
    """A configured daemon. `reload` reads the configuration anew; None where there is nothing to read."""

    settings: Settings
    apply_config: Callable[[Settings], None]
    watchers: Callable[[Settings], list[ClusterWatcher]]
    latest: LatestStates
    supervisor: Supervisor[ClusterWatcher]
    exposition: Exposition
    own: OwnState
    reload: Callable[[], Settings] | None
    arming: Arming
    prune: Callable[[], Awaitable[None]]
    interrupted: bool = False

    async def run(self, *, stop: asyncio.Event, listening: Callable[[str], None] | None = None) -> None:
        """Run until `stop` is set; `listening` is told the address once the server is up.

        Raises:
            UsageError: the address to listen on cannot be had.

        """
        self.apply_config(self.settings)
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
        armed = () if self.arming.dry_run else self.settings.armed
        mode = "enforce" if armed else "dry-run"
        log.info(Event.LISTENING, address=listener.address, clusters=len(self.settings.clusters), mode=mode)
        if listening is not None:
            listening(listener.address)
        async with asyncio.TaskGroup() as group:
            aside = [
                group.create_task(self.own.measure_lag(), name="lag"),
                group.create_task(self._prune(), name="prune"),
            ]
            try:
                await self.supervisor.run(self.watchers(self.settings), stop=stop)
            finally:
                for task in aside:
                    task.cancel()

    async def _prune(self) -> Never:
        """Drop what the ledger need not keep any longer: at the start, and once a day."""
        while True:
            try:
                await self.prune()
            except LedgerError as error:
                get_logger().warning(Event.LEDGER_FAILED, detail=str(error))
            except Exception:  # noqa: BLE001  # a bug in it must not end the watch
                get_logger().exception(Event.INTERNAL_ERROR)
            await asyncio.sleep(DAY)

    def handle_signals(self, stop: asyncio.Event) -> None:
        """Stop on SIGTERM and SIGINT, reload on SIGHUP, disarm on SIGUSR1."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        loop.add_signal_handler(signal.SIGINT, self._interrupt, stop)
        loop.add_signal_handler(signal.SIGHUP, self.try_reload)
        loop.add_signal_handler(signal.SIGUSR1, self._disarm)

    def _interrupt(self, stop: asyncio.Event) -> None:
        self.interrupted = True
        stop.set()

    def _disarm(self) -> None:
        self.arming.disarm()
        get_logger().warning(Event.DISARMED, by="SIGUSR1", hint="stays disarmed until the next start")

    def try_reload(self) -> list[str]:
        """Swap in the configuration if it is good; otherwise go on with the one in force. Returns the problems."""
        if self.reload is None:
            return ["there is no file to reload"]
        try:
            settings = self.reload()
        except Exception as error:  # noqa: BLE001  # whatever is wrong with it, the old one stays in force
            # The words of any other error may quote what the file holds.
            unexpected = [f"it cannot be read: {type(error).__name__}"]
            problems = list(error.problems) if isinstance(error, ConfigurationError) else unexpected
            self.own.reload_failed = self.arming.reload_failed = True
            get_logger().error(Event.RELOAD_FAILED, problems=problems)
            return problems
        restart = (settings.listen, settings.lifecycle) != (self.settings.listen, self.settings.lifecycle)
        self.settings = replace(settings, listen=self.settings.listen, lifecycle=self.settings.lifecycle)
        self.arming.reload_failed = False
        self.apply_config(settings)
        self.supervisor.replace(self.watchers(settings))
        self.own.loaded(len(settings.clusters))
        waits = "web takes effect at the next start" if restart else None
        get_logger().info(Event.RELOADED, clusters=len(settings.clusters), note=waits)
        return []

    def _shown(self) -> Shown:
        return Shown(
            exposition=self.exposition,
            states=lambda: list(self.latest),
            judges=lambda: not self.settings.book.empty,
            ready=lambda: self.latest.ready,
            reload=self.try_reload if self.settings.lifecycle else None,
        )
