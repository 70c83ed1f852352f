"""When to look next: at the next tick, or when the next run crosses its budget, whichever comes first.

It is pure arithmetic on seconds of one monotonic clock. The server says how far a run is from its crossing. Only that
distance is measured here, never an age. No verdict depends on this module: it only chooses when to ask the server.
"""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from watchdog.core.judging.budgets import MIN_INTERVAL, BudgetBook
from watchdog.core.observed.reasons import Reason

SHARED_LOOK = 0.04
"""Crossings within this many seconds share one look."""

MAX_LOOKS = 10
"""Upper bound of the looks at one cluster in any second."""

LOOK_SPACING = 0.01

MAX_PAUSE = 30.0
SLOW_PAUSE = (30.0, 60.0)
"""Range of the pause in seconds after a refused password. A server may lock out a client that tries too often."""


@dataclass(frozen=True, slots=True)
class Appointment:
    """When to look next (monotonic seconds), and whether that look is a tick."""

    at: float
    tick: bool


@dataclass(slots=True)
class Readings:
    """The last readings of a server's clock, each with the second of our own clock at which it was asked for."""

    _last: deque[tuple[float, datetime]] = field(default_factory=lambda: deque(maxlen=MAX_LOOKS))

    def place(self, at: datetime, *, asked_at: float, read_at: float) -> float:
        """An estimate of our monotonic second at which the server's clock read `at`.

        It is `asked_at` plus the time by which this request took longer to reach the server than the quickest of the
        last ten, and at most `read_at`. A look that is planned by it does not come too early, as long as no request is
        quicker than all before it. If the server's clock is set, the effect is over within ten looks, and until then
        the result still lies between `asked_at` and `read_at`.
        """
        self._last.append((asked_at, at))
        slower = max((at - other).total_seconds() - (asked_at - asked) for asked, other in self._last)
        return min(read_at, asked_at + slower)


def interval_in_force(configured: timedelta, *, book: BudgetBook) -> timedelta:
    """The configured interval, or the smallest budget plus grace if that is shorter, but at least one second."""
    smallest = book.smallest_crossing
    return configured if smallest is None else max(MIN_INTERVAL, min(configured, smallest))


def next_look(
    *, recent: Sequence[float], placed_at: float, next_tick: float, crossings: Sequence[timedelta]
) -> Appointment:
    """The next appointment.

    `recent` are the times at which the last looks came in, the newest last. `placed_at` is when the server's clock was
    read for the newest one. `crossings` are the waits that count from `placed_at`, shortest first.
    """
    read_at = recent[-1]
    due = [placed_at + wait.total_seconds() for wait in crossings]
    if not due:
        return Appointment(next_tick, tick=True)
    shared = max(at for at in due if at <= due[0] + SHARED_LOOK)
    full = recent[-MAX_LOOKS] + 1.0 if len(recent) >= MAX_LOOKS else read_at
    at = max(shared, read_at + LOOK_SPACING, full)
    return Appointment(at, tick=False) if at < next_tick else Appointment(next_tick, tick=True)


def following_tick(tick: float, *, interval: float, now: float) -> float:
    """The tick after `tick`. Ticks that were missed are skipped."""
    missed = max(0, int((now - tick) // interval))
    return tick + (missed + 1) * interval


def pause_after(reason: Reason, *, failures: int, interval: float, rng: random.Random) -> float:
    """Seconds to wait after the `failures`-th failure in a row: full jitter, a random part of a growing ceiling."""
    if reason is Reason.AUTHENTICATION:
        return rng.uniform(*SLOW_PAUSE)
    ceiling = min(MAX_PAUSE, interval * 2 ** min(failures - 1, 10))
    return rng.uniform(0.0, ceiling)
