"""The lease: at most one actor per server, by a session advisory lock that the acting session itself holds.

The lock lives in one database, so a session in another never leads. Behind a pooler the lock would be somebody
else's session. A holder that has fallen silent loses it by the server's own clock, through idle_session_timeout.
"""

from typing import cast

from watchdog.core.acting.status import DisarmReason, Lease
from watchdog.postgres.dial import APPLICATION_NAME
from watchdog.postgres.session import Session

SPACE, KEY = 0x70677764, 1
"""The two integers of the lock: 'pgwd', and the version of what it protects."""

LOCK = {"space": SPACE, "key": KEY}
"""As the parameters of a statement."""


async def take_lease(session: Session, *, database: str) -> Lease:
    """Take the lease if it is free and not ours already.

    Raises:
        ReadError: the session could not be asked.

    """
    disarm_reason = _unfit(session, database=database)
    if disarm_reason is not None:
        return Lease(leads=False, disarm_reason=disarm_reason)
    if session.holds_lease:
        return Lease(leads=True)
    [(taken,)] = await session.rows("lease", LOCK)
    session.holds_lease = bool(taken)
    return Lease(leads=True, just_acquired=True) if taken else await read_lease(session, database=database)


async def read_lease(session: Session, *, database: str) -> Lease:
    """Read again who holds the lease, from the server's own list of locks.

    Raises:
        ReadError: the session could not be asked.

    """
    disarm_reason = _unfit(session, database=database)
    if disarm_reason is not None:
        return Lease(leads=False, disarm_reason=disarm_reason)
    rows = await session.rows("lease_holder", LOCK)
    own, taken, holder, role, name = cast("tuple[int, bool, int | None, int | None, str | None]", rows[0])
    if own != session.own_pid:
        session.behind_pooler = True
        return Lease(leads=False, disarm_reason=DisarmReason.BEHIND_POOLER)
    session.holds_lease = holder == own
    if session.holds_lease:
        return Lease(leads=True)
    if not taken:  # it has just been given up: the next look takes it
        return Lease(leads=False, disarm_reason=DisarmReason.NOT_LEADER)
    ours = name == APPLICATION_NAME
    disarm_reason = DisarmReason.NOT_LEADER if ours else DisarmReason.LEASE_TAKEN
    return Lease(leads=False, disarm_reason=disarm_reason, holder_pid=holder, holder_role=role, held_by_other=True)


async def release_lease(session: Session) -> None:
    """Let go of the lease, if this session holds it.

    Raises:
        ReadError: the session could not be asked.

    """
    if session.holds_lease:
        session.holds_lease = False
        await session.rows("lease_release", LOCK)


def _unfit(session: Session, *, database: str) -> DisarmReason | None:
    if session.behind_pooler:
        return DisarmReason.BEHIND_POOLER
    return None if session.connection.info.dbname == database else DisarmReason.OTHER_DATABASE
