"""Acts: an attempt to cancel, what the statement that signals must find again, and what came of it.

The success of an act is its effect at a later look, never what the call returned.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from watchdog.core.acting.rules import Rule
from watchdog.core.acting.verdicts import Hand, Verdict, Withheld
from watchdog.core.judging.copies import CopyKey, copy_key
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Act:
    """One verdict about to be carried out, under an id of its own. `at` is the look, by the server's clock."""

    id: str
    server: str
    verdict: Verdict
    attempt: int
    at: datetime

    @property
    def finding(self) -> Finding:
        """What it is about."""
        return self.verdict.finding


@dataclass(frozen=True, slots=True)
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
        overdue = finding.kind is Kind.ORPHAN and Evidence.OVER_BUDGET in finding.evidence
        if self.result is not Result.SIGNALLED or self.act.attempt > 1 or finding.budget is None or not overdue:
            return None
        return finding.running - finding.budget.crossing + self.took


@dataclass(frozen=True, slots=True)
class OpenAct:
    """What is remembered of the acts on one run while its row may be there. `final`: why there is no other."""

    id: str
    rule: str
    hand: Hand
    attempts: int
    at: datetime
    statement: datetime | None
    transaction: datetime | None
    clock: Clock
    key: CopyKey | None = None
    client_gone: bool = False
    again: bool = False
    final: Withheld | None = None


@dataclass(frozen=True, slots=True)
class ObservedEffect:
    """What a look showed of an earlier act."""

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
    fetches = finding.clock is Clock.RUN and finding.talking
    overdue = finding.kind is Kind.ORPHAN and Evidence.OVER_BUDGET in finding.evidence and finding.budget is not None
    return CancelTarget(
        pid=backend.pid,
        backend_start=backend.started,
        statement=None if fetches else statement.at,
        transaction=None if backend.transaction is None else backend.transaction.at,
        state=backend.state,
        role_oid=backend.role_oid,
        application_name=backend.application_name,
        clock=finding.clock,
        least_age=finding.budget.crossing if overdue and finding.budget is not None else timedelta(0),
        writers=rule.writers,
    )


def open_act(act: Act, *, hand: Hand) -> OpenAct:
    """What is to be remembered of an act from now on."""
    finding = act.finding
    backend = finding.backend
    statement = backend.start(Clock.STATEMENT)
    return OpenAct(
        id=act.id,
        rule=act.verdict.rule or "",
        hand=hand,
        attempts=act.attempt,
        at=act.at,
        statement=None if statement is None else statement.at,
        transaction=None if backend.transaction is None else backend.transaction.at,
        clock=finding.clock,
        key=copy_key(finding),
        client_gone=Evidence.CLIENT_GONE in finding.evidence,
    )
