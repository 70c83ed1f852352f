"""Inversions of a chain: where a child can outlive its parent's wait, and the changed number that corrects it.

A parent is a layer. Its child is the layer below, or the query below the last layer. The total time of a child must end
before the wait of its parent. There is an inversion

- between a parent and its child, if all attempts of the child together can take as long as the parent waits for one
  attempt, and the parent does not hand its deadline down;
- within one layer, if its own attempts do not fit into its life, because the last attempt then starts shortly before
  the end. The life of a layer ends with its lifetime, or with a deadline that its parent hands down.

The layers are walked from the outermost to the innermost. Each change is applied before the walk goes on, so that all
changes together correct the chain. In a chain without an inversion, no copy of `ladder.play` runs on after its callers
stopped waiting, whatever `work` is, because only limits count here. A query without statement_timeout has no limit.
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
    """A child that can go on for `total` while its parent waits for `wait`, and the change that corrects it.

    The change sets `key` of the layer at index `place` from `was` to `to`. An int is a number of attempts. `total` is
    None if the child has no limit. `was` is None if the key was not set. `place` is None if the key is one of the chain
    itself (statement_timeout). `within` is True for a layer whose own attempts do not fit into its life.
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
        """The path of the key in the configuration."""
        return f"chain.{self.key}" if self.place is None else f"chain.layers[{self.place}].{self.key}"


def inversions(chain: Chain) -> list[Inversion]:
    """All inversions, the outermost first. The list is empty if no child can outlive its parent's wait."""
    return list(_walk(chain))


def changed(chain: Chain, inversion: Inversion) -> Chain:
    """The chain after the change that `inversion` names."""
    change = {inversion.key: inversion.to}
    if inversion.place is None:
        return replace(chain, **change)  # type: ignore[arg-type]  # the type of the value depends on the key
    place = inversion.place
    layer = replace(chain.layers[place], **change)  # type: ignore[arg-type]  # as above
    return replace(chain, layers=(*chain.layers[:place], layer, *chain.layers[place + 1 :]))


def under(wait: timedelta) -> timedelta:
    """A time below `wait` by a twentieth of it, but by at most five seconds.

    This is the margin that the doctor uses. The result is in whole milliseconds, unless that would be 0. The doctor's
    value is at least 1 ms; here the result must be less than `wait`, even if `wait` is shorter than 1 ms.
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
        # An attempt that starts shortly before the end of the layer's life is cut off with it. The work below a layer
        # that does not hand its deadline down is not cut off: it goes on.
        ends_with_it = all(each.hands_down for each in chain.layers[place:])
        if life is not None and layer.attempts > 1 and not ends_with_it and _reaches(chain.open_act(place), life):
            found = _crowded(chain, place, life=life)
            chain = changed(chain, found)
            yield found
        handed = wait if layer.hands_down else None


def _reaches(total: timedelta | None, limit: timedelta) -> bool:
    return total is None or total >= limit


def _outliving(chain: Chain, place: int, *, wait: timedelta) -> Inversion:
    """The inversion between the layer at index `place` and its child, with the number of the child to change."""
    child = place + 1
    key, was, to = _shortened(chain, child, wait=wait)
    query = child == len(chain.layers)
    return Inversion(
        parent=chain.layers[place].name,
        child=DATABASE if query else chain.layers[child].name,
        wait=wait,
        total=chain.total(child),
        place=None if query else child,
        key=key,
        was=was,
        to=to,
    )


def _shortened(chain: Chain, child: int, *, wait: timedelta) -> tuple[str, timedelta | int | None, timedelta | int]:
    """The number to change so that the child ends before `wait`: its key, its value, and the value that it needs.

    The number is statement_timeout if the child is the query, and the child's lifetime if it has one. Otherwise it is
    the number of attempts if a smaller number fits, or if the pauses leave no time for the attempts. Otherwise it is
    the timeout.
    """
    target = under(wait)
    if child == len(chain.layers):
        return "statement_timeout", chain.statement_timeout, target
    layer = chain.layers[child]
    if layer.lifetime is not None:
        return "lifetime", layer.lifetime, target
    fitting = _fitting(layer, each=chain.each(child), life=wait)
    share = (target - layer.spent(ZERO, attempts=layer.attempts)) / layer.attempts
    if fitting or (share < _MILLISECOND and layer.attempts > 1):
        return "attempts", layer.attempts, max(1, fitting)
    return "timeout", layer.timeout, share // _MILLISECOND * _MILLISECOND or share


def _crowded(chain: Chain, place: int, *, life: timedelta) -> Inversion:
    """The inversion within the layer at index `place`, whose attempts do not fit into its `life`."""
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
    """The largest number of attempts that end before `life` in any case; 0 if there is none."""
    if each is None:
        return 0
    counts = range(layer.attempts, 0, -1)
    return next((count for count in counts if layer.spent(each, attempts=count) < life), 0)
