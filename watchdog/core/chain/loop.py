"""Whether a retry loop sustains an overload after its cause is gone, and a simulation of such a spike.

The utilisation rho is the share of the resource that the runs need in normal operation. R is the number of retries of a
run that gets no answer in time. If the work of every attempt goes on after its caller gave up, the load in an overload
is (R + 1)·rho. If this is more than 1, the overload sustains itself.

The simulation is exact and deterministic. The copies that run share the resource equally: each of n copies gets 1/n of
it. A run starts every `period` from 0:00 on, and `extra` more runs start at `trigger`. A caller waits `patience` for
each attempt and then retries immediately, if a retry is left. An answer at exactly the end of `patience` is too late.
A simulation handles at most `MAX_EVENTS` events. It stops there if the simulated time is not over.
"""

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import IntEnum, StrEnum
from itertools import count
from math import inf

from watchdog.core.chain.chain import Chain, earliest
from watchdog.core.chain.ladder import Copy, play

ENDLESS = timedelta(days=36_500)
"""Stands for work without an end. It is longer than any wait that can be configured, and short enough that a timedelta
can hold the sum of ten thousand of them."""
FIRSTS_PER_RETRY = 10
"""Number of first attempts that allow one retry under a retry budget. At the start, no retry is allowed."""

PLOTTED = 48
"""Number of equal parts into which the simulated time is divided to show the running copies."""

MAX_EVENTS = 100_000
"""Upper bound of the events of one simulation: runs that begin, copies that end, and waits that end. A retry
belongs to the end of the wait before it. So many events take about a second."""

SETTLED = 8
"""The loop has ended if no caller gave up in the last 1/SETTLED of the simulated time."""

_TINY = 1e-6
"""Seconds below which two events count as simultaneous, because of rounding."""


class Remedy(StrEnum):
    """How the simulation treats the work of a caller that gave up, and retries."""

    NONE = "orphans, retries"
    CANCEL = "cancel on give-up"
    NO_RETRIES = "orphans, no retries"
    RETRY_BUDGET = "orphans, retry budget"


