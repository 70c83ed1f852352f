"""From rows of the poll to a snapshot. Knows the columns of `sql/activity.sql` and nothing of budgets."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from watchdog.core.observed.activity import Backend, Moment, Snapshot
from watchdog.core.observed.census import Census
from watchdog.core.observed.sockets import endpoint_of
from watchdog.postgres.session import Row


class Columns(NamedTuple):
    """The columns in the order of the statement; all but the first four are NULL on a bare header row."""

    at: datetime
    postmaster_start: datetime
    in_recovery: bool
    sees_all: bool
    pid: int | None
    started: datetime | None
    role: int | None
    database: int | None
    application_name: str | None
    state: str | None
    wait_event_type: str | None
    wait_event: str | None
    query_start: datetime | None
    query_age: float | None
    xact_start: datetime | None
    xact_age: float | None
    changed: datetime | None
    changed_age: float | None
    has_xid: bool
    query_id: int | None
    client_address: str | None
    client_port: int | None


def columns_of(rows: Sequence[Row]) -> list[Columns]:
    """The rows of one poll with their columns by name."""
    return [Columns(*row) for row in rows]  # type: ignore[arg-type]  # the types are the statement's


def snapshot_of(columns: Sequence[Columns], *, census: Census) -> Snapshot:
    """The snapshot behind one poll; there is always at least the header."""
    head = columns[0]
    backends = tuple(
        _backend(row, pid=row.pid, started=row.started, census=census)
        for row in columns
        if row.pid is not None and row.started is not None
    )
    return Snapshot(
        at=head.at,
        postmaster_start=head.postmaster_start,
        in_recovery=head.in_recovery,
        sees_all=head.sees_all,
        backends=backends,
    )


def strangers(columns: Sequence[Columns], *, census: Census) -> frozenset[int]:
    """The oids of roles and databases that the census does not name: younger than it, or dropped."""
    roles = {row.role for row in columns if row.role is not None}
    databases = {row.database for row in columns if row.database is not None}
    return frozenset((roles - census.roles.keys()) | (databases - census.databases.keys()))


def _backend(row: Columns, *, pid: int, started: datetime, census: Census) -> Backend:
    return Backend(
        pid=pid,
        started=started,
        role=census.role(row.role),
        database=census.database(row.database),
        application_name=row.application_name or "",
        state=row.state or "",
        wait_event_type=row.wait_event_type,
        wait_event=row.wait_event,
        query=_moment(row.query_start, row.query_age),
        transaction=_moment(row.xact_start, row.xact_age),
        changed=_moment(row.changed, row.changed_age),
        has_xid=row.has_xid,
        query_id=row.query_id,
        role_oid=row.role,
        client=endpoint_of(row.client_address, row.client_port),
    )


def _moment(at: datetime | None, age: float | None) -> Moment | None:
    return None if at is None or age is None else Moment(at, timedelta(seconds=age))
