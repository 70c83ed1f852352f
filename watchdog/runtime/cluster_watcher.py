"""Watching one cluster for as long as it is configured. This task never ends by an exception.

It is the one owner of the cluster's session: looks and censuses happen one after the other, looks first.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Never

from watchdog.core.observed.reasons import Reason
from watchdog.core.present.look import Unread
from watchdog.errors import ReadError
from watchdog.logs import Event, get_logger
from watchdog.runtime.cycle import Cycle
from watchdog.runtime.ports import Sink
from watchdog.runtime.timetable import MAX_LOOKS, Appointment, following_tick, next_look, pause_after

STALE_CENSUS_GAP = 5.0
"""Seconds between two censuses that are taken early because a stranger has turned up."""

CENSUS_STATEMENTS = 5
"""Round trips of a census, each with a deadline of its own."""

CENSUS_PATIENCE = 5
"""A census waits for crossings, but not for more than this many of its own intervals."""


_RNG = random.Random()  # noqa: S311  # spreads attempts, keeps no secret


@dataclass(slots=True, kw_only=True)
class ClusterWatcher:
    """One cluster's task. Times are seconds; `deadline` is that of one statement."""

    cycle: Cycle
    sink: Sink
    interval: float
    census_interval: float
    deadline: float
    rng: random.Random = _RNG
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_LOOKS))
    _failures: int = 0
    _census_at: float = 0.0
    _phase: float = 0.0

    @property
    def server(self) -> str:
        """The cluster's name."""
        return self.cycle.server

    @property
    def identity(self) -> Hashable:
        """What it reads and how: a watcher with the same identity can go on with this one's session."""
        return self.cycle.identity

    def inherit_state(self, before: "ClusterWatcher") -> None:
        """Go on from what another watcher of the same cluster remembers."""
        self.cycle.inherit_state(before.cycle)

    def apply_config(self, other: "ClusterWatcher") -> None:
        """Go on as another watch of the same cluster would have begun: the session and the memory stay."""
        self.cycle.apply_config(other.cycle)
        self.interval, self.census_interval, self.deadline = other.interval, other.census_interval, other.deadline

    async def run(self, *, delay: float, phase: float) -> Never:
        """Look until cancelled, at first after `delay` seconds.

        Ticks come `phase` seconds from now plus whole intervals, so that clusters do not march in step; not even those
        that were all away and have come back together.
        """
        self._phase = time.monotonic() + phase - self.interval
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beside(), name=f"beside {self.server}")
            try:
                await asyncio.sleep(delay)
                while True:  # noqa: ASYNC110  # a pause is what it is
                    await asyncio.sleep(await self._stretch())
            finally:
                self.cycle.close()
        raise AssertionError("it ends by being cancelled")

    async def _beside(self) -> Never:
        """Run what is to run beside the looks; a bug in it is logged and ends neither them nor it."""
        while True:
            try:
                await self.cycle.run_beside()
            except Exception:  # noqa: BLE001  # the outermost frame, as below
                get_logger().exception(Event.INTERNAL_ERROR, server=self.server)
                await asyncio.sleep(self.interval)

    async def _stretch(self) -> float:
        """Look until something fails; returns how long to pause before the next attempt."""
        try:
            await self._look_on()
        except ReadError as error:
            return self._failed(error.reason, str(error))
        except Exception as error:  # noqa: BLE001  # the outermost frame: one cluster's bug is its own
            get_logger().exception(Event.INTERNAL_ERROR, server=self.cycle.server)
            self.cycle.close()
            return self._failed(Reason.INTERNAL, f"{type(error).__name__}: {error}")

    async def _look_on(self) -> Never:
        await self._renew_census()
        appointment = Appointment(time.monotonic(), tick=True)
        next_tick = self._phase
        while True:
            early = await self._wait(appointment)
            look = await self.cycle.look(tick=appointment.tick and not early)
            read_at = look.timing.read_at
            self._recent.append(read_at)
            self._failures = 0
            self.sink.publish(look)
            if appointment.tick and not early:
                next_tick = following_tick(next_tick, interval=self.interval, now=read_at)
            appointment = next_look(
                recent=self._recent, placed_at=look.timing.placed_at, next_tick=next_tick, crossings=look.waits
            )
            if self._census_is_due(appointment):
                await self._renew_census()

    async def _wait(self, appointment: Appointment) -> bool:
        """Wait for the appointment, or until a known run's client is seen to be gone: then True."""
        while (left := appointment.at - time.monotonic()) > 0:
            pause = self.cycle.sweep_pause
            if pause is None or left <= pause:
                await asyncio.sleep(left)  # most of many clusters have nothing to sweep, and need not be woken for it
                return False
            await asyncio.sleep(pause)
            if self.cycle.sweep():
                return True
        return False

    async def _renew_census(self) -> None:
        self._census_at = time.monotonic()
        await self.cycle.renew_census()

    def _census_is_due(self, appointment: Appointment) -> bool:
        now = time.monotonic()
        age = now - self._census_at
        wanted = age >= self.census_interval or (self.cycle.census_is_stale and age >= STALE_CENSUS_GAP)
        in_the_way = not appointment.tick and appointment.at - now < CENSUS_STATEMENTS * self.deadline
        return wanted and (not in_the_way or age >= CENSUS_PATIENCE * self.census_interval)

    def _failed(self, reason: Reason, detail: str) -> float:
        self._failures += 1
        self.sink.publish(Unread(self.cycle.server, reason, detail))
        return pause_after(reason, failures=self._failures, interval=self.interval, rng=self.rng)
