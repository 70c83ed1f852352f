"""Acts: an attempt to carry out a rule's action on one run, and what the guarded statement must find again.

An act succeeds by its effect at a later look, never by what the call returned: see `lifecycle`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from watchdog.core.acting.rules import Rule
from watchdog.core.acting.verdicts import Hand, Withheld
from watchdog.core.judging.cases import is_fetch_loop
from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.observed.activity import Clock, Run


class Result(StrEnum):
    """What the statement that signals answered. Everything but the first two is no act."""

    SIGNALLED = "signalled"
    REHEARSED = "rehearsed"
    NOT_PERMITTED = "not_permitted"
    GONE = "gone"
    MOVED_ON = "moved_on"
    TIMED_OUT = "timed_out"
    PROTECTED = "protected"
    NOT_TRIED = "not_tried"


FAILURES = (Result.NOT_PERMITTED, Result.GONE, Result.MOVED_ON, Result.TIMED_OUT)
"""The reasons of `cancel_failures_total`."""


class Outcome(StrEnum):
    """What came of an act, by its effect on the row.

    `between_statements`: the statement ended and its session is idle. `transaction_goes_on`: the statement was lost
    and the transaction was not (savepoints): it is never tried again for that transaction.
    """

    ENDED = "ended"
    BETWEEN_STATEMENTS = "between_statements"
    MOVED_ON = "moved_on"
    TRANSACTION_GOES_ON = "transaction_goes_on"
    STILL_THERE = "still_there"
    INEFFECTIVE = "ineffective"
    ENDED_BY_ITSELF = "ended_by_itself"
    UNKNOWN = "unknown"


SUCCESSES = frozenset(
    {Outcome.ENDED, Outcome.BETWEEN_STATEMENTS, Outcome.MOVED_ON, Outcome.TRANSACTION_GOES_ON, Outcome.ENDED_BY_ITSELF}
)
"""The outcomes after which the statement that was acted on no longer runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTarget:
    """What the guarded statement re-checks, all of it, before it signals.

    `statement` is None for a FETCH loop: there the transaction's start alone identifies the run, because every FETCH
    has a start of its own.
    """

    pid: int
    backend_start: datetime
    statement: datetime | None
    transaction: datetime | None
    state: str
    role_oid: int
    application_name: str
    clock: Clock
    least_age: timedelta
    writers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One action about to be carried out, under an id of its own. `at` is the look, by the server's clock."""

    id: str
    server: str
    finding: Finding
    rule: Rule
    hand: Hand
    attempt: int
    at: datetime

    @property
    def is_on_fetch_loop(self) -> bool:
        """True for a run of several statements: the next one may begin between the look and the signal."""
        statement = self.finding.backend.start(Clock.STATEMENT)
        started = None if statement is None else statement.at
        return is_fetch_loop(self.finding.clock, start=self.finding.run.start, statement=started)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActResult:
    """An act that has been carried out, or was stopped on the way.

    `took` is the time from the snapshot to the answer. `withheld` is the protection that the statement found in the
    row, or what disarmed us in between.
    """

    act: Act
    result: Result
    took: timedelta
    withheld: Withheld | None = None
    detail: str = ""

    @property
    def lag(self) -> timedelta | None:
        """From the crossing to the signal; None for what was no first signal to an overdue orphan."""
        finding = self.act.finding
        if self.result is not Result.SIGNALLED or self.act.attempt > 1 or finding.budget is None:
            return None
        return finding.running - finding.budget.crossing + self.took if _is_overdue(finding) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEffect:
    """What a look showed of an earlier act. `regret`: a rehearsed cancel of a run that then ended by itself."""

    id: str
    run: Run
    rule: str
    hand: Hand
    outcome: Outcome
    at: datetime
    regret: bool = False


def cancel_target(finding: Finding, *, rule: Rule) -> CancelTarget | None:
    """What the guard must find again; None where the row does not show enough to be sure."""
    backend = finding.backend
    statement = backend.start(Clock.STATEMENT)
    if statement is None or backend.role_oid is None:
        return None
    return CancelTarget(
        pid=backend.pid,
        backend_start=backend.started,
        statement=None if finding.talking else statement.at,  # statements keep coming: none of them identifies the run
        transaction=None if backend.transaction is None else backend.transaction.at,
        state=backend.state,
        role_oid=backend.role_oid,
        application_name=backend.application_name,
        clock=finding.clock,
        least_age=finding.budget.crossing if finding.budget is not None and _is_overdue(finding) else timedelta(0),
        writers=rule.writers,
    )


def _is_overdue(finding: Finding) -> bool:
    return finding.kind is Kind.ORPHAN and Evidence.OVER_BUDGET in finding.evidence
