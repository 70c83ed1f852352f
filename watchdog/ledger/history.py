"""Reading the ledger: which acts are wanted, and each of them as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Select, select

from watchdog.ledger.tables import ACTS

MAX_SHOWN = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which acts: every field that is given must be equal, `since` is the earliest, `limit` the most, newest first."""

    server: str | None = None
    rule: str | None = None
    role: str | None = None
    job: str | None = None
    hand: str | None = None
    result: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    limit: int = MAX_SHOWN


def query_of(wanted: Wanted) -> Select[Any]:  # rows as the database has them
    """The statement that reads them."""
    query = select(ACTS)
    for each in fields(Wanted):
        value = getattr(wanted, each.name)
        if value is not None and each.name in ACTS.c:
            query = query.where(ACTS.c[each.name] == value)
    if wanted.since is not None:
        query = query.where(ACTS.c.intended_at >= wanted.since)
    return query.order_by(ACTS.c.intended_at.desc(), ACTS.c.id.desc()).limit(wanted.limit)


def as_values(row: Mapping[str, Any]) -> dict[str, object]:  # as above
    """An act for JSON: instants in ISO 8601, evidence as a list, unknown as null."""
    values = {
        name: value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value for name, value in row.items()
    }
    return values | {"evidence": [each for each in str(row["evidence"]).split(",") if each]}
