"""Watches one cluster for as long as it is configured. Its task never ends by an exception.

The task is the only owner of the cluster's session: looks and censuses run one after the other, and looks have
precedence. What a look does is in `cycle`.
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
"""Minimum seconds between two censuses if one is taken early because a snapshot does not fit the last census."""

CENSUS_STATEMENTS = 5
"""Number of statements of a census. Each is one round trip with its own deadline."""

CENSUS_PATIENCE = 5
"""Age of the last census, in census intervals, from which the next one no longer waits for crossings."""


_RNG = random.Random()  # noqa: S311  # used for jitter, not for secrets


@dataclass(slots=True, kw_only=True)
class ClusterWatcher:
    """The task of one cluster. Times are in seconds. `deadline` is that of one statement."""

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
        """What is read and how. A watcher with the same identity can go on with this one's session."""
        return self.cycle.identity

    def inherit_state(self, before: "ClusterWatcher") -> None:
        """Take over the memory of another watcher of the same cluster."""
        self.cycle.inherit_state(before.cycle)

    def apply_config(self, other: "ClusterWatcher") -> None:
        """Take on the configuration of `other`, a watcher of the same cluster. The session and the memory stay."""
        self.cycle.apply_config(other.cycle)
        self.interval, self.census_interval, self.deadline = other.interval, other.census_interval, other.deadline

    async def run(self, *, delay: float, phase: float) -> Never:
        """Look until cancelled, first after `delay` seconds.

        Ticks come `phase` seconds from now plus whole intervals. So the ticks of the clusters are spread, also after
        all of them were unreachable and have come back together.
        """
        self._phase = time.monotonic() + phase - self.interval
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beside(), name=f"beside {self.server}")
            try:
                await asyncio.sleep(delay)
                while True:  # noqa: ASYNC110  # the sleep is a pause between attempts
                    await asyncio.sleep(await self._stretch())
            finally:
                self.cycle.close()
        raise AssertionError("it ends by being cancelled")

    async def _beside(self) -> Never:
        """Run what is to run beside the looks. If it raises, the error is logged and it is started again later."""
        while True:
            try:
                await self.cycle.run_beside()
            except Exception:  # noqa: BLE001  # the outermost frame, as in `_stretch`
                get_logger().exception(Event.INTERNAL_ERROR, server=self.server)
                await asyncio.sleep(self.interval)

    async def _stretch(self) -> float:
        """Look until something fails, and return the seconds to pause before the next attempt."""
        try:
            await self._look_on()
        except ReadError as error:
            return self._failed(error.reason, str(error))
        except Exception as error:  # noqa: BLE001  # the outermost frame: other clusters go on
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
        """Wait for the appointment. True if a known run's client was seen to be gone before that."""
        while (left := appointment.at - time.monotonic()) > 0:
            pause = self.cycle.sweep_pause
            if pause is None or left <= pause:
                await asyncio.sleep(left)  # no sweep is due before the appointment, so the task is not woken for one
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
