"""The explanation of one backend, from its row to its verdict: every condition, and which of them decided.

This module gives lines of text. It knows nothing of colors and of the terminal.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from watchdog.core.acting.policy import Policy
from watchdog.core.acting.protections import PROTECTIONS, ProtectionContext
from watchdog.core.acting.rules import Rule, conditions, speaks
from watchdog.core.acting.verdicts import Verdict, Withheld, withheld_reason
from watchdog.core.judging.budgets import Budget, BudgetBook
from watchdog.core.judging.cases import Case
from watchdog.core.judging.evidence import Finding
from watchdog.core.judging.overdue import until_crossing
from watchdog.core.observed.sockets import ClientState
from watchdog.core.present.look import Look
from watchdog.core.present.phrases import arming_words, span, verdict_words


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an explanation. `depth` is its indentation. `decides` marks the lines that led to a verdict."""

    depth: int
    text: str
    decides: bool = False


def explain(look: Look, *, pid: int, book: BudgetBook, policy: Policy, context: ProtectionContext) -> list[Line] | None:
    """The explanation of the backend with `pid`, or None if it neither runs a statement nor is in a transaction."""
    case = next((each for each in look.judgement.cases if each.backend.pid == pid), None)
    if case is None:
        return None
    verdicts = [each for each in look.decisions.verdicts if each.finding.backend.pid == pid]
    lines = [*_row(case, look), *_name(case), *_budget(case, book=book)]
    if not verdicts:
        lines.append(Line(0, "finding: none", decides=True))
    for verdict in verdicts:
        lines += _verdict(verdict, policy=policy, context=context)
    armed, *reasons = arming_words(look)
    return [*lines, Line(0, f"cluster: {armed}"), *(Line(1, reason) for reason in reasons)]


def _row(case: Case, look: Look) -> Iterator[Line]:
    backend = case.backend
    wait = f", waiting for {backend.wait_event_type} {backend.wait_event}" if backend.wait_event else ""
    yield Line(0, f"row: pid {backend.pid}, role {backend.role}, database {backend.database}, {backend.state}{wait}")
    for word, moment in (("statement", backend.query), ("transaction", backend.transaction)):
        if moment is not None:
            yield Line(1, f"{word} began {span(moment.age)} ago, at {moment.at.isoformat()}")
    yield Line(1, f"it is {case.activity}, measured by the {case.clock} clock: {span(case.age)}")
    state = look.clients.get((backend.pid, backend.started))
    if state is not None:
        yield Line(1, f"its client, by the sockets: {_words(state)}")
    yield Line(1, f"start of the run, for pgwatchdog cancel --start: {case.run.start.isoformat()}")


def _name(case: Case) -> Iterator[Line]:
    name = case.backend.application_name
    if case.claim is not None:
        key = case.claim.key
        bound = "bound to this role" if case.claim.rule.binds(case.backend.role) else "not bound to this role"
        yield Line(0, f"name: {name!r} is job {key.job!r}, window {key.window!r}; {bound}")
    elif case.unusable_key:
        yield Line(0, f"name: {name!r} looks like a job key and cannot be used: cut, ambiguous or incomplete")
    else:
        yield Line(0, f"name: {name!r} is no job key")


def _budget(case: Case, *, book: BudgetBook) -> Iterator[Line]:
    budget = case.budget
    if budget is None:
        why = ", as the configuration says" if case.exempt else ""
        yield Line(0, f"budget: none for role {case.backend.role}{why}, so it is not judged", decides=True)
        return
    yield Line(0, f"budget: {span(budget.limit)} by {budget.source}, and {span(budget.grace)} of grace")
    by_role = book.budget(case.backend.role, claim=None)
    if by_role is not None and by_role.source != budget.source:
        yield Line(1, f"{by_role.source} would give {span(by_role.limit)}")
    yield Line(1, _distance(case, budget))


def _distance(case: Case, budget: Budget) -> str:
    left = until_crossing(case)
    if left is not None:
        return f"{span(left)} are left of both"
    if case.age >= budget.crossing:
        return f"both ended {span(case.age - budget.crossing)} ago"
    return f"it does not work now; its transaction may be held for {span(budget.holding)}"


def _verdict(verdict: Verdict, *, policy: Policy, context: ProtectionContext) -> Iterator[Line]:
    finding = verdict.finding
    evidence = ", ".join(finding.evidence).replace("_", " ")
    yield Line(0, f"finding: {finding.kind}{f', evidence: {evidence}' if evidence else ''}")
    for rule in policy.rules:
        yield from _rule(rule, verdict)
    if verdict.rule is None:
        yield Line(1, "no rule speaks about it: it is shown only", decides=True)
        return
    yield from _protections(finding, rule=verdict.rule, verdict=verdict, context=context)
    yield Line(1, f"verdict: {verdict_words(verdict)}", decides=True)


def _rule(rule: Rule, verdict: Verdict) -> Iterator[Line]:
    decides = rule == verdict.rule
    word = "decides" if decides else "would speak as well" if speaks(rule, verdict.finding) else "does not speak"
    yield Line(1, f"rule {rule.name}: {word}", decides=decides)
    for each in conditions(rule, verdict.finding):
        yield Line(2, f"{'yes' if each.holds else 'no '}  {each.name}: {each.detail}")


def _protections(finding: Finding, *, rule: Rule, verdict: Verdict, context: ProtectionContext) -> Iterator[Line]:
    yield Line(1, "protections:")
    found: dict[Withheld, list[str]] = {each.reason: [] for each in PROTECTIONS}
    for each in PROTECTIONS:
        if each.holds(finding, rule, context):
            found[each.reason].append(each.meaning)
    for reason, meanings in found.items():
        why = f": {'; '.join(meanings)}" if meanings else ""
        decides = withheld_reason(verdict) is reason
        yield Line(2, f"{'yes' if meanings else 'no '}  {_words(reason)}{why}", decides=decides)


def _words(reason: Withheld | ClientState) -> str:
    return reason.replace("_", " ")
