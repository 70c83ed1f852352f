"""The caller chain: the layers above the database as values, and how long each of them can go on.

Knows no clock and no database: every moment is counted from the start of one run of the outermost layer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from math import prod

ZERO = timedelta(0)
MAX_PAUSE = timedelta(days=1)
"""No growing pause is counted as longer: real ones are capped too, and the arithmetic stays finite."""

MAX_COPIES = 10_000
"""A chain whose attempts multiply to more is not played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer: it tries the layer below `attempts` times, one after the other, and any failure is tried again.

    `timeout` is how long it waits for one attempt, `lifetime` after what time its platform ends it whatever it does
    (None: never). `pause` lies before the second attempt and grows by `backoff`. With `hands_down` its deadline holds
    for the layer below: whatever it waits for ends when it stops waiting. An `asynchronous` one lets its caller go at
    once: nobody above waits for it, and nothing that happens above ends it.
    """

    name: str
    attempts: int = 1
    timeout: timedelta | None = None
    lifetime: timedelta | None = None
    pause: timedelta = ZERO
    backoff: float = 1.0
    hands_down: bool = False
    asynchronous: bool = False

    def pauses(self) -> Iterator[timedelta]:
        """The pause before each attempt but the first."""
        pause = min(self.pause, MAX_PAUSE)
        for _ in range(self.attempts - 1):
            yield pause
            pause = min(pause * self.backoff, MAX_PAUSE)

    def spent(self, each: timedelta, *, attempts: int) -> timedelta:
        """How long so many attempts take with their pauses, if each takes `each`."""
        return attempts * each + sum(islice(self.pauses(), attempts - 1), ZERO)


@dataclass(frozen=True, slots=True)
class Chain:
    """The layers, outermost first, over one query that needs `work` alone; None: the server has no timeout.

    `period` is the time between two runs, where the chain starts again and again.
    """

    layers: tuple[Layer, ...]
    work: timedelta
    statement_timeout: timedelta | None = None
    period: timedelta | None = None

    @property
    def product(self) -> int:
        """The copies that one run can start, ignoring time: attempts multiply across layers."""
        return prod(layer.attempts for layer in self.layers)

    @property
    def first_waiting(self) -> int:
        """The place of the outermost layer that waits for the query: above an asynchronous one nobody does."""
        return max((place for place, layer in enumerate(self.layers) if layer.asynchronous), default=0)

    def total(self, place: int) -> timedelta | None:
        """How long the layer at `place`, or past the last one the query, can go on when nobody above ends it.

        Only limits count, not what the query takes on a good day; None: without end.
        """
        if place == len(self.layers):
            return self.statement_timeout
        return earliest(self.open_act(place), self.layers[place].lifetime)

    def each(self, place: int) -> timedelta | None:
        """How long one attempt of the layer at `place` can take."""
        return earliest(self.layers[place].timeout, self.total(place + 1))

    def open_act(self, place: int) -> timedelta | None:
        """How long all attempts of the layer at `place` can take, if its life is long enough for them."""
        layer, each = self.layers[place], self.each(place)
        return None if each is None else layer.spent(each, attempts=layer.attempts)


def earliest(*moments: timedelta | None) -> timedelta | None:
    """The first of those that come at all."""
    return min((each for each in moments if each is not None), default=None)
