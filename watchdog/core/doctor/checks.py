"""The result of a check: its name, its status, what it saw, a hint, and the SQL that corrects it.

This module knows nothing of the individual checks.
"""

from dataclasses import dataclass
from enum import StrEnum

from watchdog.core.doctor.changes import Remedy


class Status(StrEnum):
    """The status of a check, the gravest last. `unknown` means that the check could not decide."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    FAILED = "failed"


GRAVITY = {status: rank for rank, status in enumerate(Status)}
"""Rank of each status. A higher number is graver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check.

    `scope` is `cluster`, `role NAME` or `role NAME in DATABASE`. `remedies` are the changes that correct what was
    found.
    """

    name: str
    scope: str
    status: Status
    saw: str
    hint: str = ""
    remedies: tuple[Remedy, ...] = ()

    @property
    def sql(self) -> tuple[str, ...]:
        """The statements that can be run."""
        return tuple(each.change.sql for each in self.remedies if not each.withheld)


def ok(name: str, saw: str, *, scope: str = "cluster") -> Check:
    """A check that found nothing to correct."""
    return Check(name=name, scope=scope, status=Status.OK, saw=saw)


def warning(name: str, saw: str, hint: str, *, scope: str = "cluster", remedies: tuple[Remedy, ...] = ()) -> Check:
    """A check that found something that should be changed."""
    return Check(name=name, scope=scope, status=Status.WARNING, saw=saw, hint=hint, remedies=remedies)


def failed(name: str, saw: str, hint: str, *, scope: str = "cluster", remedies: tuple[Remedy, ...] = ()) -> Check:
    """A check that found a cause of orphans, or a reason why pgwatchdog cannot see them."""
    return Check(name=name, scope=scope, status=Status.FAILED, saw=saw, hint=hint, remedies=remedies)


def unknown(name: str, saw: str, hint: str, *, scope: str = "cluster") -> Check:
    """A check that could not decide."""
    return Check(name=name, scope=scope, status=Status.UNKNOWN, saw=saw, hint=hint)


def worst(checks: list[Check]) -> Status:
    """The gravest status of all."""
    return max((check.status for check in checks), key=GRAVITY.__getitem__, default=Status.OK)
