"""Findings, their kinds, and the evidence for them.

This module owns the table of all kinds of evidence. It knows nothing of what is done about a finding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from watchdog.core.judging.budgets import Budget
from watchdog.core.judging.cases import Case
from watchdog.core.judging.jobs import JobKey
from watchdog.core.observed.activity import Backend, Clock, Run


class Evidence(StrEnum):
    """The evidence that nobody waits for a run any more, weakest first.

    `superseded` shows that a retry has replaced the run. It is added to a duplicate, and to an orphan that has other
    evidence. Alone it does not make an orphan.
    """

    SUPERSEDED = "superseded"
    OVER_BUDGET = "over_budget"
    DEADLINE_PASSED = "deadline_passed"
    CLIENT_GONE = "client_gone"


@dataclass(frozen=True, slots=True)
class EvidenceKind:
    """One kind of evidence: its name, the test on a case, and its meaning in words.

    `holds` is None if one case is not enough for the test. Such evidence is added to an orphan that has other evidence.
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
        "the deadline that its caller wrote into application_name has passed, and the statement is older than it",
    ),
    EvidenceKind(
        Evidence.CLIENT_GONE,
        lambda case: case.client_gone,
        "the kernel shows that the client's end of the connection is closed",
    ),
)
"""Every kind of evidence, weakest first."""

STRENGTH = {kind.name: rank for rank, kind in enumerate(EVIDENCE)}
"""Rank of each kind of evidence. A higher number is stronger."""


class Kind(StrEnum):
    """The kinds of findings. If an orphan is also a duplicate, there are two findings for it."""

    ORPHAN = "orphan"
    DUPLICATE = "duplicate"
    NEARING = "nearing"
    HOLDING = "holding"


ACTIONABLE = (Kind.ORPHAN, Kind.DUPLICATE)
"""Kinds of findings to which a rule can apply."""

ALARMING = frozenset({Kind.ORPHAN, Kind.DUPLICATE, Kind.HOLDING})
"""Kinds of findings for which a report ends with exit code 1. `nearing` is not one of them, because it is a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding about one backend.

    `running` is the age of the run by `clock`; for the kind `holding` it is the age of the transaction. `blocks` is the
    number of sessions that wait for this backend, `alike` the number of orphans with the same database, role and query
    id. Both are None, not 0, if they are not known. `talking` is as in `cases.Case`. `bound` is True if the
    configuration binds the job to this role, so that the session's job key can be trusted.
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
        """The strongest evidence. Metrics use it alone as a label, so that a sum over the label counts a run once."""
        return max(self.evidence, key=STRENGTH.__getitem__, default=None)

    @property
    def overrun(self) -> timedelta | None:
        """The time since the end of the budget, not counting grace; None without a budget and before its end."""
        if self.budget is None:
            return None
        limit = self.budget.holding if self.kind is Kind.HOLDING else self.budget.limit
        return self.running - limit if self.running >= limit else None
