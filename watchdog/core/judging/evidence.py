"""Findings and the evidence for them: the words in which the judge speaks."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from watchdog.core.judging.budgets import Budget
from watchdog.core.judging.cases import Case
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


@dataclass(frozen=True, slots=True)
class EvidenceKind:
    """One kind of evidence: its name, the test on a case, and what it means in words.

    `holds` is None where a case alone cannot show it. Such evidence strengthens an orphan and never makes one.
    """

    name: Evidence
    holds: Callable[[Case], bool] | None
    meaning: str


EVIDENCE: tuple[EvidenceKind, ...] = (
    EvidenceKind(Evidence.SUPERSEDED, None, "a younger copy has taken its place: a retry of the same job and window"),
    EvidenceKind(
        Evidence.OVER_BUDGET,
        lambda case: case.budget is not None and case.works and case.age >= case.budget.crossing,
        "it has run for longer than its budget and the grace",
    ),
    EvidenceKind(
        Evidence.DEADLINE_PASSED,
        lambda case: case.deadline_passed and case.works,
        "the deadline that its caller wrote into application_name has passed",
    ),
    EvidenceKind(
        Evidence.CLIENT_GONE,
        lambda case: case.client_gone,
        "the kernel shows that the client's end of the connection is closed",
    ),
)
"""Every kind of evidence, weakest first."""

STRENGTH = {kind.name: rank for rank, kind in enumerate(EVIDENCE)}


class Kind(StrEnum):
    """The kinds of finding; an orphan may be a duplicate as well, and then there are two findings."""

    ORPHAN = "orphan"
    DUPLICATE = "duplicate"
    NEARING = "nearing"
    HOLDING = "holding"


ACTIONABLE = (Kind.ORPHAN, Kind.DUPLICATE)
"""The kinds that a rule can be about."""

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
