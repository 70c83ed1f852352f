"""The lease: a session-level advisory lock that the acting session itself holds, so that a server has one actor.

An advisory lock belongs to one database, so a session in another database than it should be in never leads, and who
leads has looked for holders of the key in all databases. Behind a pooler the lock would
belong to a session that other clients use, so such a session never leads either. A holder that sends no more statements
loses the lease through idle_session_timeout, by the server's own clock.
"""

import secrets
import time
from dataclasses import replace
from typing import NamedTuple

from watchdog.core.acting.status import DisarmReason, KeyHolder, Lease
from watchdog.postgres.session import Session
from watchdog.postgres.statements import Statement

SPACE, KEY = 0x70677764, 1
"""The two integer keys of the lock: 'pgwd' in ASCII, and the version of what the lock protects."""

LOCK = {"space": SPACE, "key": KEY}
"""The two keys as the parameters of a statement."""

READ_AGAIN = 5.0
"""Seconds after which a leader looks again for others that hold the key and could signal."""

MOST_PAUSES = 3
"""The most calls for which a session does not try to take the lease after it has let go of it for another one."""


class LeaseRow(NamedTuple):
    """Whether our session has acquired the lock."""

    acquired: bool


class LeaseHolderRow(NamedTuple):
    """One holder of the key in any database; without one, a single row whose `held` is False.

    `here` is True if it is held in our own database. `holder_pid` is NULL if a prepared transaction holds it, `gid` is
    that one's identifier. `may_signal` is True for a session whose role could cancel others' queries.
    """

    own_pid: int
    held: bool
    here: bool
    database: int | None
    holder_pid: int | None
    holder_usesysid: int | None
    gid: str | None
    may_signal: bool


class LeaseMemberRow(NamedTuple):
    """A role that may cancel the queries of a login role because it is a member of it."""

    member: int


class LeaseReleaseRow(NamedTuple):
    """Whether our session held the lock."""

    released: bool


LEASE = Statement("lease", LeaseRow)
LEASE_HOLDER = Statement("lease_holder", LeaseHolderRow)
LEASE_MEMBERS = Statement("lease_members", LeaseMemberRow)
LEASE_RELEASE = Statement("lease_release", LeaseReleaseRow)


async def take_lease(session: Session, *, database: str) -> Lease:
    """Take the lease if it is free and our session does not hold it already. Otherwise say who holds it.

    An advisory lock belongs to one database, and another pgwatchdog may be configured with another one. So whoever has
    taken the key looks who holds it elsewhere, and lets go of it for a random number of calls if that session could
    signal. Of two that take it at once, at least one sees the other.

    Raises:
        ReadError: a statement failed; `reason` says why.

    """
    disarm_reason = _unfit(session, database=database)
    if disarm_reason is not None:
        return Lease(leads=False, disarm_reason=disarm_reason)
    if session.holds_lease and time.monotonic() - session.lease_read_at < READ_AGAIN:
        return Lease(leads=True)
    if session.lease_pause:
        session.lease_pause -= 1
        return await read_lease(session, database=database)
    if not session.holds_key:
        [row] = await session.rows(LEASE, LOCK)
        session.holds_key = row.acquired
    return await _led(session, await read_lease(session, database=database))


async def _led(session: Session, lease: Lease) -> Lease:
    """What it means for our session who holds the key elsewhere: it leads, or it lets go of the key."""
    if session.behind_pooler:
        session.holds_key = session.holds_lease = False  # whose session holds it now, nobody knows
    if not session.holds_key:
        return lease
    if lease.held_by_other:
        await release_lease(session)
        session.lease_pause = secrets.randbelow(MOST_PAUSES + 1)
        return lease
    led, session.holds_lease = session.holds_lease, True
    session.lease_read_at = time.monotonic()
    return replace(lease, leads=True, just_acquired=not led, disarm_reason=None)


async def read_lease(session: Session, *, database: str) -> Lease:
    """Read from `pg_locks` who holds the lease.

    Raises:
        ReadError: a statement failed; `reason` says why.

    """
    disarm_reason = _unfit(session, database=database)
    if disarm_reason is not None:
        return Lease(leads=False, disarm_reason=disarm_reason)
    rows = await session.rows(LEASE_HOLDER, LOCK)
    if rows[0].own_pid != session.own_pid:
        session.behind_pooler = True
        return Lease(leads=False, disarm_reason=DisarmReason.BEHIND_POOLER)
    holders = await _with_members(session, [row for row in rows if row.held])
    others = [row for row in holders if row.holder_pid != row.own_pid]
    session.holds_key = any(row.here and row.holder_pid == row.own_pid for row in holders)
    session.holds_lease &= session.holds_key
    ignored = tuple(_holder(row) for row in others if not (row.here or row.may_signal))
    rival = next((row for row in others if row.here or row.may_signal), None)
    if rival is None and session.holds_lease:
        return Lease(leads=True, ignored=ignored)
    if rival is None:  # it is free, or has just been released; the next look tries to take it
        return Lease(leads=False, disarm_reason=DisarmReason.NOT_LEADER, ignored=ignored)
    return Lease(
        leads=False,
        disarm_reason=DisarmReason.NOT_LEADER if rival.may_signal else DisarmReason.LEASE_TAKEN,
        holder=_holder(rival),
        ignored=ignored,
    )


async def _with_members(session: Session, holders: list[LeaseHolderRow]) -> list[LeaseHolderRow]:
    """The holders, where a member of a login role counts as one that could signal, because it may cancel its queries.

    That needs a catalog which may be locked, so it is asked only where somebody holds the key who could not signal.
    """
    others = [row for row in holders if row.holder_pid is not None and not (row.may_signal or row.here)]
    unsure = sorted({oid for row in others if (oid := row.holder_usesysid) is not None})
    if not unsure:
        return holders
    members = {row.member for row in await session.rows(LEASE_MEMBERS, {"roles": unsure})}
    return [row._replace(may_signal=row.may_signal or row.holder_usesysid in members) for row in holders]


def _holder(row: LeaseHolderRow) -> KeyHolder:
    return KeyHolder(
        pid=row.holder_pid, role=row.holder_usesysid, database=None if row.here else row.database, prepared=row.gid
    )


async def release_lease(session: Session) -> None:
    """Release the lease if this session holds it.

    Raises:
        ReadError: a statement failed; `reason` says why.

    """
    if session.holds_key:
        session.holds_lease = False
        await session.rows(LEASE_RELEASE, LOCK)
        session.holds_key = False


def _unfit(session: Session, *, database: str) -> DisarmReason | None:
    if session.behind_pooler:
        return DisarmReason.BEHIND_POOLER
    return None if session.connection.info.dbname == database else DisarmReason.OTHER_DATABASE
