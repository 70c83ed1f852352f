"""Bounds label values: names from the configuration, the first few other names, and `other` for the rest.

The first few are kept for the life of the process. If newer names replaced them, the number of series in a scrape would
be bounded, but the number of series over time would not.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Self

from watchdog.core.judging.evidence import Evidence, Finding
from watchdog.core.observed.activity import UNKNOWN, Backend
from watchdog.core.observed.names import NameTable
from watchdog.web.metric import Labels

OTHER = "other"


@dataclass(frozen=True, slots=True)
class Bound:
    """The values that one label may take: all of `named`, and at most `most` other values.

    A pattern in `named` is one value for all names that match it.
    """

    named: frozenset[str] = frozenset()
    most: int = 50
    _by_pattern: NameTable[None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the table of the named values."""
        object.__setattr__(self, "_by_pattern", NameTable(dict.fromkeys(self.named)))

    def named_as(self, value: str) -> str | None:
        """The named value or pattern that stands for `value`, or None."""
        return self._by_pattern.pattern_of(value)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of the three labels that come from the watched servers."""

    roles: Bound = field(default_factory=Bound)
    jobs: Bound = field(default_factory=Bound)
    databases: Bound = field(default_factory=lambda: Bound(most=20))


@dataclass(slots=True)
class LabelLimiter:
    """Replaces values of one label of one cluster by `other` once the bound is reached."""

    bound: Bound
    admitted: set[str] = field(default_factory=set)
    folded: set[str] = field(default_factory=set)

    def begin_look(self, values: Collection[str]) -> None:
        """Admit new values up to the bound. `folded` then holds the values of this look that become `other`."""
        self.folded = set()
        for value in values:
            if value in ("", UNKNOWN) or value in self.admitted or self.bound.named_as(value) is not None:
                continue
            if len(self.admitted) < self.bound.most:
                self.admitted.add(value)
            else:
                self.folded.add(value)

    def fold(self, value: str) -> str:
        """`value` if it is named or admitted, the pattern that stands for it, or `other`.

        Something that is really called other is quoted.
        """
        named = value if value in ("", UNKNOWN) or value in self.admitted else self.bound.named_as(value)
        if named is None:
            return OTHER
        return f'"{named}"' if named == OTHER else named


@dataclass(frozen=True, slots=True)
class ClusterLabels:
    """The bounded label values of one cluster."""

    roles: LabelLimiter
    jobs: LabelLimiter
    databases: LabelLimiter

    @classmethod
    def within(cls, bounds: Bounds) -> Self:
        """Limiters with these bounds and no admitted values."""
        return cls(LabelLimiter(bounds.roles), LabelLimiter(bounds.jobs), LabelLimiter(bounds.databases))

    def apply_bounds(self, bounds: Bounds) -> None:
        """Replace the bounds. Values that were admitted stay admitted."""
        self.roles.bound, self.jobs.bound, self.databases.bound = bounds.roles, bounds.jobs, bounds.databases

    def of_backend(self, backend: Backend) -> Labels:
        """The values of `datname` and `usename`."""
        return self.databases.fold(backend.database), self.roles.fold(backend.role)

    def of_job(self, backend: Backend, job: str) -> Labels:
        """The values of `datname`, `usename` and `job_key`."""
        return (*self.of_backend(backend), self.jobs.fold(job))

    def of_orphan(self, finding: Finding) -> Labels:
        """The values of `datname`, `usename`, `job_key` and `evidence`."""
        job = finding.key.job if finding.key is not None else ""
        return (*self.of_job(finding.backend, job), finding.strongest or Evidence.OVER_BUDGET)
