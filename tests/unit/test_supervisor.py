"""When clusters begin and tick: watches are played."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Never

import pytest

from watchdog.runtime.supervisor import FIRST_LOOKS, Supervisor

INTERVAL = 5.0
Begun = dict[str, tuple[float, float]]


@dataclass
class Played:
    """A watcher that notes when it is told to begin."""

    server: str
    begun: Begun
    identity: str = "as before"
    interval: float = INTERVAL

    def apply_config(self, other: "Played") -> None:
        """Goes on."""

    def inherit_state(self, before: "Played") -> None:
        """Has nothing to remember."""

    async def run(self, *, delay: float, phase: float) -> Never:
        self.begun[self.server] = (delay, phase)
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")


async def begun_by(*configurations: Iterable[tuple[str, str]]) -> Begun:
    """What the last of these configurations, taken on one after the other, has begun: delay and phase by server."""
    supervisor, stop, begun = Supervisor[Played](), asyncio.Event(), Begun()
    running = None
    for listed in configurations:
        begun.clear()
        watchers = [Played(server, begun, identity) for server, identity in listed]
        if running is None:
            running = asyncio.create_task(supervisor.run(watchers, stop=stop))
        else:
            supervisor.replace(watchers)
        await asyncio.sleep(0.01)
    stop.set()
    assert running is not None
    await running
    return begun


def servers(count: int, *, identity: str = "as before") -> list[tuple[str, str]]:
    return [(f"c{number:04}", identity) for number in range(count)]


async def test_clusters_begin_one_after_the_other() -> None:
    begun = await begun_by(servers(1000))
    delays = [begun[server][0] for server, _ in servers(1000)]
    assert delays == pytest.approx([FIRST_LOOKS * place for place in range(1000)])


@pytest.mark.parametrize("count", [2, 7, 100, 1000])
async def test_ticks_are_spread_over_the_interval_also_those_of_any_row_of_neighbours(count: int) -> None:
    begun = await begun_by(servers(count))
    phases = [begun[server][1] for server, _ in servers(count)]
    for row in (phases, phases[: count // 2], phases[-count // 3 :]):
        ordered = sorted(row)
        gaps = [after - before for before, after in zip(ordered, [*ordered[1:], ordered[0] + INTERVAL], strict=True)]
        assert max(gaps) < 3 * INTERVAL / len(row)


async def test_a_cluster_that_a_reload_adds_does_not_wait_for_those_that_go_on() -> None:
    begun = await begun_by(servers(200), [*servers(200), ("new", "as before")])
    assert {server: delay for server, (delay, _) in begun.items()} == {"new": 0.0}


async def test_clusters_that_are_reached_another_way_are_looked_at_within_an_interval() -> None:
    begun = await begun_by(servers(300), servers(300, identity="another"))
    assert len(begun) == 300
    assert max(delay for delay, _ in begun.values()) == INTERVAL
