"""Job keys: what `application_name` says about the work that a session does.

Owns the pattern language and the reading of names. A name is a claim of its own session; what it
may cost whom is decided elsewhere.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from ipaddress import ip_address

from watchdog.core.observed.activity import Clock

NAME_LIMIT = 63
"""The server cuts application_name at 63 bytes (NAMEDATALEN - 1), silently."""

FIRST_YEAR, LAST_YEAR = 2000, 2100

DEFAULT_PATTERN = "scan:{job}:{window}"
FIELDS = ("job", "window", "deadline")

_POOLERS_SUFFIX = re.compile(r"(?P<name>.*) - (?P<client>(?P<address>[^ ]+):[0-9]*)", re.DOTALL)
_POOLERS_UNIX = re.compile(r"unix(?:\([0-9]+\))?")
_FIELD = re.compile(r"\{([^{}]*)\}")


class PatternError(ValueError):
    """A job pattern that cannot be used; the message says what is wrong and what to write."""


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """A job and its window, as one session's name gives them; window is '' where the pattern has none."""

    job: str
    window: str


class NoKey(Enum):
    """Why a name gives no key: it does not look like one, or it does and cannot be trusted."""

    NOT_A_KEY = "not_a_key"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class JobPattern:
    """`scan:{job}:{window}` made ready for matching. A field never holds the separator behind it."""

    text: str
    prefix: str
    expression: re.Pattern[str]

    def read(self, name: str) -> tuple[JobKey, datetime | None] | NoKey:
        """The key that `name` carries, and the caller's deadline. What is cut, ambiguous or incomplete is unusable."""
        match = self.expression.fullmatch(name)
        if match is None:
            alike = bool(self.prefix) and name.startswith(self.prefix)
            return NoKey.UNUSABLE if alike else NoKey.NOT_A_KEY
        # Servers before 16 write '?' for every byte outside ASCII: two names can have become one.
        if len(name.encode()) >= NAME_LIMIT or "?" in name:
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
    """A budget as configured, for one role or one job; what is None is taken from the book."""

    limit: timedelta
    grace: timedelta | None = None
    holding: timedelta | None = None
    clock: Clock | None = None
    detached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRule:
    """One entry under `budgets.jobs`. Without `copies` and `retry_gap` copies are shown, never judged."""

    pattern: JobPattern
    roles: frozenset[str] = frozenset()
    copies: int | None = None
    retry_gap: timedelta | None = None
    budgets: Mapping[str, BudgetSpec] = field(default_factory=dict)

    def budget_spec(self, job: str) -> tuple[str, BudgetSpec] | None:
        """The job's own budget or the one for `*`, with the name under which it is configured."""
        for name in (job, "*"):
            if name in self.budgets:
                return name, self.budgets[name]
        return None


@dataclass(frozen=True, slots=True)
class JobClaim:
    """A usable key, and the rule whose pattern read it."""

    key: JobKey
    rule: JobRule
    deadline: datetime | None = None
    """When the caller stops waiting, by its own clock."""


def parse_pattern(text: str) -> JobPattern:
    """Make a pattern from its configured text.

    Raises:
        PatternError: no `{job}`, an unknown or repeated field, or two fields without a separator.

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
    """Read a session's name with the first rule whose pattern fits it; what a pooler put behind it is taken off."""
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
    """Seconds since 1970 as an instant; None for anything else, and for what lies outside of this century."""
    try:
        found = datetime.fromtimestamp(float(text), tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return found if FIRST_YEAR <= found.year < LAST_YEAR else None


def split_client(name: str) -> tuple[str, str | None]:
    """A name without what PgBouncer's application_name_add_host has put behind it, and that: the true client."""
    match = _POOLERS_SUFFIX.fullmatch(name)
    if match is None or not (_POOLERS_UNIX.fullmatch(match["address"]) or _is_address(match["address"])):
        return name, None
    return match["name"], match["client"]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


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
