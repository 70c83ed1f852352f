"""All watches together: started a little apart, changed on a reload, ended at once."""

import asyncio
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, Never, Protocol, Self, TypeVar

CANCEL_AGAIN = 0.5

FIRST_LOOKS = 0.05
"""Seconds between the first looks of two clusters: connecting and a census take that much of two cores."""

GOLDEN = (5**0.5 - 1) / 2
"""Its multiples spread evenly however many there are, and so do those of any row of neighbours. Neighbours begin one
after the other, so their censuses are due together: by an even step their ticks would be together as well."""


class Watcher(Protocol):
    """What the supervisor asks of one cluster's watcher."""

    interval: float

    @property
    def server(self) -> str:
        """The cluster's name."""

    @property
    def identity(self) -> Hashable:
        """What it reads and how: a watcher with the same identity can go on with this one's session."""

    def apply_config(self, other: Self) -> None:
        """Take on the configuration that `other` was made with, and keep the session and the memory."""

    def inherit_state(self, before: Self) -> None:
        """Go on from what another watcher of the same cluster remembers."""

    async def run(self, *, delay: float, phase: float) -> Never:
        """Look until cancelled, at first after `delay` seconds; ticks come `phase` seconds from now plus intervals."""


W = TypeVar("W", bound=Watcher)


@dataclass(slots=True)
class Supervisor(Generic[W]):
    """The running watches by server. Its task group holds every task; none of them ever raises."""

    _watchers: dict[str, W] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[Never]] = field(default_factory=dict)
    _group: asyncio.TaskGroup | None = None

    async def run(self, watchers: Iterable[W], *, stop: asyncio.Event) -> None:
        """Watch until `stop` is set, then end every session and come back."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self.replace(watchers)
            await stop.wait()
            self._group = None
            await _end_all(set(self._tasks.values()))

    def replace(self, watchers: Iterable[W]) -> None:
        """Watch these from now on.

        A cluster that is reached as before keeps its open session: on a full server there might be no other. One
        that stays but is reached differently keeps its memory, so that nothing is counted twice.
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
