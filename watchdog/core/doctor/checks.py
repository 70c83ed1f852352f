"""The words of the audit: a check has a name, a status, the facts that it saw, and a hint."""

from dataclasses import dataclass
from enum import StrEnum

from watchdog.core.doctor.changes import Remedy


class Status(StrEnum):
    """How a check ended, gravest last but for `unknown`, which is what could not be told."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    FAILED = "failed"


GRAVITY = {status: rank for rank, status in enumerate(Status)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One result. `scope` is `cluster`, `role NAME` or `role NAME in DATABASE`; `remedies` close the gap."""

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
    """A check that found nothing to say."""
    return Check(name=name, scope=scope, status=Status.OK, saw=saw)


def warning(name: str, saw: str, hint: str, *, scope: str = "cluster", remedies: tuple[Remedy, ...] = ()) -> Check:
    """Something that should be different."""
    return Check(name=name, scope=scope, status=Status.WARNING, saw=saw, hint=hint, remedies=remedies)


def failed(name: str, saw: str, hint: str, *, scope: str = "cluster", remedies: tuple[Remedy, ...] = ()) -> Check:
    """Something that makes orphans, or keeps us from seeing them."""
    return Check(name=name, scope=scope, status=Status.FAILED, saw=saw, hint=hint, remedies=remedies)


def unknown(name: str, saw: str, hint: str, *, scope: str = "cluster") -> Check:
    """Something that could not be told."""
    return Check(name=name, scope=scope, status=Status.UNKNOWN, saw=saw, hint=hint)


def worst(checks: list[Check]) -> Status:
    """The gravest status of all."""
    return max((check.status for check in checks), key=GRAVITY.__getitem__, default=Status.OK)
