"""The judgement of one case against its budget: orphan, holding, nearing, or none of them.

By the statement clock, a new statement of a session begins a new run. By the run clock, it continues the old run. So an
orphan measured by the run clock stays an orphan while statements arrive. This module knows only one case at a time.
"""

from datetime import timedelta

from watchdog.core.judging.cases import Case
from watchdog.core.judging.evidence import EVIDENCE, Evidence, Finding, Kind
from watchdog.core.observed.activity import ActivityKind, Clock


def judge_overdue(case: Case, *, nearing: float) -> Finding | None:
    """The finding about `case`, or None. The first that applies is returned: orphan, then holding, then nearing."""
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
    """All evidence that nobody waits for the run, weakest first. `client_gone` and `deadline_passed` need no budget."""
    return tuple(kind.name for kind in EVIDENCE if kind.holds is not None and kind.holds(case))


def until_crossing(case: Case) -> timedelta | None:
    """The time until `case` becomes an orphan by its budget or its caller's deadline, if it goes on.

    It is None if the case does not work now, is an orphan already, or has neither budget nor deadline.
    """
    if not case.works or _evidence(case):
        return None
    waits = []
    if case.budget is not None:
        waits.append(case.budget.crossing - case.age)
    if case.until_deadline is not None:
        waits.append(case.until_deadline)
    return min(waits, default=None)


def finding(case: Case, *, kind: Kind, evidence: tuple[Evidence, ...] = ()) -> Finding:
    """A finding of `kind` about `case`. For `holding`, the age is that of the transaction."""
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
        bound=case.claim is not None and case.claim.rule.binds(case.backend.role),
    )


def _held(case: Case) -> timedelta:
    """How long the transaction has been open, not counting the statement that runs in it now.

    So one long statement is not holding. A long series of short statements is holding, even while one of them runs. The
    result is 0 for a case that works by the run clock, because it is judged as a run.
    """
    transaction = case.backend.transaction
    if transaction is None or (case.clock is Clock.RUN and case.works):
        return timedelta(0)
    return transaction.age - case.age if case.activity is ActivityKind.RUNNING else transaction.age
