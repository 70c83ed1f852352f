"""A watcher's rhythm on clusters in memory."""

import asyncio
import time
from dataclasses import dataclass, field

from support.builders import judge_settings
from support.memory_source import MemoryServer, MemorySource

from watchdog.core.present.look import Look, Unread
from watchdog.runtime.arming import Arming
from watchdog.runtime.cluster_watcher import ClusterWatcher
from watchdog.runtime.cycle import Cycle
from watchdog.runtime.read_only_actor import ReadOnlyActor

INTERVAL, AWAY_FOR = 1.0, 0.3


@dataclass
class Times:
    """A sink that notes when each look came in."""

    looks: dict[str, list[float]] = field(default_factory=dict)

    def publish(self, state: Look | Unread) -> None:
        if isinstance(state, Look):
            self.looks.setdefault(state.server, []).append(state.timing.read_at)


class Soon:
    """Chance that lets everybody try again at once, so that all come back together."""

    def uniform(self, low: float, high: float) -> float:
        del low, high
        return 0.01


async def test_clusters_that_come_back_together_do_not_march_in_step() -> None:
    begun, times = time.monotonic(), Times()
    servers = [MemoryServer(away=True) for _ in range(5)]
    tasks = []
    for number, server in enumerate(servers):
        source = MemorySource(server)
        watcher = ClusterWatcher(
            cycle=Cycle(
                server=f"c{number}",
                source=source,
                judge_settings=judge_settings(interval=INTERVAL),
                actor=ReadOnlyActor(source=source, arming=Arming()),
            ),
            sink=times,
            interval=INTERVAL,
            census_interval=60,
            deadline=1,
            rng=Soon(),  # type: ignore[arg-type]  # as much of it as a watcher asks for
        )
        tasks.append(asyncio.create_task(watcher.run(delay=0.0, phase=INTERVAL * number / len(servers))))
    await asyncio.sleep(AWAY_FOR)
    for server in servers:
        server.away = False
    async with asyncio.timeout(30):
        while min([len(times.looks.get(f"c{n}", ())) for n in range(5)]) < 4:  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0.02)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    looks = list(times.looks.values())
    together = [each[0] - begun for each in looks]
    assert max(together) - min(together) < INTERVAL / 5, "all came back together"
    phases = sorted((each[3] - begun) % INTERVAL for each in looks)
    gaps = [after - before for before, after in zip(phases, [*phases[1:], phases[0] + INTERVAL], strict=True)]
    assert min(gaps) > INTERVAL / len(servers) / 4, "later looks are spread over the interval"
