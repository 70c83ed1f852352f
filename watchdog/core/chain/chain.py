"""The caller chain: the layers above the database as values, and how long each layer can go on.

This module knows no clock and no database. Every time is counted from the start of one run of the outermost layer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from math import prod

ZERO = timedelta(0)
MAX_PAUSE = timedelta(days=1)
"""Upper bound of a pause that grows by a backoff. It keeps the arithmetic finite; real pauses are capped as well."""

MAX_COPIES = 10_000
"""Upper bound of the product of all attempts of a chain. The configuration refuses a chain with more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer. It makes up to `attempts` attempts of the layer below, one after the other, until one succeeds.

    - `timeout` is how long it waits for one attempt.
    - `lifetime` is the time after which its platform ends it (None: never).
    - `pause` is the time before the second attempt. Each further pause is longer by the factor `backoff`.
    - `hands_down`: its deadline also holds for the layer below, so the layer below ends when it stops waiting.
    - `asynchronous`: its caller does not wait for it. No layer above waits for it or can end it.
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
        """The pause before each attempt except the first."""
        pause = min(self.pause, MAX_PAUSE)
        for _ in range(self.attempts - 1):
            yield pause
            pause = min(pause * self.backoff, MAX_PAUSE)

    def spent(self, each: timedelta, *, attempts: int) -> timedelta:
        """How long `attempts` attempts take, including the pauses between them, if one attempt takes `each`."""
        return attempts * each + sum(islice(self.pauses(), attempts - 1), ZERO)


@dataclass(frozen=True, slots=True)
class Chain:
    """The layers, outermost first, above one query.

    `work` is how long the query takes if no other query runs. A `statement_timeout` of None means that there is none.
    `period` is the time between two runs of the chain, or None if it is not run periodically.
    """

    layers: tuple[Layer, ...]
    work: timedelta
    statement_timeout: timedelta | None = None
    period: timedelta | None = None

    @property
    def product(self) -> int:
        """The number of copies that one run can start if time is ignored: the product of all attempts."""
        return prod(layer.attempts for layer in self.layers)

    @property
    def first_waiting(self) -> int:
        """The index of the outermost layer that waits for the query: the innermost asynchronous layer, or 0.

        No layer above an asynchronous layer waits for the query.
        """
        return max((place for place, layer in enumerate(self.layers) if layer.asynchronous), default=0)

    def total(self, place: int) -> timedelta | None:
        """How long the layer at index `place` can go on if no layer above ends it; None if there is no limit.

        The index after the last layer stands for the query. Only limits count here, not `work`.
        """
        if place == len(self.layers):
            return self.statement_timeout
        return earliest(self.open_act(place), self.layers[place].lifetime)

    def each(self, place: int) -> timedelta | None:
        """How long one attempt of the layer at index `place` can take; None if there is no limit."""
        return earliest(self.layers[place].timeout, self.total(place + 1))

    def open_act(self, place: int) -> timedelta | None:
        """How long all attempts of the layer at index `place` can take if its lifetime is ignored; None if no limit."""
        layer, each = self.layers[place], self.each(place)
        return None if each is None else layer.spent(each, attempts=layer.attempts)


def earliest(*moments: timedelta | None) -> timedelta | None:
    """The earliest of `moments`. A None is ignored. The result is None if all are None."""
    return min((each for each in moments if each is not None), default=None)
