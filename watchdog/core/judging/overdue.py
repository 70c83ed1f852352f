"""Judges one case against its budget: orphan, holding, nearing, or nothing.

The two clocks differ in what a late statement means. By the statement clock it begins a new piece of
work; by the run clock it continues the old one, which therefore stays an orphan while statements come.
"""

from datetime import timedelta

from watchdog.core.judging.cases import Case
from watchdog.core.judging.evidence import EVIDENCE, Evidence, Finding, Kind
from watchdog.core.observed.activity import ActivityKind, Clock


def judge_overdue(case: Case, *, nearing: float) -> Finding | None:
    """The one finding that time and the client's own end make about `case`; the gravest wins."""
    evidence = _evidence(case)
    if evidence:
        return finding(case, kind=Kind.ORPHAN, evidence=evidence)
    if case.budget is None:
        return None
    if _held(case) >= case.budget.holding + case.budget.grace:
        return finding(case, kind=Kind.HOLDING)
    if case.works and case.age >= case.budget.limit * nearing:
        return finding(case, kind=Kind.NEARING)
    return None


def _evidence(case: Case) -> tuple[Evidence, ...]:
    """All that shows that nobody waits for it, weakest first. A client that is gone needs no budget to be so."""
    return tuple(kind.name for kind in EVIDENCE if kind.holds is not None and kind.holds(case))


def until_crossing(case: Case) -> timedelta | None:
    """How long until `case` becomes an orphan, by its budget or its own deadline, if it goes on; None if never."""
    if not case.works or _evidence(case):
        return None
    waits = []
    if case.budget is not None:
        waits.append(case.budget.crossing - case.age)
    if case.until_deadline is not None:
        waits.append(case.until_deadline)
    return min(waits, default=None)


def finding(case: Case, *, kind: Kind, evidence: tuple[Evidence, ...] = ()) -> Finding:
    """A finding of `kind` about `case`, measured by the clock that the kind is about."""
    transaction = case.backend.transaction
    return Finding(
        kind=kind,
        backend=case.backend,
        run=case.run,
        key=case.key,
        clock=case.clock,
        running=transaction.age if kind is Kind.HOLDING and transaction is not None else case.age,
        budget=case.budget,
        evidence=evidence,
        talking=case.talking,
        bound=case.claim is not None and case.backend.role in case.claim.rule.roles,
    )


def _held(case: Case) -> timedelta:
    """How long the transaction has been open without the statement that runs in it now.

    A long statement inside its budget does not hold, a long row of short ones does, also at the instants
    at which one of them runs. What works by the run clock is judged as a run.
    """
    transaction = case.backend.transaction
    if transaction is None or (case.clock is Clock.RUN and case.works):
        return timedelta(0)
    return transaction.age - case.age if case.activity is ActivityKind.RUNNING else transaction.age
