"""Bounded label values: what the configuration names, the first few others, and `other` for the rest.

The first few are held for the life of the process. Admitting the newest instead would bound each scrape and still
let the number of series grow without end.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Self

from watchdog.core.judging.evidence import Evidence, Finding
from watchdog.core.observed.activity import UNKNOWN, Backend
from watchdog.web.metric import Labels

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


@dataclass(frozen=True, slots=True)
class ClusterLabels:
    """The label values of what is found in one cluster, folded."""

    roles: LabelLimiter
    jobs: LabelLimiter
    databases: LabelLimiter

    @classmethod
    def within(cls, bounds: Bounds) -> Self:
        """Begin with these bounds and nothing admitted."""
        return cls(LabelLimiter(bounds.roles), LabelLimiter(bounds.jobs), LabelLimiter(bounds.databases))

    def apply_bounds(self, bounds: Bounds) -> None:
        """Take on other bounds. What was admitted stays."""
        self.roles.bound, self.jobs.bound, self.databases.bound = bounds.roles, bounds.jobs, bounds.databases

    def of_backend(self, backend: Backend) -> Labels:
        """`datname` and `usename`."""
        return self.databases.fold(backend.database), self.roles.fold(backend.role)

    def of_job(self, backend: Backend, job: str) -> Labels:
        """`datname`, `usename` and `job_key`."""
        return (*self.of_backend(backend), self.jobs.fold(job))

    def of_orphan(self, finding: Finding) -> Labels:
        """`datname`, `usename`, `job_key` and `evidence`."""
        job = finding.key.job if finding.key is not None else ""
        return (*self.of_job(finding.backend, job), finding.strongest or Evidence.OVER_BUDGET)
