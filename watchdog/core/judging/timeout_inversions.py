"""Timeout inversions: a stored statement_timeout that lets a statement run on after its caller has given up.

Metrics and the doctor use this module. It knows stored settings and budgets, and no sessions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.observed.stored_settings import StoredSettings

STATEMENT_TIMEOUT = "statement_timeout"

MARGIN = 0.05
"""Share of the caller's wait by which a timeout is set below that wait."""

MAX_MARGIN = timedelta(seconds=5)
"""Upper bound of the difference between a timeout and the caller's wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTimeout:
    """The statement_timeout that a role gets in one database, compared with the role's smallest budget.

    A `database` of None stands for every database that has no entry of its own. `value` is 0 if the timeout is off and
    None if it is not known. `inverted` is True if the timeout is off or larger than the budget, and None if the timeout
    is not known. `lives_on` is how long a statement can run after its caller gave up: 0 if it cannot, and None if the
    timeout is off or not known.
    """

    role: str
    database: str | None
    value: timedelta | None
    where: str
    budget: timedelta
    inverted: bool | None
    lives_on: timedelta | None


def smallest_budget(book: BudgetBook, role: str) -> timedelta | None:
    """The smallest budget of `role`: its own, or that of a job that is bound to it; None if it has none."""
    own = book.budget(role, claim=None)
    bound = [budget_spec.limit for rule in book.jobs if rule.binds(role) for budget_spec in rule.budgets.values()]
    return min([*bound, *([] if own is None else [own.limit])], default=None)


def stored_timeouts(settings: StoredSettings, *, book: BudgetBook, roles: Iterable[str]) -> list[StoredTimeout]:
    """For each role with a budget, the timeout that it gets in general and in each database with a stored value."""
    found = []
    for role in sorted(roles):
        budget = smallest_budget(book, role)
        if budget is None:
            continue
        databases = settings.databases_of(role, names=(STATEMENT_TIMEOUT,))
        found += [_timeout(settings, role, database, budget=budget) for database in (None, *databases)]
    return found


def worst_timeout(timeouts: Iterable[StoredTimeout]) -> StoredTimeout | None:
    """The timeout of one role under which a statement can run longest; None if none is known. Off is the worst."""
    known = [each for each in timeouts if each.value is not None]
    return max(known, key=lambda each: (each.value == timedelta(0), each.value), default=None)


def _timeout(settings: StoredSettings, role: str, database: str | None, *, budget: timedelta) -> StoredTimeout:
    effective = settings.effective(STATEMENT_TIMEOUT, role=role, database=database)
    value = effective.span(STATEMENT_TIMEOUT)
    if value is None:
        return StoredTimeout(
            role=role, database=database, value=None, where=effective.where, budget=budget, inverted=None, lives_on=None
        )
    off = value <= timedelta(0)
    lives_on = None if off else max(timedelta(0), value - budget)
    return StoredTimeout(
        role=role,
        database=database,
        value=value,
        where=effective.where,
        budget=budget,
        inverted=off or value > budget,
        lives_on=lives_on,
    )
