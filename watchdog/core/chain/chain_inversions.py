"""Inversions of a chain: where a child can outlive its parent's wait, and the number that mends it.

The rule, at every layer, the database last: a child's total time ends before its parent's wait does. It is broken

- between two neighbours, where all attempts of the child together can take as long as the parent waits for one, and
  the parent does not hand its deadline down;
- within one layer, where its own attempts do not fit into its life: the last one is begun shortly before the end.

The walk goes from the outside in and counts each change that it names as made. So all of them together mend the chain,
and a number further down fits the one above it. A chain with no inversion leaves nothing for nobody in `play`, whatever
the query takes: only limits count here, and a query without statement_timeout has none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from watchdog.core.chain.chain import ZERO, Chain, Layer, earliest
from watchdog.core.judging.timeout_inversions import MARGIN, MAX_MARGIN

DATABASE = "the query"
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inversion:
    """A child that can go on for `total` while its parent waits `wait`; `key` at layer `place` is to become `to`.

    `total` is None for a child without any limit, `was` for what was not set, `place` where the key is the chain's own
    (statement_timeout). A plain number is of attempts. `within`: parent and child are a layer's life and its attempts.
    """

    parent: str
    child: str
    wait: timedelta
    total: timedelta | None
    place: int | None
    key: str
    was: timedelta | int | None
    to: timedelta | int
    within: bool = False

    @property
    def where(self) -> str:
        """The key as a path in the configuration."""
        return f"chain.{self.key}" if self.place is None else f"chain.layers[{self.place}].{self.key}"


def inversions(chain: Chain) -> list[Inversion]:
    """Every inversion, outermost first; empty where no child can outlive its parent's wait."""
    return list(_walk(chain))


def changed(chain: Chain, inversion: Inversion) -> Chain:
    """The chain with the one number changed that an inversion names."""
    change = {inversion.key: inversion.to}
    if inversion.place is None:
        return replace(chain, **change)  # type: ignore[arg-type]  # the key says which of the two types it has
    place = inversion.place
    layer = replace(chain.layers[place], **change)  # type: ignore[arg-type]  # as above
    return replace(chain, layers=(*chain.layers[:place], layer, *chain.layers[place + 1 :]))


def under(wait: timedelta) -> timedelta:
    """A time that ends before `wait` does: by a twentieth, five seconds at most, in whole milliseconds.

    By the doctor's margin. It has a floor of 1 ms, which suits a server's setting; here a number must be under another.
    """
    below = wait - min(MAX_MARGIN, wait * MARGIN)
    whole = below // _MILLISECOND * _MILLISECOND
    return whole if whole > ZERO else below


def _walk(chain: Chain) -> Iterator[Inversion]:
    handed: timedelta | None = None
    for place in range(chain.first_waiting, len(chain.layers)):
        layer = chain.layers[place]
        life = earliest(layer.lifetime, handed)
        wait = earliest(layer.timeout, life)
        while wait is not None and not layer.hands_down and _reaches(chain.total(place + 1), wait):
            found = _outliving(chain, place, wait=wait)
            chain = changed(chain, found)
            yield found
        # A retry that is begun in the last minute has only what is left of the life, and so has all that ends with it:
        # whoever does not, however far down, goes on.
        ends_with_it = all(each.hands_down for each in chain.layers[place:])
        if life is not None and layer.attempts > 1 and not ends_with_it and _reaches(chain.open_act(place), life):
            found = _crowded(chain, place, life=life)
            chain = changed(chain, found)
            yield found
        handed = wait if layer.hands_down else None


def _reaches(total: timedelta | None, limit: timedelta) -> bool:
    return total is None or total >= limit


def _outliving(chain: Chain, place: int, *, wait: timedelta) -> Inversion:
    """The layer below `place`, or the query, can go on for too long: which of its numbers to change, and to what."""
    parent, child, target = chain.layers[place].name, place + 1, under(wait)
    total = chain.total(child)
    if child == len(chain.layers):
        was = chain.statement_timeout
        return Inversion(
            parent=parent,
            child=DATABASE,
            wait=wait,
            total=total,
            place=None,
            key="statement_timeout",
            was=was,
            to=target,
        )
    layer = chain.layers[child]
    if layer.lifetime is not None:
        return Inversion(
            parent=parent,
            child=layer.name,
            wait=wait,
            total=total,
            place=child,
            key="lifetime",
            was=layer.lifetime,
            to=target,
        )
    fitting = _fitting(layer, each=chain.each(child), life=wait)
    share = (target - layer.spent(ZERO, attempts=layer.attempts)) / layer.attempts
    if fitting or (share < _MILLISECOND and layer.attempts > 1):
        return Inversion(
            parent=parent,
            child=layer.name,
            wait=wait,
            total=total,
            place=child,
            key="attempts",
            was=layer.attempts,
            to=max(1, fitting),
        )
    whole = share // _MILLISECOND * _MILLISECOND
    return Inversion(
        parent=parent,
        child=layer.name,
        wait=wait,
        total=total,
        place=child,
        key="timeout",
        was=layer.timeout,
        to=whole or share,
    )


def _crowded(chain: Chain, place: int, *, life: timedelta) -> Inversion:
    """The attempts of one layer do not fit into its life."""
    layer = chain.layers[place]
    fitting = max(1, _fitting(layer, each=chain.each(place), life=life))
    child, total = f"its {layer.attempts} attempts", chain.open_act(place)
    return Inversion(
        parent=layer.name,
        child=child,
        wait=life,
        total=total,
        place=place,
        key="attempts",
        was=layer.attempts,
        to=fitting,
        within=True,
    )


def _fitting(layer: Layer, *, each: timedelta | None, life: timedelta) -> int:
    """How many attempts surely end before the life does."""
    if each is None:
        return 0
    counts = range(layer.attempts, 0, -1)
    return next((count for count in counts if layer.spent(each, attempts=count) < life), 0)
