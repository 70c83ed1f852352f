"""The retry ladder: one run of a chain played as events, exactly, with no clock.

A layer that starts at s lives until e, the earlier of s + lifetime and of the deadline that its caller handed down.
An attempt that begins at t is waited for until l, the earlier of t + timeout and of e. If the layer below succeeds
before l, so does this one. If it fails before l, or nothing has come at l, the next attempt begins after the pause,
unless that is not before e. What ties with l comes too late: who waits and who answers at the same instant is a race.

The query of an attempt is a copy. It ends at the earliest of start + work, start + statement_timeout, and the deadline
of the innermost layer if that hands it down; nothing else ends it. It is wanted until the first layer above stops
waiting for the attempt that it belongs to: from then on its result reaches nobody, and its minutes are for nobody.

The four rows of the published incident (scheduler, wrapper, worker, a query of 32.5 min; both functions are ended by
their platform at 15 min), as this arithmetic gives them:

1. As deployed. Wrapper and worker end at 15, the query at 32.5: 17.5 min for nobody.
2. The wrapper waits 14 min for the worker, and its SDK makes up to 5 attempts. The second begins at 14, inside the
   wrapper's last minute; the third would begin at 28 and never does. Copies at 0 and 14, wanted until 14 and 15, the
   wrapper's end (not until 29, the second worker's): 18.5 + 31.5 = 50 min for nobody, 65 in all, two at once.
3. The scheduler makes 7 attempts of that; each wrapper ends at 15, so they follow each other every 15 min. 7 x 50 and
   7 x 65 min, 14 copies. At 45 min those from 14, 15, 29, 30, 44 and 45 run: six at once.
4. The SDK makes one attempt, the worker sets statement_timeout to 14 min, the scheduler makes 3 attempts. Each fails
   at 14 while its callers still wait until 15, and the next begins as it ends: one at once, 3 x 14 = 42 min.

Copies do not slow each other here: these are the minutes at best. What load does to them is `loop`'s subject.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from watchdog.core.chain.chain import ZERO, Chain, Layer, earliest


class Result(StrEnum):
    """What comes of a run; cheaply: nothing ran on after its callers had stopped waiting."""

    SUCCEEDS = "succeeds"
    FAILS = "fails"
    FAILS_CHEAPLY = "fails, cheaply"


@dataclass(frozen=True, slots=True)
class Copy:
    """One execution of the query; `wanted_until` is when the first caller stops waiting for it, None: never."""

    start: timedelta
    end: timedelta
    wanted_until: timedelta | None

    @property
    def lasts(self) -> timedelta:
        """How long the database works on it."""
        return self.end - self.start

    @property
    def for_nobody(self) -> timedelta:
        """How long it runs on after its caller has left."""
        return ZERO if self.wanted_until is None else max(ZERO, self.end - max(self.start, self.wanted_until))


@dataclass(frozen=True, slots=True)
class Ladder:
    """All copies of one run, in the order of their starts."""

    copies: tuple[Copy, ...]
    result: Result

    @property
    def at_once(self) -> int:
        """The most copies that run at the same time."""
        # An end sorts before a start at the same instant: a retry that begins as the last attempt ends is no overlap.
        events = sorted([*((copy.start, 1) for copy in self.copies), *((copy.end, -1) for copy in self.copies)])
        running = most = 0
        for _, step in events:
            running += step
            most = max(most, running)
        return most

    @property
    def for_nobody(self) -> timedelta:
        """Database time after the callers had left."""
        return sum((copy.for_nobody for copy in self.copies), ZERO)

    @property
    def database(self) -> timedelta:
        """Database time of all copies."""
        return sum((copy.lasts for copy in self.copies), ZERO)


@dataclass(frozen=True, slots=True)
class _Answer:
    at: timedelta
    succeeded: bool


def play(chain: Chain) -> Ladder:
    """One run of the chain, from the outermost layer that waits at all."""
    copies: list[Copy] = []
    waiting = chain.layers[chain.first_waiting :]
    answer = _try(chain, waiting, start=ZERO, deadline=None, wanted=None, copies=copies)
    ladder = Ladder(tuple(sorted(copies, key=lambda copy: copy.start)), Result.FAILS)
    if answer.succeeded:
        return Ladder(ladder.copies, Result.SUCCEEDS)
    return ladder if ladder.for_nobody else Ladder(ladder.copies, Result.FAILS_CHEAPLY)


def _try(
    chain: Chain,
    layers: Sequence[Layer],
    *,
    start: timedelta,
    deadline: timedelta | None,
    wanted: timedelta | None,
    copies: list[Copy],
) -> _Answer:
    """One life of the outermost of `layers`, and of everything that it starts below, which may well outlive it."""
    if not layers:
        return _query(chain, start=start, deadline=deadline, wanted=wanted, copies=copies)
    layer, *below = layers
    end = earliest(deadline, None if layer.lifetime is None else start + layer.lifetime)
    for pause in (*layer.pauses(), None):
        leaves = earliest(end, None if layer.timeout is None else start + layer.timeout)
        handed = leaves if layer.hands_down else None
        answer = _try(chain, below, start=start, deadline=handed, wanted=earliest(wanted, leaves), copies=copies)
        if leaves is not None and answer.at >= leaves:
            answer = _Answer(leaves, succeeded=False)
        if answer.succeeded or pause is None:
            return answer
        start = answer.at + pause
        if end is not None and start >= end:
            return _Answer(end, succeeded=False)
    raise AssertionError("the last attempt has no pause after it and returns")


def _query(
    chain: Chain, *, start: timedelta, deadline: timedelta | None, wanted: timedelta | None, copies: list[Copy]
) -> _Answer:
    done = start + chain.work
    limit = earliest(deadline, None if chain.statement_timeout is None else start + chain.statement_timeout)
    succeeded = limit is None or done < limit
    end = done if limit is None else min(done, limit)
    copies.append(Copy(start, end, wanted))
    return _Answer(end, succeeded)
