"""Checks of the stored timeouts against the callers' budgets: which of them let a statement outlive its caller.

The recommended statement_timeout is below the smallest budget of a role by MARGIN, so that the server ends the
statement before the caller gives up. A job of that role with a larger budget must set its own value with SET LOCAL.
This module knows no sessions: it compares stored settings with budgets.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta

from watchdog.core.doctor.checks import Check, failed, ok, quoted, unknown, warning
from watchdog.core.doctor.facts import Facts, RoleFacts
from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.judging.timeout_inversions import MARGIN, MAX_MARGIN, StoredTimeout, smallest_budget, stored_timeouts
from watchdog.core.present.phrases import span

LEAST = timedelta(milliseconds=1)
"""Lower bound of a recommended timeout, because 0 would turn it off."""

TRANSACTION_TIMEOUT_FROM = 170_000
"""First version with transaction_timeout."""

CHECK_INTERVAL = timedelta(seconds=10)
"""Recommended client_connection_check_interval."""

LOCK_SHARE = 0.5
"""Share of the budget from which the recommended lock_timeout is computed. A statement that waits longer for a lock has
too little time left for its work."""


def placed_under(budget: timedelta) -> timedelta:
    """A timeout below a budget by a twentieth of it, but by at most five seconds, in whole milliseconds."""
    margin = min(MAX_MARGIN, budget * MARGIN)
    return max(LEAST, timedelta(milliseconds=int((budget - margin) / timedelta(milliseconds=1))))


def audit_timeouts(facts: Facts, *, book: BudgetBook) -> Iterator[Check]:
    """One check for each timeout and each role with a budget.

    statement_timeout is also checked for each database with a stored value.
    """
    for role in _judged(facts, book=book):
        for timeout in stored_timeouts(facts.settings, book=book, roles=[role.name]):
            yield _statement(timeout, role=role)
        budget = smallest_budget(book, role.name)
        if budget is not None:
            yield from _transaction(facts, role, budget=budget)
            yield _idle(facts, role, book=book)
            yield _lock(facts, role, budget=budget)
            yield _connection_check(facts, role)


def _judged(facts: Facts, *, book: BudgetBook) -> list[RoleFacts]:
    """The roles that can log in and have a budget. Superusers are left out.

    pgwatchdog's own role is left out unless the configuration names it.
    """
    named = {*book.roles, *(role for rule in book.jobs for role in rule.roles)}
    return [
        each
        for each in sorted(facts.roles, key=lambda role: role.name)
        if each.can_login
        and not each.superuser
        and (each.name in named or (smallest_budget(book, each.name) is not None and each.name != facts.own.name))
    ]


def _statement(timeout: StoredTimeout, *, role: RoleFacts) -> Check:
    scope = _scope(role.name, timeout.database)
    name = "statement_timeout"
    if timeout.value is None:
        return unknown(name, f"set by the {timeout.where}, and our own session hides it", _UNKNOWN, scope=scope)
    target = placed_under(timeout.budget)
    if not timeout.inverted:
        return ok(name, f"{_value(timeout.value)} by {timeout.where}, budget {span(timeout.budget)}", scope=scope)
    lives_on = "without end" if timeout.lives_on is None else f"for {span(timeout.lives_on)}"
    return failed(
        name,
        f"{_value(timeout.value)} by {timeout.where}, budget {span(timeout.budget)}: work lives on {lives_on}",
        "let the server end it before the caller gives up; jobs with a larger budget set their own, by SET LOCAL",
        scope=scope,
        sql=(_alter(role.name, timeout.database, name, target),),
    )


def _transaction(facts: Facts, role: RoleFacts, *, budget: timedelta) -> Iterator[Check]:
    if facts.server_version < TRANSACTION_TIMEOUT_FROM:
        return
    yield _checked(
        facts,
        role,
        "transaction_timeout",
        fine=lambda value: value > timedelta(0),
        saw="{}",
        amiss="off: a transaction of many short statements has no end",
        hint="bound it where callers bound a whole transaction; it ends the session, not only the statement",
        better=2 * budget,
    )


def _idle(facts: Facts, role: RoleFacts, *, book: BudgetBook) -> Check:
    budget = book.budget(role.name, claim=None)
    limit = budget.holding if budget is not None else (smallest_budget(book, role.name) or timedelta(0))
    saw = f"{{}}, limit for holding {span(limit)}"
    return _checked(
        facts,
        role,
        "idle_in_transaction_session_timeout",
        fine=lambda value: timedelta(0) < value <= limit,
        saw=saw,
        amiss=saw,
        hint="a client that freezes inside a transaction keeps its locks; a cancel does nothing to it, this does",
        better=limit,
    )


def _lock(facts: Facts, role: RoleFacts, *, budget: timedelta) -> Check:
    saw = f"{{}}, budget {span(budget)}"
    return _checked(
        facts,
        role,
        "lock_timeout",
        fine=lambda value: timedelta(0) < value < budget,
        saw=saw,
        amiss=saw,
        hint="waiting for a lock counts against the budget; whoever has waited for half of it will not finish",
        better=placed_under(budget * LOCK_SHARE),
    )


def _connection_check(facts: Facts, role: RoleFacts) -> Check:
    return _checked(
        facts,
        role,
        "client_connection_check_interval",
        fine=lambda value: value > timedelta(0),
        saw="{}: ends the query of a client that has died; not of one whose caller has gone",
        amiss="off: the query of a client that has died runs to its end",
        hint="it sees a closed connection, not a vanished host (tcp_keepalives do), "
        "and not a middle layer that lives on",
        better=CHECK_INTERVAL,
    )


def _checked(
    facts: Facts,
    role: RoleFacts,
    name: str,
    *,
    fine: Callable[[timedelta], bool],
    saw: str,
    amiss: str,
    hint: str,
    better: timedelta,
) -> Check:
    """Check the value of one setting for one role.

    `saw` is the text if the value is `fine`, `amiss` if it is not; `{}` in them stands for the value. `better` is the
    value that the SQL sets.
    """
    value = _effective(facts, role, name)
    scope = _scope(role.name, None)
    if value is None:
        return unknown(name, "our own session hides it", _UNKNOWN, scope=scope)
    if fine(value):
        return ok(name, saw.format(_value(value)), scope=scope)
    return warning(name, amiss.format(_value(value)), hint, scope=scope, sql=(_alter(role.name, None, name, better),))


def _effective(facts: Facts, role: RoleFacts, name: str) -> timedelta | None:
    return facts.settings.effective(name, role=role.name, database=None).span(name)


def _alter(role: str, database: str | None, name: str, value: timedelta) -> str:
    where = f" IN DATABASE {quoted(database)}" if database is not None else ""
    return f"ALTER ROLE {quoted(role)}{where} SET {name} = '{_spelled(value)}';"


def _spelled(value: timedelta) -> str:
    """The value in the largest unit in which it is a whole number, so that the server reads it back exactly."""
    milliseconds = int(value / timedelta(milliseconds=1))
    for unit, size in (("min", 60_000), ("s", 1000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def _scope(role: str, database: str | None) -> str:
    return f"role {role}" if database is None else f"role {role} in {database}"


def _value(value: timedelta) -> str:
    return span(value) if value > timedelta(0) else "off"


_UNKNOWN = "connect as a role, and to a database, for which it is not stored itself"