@dataclass(frozen=True, slots=True)
class Loop:
    """The retry loop of a chain. `copies` is R + 1: the copies of one run if no attempt is answered in time."""

    copies: int
    utilisation: float

    @property
    def load(self) -> float:
        """The load in an overload: (R + 1)·rho."""
        return self.copies * self.utilisation

    @property
    def feeds_itself(self) -> bool:
        """True if an overload sustains itself."""
        return self.load > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spike:
    """The input of a simulation. The defaults are those of the published spike.

    A run of `work` starts every `period`, and `extra` more runs start at `trigger`. `patience` is how long a caller
    waits for one attempt; None means that no caller gives up. `lasting` is the simulated time.
    """

    period: timedelta = timedelta(minutes=10)
    work: timedelta = timedelta(minutes=5)
    patience: timedelta | None = timedelta(minutes=15)
    retries: int = 3
    extra: int = 4
    trigger: timedelta = timedelta(hours=1)
    lasting: timedelta = timedelta(hours=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The result of a simulation. Times are rounded to microseconds.

    `started` and `ended` are the times at which copies started and ended. A copy ends when its work is done or when it
    is cancelled. `served` are the times at which attempts were answered in time, `given_up` the times at which a caller
    gave up. Each is sorted. `retries` is the number of retries. `stopped` is the time at which the simulation stopped
    because of `MAX_EVENTS`, or None if it went on for all of `lasting`. All numbers are those up to `stopped`.
    """

    remedy: Remedy
    lasting: timedelta
    started: tuple[timedelta, ...]
    ended: tuple[timedelta, ...]
    served: tuple[timedelta, ...]
    given_up: tuple[timedelta, ...]
    retries: int
    stopped: timedelta | None = None

    @property
    def recovered(self) -> bool | None:
        """True if no caller gave up in the last eighth of the simulated time.

        None if this cannot be said: the simulation stopped early, or no caller had an answer or gave up.
        """
        if self.stopped is not None or not (self.served or self.given_up):
            return None
        return not self.given_up or self.given_up[-1] < self.lasting - self.lasting / SETTLED

    @property
    def in_flight(self) -> tuple[int, ...]:
        """The numbers of running copies at 0:00 and after each 48th of the simulated time, just before that time.

        Those after `stopped` are left out.
        """
        return tuple(
            bisect_left(self.started, mark) - bisect_left(self.ended, mark) for mark in self._marks(PLOTTED + 1)
        )

    @property
    def at_end(self) -> int | None:
        """The number of running copies at the end of the simulated time; None if the simulation stopped early."""
        return self.in_flight[-1] if self.stopped is None else None

    @property
    def peaks(self) -> tuple[int, ...]:
        """The largest number of copies that ran at the same time within each 48th of the simulated time.

        The number is taken at every start, because it can only grow there. Parts after `stopped` are left out.
        """
        peaks = [self._running(mark) for mark in self._marks(PLOTTED)]
        for number, start in enumerate(self.started, start=1):
            part = min(start * PLOTTED // self.lasting, len(peaks) - 1)
            peaks[part] = max(peaks[part], number - bisect_right(self.ended, start))
        return tuple(peaks)

    @property
    def most(self) -> int:
        """The largest number of copies that ran at the same time, up to `stopped` if the simulation stopped early."""
        return max(self.peaks)

    def served_between(self, start: timedelta, end: timedelta) -> int:
        """The number of attempts that were answered in time, from `start` to before `end`."""
        return sum(start <= each < end for each in self.served)

    def _marks(self, number: int) -> Iterator[timedelta]:
        until = self.lasting if self.stopped is None else self.stopped
        marks = (part * self.lasting / PLOTTED for part in range(number))
        return (mark for mark in marks if mark <= until)

    def _running(self, moment: timedelta) -> int:
        """The number of copies that run from `moment` on. A copy that ends at `moment` is not one of them."""
        return bisect_right(self.started, moment) - bisect_right(self.ended, moment)


def loop_of(chain: Chain) -> Loop | None:
    """The retry loop of `chain`, or None without a period."""
    if chain.period is None:
        return None
    return Loop(len(_overloaded(chain)[0]), chain.work / chain.period)


def spike_of(chain: Chain) -> Spike | None:
    """The published spike with the numbers of `chain`, over 48 periods; None without a period.

    `patience` is how long the callers wait for the first copy. Each further copy counts as a retry with the same
    patience.
    """
    if chain.period is None:
        return None
    copies, patience = _overloaded(chain)
    return Spike(
        period=chain.period,
        work=chain.work,
        patience=patience,
        retries=len(copies) - 1,
        trigger=6 * chain.period,
        lasting=PLOTTED * chain.period,
    )


def simulate(spike: Spike, remedy: Remedy) -> Course:
    """Simulate the spike from 0:00 to its end under one remedy."""
    return _Simulation(spike, remedy).play()


def _overloaded(chain: Chain) -> tuple[tuple[Copy, ...], timedelta | None]:
    """The copies of one run if no query ends by its own work, and how long the callers wait for the first copy."""
    copies = play(replace(chain, work=ENDLESS)).copies
    first = copies[0]
    return copies, earliest(first.wanted_until, None if first.end == ENDLESS else first.end)


class _Kind(IntEnum):
    """The kinds of events. At the same time, the event with the lower number happens first."""

    GIVES_UP = 0
    BEGINS = 1


@dataclass(slots=True)
class _Sharing:
    """A resource that n copies share equally. Times are in seconds.

    `got` is the work that a copy would have received by now if it had run since 0:00. A copy ends when `got` has grown
    by the copy's work since its start. So the start or end of one copy changes no stored value of another copy.
    """

    now: float = 0.0
    got: float = 0.0
    running: set[int] = field(default_factory=set)
    _ends: list[tuple[float, int]] = field(default_factory=list)

    def begin(self, copy: int, *, work: float) -> None:
        self.running.add(copy)
        heapq.heappush(self._ends, (self.got + work, copy))

    def next_end(self) -> float:
        while self._ends and self._ends[0][1] not in self.running:
            heapq.heappop(self._ends)  # this copy was cancelled
        return self.now + (self._ends[0][0] - self.got) * len(self.running) if self._ends else inf

    def advance(self, moment: float) -> None:
        if self.running:
            self.got += (moment - self.now) / len(self.running)
        self.now = moment

    def finish(self) -> int:
        copy = heapq.heappop(self._ends)[1]
        self.running.remove(copy)
        return copy


class _Simulation:
    """The state of a simulation. Each copy is identified by a number."""

    def __init__(self, spike: Spike, remedy: Remedy) -> None:
        self._remedy = remedy
        self._retries_of_a_run = 0 if remedy is Remedy.NO_RETRIES else spike.retries
        self._work = spike.work.total_seconds()
        self._patience = inf if spike.patience is None else spike.patience.total_seconds()
        self._lasting = spike.lasting
        self._end = spike.lasting.total_seconds()
        self._sharing = _Sharing()
        self._numbers = count()
        self._wanted: set[int] = set()
        self._firsts = self._retries = 0
        self._started: list[timedelta] = []
        self._ended: list[timedelta] = []
        self._served: list[timedelta] = []
        self._given_up: list[timedelta] = []
        begins = [(number * spike.period).total_seconds() for number in range(-(-spike.lasting // spike.period))]
        begins += [spike.trigger.total_seconds()] * spike.extra
        # An event is its time, its kind, its copy, and the number of attempts that the run has made before this copy.
        self._events = [(moment, _Kind.BEGINS, next(self._numbers), 0) for moment in sorted(begins)]

    def play(self) -> Course:
        for _ in range(MAX_EVENTS):
            ends, due = self._sharing.next_end(), self._events[0][0] if self._events else inf
            moment = min(ends, due)
            if moment >= self._end:
                return self._course(stopped=None)
            self._sharing.advance(moment)
            if ends < due - _TINY:
                self._finished(self._sharing.finish())
            else:
                self._happens(*heapq.heappop(self._events)[1:])
        return self._course(stopped=self._now())

    def _now(self) -> timedelta:
        return timedelta(seconds=self._sharing.now)

    def _finished(self, copy: int) -> None:
        self._ended.append(self._now())
        if copy in self._wanted:
            self._wanted.remove(copy)
            self._served.append(self._now())

    def _happens(self, kind: _Kind, copy: int, before: int) -> None:
        if kind is _Kind.BEGINS:
            self._firsts += before == 0
            self._begin(copy, before)
        elif copy in self._wanted:
            self._given_up.append(self._now())
            self._wanted.remove(copy)
            if self._remedy is Remedy.CANCEL:
                self._sharing.running.remove(copy)
                self._ended.append(self._now())
            if before < self._retries_of_a_run and self._may_retry():
                self._retries += 1
                self._begin(next(self._numbers), before + 1)

    def _begin(self, copy: int, before: int) -> None:
        self._sharing.begin(copy, work=self._work)
        self._started.append(self._now())
        self._wanted.add(copy)
        heapq.heappush(self._events, (self._sharing.now + self._patience, _Kind.GIVES_UP, copy, before))

    def _may_retry(self) -> bool:
        return self._remedy is not Remedy.RETRY_BUDGET or self._retries < self._firsts // FIRSTS_PER_RETRY

    def _course(self, *, stopped: timedelta | None) -> Course:
        return Course(
            remedy=self._remedy,
            lasting=self._lasting,
            started=_ordered(self._started),
            ended=_ordered(self._ended),
            served=_ordered(self._served),
            given_up=_ordered(self._given_up),
            retries=self._retries,
            stopped=stopped,
        )


def _ordered(moments: Iterable[timedelta]) -> tuple[timedelta, ...]:
    """The times in order: the rounding of shared work can exchange two that are almost equal."""
    return tuple(sorted(moments))
