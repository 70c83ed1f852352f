"""Job keys: what `application_name` says about the work of a session.

This module owns the syntax of patterns and the parsing of names. It does not decide what follows from a job key. A
session can set any name, so a job key is a claim and no proof.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum

from watchdog.core.observed.activity import Clock
from watchdog.core.observed.names import MIN_CUT, NameTable, matches, split_client

FIRST_YEAR, LAST_YEAR = 2000, 2100
"""Years from which and before which a deadline must lie to be accepted."""

DEFAULT_PATTERN = "scan:{job}:{window}"
FIELDS = ("job", "window", "deadline")

_FIELD = re.compile(r"\{([^{}]*)\}")


class PatternError(ValueError):
    """A job pattern that cannot be used. The message says what is wrong and what to write instead."""


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """A job and its window, as read from a session's name. `window` is '' if the pattern has no window."""

    job: str
    window: str


class NoKey(Enum):
    """Why a name has no usable job key: it does not look like one, or it looks like one and cannot be relied on."""

    NOT_A_KEY = "not_a_key"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class JobPattern:
    """A parsed pattern such as `scan:{job}:{window}`. A field's value never contains the separator that follows it."""

    text: str
    prefix: str
    expression: re.Pattern[str]

    def read(self, name: str) -> tuple[JobKey, datetime | None] | NoKey:
        """The job key in `name` and the caller's deadline, if any; or the reason why there is no usable key.

        A key is unusable if the name may be truncated, is ambiguous, matches only in part, or has no valid deadline.
        """
        match = self.expression.fullmatch(name)
        if match is None:
            alike = bool(self.prefix) and name.startswith(self.prefix)
            return NoKey.UNUSABLE if alike else NoKey.NOT_A_KEY
        # A server before 16 replaces each byte outside ASCII by '?', so two different names can look the same.
        if len(name.encode()) >= MIN_CUT or "?" in name:
            return NoKey.UNUSABLE
        found = match.groupdict()
        deadline = None
        if "deadline" in found:
            deadline = _instant(found["deadline"])
            if deadline is None:
                return NoKey.UNUSABLE
        return JobKey(found["job"], found.get("window", "")), deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpec:
    """A budget as configured for one role or one job. For a value of None, a default applies (see `BudgetBook`)."""

    limit: timedelta
    grace: timedelta | None = None
    holding: timedelta | None = None
    clock: Clock | None = None
    detached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRule:
    """One entry under `budgets.jobs`.

    `roles` are patterns of the roles to which the configuration binds the job. Without `copies`, the job's copies are
    counted and none is a duplicate. A run can be superseded only if both `copies` and `retry_gap` are set.
    """

    pattern: JobPattern
    roles: frozenset[str] = frozenset()
    copies: int | None = None
    retry_gap: timedelta | None = None
    budgets: Mapping[str, BudgetSpec] = field(default_factory=dict)
    _by_pattern: NameTable[BudgetSpec] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the table of the jobs' budgets."""
        object.__setattr__(self, "_by_pattern", NameTable(self.budgets))

    def binds(self, role: str) -> bool:
        """True if the configuration binds the job to this role, so that its sessions' job keys can be trusted."""
        return role in self.roles or matches(role, self.roles)

    def budget_spec(self, job: str) -> tuple[str, BudgetSpec] | None:
        """The job's budget, with the pattern under which it is configured; None without one."""
        pattern = self._by_pattern.pattern_of(job)
        return None if pattern is None else (pattern, self.budgets[pattern])


@dataclass(frozen=True, slots=True)
class JobClaim:
    """A usable job key, and the rule whose pattern matched."""

    key: JobKey
    rule: JobRule
    deadline: datetime | None = None
    """The time at which the caller stops waiting, by the caller's clock; None if the name states none."""


def parse_pattern(text: str) -> JobPattern:
    """Parse the configured text of a pattern.

    Raises:
        PatternError: `{job}` is missing, a field is unknown or repeated, or two fields have no separator.

    """
    pieces = _FIELD.split(text)
    literals, fields = pieces[::2], pieces[1::2]
    _check(text, literals=literals, fields=fields)
    source = re.escape(literals[0])
    for name, separator in zip(fields, literals[1:], strict=True):
        body = f"(?:(?!{re.escape(separator)}).)+" if separator else ".+"
        source += f"(?P<{name}>{body}){re.escape(separator)}"
    return JobPattern(text, literals[0], re.compile(source, re.DOTALL))


def read_name(name: str, *, rules: Iterable[JobRule]) -> JobClaim | NoKey:
    """Read a session's name with the first rule whose pattern matches. The suffix of a pooler is removed first."""
    name, _ = split_client(name)
    result = NoKey.NOT_A_KEY
    for rule in rules:
        read = rule.pattern.read(name)
        if isinstance(read, tuple):
            return JobClaim(read[0], rule, read[1])
        if read is NoKey.UNUSABLE:
            result = read
    return result


def _instant(text: str) -> datetime | None:
    """A text of seconds since 1970 as an instant; None if it is no number or lies outside of the accepted years."""
    try:
        found = datetime.fromtimestamp(float(text), tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return found if FIRST_YEAR <= found.year < LAST_YEAR else None


def _check(text: str, *, literals: list[str], fields: list[str]) -> None:
    if "job" not in fields:
        raise PatternError(f"pattern {text!r} has no {{job}} field; write for example {DEFAULT_PATTERN!r}")
    for name in fields:
        if name not in FIELDS:
            raise PatternError(
                f"pattern {text!r} has an unknown field {{{name}}}; known are {{job}}, {{window}}, {{deadline}}"
            )
        if fields.count(name) > 1:
            raise PatternError(f"pattern {text!r} has the field {{{name}}} twice")
    if any(not separator for separator in literals[1:-1]):
        raise PatternError(f"pattern {text!r} needs a separator between its fields, for example {DEFAULT_PATTERN!r}")
