"""Turns the rows of a poll into a snapshot.

It knows the columns of `sql/activity.sql`. It knows nothing of budgets.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from watchdog.core.observed.activity import Backend, Moment, Snapshot
from watchdog.core.observed.census import Census
from watchdog.core.observed.sockets import endpoint_of
from watchdog.postgres.statements import Statement


class ActivityRow(NamedTuple):
    """One row of the poll. Ages are in seconds.

    On a header row without a backend `has_xid` is false, the ages are 0, and all else after `sees_all` is NULL.
    """

    at: datetime
    postmaster_start: datetime
    in_recovery: bool
    sees_all: bool
    pid: int | None
    backend_start: datetime | None
    usesysid: int | None
    datid: int | None
    application_name: str | None
    state: str | None
    wait_event_type: str | None
    wait_event: str | None
    query_start: datetime | None
    query_age: float | None
    xact_start: datetime | None
    xact_age: float | None
    state_change: datetime | None
    state_change_age: float | None
    has_xid: bool
    query_id: int | None
    client_addr: str | None
    client_port: int | None


ACTIVITY = Statement("activity", ActivityRow)


def snapshot_of(rows: Sequence[ActivityRow], *, census: Census) -> Snapshot:
    """The snapshot of one poll. `rows` has at least one row, because the header is always there."""
    head = rows[0]
    backends = tuple(
        _backend(row, pid=row.pid, started=row.backend_start, census=census)
        for row in rows
        if row.pid is not None and row.backend_start is not None
    )
    return Snapshot(
        at=head.at,
        postmaster_start=head.postmaster_start,
        in_recovery=head.in_recovery,
        sees_all=head.sees_all,
        backends=backends,
    )


def strangers(rows: Sequence[ActivityRow], *, census: Census) -> frozenset[int]:
    """The oids of roles and databases that the census does not name: created after it, or dropped."""
    roles = {row.usesysid for row in rows if row.usesysid is not None}
    databases = {row.datid for row in rows if row.datid is not None}
    return frozenset((roles - census.roles.keys()) | (databases - census.databases.keys()))


def _backend(row: ActivityRow, *, pid: int, started: datetime, census: Census) -> Backend:
    return Backend(
        pid=pid,
        started=started,
        role=census.role(row.usesysid),
        database=census.database(row.datid),
        application_name=row.application_name or "",
        state=row.state or "",
        wait_event_type=row.wait_event_type,
        wait_event=row.wait_event,
        query=_moment(row.query_start, row.query_age),
        transaction=_moment(row.xact_start, row.xact_age),
        changed=_moment(row.state_change, row.state_change_age),
        has_xid=row.has_xid,
        query_id=row.query_id,
        role_oid=row.usesysid,
        database_oid=row.datid,
        client=endpoint_of(row.client_addr, row.client_port),
    )


def _moment(at: datetime | None, age: float | None) -> Moment | None:
    return None if at is None or age is None else Moment(at, timedelta(seconds=age))
