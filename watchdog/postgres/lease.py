"""The lease: a session-level advisory lock that the acting session itself holds, so that a server has one actor.

An advisory lock belongs to one database, so a session in another database never leads. Behind a pooler the lock would
belong to a session that other clients use, so such a session never leads either. A holder that sends no more statements
loses the lease through idle_session_timeout, by the server's own clock.
"""

from typing import NamedTuple

from watchdog.core.acting.status import DisarmReason, Lease
from watchdog.postgres.dial import APPLICATION_NAME
from watchdog.postgres.session import Session
from watchdog.postgres.statements import Statement

SPACE, KEY = 0x70677764, 1
"""The two integer keys of the lock: 'pgwd' in ASCII, and the version of what the lock protects."""

LOCK = {"space": SPACE, "key": KEY}
"""The two keys as the parameters of a statement."""


class LeaseRow(NamedTuple):
    """Whether our session has acquired the lock."""

    acquired: bool


class LeaseHolderRow(NamedTuple):
    """Who holds the lock. The `holder_` fields are NULL if nobody does, or if a prepared transaction does."""

    own_pid: int
    held: bool
    holder_pid: int | None
    holder_usesysid: int | None
    holder_application_name: str | None


class LeaseReleaseRow(NamedTuple):
    """Whether our session held the lock."""

    released: bool


LEASE = Statement("lease", LeaseRow)
LEASE_HOLDER = Statement("lease_holder", LeaseHolderRow)
LEASE_RELEASE = Statement("lease_release", LeaseReleaseRow)


async def take_lease(session: Session, *, database: str) -> Lease:
    """Take the lease if it is free and our session does not hold it already. Otherwise say who holds it.

    Raises:
        ReadError: a statement failed; `reason` says why.

    """
    disarm_reason = _unfit(session, database=database)
    if disarm_reason is not None:
        return Lease(leads=False, disarm_reason=disarm_reason)
    if session.holds_lease:
        return Lease(leads=True)
    [row] = await session.rows(LEASE, LOCK)
    session.holds_lease = row.acquired
    return Lease(leads=True, just_acquired=True) if row.acquired else await read_lease(session, database=database)


async def read_lease(session: Session, *, database: str) -> Lease:
    """Read from `pg_locks` who holds the lease.

    Raises:
        ReadError: a statement failed; `reason` says why.

    """
    disarm_reason = _unfit(session, database=database)
    if disarm_reason is not None:
        return Lease(leads=False, disarm_reason=disarm_reason)
    row = (await session.rows(LEASE_HOLDER, LOCK))[0]
    if row.own_pid != session.own_pid:
        session.behind_pooler = True
        return Lease(leads=False, disarm_reason=DisarmReason.BEHIND_POOLER)
    session.holds_lease = row.holder_pid == row.own_pid
    if session.holds_lease:
        return Lease(leads=True)
    if not row.held:  # it has just been released; the next look tries to take it
        return Lease(leads=False, disarm_reason=DisarmReason.NOT_LEADER)
    ours = row.holder_application_name == APPLICATION_NAME
    return Lease(
        leads=False,
        disarm_reason=DisarmReason.NOT_LEADER if ours else DisarmReason.LEASE_TAKEN,
        holder_pid=row.holder_pid,
        holder_role=row.holder_usesysid,
        held_by_other=True,
    )


async def release_lease(session: Session) -> None:
    """Release the lease if this session holds it.

    Raises:
        ReadError: a statement failed; `reason` says why.

    """
    if session.holds_lease:
        await session.rows(LEASE_RELEASE, LOCK)
        session.holds_lease = False


def _unfit(session: Session, *, database: str) -> DisarmReason | None:
    if session.behind_pooler:
        return DisarmReason.BEHIND_POOLER
    return None if session.connection.info.dbname == database else DisarmReason.OTHER_DATABASE
