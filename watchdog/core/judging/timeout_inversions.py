"""Timeout inversions: a stored statement_timeout that lets work outlive its caller. For metrics and for the doctor."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.observed.stored_settings import StoredSettings

STATEMENT_TIMEOUT = "statement_timeout"

MARGIN = 0.05
"""Share of the wait above it by which a timeout is placed below that wait."""

MAX_MARGIN = timedelta(seconds=5)
"""Upper bound of that margin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTimeout:
    """The statement_timeout that a role gets in one database (None: in every other), held against its budget.

    `value` is 0 where it is off and None where it is not known. `lives_on` is how long work can go on after its caller
    gave up: None without end, 0 where it cannot.
    """

    role: str
    database: str | None
    value: timedelta | None
    where: str
    budget: timedelta
    inverted: bool | None
    lives_on: timedelta | None


def smallest_budget(book: BudgetBook, role: str) -> timedelta | None:
    """The smallest budget that a caller of `role` may have: its own, or that of a job bound to it."""
    own = book.budget(role, claim=None)
    bound = [budget_spec.limit for rule in book.jobs if role in rule.roles for budget_spec in rule.budgets.values()]
    return min([*bound, *([] if own is None else [own.limit])], default=None)


def stored_timeouts(settings: StoredSettings, *, book: BudgetBook, roles: Iterable[str]) -> list[StoredTimeout]:
    """For each role that has a budget what it gets in general, and in each database where that differs."""
    found = []
    for role in sorted(roles):
        budget = smallest_budget(book, role)
        if budget is None:
            continue
        databases = settings.databases_of(role, names=(STATEMENT_TIMEOUT,))
        found += [_timeout(settings, role, database, budget=budget) for database in (None, *databases)]
    return found


def worst_timeout(timeouts: Iterable[StoredTimeout]) -> StoredTimeout | None:
    """Of one role's the one that lets work live longest; off is the worst, an unknown one tells nothing."""
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
