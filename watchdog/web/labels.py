"""Bounded label values: what the configuration names, the first few others, and `other` for the rest.

The first few are held for the life of the process. Admitting the newest instead would bound each scrape and still
let the number of series grow without end.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from watchdog.core.observed.activity import UNKNOWN

OTHER = "other"


@dataclass(frozen=True, slots=True)
class Bound:
    """The values that one label may take: `named` always, and `most` further ones."""

    named: frozenset[str] = frozenset()
    most: int = 50


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of the three labels that come from the watched servers."""

    roles: Bound = field(default_factory=Bound)
    jobs: Bound = field(default_factory=Bound)
    databases: Bound = field(default_factory=lambda: Bound(most=20))


@dataclass(slots=True)
class LabelLimiter:
    """Folds the values of one label of one cluster."""

    bound: Bound
    admitted: set[str] = field(default_factory=set)
    folded: set[str] = field(default_factory=set)

    def begin_look(self, values: Collection[str]) -> None:
        """Admit newcomers while there is room; `folded` then holds what this look could not show."""
        self.folded = set()
        for value in values:
            if value in ("", UNKNOWN) or value in self.bound.named or value in self.admitted:
                continue
            if len(self.admitted) < self.bound.most:
                self.admitted.add(value)
            else:
                self.folded.add(value)

    def fold(self, value: str) -> str:
        """The label value that stands for `value`."""
        known = value in ("", UNKNOWN) or value in self.bound.named or value in self.admitted
        return value if known else OTHER
