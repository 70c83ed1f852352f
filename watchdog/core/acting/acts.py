"""Acts: the attempt to carry out a rule's action on one run, its result, and its outcome.

Whether an act succeeded is judged at a later look by its effect on the run, and not by what `pg_cancel_backend`
returned (see `lifecycle`). This module knows nothing of SQL and of the ledger.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from watchdog.core.acting.rules import Rule
from watchdog.core.acting.verdicts import Hand, Withheld
from watchdog.core.judging.cases import is_fetch_loop
from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.observed.activity import Clock, Run
from watchdog.core.observed.census import UNKNOWN_SERVER, ServerIdentity


class Result(StrEnum):
    """The answer to an act.

    The guarded statement is the statement that compares the row with the `CancelTarget` and then sends the signal.

    - `signalled`: the signal was sent.
    - `rehearsed`: dry run; no statement was sent.
    - `not_permitted`: the server refused the statement for lack of a privilege.
    - `gone`: the session has ended, or the signal could not be sent to it.
    - `moved_on`: the row has changed since it was judged, so no signal was sent.
    - `timed_out`: no answer was received, or none that could be read. The signal may have been sent.
    - `protected`: the guarded statement found that a protection applies now.
    - `not_tried`: no signal was sent for a reason outside of the row, such as a lost lease.
    """

    SIGNALLED = "signalled"
    REHEARSED = "rehearsed"
    NOT_PERMITTED = "not_permitted"
    GONE = "gone"
    MOVED_ON = "moved_on"
    TIMED_OUT = "timed_out"
    PROTECTED = "protected"
    NOT_TRIED = "not_tried"


FAILURES = (Result.NOT_PERMITTED, Result.GONE, Result.MOVED_ON, Result.TIMED_OUT)
"""Results that are counted in `pgwatchdog_cancel_failures_total`, by reason."""


class Outcome(StrEnum):
    """What came of an act, judged by its effect on the row at a later look.

    - `ended`: the session has ended.
    - `between_statements`: the statement has ended and its session is idle.
    - `moved_on`: the session has left the transaction in which the statement ran.
    - `transaction_goes_on`: the statement has ended, but its transaction is still open (for example because of a
      savepoint). No further attempt is made in this transaction.
    - `still_there`: the statement still runs after the pause, and another attempt may follow.
    - `waits_for_client`: the statement still runs after the pause, because the server waits for the client to read. The
      signal stays pending, and no other one follows.
    - `ineffective`: the statement still runs after the last attempt.
    - `ended_late`: the statement has ended after it was called ineffective.
    - `ended_by_itself`: a run whose cancel was rehearsed has ended.
    - `unknown`: it will not be known: the answer was lost with the process, the server was restarted or is another one,
      or the ledger was read by a new actor before the outcome was known.
    """

    ENDED = "ended"
    BETWEEN_STATEMENTS = "between_statements"
    MOVED_ON = "moved_on"
    TRANSACTION_GOES_ON = "transaction_goes_on"
    STILL_THERE = "still_there"
    WAITS_FOR_CLIENT = "waits_for_client"
    INEFFECTIVE = "ineffective"
    ENDED_LATE = "ended_late"
    ENDED_BY_ITSELF = "ended_by_itself"
    UNKNOWN = "unknown"


SUCCESSES = frozenset(
    {Outcome.ENDED, Outcome.BETWEEN_STATEMENTS, Outcome.MOVED_ON, Outcome.TRANSACTION_GOES_ON, Outcome.ENDED_BY_ITSELF}
)
"""Outcomes that show that the statement which was acted on no longer runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTarget:
    """The values that the guarded statement compares with the row before it sends the signal. All of them must match.

    `statement` is None for a FETCH loop: each FETCH has its own start, so the start of the transaction identifies the
    run. `least_age` is the age that the run must have reached. `writers` is True if a transaction that has written may
    be cancelled. `role` and `database` are the names by which the run was judged; they belong to an oid each, and a
    rename since then makes another name.
    """

    pid: int
    backend_start: datetime
    statement: datetime | None
    transaction: datetime | None
    state: str
    role_oid: int
    role: str
    database_oid: int
    database: str
    application_name: str
    clock: Clock
    least_age: timedelta
    writers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One action that is about to be carried out. `id` is unique. `at` is the time of the look on the server's clock.

    `attempt` is 1 for the first act on the run.
    """

    id: str
    server: str
    finding: Finding
    rule: Rule
    hand: Hand
    attempt: int
    at: datetime
    identity: ServerIdentity = UNKNOWN_SERVER

    @property
    def is_on_fetch_loop(self) -> bool:
        """True for a run of several statements. Its next statement may start between the look and the signal."""
        statement = self.finding.backend.start(Clock.STATEMENT)
        started = None if statement is None else statement.at
        return is_fetch_loop(self.finding.clock, start=self.finding.run.start, statement=started)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActResult:
    """An act that was carried out, or that was stopped before the signal.

    `took` is the time from the snapshot to the answer. `withheld` is the protection that the guarded statement found in
    the row, or the reason why the act was stopped after it had been decided. `detail` is a message for the user.
    """

    act: Act
    result: Result
    took: timedelta
    withheld: Withheld | None = None
    detail: str = ""

    @property
    def lag(self) -> timedelta | None:
        """The time from the crossing to the signal. It is None unless this is the first signal to an overdue orphan."""
        finding = self.act.finding
        if self.result is not Result.SIGNALLED or self.act.attempt > 1 or finding.budget is None:
            return None
        return finding.running - finding.budget.crossing + self.took if _is_overdue(finding) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEffect:
    """The outcome of an earlier act, as seen at one look.

    `regret` is True if a cancel was rehearsed, the run then ended by itself, and its client was not known to be gone.
    """

    id: str
    run: Run
    rule: str
    hand: Hand
    outcome: Outcome
    at: datetime
    regret: bool = False


def cancel_target(finding: Finding, *, rule: Rule) -> CancelTarget | None:
    """The values that the guarded statement must find, or None if the row shows no start, no role or no database."""
    backend = finding.backend
    statement = backend.start(Clock.STATEMENT)
    if statement is None or backend.role_oid is None or backend.database_oid is None:
        return None
    return CancelTarget(
        pid=backend.pid,
        backend_start=backend.started,
        statement=None if finding.talking else statement.at,  # of a FETCH loop no single statement identifies the run
        transaction=None if backend.transaction is None else backend.transaction.at,
        state=backend.state,
        role_oid=backend.role_oid,
        role=backend.role,
        database_oid=backend.database_oid,
        database=backend.database,
        application_name=backend.application_name,
        clock=finding.clock,
        least_age=finding.budget.crossing if finding.budget is not None and _is_overdue(finding) else timedelta(0),
        writers=rule.writers,
    )


def _is_overdue(finding: Finding) -> bool:
    return finding.kind is Kind.ORPHAN and Evidence.OVER_BUDGET in finding.evidence
