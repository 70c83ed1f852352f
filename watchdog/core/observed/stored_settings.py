"""Settings as the server stores them for roles and databases, and which of them a new session gets.

A setting for a role in a database beats one for the role, that one the database's, that one the server's. Values are
read from the text as it was stored, in the setting's own unit where it names none. A session that is open keeps what it
began with, and a session may set its own: what is stored proves nothing about a single session.
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
"""The settings that are spans of time, with the unit of a bare number (pg_settings.unit)."""

OTHERS = (
    "track_activities",
    "compute_query_id",
    "reserved_connections",
    "superuser_reserved_connections",
    "allow_alter_system",
    "port",
)
"""Further settings that matter and are no spans."""

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
    """One stored setting; None stands for every database, or every role."""

    database: str | None
    role: str | None
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Effective:
    """What a new session gets, and from where: `role in database`, `role`, `database`, `every role` or `server`.

    `text` is None where the server's own value could not be told from our session's.
    """

    text: str | None
    where: str

    def span(self, name: str) -> timedelta | None:
        """The value as a span of time, 0 for off; None where it is not known or makes no sense."""
        return None if self.text is None else parse_span(self.text, unit=UNITS[name])


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """Everything stored on one server, and the server's own values as far as they are known."""

    stored: tuple[Stored, ...] = ()
    server: Mapping[str, str | None] = field(default_factory=dict)
    """By name; None where our own session's value hides it. What is not here the server does not have."""

    def effective(self, name: str, *, role: str | None, database: str | None) -> Effective:
        """What a new session of `role` in `database` gets; None for either: as far as nothing more is stored for it."""
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
        """The databases in which something else is stored for `names` than for the role in general."""
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
    """A setting's text as a span; a bare number is in `unit`. None for what the server would not accept either."""
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    try:
        return float(match[1]) * (_LENGTHS[match[2]] if match[2] else unit)
    except OverflowError:
        return timedelta.max
