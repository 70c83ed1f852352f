"""Elapsed time beside the server's clock, which can be set or jump.

Ages of rows are the server's. Pauses, buckets, breakers, rests and warm-up are measured by a clock of our own that
cannot be set and goes on while the machine sleeps. A steady time is the server's time at the first look plus what has
elapsed since by that clock, so that both are equal until the server's clock is stepped. This module reads no clock.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

TOLERANCE = timedelta(seconds=1)
DRIFT = 0.1
"""A step is a difference of more than a second plus a tenth of the time between two looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading of the server's clock, with seconds of our own: when it was asked for, and when the answer came.

    `placed` is the estimate in between of when the server read its clock.
    """

    at: datetime
    asked: float
    came: float
    placed: float


@dataclass(frozen=True, slots=True)
class SteadyTime:
    """The steady time of one look, and by how much the server's clock was stepped since the look before, if it was."""

    at: datetime
    step: timedelta | None = None


def steady_time(now: Reading, *, first: Reading, before: Reading) -> SteadyTime:
    """The steady time of the reading `now`. `before` is that of the look before, `first` that of the first look."""
    steady = first.at + timedelta(seconds=now.placed - first.placed)
    passed = now.at - before.at
    least, most = now.asked - before.came, now.came - before.asked
    shortest, longest = timedelta(seconds=max(0.0, least)), timedelta(seconds=most)
    off = min(timedelta(0), passed - shortest) or max(timedelta(0), passed - longest)
    return SteadyTime(steady, off if abs(off) > TOLERANCE + longest * DRIFT else None)
