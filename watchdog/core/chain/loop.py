"""When a spike becomes permanent: whether a retry loop feeds itself, and a simulation of one that does.

Utilisation rho is the share of the resource that the runs need on a normal day, R the retries of a run that gets no
answer in time. If every attempt leaves its work behind, the bad state offers (R + 1)·rho of work: above 1 it feeds
itself, once something has brought it about.

The simulation is exact and deterministic. A resource shares itself equally among the copies that run (n copies get
1/n of it each); a run begins every `period` from 0:00 on, and `extra` more at `trigger`. A caller waits `patience` for
each attempt and then tries again at once, if it may. What comes at the very instant of giving up comes too late.
"""

import heapq
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import IntEnum, StrEnum
from itertools import count
from math import inf

from watchdog.core.chain.chain import Chain, earliest
from watchdog.core.chain.ladder import Copy, play

ENDLESS = timedelta(days=36_500)
"""Longer than any wait that can be configured, and short enough that ten thousand of them can still be added up."""
FIRSTS_PER_RETRY = 10
"""Of the retry budget: one retry per ten first attempts, from an empty budget on."""

PLOTTED = 48
SETTLED = 8
"""The last eighth of the simulated time says whether a loop has ended."""

_TINY = 1e-6
"""Seconds that rounding may cost: within them two events are one instant."""


class Remedy(StrEnum):
    """What is done about work whose caller has given up, and about retries."""

    NONE = "orphans, retries"
    CANCEL = "cancel on give-up"
    NO_RETRIES = "orphans, no retries"
    RETRY_BUDGET = "orphans, retry budget"


@dataclass(frozen=True, slots=True)
class Loop:
    """`copies` is what one run starts when no attempt is answered in time: R + 1."""

    copies: int
    utilisation: float

    @property
    def load(self) -> float:
        """(R + 1)·rho."""
        return self.copies * self.utilisation

    @property
    def feeds_itself(self) -> bool:
        """Whether the bad state, once it is there, stays."""
        return self.load > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spike:
    """Runs on a shared resource, and the few more at `trigger` that push it over. The defaults are the published one.

    `patience` None: nobody gives up.
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
    """What came of a spike. `in_flight` has a count for each 48th of the time, taken just before that moment.

    `served` and `given_up` are the moments at which attempts were answered in time or left.
    """

    remedy: Remedy
    lasting: timedelta
    in_flight: tuple[int, ...]
    served: tuple[timedelta, ...]
    given_up: tuple[timedelta, ...]
    retries: int

    @property
    def recovered(self) -> bool:
        """Whether nobody gave up in the last eighth of the time."""
        return not self.given_up or self.given_up[-1] < self.lasting - self.lasting / SETTLED

    def served_between(self, start: timedelta, end: timedelta) -> int:
        """How many attempts were answered in time from `start` to before `end`."""
        return sum(start <= each < end for each in self.served)


def loop_of(chain: Chain) -> Loop | None:
    """The chain's loop; None without a period."""
    if chain.period is None:
        return None
    return Loop(len(_overloaded(chain)[0]), chain.work / chain.period)


def spike_of(chain: Chain) -> Spike | None:
    """The published spike with the chain's own numbers, over 48 periods; None without a period.

    The callers' patience is that for the first copy, and every further copy counts as a retry after as long.
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
    """The spike from 0:00 to its end under one remedy."""
    return _Simulation(spike, remedy).play()


def _overloaded(chain: Chain) -> tuple[tuple[Copy, ...], timedelta | None]:
    """The copies of one run when no query ends by itself, and how long the callers wait for the first."""
    copies = play(replace(chain, work=ENDLESS)).copies
    first = copies[0]
    return copies, earliest(first.wanted_until, None if first.end == ENDLESS else first.end)


class _Kind(IntEnum):
    """What happens first where it happens at the same instant."""

    GIVES_UP = 0
    BEGINS = 1


@dataclass(slots=True)
class _Sharing:
    """A resource that n copies share equally. Times in seconds.

    `got` is what a copy that has run since 0:00 would have got by now: a copy that begins ends when that has grown by
    its work, whoever else comes and goes, so that an arrival changes one number and not every copy's rest.
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
            heapq.heappop(self._ends)  # cancelled
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
    """One course in the making. A copy's number is its place in the order of starts."""

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
        self._in_flight: list[int] = []
        self._served: list[timedelta] = []
        self._given_up: list[timedelta] = []
        period = spike.period.total_seconds()
        begins = [number * period for number in range(-int(-self._end // period))]
        begins += [spike.trigger.total_seconds()] * spike.extra
        # An event: when, which kind, of which copy, and how many attempts its run has made before it.
        self._events = [(moment, _Kind.BEGINS, next(self._numbers), 0) for moment in sorted(begins)]

    def play(self) -> Course:
        while True:
            ends, due = self._sharing.next_end(), self._events[0][0] if self._events else inf
            moment = min(ends, due)
            self._sample(moment)
            if moment >= self._end:
                return self._course()
            self._sharing.advance(moment)
            if ends < due - _TINY:
                self._finished(self._sharing.finish())
            else:
                self._happens(*heapq.heappop(self._events)[1:])

    def _sample(self, until: float) -> None:
        while len(self._in_flight) <= PLOTTED and len(self._in_flight) * self._end / PLOTTED <= until:
            self._in_flight.append(len(self._sharing.running))

    def _finished(self, copy: int) -> None:
        if copy in self._wanted:
            self._wanted.remove(copy)
            self._served.append(timedelta(seconds=self._sharing.now))

    def _happens(self, kind: _Kind, copy: int, before: int) -> None:
        if kind is _Kind.BEGINS:
            self._firsts += before == 0
            self._begin(copy, before)
        elif copy in self._wanted:
            self._given_up.append(timedelta(seconds=self._sharing.now))
            self._wanted.remove(copy)
            if self._remedy is Remedy.CANCEL:
                self._sharing.running.remove(copy)
            if before < self._retries_of_a_run and self._may_retry():
                self._retries += 1
                self._begin(next(self._numbers), before + 1)

    def _begin(self, copy: int, before: int) -> None:
        self._sharing.begin(copy, work=self._work)
        self._wanted.add(copy)
        heapq.heappush(self._events, (self._sharing.now + self._patience, _Kind.GIVES_UP, copy, before))

    def _may_retry(self) -> bool:
        return self._remedy is not Remedy.RETRY_BUDGET or self._retries < self._firsts // FIRSTS_PER_RETRY

    def _course(self) -> Course:
        samples, served, given_up = tuple(self._in_flight), tuple(self._served), tuple(self._given_up)
        return Course(
            remedy=self._remedy,
            lasting=self._lasting,
            in_flight=samples,
            served=served,
            given_up=given_up,
            retries=self._retries,
        )
