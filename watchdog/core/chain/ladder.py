"""The retry ladder: all copies of the query that one run of a chain starts. They are computed exactly, without a clock.

A layer that starts at s ends at e, the earlier of s + lifetime and the deadline that its caller handed down. The layer
waits for an attempt that starts at t until l, the earlier of t + timeout and e. If the layer below succeeds before l,
this layer succeeds. If the layer below fails before l, or has not answered at l, the next attempt starts after the
pause, but only before e. An answer at exactly l counts as too late, because which of the two comes first is a race.

The query of an attempt is a copy. It ends at the earliest of start + work, start + statement_timeout, and the deadline
of the innermost layer if that layer hands it down. Nothing else ends it. A copy is wanted until the first layer above
it stops waiting for the attempt that the copy belongs to. After that its result reaches nobody, and the time for which
it runs on is called the time for nobody.

As an example, this is the result for the four rows of the published incident. It has a scheduler, a wrapper, a worker
and a query of 32.5 min. The platform ends the wrapper and the worker at 15 min. All figures are in minutes.

1. As deployed. The wrapper and the worker end at 15, the query at 32.5: 17.5 for nobody.
2. The wrapper waits 14 for the worker, and its SDK makes up to 5 attempts. The second starts at 14, which is before the
   wrapper's end at 15. The third would start at 28, which is after it. The copies start at 0 and 14. They are wanted
   until 14 and 15, because the wrapper ends at 15 (the second worker would wait until 29). So 18.5 + 31.5 = 50 are for
   nobody, of 65 in all, and two copies run at once.
3. The scheduler makes 7 attempts of row 2. Each wrapper ends after 15, so the attempts start every 15. There are 14
   copies, with 7 x 50 for nobody, of 7 x 65 in all. At 45, the copies that started at 14, 15, 29, 30, 44 and 45 run:
   six at once.
4. The SDK makes one attempt, the worker sets statement_timeout to 14, and the scheduler makes 3 attempts. Each query
   fails after 14, while its callers still wait until 15. The next attempt starts when the query ends. So one copy runs
   at once, and the database works for 3 x 14 = 42.

Here, copies do not slow each other down, so these figures are lower bounds. The effect of load is computed in `loop`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from watchdog.core.chain.chain import ZERO, Chain, Layer, earliest


class Result(StrEnum):
    """The result of a run. It fails cheaply if no copy ran on after its callers had stopped waiting."""

    SUCCEEDS = "succeeds"
    FAILS = "fails"
    FAILS_CHEAPLY = "fails, cheaply"


@dataclass(frozen=True, slots=True)
class Copy:
    """One execution of the query. `wanted_until` is when the first caller stops waiting for it (None: never)."""

    start: timedelta
    end: timedelta
    wanted_until: timedelta | None

    @property
    def lasts(self) -> timedelta:
        """How long the database executes the copy."""
        return self.end - self.start

    @property
    def for_nobody(self) -> timedelta:
        """How long the copy runs on after the first caller has stopped waiting."""
        return ZERO if self.wanted_until is None else max(ZERO, self.end - max(self.start, self.wanted_until))


@dataclass(frozen=True, slots=True)
class Ladder:
    """All copies of one run, in the order of their starts, and the result of the run."""

    copies: tuple[Copy, ...]
    result: Result

    @property
    def at_once(self) -> int:
        """The largest number of copies that run at the same time."""
        # At the same time, an end sorts before a start, so a retry that starts when the last copy ends is no overlap.
        events = sorted([*((copy.start, 1) for copy in self.copies), *((copy.end, -1) for copy in self.copies)])
        running = most = 0
        for _, step in events:
            running += step
            most = max(most, running)
        return most

    @property
    def for_nobody(self) -> timedelta:
        """The time for which copies run on after their first caller has stopped waiting, added up over all copies."""
        return sum((copy.for_nobody for copy in self.copies), ZERO)

    @property
    def database(self) -> timedelta:
        """The time for which the database executes the copies, added up over all copies."""
        return sum((copy.lasts for copy in self.copies), ZERO)


@dataclass(frozen=True, slots=True)
class _Answer:
    at: timedelta
    succeeded: bool


def play(chain: Chain) -> Ladder:
    """The ladder of one run of the chain, from the outermost layer that waits for the query."""
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
    """The answer of the outermost of `layers`. The copies that it and the layers below start are added to `copies`.

    A copy can outlive the layer that started it.
    """
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
