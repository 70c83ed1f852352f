"""Checks of the stored timeouts against the callers' budgets: which of them let a statement outlive its caller.

The recommended statement_timeout is below the smallest budget of a role by MARGIN, so that the server ends the
statement before the caller gives up. If the role has other work with a larger budget, that timeout would end it as
well. Then the statement is withheld, with the value that each part of the work can set with SET LOCAL.
This module knows no sessions: it compares stored settings with budgets.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from watchdog.core.doctor.changes import Remedy, SetForRole, one_line
from watchdog.core.doctor.checks import Check, failed, ok, unknown, warning
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
            yield _statement(timeout, role=role, book=book)
        budget = smallest_budget(book, role.name)
        if budget is not None:
            yield from _transaction(facts, role, book=book)
            yield _idle(facts, role, book=book)
            yield _lock(facts, role, book=book, budget=budget)
            yield _connection_check(facts, role)


def _judged(facts: Facts, *, book: BudgetBook) -> list[RoleFacts]:
    """The roles that can log in and have a budget. Superusers are left out.

    pgwatchdog's own role is left out unless the configuration names it.
    """
    return [
        each
        for each in sorted(facts.roles, key=lambda role: role.name)
        if each.can_login
        and not each.superuser
        and (book.names(each.name) or (smallest_budget(book, each.name) is not None and each.name != facts.own.name))
    ]


def _statement(timeout: StoredTimeout, *, role: RoleFacts, book: BudgetBook) -> Check:
    scope = _scope(role.name, timeout.database)
    name = "statement_timeout"
    if timeout.value is None:
        return unknown(name, f"set by the {timeout.where}, and our own session hides it", _UNKNOWN, scope=scope)
    target = placed_under(timeout.budget)
    if not timeout.inverted:
        return ok(name, f"{_value(timeout.value)} by {timeout.where}, budget {span(timeout.budget)}", scope=scope)
    change = SetForRole(role=role.name, name=name, value=spelled(target), database=timeout.database)
    lives_on = "without end" if timeout.lives_on is None else f"for {span(timeout.lives_on)}"
    return failed(
        name,
        f"{_value(timeout.value)} by {timeout.where}, budget {span(timeout.budget)}: work lives on {lives_on}",
        "let the server end it before the caller gives up",
        scope=scope,
        remedies=(_sparing(change, limit=timeout.budget, allowed=budgets_of(book, role.name), under=placed_under),),
    )


def _transaction(facts: Facts, role: RoleFacts, *, book: BudgetBook) -> Iterator[Check]:
    """Twice the largest budget: it ends the session, so nothing within its budget may come near it."""
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
        remedy=_remedy(role, "transaction_timeout", 2 * max(budgets_of(book, role.name).values())),
    )


def _idle(facts: Facts, role: RoleFacts, *, book: BudgetBook) -> Check:
    budget = book.budget(role.name, claim=None)
    limit = budget.holding if budget is not None else (smallest_budget(book, role.name) or timedelta(0))
    name = "idle_in_transaction_session_timeout"
    change = SetForRole(role=role.name, name=name, value=spelled(limit))
    saw = f"{{}}, limit for holding {span(limit)}"
    return _checked(
        facts,
        role,
        name,
        fine=lambda value: timedelta(0) < value <= limit,
        saw=saw,
        amiss=saw,
        hint="a client that freezes inside a transaction keeps its locks; a cancel does nothing to it, this does",
        remedy=_sparing(change, limit=limit, allowed=holdings_of(book, role.name), under=lambda allowed: allowed),
    )


def _lock(facts: Facts, role: RoleFacts, *, book: BudgetBook, budget: timedelta) -> Check:
    def under(allowed: timedelta) -> timedelta:
        return placed_under(allowed * LOCK_SHARE)

    change = SetForRole(role=role.name, name="lock_timeout", value=spelled(under(budget)))
    saw = f"{{}}, budget {span(budget)}"
    return _checked(
        facts,
        role,
        "lock_timeout",
        fine=lambda value: timedelta(0) < value < budget,
        saw=saw,
        amiss=saw,
        hint="waiting for a lock counts against the budget; whoever has waited for half of it will not finish",
        remedy=_sparing(change, limit=budget, allowed=budgets_of(book, role.name), under=under),
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
        remedy=_remedy(role, "client_connection_check_interval", CHECK_INTERVAL),
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
    remedy: Remedy,
) -> Check:
    """Check the value of one setting for one role.

    `saw` is the text if the value is `fine`, `amiss` if it is not; `{}` in them stands for the value. `remedy` sets a
    better value.
    """
    value = _effective(facts, role, name)
    scope = _scope(role.name, None)
    if value is None:
        return unknown(name, "our own session hides it", _UNKNOWN, scope=scope)
    if fine(value):
        return ok(name, saw.format(_value(value)), scope=scope)
    return warning(name, amiss.format(_value(value)), hint, scope=scope, remedies=(remedy,))


def _effective(facts: Facts, role: RoleFacts, name: str) -> timedelta | None:
    return facts.settings.effective(name, role=role.name, database=None).span(name)


def budgets_of(book: BudgetBook, role: str) -> Mapping[str, timedelta]:
    """Every budget that work of `role` can have, by the name that findings give it.

    A job whose rule does not name the role has its own budget only where the role has none: else the smaller counts.
    """
    own = book.budget(role, claim=None)
    found = {} if own is None else {own.source: own.limit}
    for rule in book.jobs:
        if rule.binds(role) or own is None:
            for job, spec in rule.budgets.items():
                found[f"job:{job}"] = max(spec.limit, found.get(f"job:{job}", spec.limit))
    return found


def holdings_of(book: BudgetBook, role: str) -> Mapping[str, timedelta]:
    """As `budgets_of`, for how long a transaction may stand idle. What the role itself has counts for its jobs too."""
    own = book.budget(role, claim=None)
    listed = book.listed(role)
    if own is not None and listed is not None and listed.holding is not None:
        return {own.source: own.holding}
    found = {} if own is None else {own.source: own.holding}
    for rule in book.jobs:
        if rule.binds(role) or own is None:
            for job, spec in rule.budgets.items():
                held = spec.limit if spec.holding is None else spec.holding
                found[f"job:{job}"] = max(held, found.get(f"job:{job}", held))
    return found


def _remedy(role: RoleFacts, name: str, value: timedelta) -> Remedy:
    return Remedy(SetForRole(role=role.name, name=name, value=spelled(value)))


def _sparing(
    change: SetForRole, *, limit: timedelta, allowed: Mapping[str, timedelta], under: Callable[[timedelta], timedelta]
) -> Remedy:
    """The change, withheld where work of the role is allowed more than `limit`, from which the value was made.

    `under` makes the value for what one part of the work is allowed.
    """
    longer = [f"{source} ({span(most)})" for source, most in sorted(allowed.items()) if most > limit]
    if not longer:
        return Remedy(change)
    reason = f"it would also end work of {change.role} that may take longer: {', '.join(longer)}. Let each set its own"
    each = (
        f"SET LOCAL {change.name} = '{spelled(under(most))}';  -- in each transaction of {one_line(source)}"
        for source, most in sorted(allowed.items())
    )
    return Remedy(change, reason, (change.sql, *each))


def spelled(value: timedelta) -> str:
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
