"""The daemon: watches all clusters and serves HTTP until it is stopped. It does not build its parts."""

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
from watchdog.settings.differences import sooner
from watchdog.settings.tree import Settings
from watchdog.web.exposition import Exposition
from watchdog.web.own import OwnState
from watchdog.web.server import Listener, Shown, listen

DAY = 86_400.0

SWITCH_INTERVAL = 0.0005
"""Seconds after which the ledger's thread must release the interpreter lock if the event loop waits for it. Python's
default is ten times as long, and acts were delayed by that time."""


COLLECTIONS = (10_000, 20, 100)
"""Thresholds of the garbage collector, far above Python's defaults, because almost no objects are in reference cycles.
With the defaults and a thousand clusters, full collections stopped the event loop for a third of a second several times
a minute and freed nothing."""


def tune_interpreter() -> None:
    """Tune the interpreter for one event loop. Call it once, before the daemon runs."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*COLLECTIONS)
    gc.collect()
    gc.freeze()  # imported objects are never freed, so collections need not visit them


@dataclass(slots=True, kw_only=True)
class Daemon:
    """A configured daemon. `reload` reads the configuration again; it is None if that is not possible."""

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
    close_log: Callable[[], None]
    interrupted: bool = False

    async def run(self, *, stop: asyncio.Event, listening: Callable[[str], None] | None = None) -> None:
        """Run until `stop` is set. `listening` is called with the address once the HTTP server listens.

        Raises:
            UsageError: the address to listen on cannot be used.

        """
        self.apply_config(self.settings)
        host, port = self.settings.listen
        listener = await listen(self._shown(), host=host, port=port)
        try:
            await self._run(listener, stop=stop, listening=listening)
        finally:
            await listener.close()
            self.close_log()
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
        """Delete acts from the ledger that are older than `ledger.keep`: at the start, and once a day."""
        while True:
            try:
                await self.prune()
            except LedgerError as error:
                get_logger().warning(Event.LEDGER_FAILED, detail=str(error))
            except Exception:  # noqa: BLE001  # because a bug here must not stop the daemon
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
        """Apply the configuration if it is valid; otherwise keep the one in force and disarm. Returns the problems."""
        if self.reload is None:
            return ["there is no file to reload"]
        try:
            settings = self.reload()
        except Exception as error:  # noqa: BLE001  # after any error the old configuration stays in force
            # The text of an unexpected error may contain a part of the file.
            unexpected = [f"it cannot be read: {type(error).__name__}"]
            problems = list(error.problems) if isinstance(error, ConfigurationError) else unexpected
            self.own.reload_failed = self.arming.reload_failed = True
            get_logger().error(Event.RELOAD_FAILED, problems=problems)
            return problems
        shorter = sooner(self.settings, settings)
        restart = (settings.listen, settings.lifecycle) != (self.settings.listen, self.settings.lifecycle)
        self.settings = replace(settings, listen=self.settings.listen, lifecycle=self.settings.lifecycle)
        self.arming.reload_failed = False
        self.apply_config(settings)
        self.supervisor.replace(self.watchers(settings))
        self.own.loaded(len(settings.clusters))
        waits = "web takes effect at the next start" if restart else None
        get_logger().info(Event.RELOADED, clusters=len(settings.clusters), sooner=shorter or None, note=waits)
        return []

    def _shown(self) -> Shown:
        return Shown(
            exposition=self.exposition,
            states=lambda: list(self.latest),
            judges=lambda: not self.settings.book.empty,
            ready=lambda: self.latest.ready,
            reload=self.try_reload if self.settings.lifecycle else None,
        )
