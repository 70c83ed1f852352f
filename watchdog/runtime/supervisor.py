"""All watches together: started a little apart, changed on a reload, ended at once."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Never

from watchdog.runtime.cluster_watcher import ClusterWatcher

CANCEL_AGAIN = 0.5

FIRST_LOOKS = 0.05
"""Seconds between the first looks of two clusters: connecting and a census take that much of two cores."""

GOLDEN = (5**0.5 - 1) / 2
"""Its multiples spread evenly however many there are, and so do those of any row of neighbours. Neighbours begin one
after the other, so their censuses are due together: by an even step their ticks would be together as well."""


@dataclass(slots=True)
class Supervisor:
    """The running watches by server. Its task group holds every task; none of them ever raises."""

    _watchers: dict[str, ClusterWatcher] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[Never]] = field(default_factory=dict)
    _group: asyncio.TaskGroup | None = None

    async def run(self, watchers: Iterable[ClusterWatcher], *, stop: asyncio.Event) -> None:
        """Watch until `stop` is set, then end every session and come back."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self.replace(watchers)
            await stop.wait()
            self._group = None
            await _end_all(set(self._tasks.values()))

    def replace(self, watchers: Iterable[ClusterWatcher]) -> None:
        """Watch these from now on.

        A cluster that is reached as before keeps its open session: on a full server there might be no other. One
        that stays but is reached differently keeps its memory, so that nothing is counted twice.
        """
        if self._group is None:
            return
        listed = {watcher.cycle.server: watcher for watcher in watchers}
        for server in self._tasks.keys() - listed.keys():
            self._end(server)
        begun = 0
        for place, (server, watcher) in enumerate(listed.items()):
            before = self._watchers.get(server)
            if before is not None and before.cycle.source.identity == watcher.cycle.source.identity:
                before.apply_config(watcher)
                continue
            delay = FIRST_LOOKS * begun
            begun += 1
            if before is not None:
                watcher.cycle.inherit_state(before.cycle)
                self._end(server)
                delay = min(delay, watcher.interval)  # its last look is shown until then: no longer than any look is
            run = watcher.run(delay=delay, phase=watcher.interval * (place * GOLDEN % 1))
            self._tasks[server] = self._group.create_task(run, name=f"watch {server}")
            self._watchers[server] = watcher

    def _end(self, server: str) -> None:
        self._tasks.pop(server).cancel()
        del self._watchers[server]


async def _end_all(tasks: set[asyncio.Task[Never]]) -> None:
    """Cancel until they are done: a single cancellation can be lost in whatever a task was just waiting for."""
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=CANCEL_AGAIN)
