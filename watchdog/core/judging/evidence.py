"""Findings and the evidence for them: the words in which the judge speaks."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from watchdog.core.judging.budgets import Budget
from watchdog.core.judging.jobs import JobKey
from watchdog.core.observed.activity import Backend, Clock, Run


class Evidence(StrEnum):
    """How we know that nobody waits any more, weakest first.

    `superseded` proves a retry: it strengthens an orphan that other evidence made and never makes one.
    """

    SUPERSEDED = "superseded"
    OVER_BUDGET = "over_budget"
    DEADLINE_PASSED = "deadline_passed"
    CLIENT_GONE = "client_gone"


STRENGTH = {evidence: rank for rank, evidence in enumerate(Evidence)}


class Kind(StrEnum):
    """The kinds of finding; an orphan may be a duplicate as well, and then there are two findings."""

    ORPHAN = "orphan"
    DUPLICATE = "duplicate"
    NEARING = "nearing"
    HOLDING = "holding"


ALARMING = frozenset({Kind.ORPHAN, Kind.DUPLICATE, Kind.HOLDING})
"""The kinds that make a report end with exit code 1; nearing is a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found about one backend.

    `running` is the age by `clock` (for holding: the age of the transaction). `blocks` and `alike` are None
    where they were not asked or cannot be known, never 0 for want of an answer. `bound`: the configuration binds the
    job to this role, so that its name may be believed.
    """

    kind: Kind
    backend: Backend
    run: Run
    key: JobKey | None
    clock: Clock
    running: timedelta
    budget: Budget | None
    evidence: tuple[Evidence, ...] = ()
    talking: bool = False
    bound: bool = False
    blocks: int | None = None
    alike: int | None = None

    @property
    def strongest(self) -> Evidence | None:
        """The evidence that metrics carry, so that sums over it are counts."""
        return max(self.evidence, key=STRENGTH.__getitem__, default=None)

    @property
    def overrun(self) -> timedelta | None:
        """How long past the end of its budget, without grace; None without a budget or inside it."""
        if self.budget is None:
            return None
        limit = self.budget.holding if self.kind is Kind.HOLDING else self.budget.limit
        return self.running - limit if self.running >= limit else None
