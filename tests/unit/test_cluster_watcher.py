"""A watch's rhythm, without a server: what it looks at is played."""

import asyncio
import time
from dataclasses import dataclass, field
from types import SimpleNamespace

from watchdog.core.observed.reasons import Reason
from watchdog.core.present.look import Look, Unread
from watchdog.errors import ReadError
from watchdog.runtime.cluster_watcher import ClusterWatcher

INTERVAL, AWAY_FOR = 1.0, 0.3


@dataclass
class Cycle:
    """A cluster that cannot be read until `back_at`, and notes when it was looked at."""

    server: str
    back_at: float
    looks: list[float] = field(default_factory=list)
    read_at: float = 0.0
    placed_at: float = 0.0
    census: object = None
    sweeper: object = field(default_factory=lambda: SimpleNamespace(pause=None))
    source: object = field(default_factory=lambda: SimpleNamespace(close=lambda: None, census_is_stale=False))

    async def renew_census(self) -> None:
        if time.monotonic() < self.back_at:
            raise ReadError(Reason.UNREACHABLE, "away")

    async def look(self, *, tick: bool) -> object:
        assert tick
        self.read_at = time.monotonic()
        self.looks.append(self.read_at)
        return SimpleNamespace(waits=())


class Nobody:
    def publish(self, state: Look | Unread) -> None:
        """Takes no note."""


class Soon:
    """Chance that lets everybody try again at once, so that all come back together."""

    def uniform(self, low: float, high: float) -> float:
        del low, high
        return 0.01


async def test_clusters_that_come_back_together_do_not_march_in_step() -> None:
    begun = time.monotonic()
    cycles = [Cycle(f"c{number}", begun + AWAY_FOR) for number in range(5)]
    tasks = []
    for number, cycle in enumerate(cycles):
        watch = ClusterWatcher(
            cycle,  # type: ignore[arg-type]  # as much of a cycle as a watch asks for
            Nobody(),
            interval=INTERVAL,
            census_interval=60,
            deadline=1,
            rng=Soon(),  # type: ignore[arg-type]  # the same
        )
        tasks.append(asyncio.create_task(watch.run(delay=0.0, phase=INTERVAL * number / len(cycles))))
    async with asyncio.timeout(30):
        while min(len(cycle.looks) for cycle in cycles) < 4:  # noqa: ASYNC110  # the played clusters tell no event
            await asyncio.sleep(0.02)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    together = [cycle.looks[0] - begun for cycle in cycles]
    assert max(together) - min(together) < INTERVAL / 5, "all came back together"
    phases = sorted((cycle.looks[3] - begun) % INTERVAL for cycle in cycles)
    gaps = [after - before for before, after in zip(phases, [*phases[1:], phases[0] + INTERVAL], strict=True)]
    assert min(gaps) > INTERVAL / len(cycles) / 4, "later looks are spread over the interval"
