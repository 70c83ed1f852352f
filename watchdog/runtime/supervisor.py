"""Owns the watchers of all clusters: starts them a little apart, replaces them on a reload, and ends them.

It knows what `Watcher` declares and nothing else of a cluster.
"""

import asyncio
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, Never, Protocol, Self, TypeVar

CANCEL_AGAIN = 0.5

FIRST_LOOKS = 0.05
"""Seconds between the first looks of two clusters. Connecting and a census take about that much of two cores."""

GOLDEN = (5**0.5 - 1) / 2
"""The golden ratio minus 1. Its multiples modulo 1 are spread evenly for any number of clusters, and also for any
clusters that follow each other in the configuration. These start one after the other, so their censuses are due at
about the same time. With an even step their ticks would be at about the same time as well."""


class Watcher(Protocol):
    """What the supervisor needs of the watcher of one cluster."""

    interval: float

    @property
    def server(self) -> str:
        """The cluster's name."""

    @property
    def identity(self) -> Hashable:
        """What is read and how. A watcher with the same identity can go on with this one's session."""

    def apply_config(self, other: Self) -> None:
        """Take on the configuration of `other`. The session and the memory stay."""

    def inherit_state(self, before: Self) -> None:
        """Take over the memory of another watcher of the same cluster."""

    async def run(self, *, delay: float, phase: float) -> Never:
        """Look until cancelled, first after `delay` seconds. Ticks come `phase` seconds from now plus intervals."""


W = TypeVar("W", bound=Watcher)


@dataclass(slots=True)
class Supervisor(Generic[W]):
    """The running watchers by server. The task group holds every task, and none of the tasks raises."""

    _watchers: dict[str, W] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[Never]] = field(default_factory=dict)
    _group: asyncio.TaskGroup | None = None

    async def run(self, watchers: Iterable[W], *, stop: asyncio.Event) -> None:
        """Watch until `stop` is set. Then end every session and return."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self.replace(watchers)
            await stop.wait()
            self._group = None
            await _end_all(set(self._tasks.values()))

    def replace(self, watchers: Iterable[W]) -> None:
        """Watch these clusters from now on.

        A cluster with the same identity as before keeps its open session, because a full server may accept no new one.
        A cluster that stays but has another identity keeps its memory, so that nothing is counted twice.
        """
        if self._group is None:
            return
        listed = {watcher.server: watcher for watcher in watchers}
        for server in self._tasks.keys() - listed.keys():
            self._end(server)
        begun = 0
        for place, (server, watcher) in enumerate(listed.items()):
            before = self._watchers.get(server)
            if before is not None and before.identity == watcher.identity:
                before.apply_config(watcher)
                continue
            delay = FIRST_LOOKS * begun
            begun += 1
            if before is not None:
                watcher.inherit_state(before)
                self._end(server)
                delay = min(delay, watcher.interval)  # its last look is shown until then, at most for an interval
            run = watcher.run(delay=delay, phase=watcher.interval * (place * GOLDEN % 1))
            self._tasks[server] = self._group.create_task(run, name=f"watch {server}")
            self._watchers[server] = watcher

    def _end(self, server: str) -> None:
        self._tasks.pop(server).cancel()
        del self._watchers[server]


async def _end_all(tasks: set[asyncio.Task[Never]]) -> None:
    """Cancel the tasks until they are done, because a single cancellation can be lost in what a task is awaiting."""
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=CANCEL_AGAIN)
