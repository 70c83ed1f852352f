"""Settings that the server stores for roles and databases, and the value that a new session gets.

The order of precedence is: role in database, role, database, every role (ALTER ROLE ALL), server. A value is parsed
from the text as it was stored; a number without a unit is in the setting's own unit. An open session keeps the value
that it started with, and any session can change its own value. So a stored value does not show what one session uses.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

MILLISECOND, SECOND = timedelta(milliseconds=1), timedelta(seconds=1)

UNITS: Mapping[str, timedelta] = {
    "statement_timeout": MILLISECOND,
    "transaction_timeout": MILLISECOND,
    "idle_in_transaction_session_timeout": MILLISECOND,
    "idle_session_timeout": MILLISECOND,
    "lock_timeout": MILLISECOND,
    "client_connection_check_interval": MILLISECOND,
    "tcp_user_timeout": MILLISECOND,
    "tcp_keepalives_idle": SECOND,
    "tcp_keepalives_interval": SECOND,
    "max_standby_streaming_delay": MILLISECOND,
}
"""The settings that are time spans, with the unit of a number that has none (`pg_settings.unit`)."""

OTHERS = (
    "track_activities",
    "compute_query_id",
    "reserved_connections",
    "superuser_reserved_connections",
    "allow_alter_system",
    "port",
)
"""The other settings that are read. None of them is a time span."""

_SPAN = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(us|ms|s|min|h|d)?\s*")
_LENGTHS = {
    "us": timedelta(microseconds=1),
    "ms": MILLISECOND,
    "s": SECOND,
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored setting. A `database` of None stands for every database, a `role` of None for every role."""

    database: str | None
    role: str | None
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Effective:
    """The value that a new session gets, and its origin.

    `where` is `role in database`, `role`, `database`, `every role` or `server`. `text` is None if the server's own
    value is not known, because a setting stored for pgwatchdog's own role or database hides it.
    """

    text: str | None
    where: str

    def span(self, name: str) -> timedelta | None:
        """The value of setting `name` as a time span. A timeout of 0 is off.

        The result is None if the value is not known or cannot be parsed.
        """
        return None if self.text is None else parse_span(self.text, unit=UNITS[name])


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """Everything that one server stores for roles and databases, and the server's own values."""

    stored: tuple[Stored, ...] = ()
    server: Mapping[str, str | None] = field(default_factory=dict)
    """The server's own values by name. A value is None if a setting stored for pgwatchdog's own role or database hides
    it. A name is missing if the server does not have this setting."""

    def effective(self, name: str, *, role: str | None, database: str | None) -> Effective:
        """The value of `name` for a new session of `role` in `database`.

        A `role` or `database` of None stands for one for which nothing is stored.
        """
        levels: list[tuple[str, str | None, str | None]] = []
        if role is not None and database is not None:
            levels.append(("role in database", database, role))
        if role is not None:
            levels.append(("role", None, role))
        if database is not None:
            levels.append(("database", database, None))
        for where, *wanted in (*levels, ("every role", None, None)):
            found = self._stored(name, *wanted)
            if found is not None:
                return Effective(found, where)
        return Effective(self.server.get(name), "server")

    def databases_of(self, role: str, *, names: Iterable[str]) -> list[str]:
        """The databases for which a value of one of `names` is stored that applies to `role`."""
        wanted = set(names)
        return sorted(
            {
                each.database
                for each in self.stored
                if each.database is not None and each.name in wanted and each.role in {None, role}
            }
        )

    def _stored(self, name: str, database: str | None, role: str | None) -> str | None:
        return next(
            (each.text for each in self.stored if (each.database, each.role, each.name) == (database, role, name)), None
        )


def parse_span(text: str, *, unit: timedelta) -> timedelta | None:
    """The text of a setting as a time span. A number without a unit is in `unit`.

    The result is None if the text is not a decimal number with an optional unit.
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    try:
        return float(match[1]) * (_LENGTHS[match[2]] if match[2] else unit)
    except OverflowError:
        return timedelta.max
