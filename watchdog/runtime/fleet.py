"""All watches together: started a little apart, changed on a reload, ended at once."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Never

from watchdog.runtime.watch import Watch


@dataclass(slots=True)
class Fleet:
    """The running watches by server. Its task group holds every task; none of them ever raises."""

    _watches: dict[str, Watch] = field(default_factory=dict)
    _tasks: list[asyncio.Task[Never]] = field(default_factory=list)
    _group: asyncio.TaskGroup | None = None

    async def run(self, watches: Iterable[Watch], *, stop: asyncio.Event) -> None:
        """Watch until `stop` is set, then end every session and come back."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self.replace(watches)
            await stop.wait()
            self._group = None
            self._cancel()

    def replace(self, watches: Iterable[Watch]) -> None:
        """End all watches and start these. A cluster that stays keeps its memory, so nothing is counted twice."""
        if self._group is None:
            return
        self._cancel()
        listed = list(watches)
        for place, watch in enumerate(listed):
            before = self._watches.get(watch.cycle.server)
            if before is not None:
                watch.cycle.take_over(before.cycle)
            delay = watch.interval * place / len(listed)
            task = self._group.create_task(watch.run(delay=delay), name=f"watch {watch.cycle.server}")
            self._tasks.append(task)
        self._watches = {watch.cycle.server: watch for watch in listed}

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
