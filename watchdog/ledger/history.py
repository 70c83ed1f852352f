"""The query for acts that match a filter, and one act as JSON values. Opens no database."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Select, select

from watchdog.ledger.tables import ACTS

MAX_SHOWN = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A filter on acts. Columns that are given must be equal.

    `since` is the earliest time of intent. `limit` is the greatest number of acts, counted from the newest.
    """

    server: str | None = None
    rule: str | None = None
    role: str | None = None
    job: str | None = None
    hand: str | None = None
    result: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    limit: int = MAX_SHOWN


def query_of(wanted: Wanted, *, columns: Collection[str]) -> Select[Any]:  # the rows have the types of the database
    """The SELECT for the acts that match, newest first. `columns` are those that the table has."""
    query = select(*(column for column in ACTS.c if column.name in columns))
    for each in fields(Wanted):
        value = getattr(wanted, each.name)
        if value is not None and each.name in ACTS.c:
            query = query.where(ACTS.c[each.name] == value)
    if wanted.since is not None:
        query = query.where(ACTS.c.intended_at >= wanted.since)
    return query.order_by(ACTS.c.intended_at.desc(), ACTS.c.id.desc()).limit(wanted.limit)


def as_values(row: Mapping[str, Any]) -> dict[str, object]:  # as above
    """An act as JSON values: times in ISO 8601 and UTC, evidence as a list, NULL as null."""
    values = {
        name: value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value for name, value in row.items()
    }
    return values | {"evidence": [each for each in str(row["evidence"]).split(",") if each]}
