"""Reading what the doctor wants to know: a few short statements, each with the session's deadline."""

from datetime import timedelta
from typing import cast

from watchdog.core.acting.status import Lease
from watchdog.core.doctor.facts import Facts, OwnRole, Prepared, RoleFacts
from watchdog.core.present.look import Look
from watchdog.postgres.session import Row, Session


async def read_facts(
    session: Session, look: Look, *, lease: Lease, silence: timedelta, variables: tuple[str, ...]
) -> Facts:
    """The facts of one server.

    Raises:
        ReadError: with the reason.

    """
    [own] = await session.rows("facts_own")
    [server] = await session.rows("facts_server")
    count, oldest, conflicts, names = cast("tuple[int, float | None, int, list[str]]", server)
    roles = cast("list[tuple[str, bool, bool, bool, int]]", await session.rows("facts_roles"))
    pairs = cast("list[tuple[str, str]]", await session.rows("facts_set_role"))
    parameters = cast("list[tuple[str, str]]", await session.rows("facts_parameters"))
    return Facts(
        look=look,
        own=_own(own),
        roles=tuple(
            RoleFacts(name=name, can_login=login, inherits=inherits, superuser=superuser, connection_limit=limit)
            for name, login, inherits, superuser, limit in roles
        ),
        set_role=tuple(pairs),
        prepared=Prepared(count, None if oldest is None else timedelta(seconds=oldest)),
        parameters=dict(parameters),
        conflicts=conflicts,
        lease=lease,
        variables=variables,
        silence=silence,
        names=tuple(names),
    )


_OWN = (
    "name",
    "superuser",
    "create_role",
    "create_database",
    "replication",
    "bypass_rls",
    "connection_limit",
    "sessions",
    "reserved",
)


def _own(row: Row) -> OwnRole:
    return OwnRole(**dict(zip(_OWN, row, strict=True)))  # type: ignore[arg-type]  # the types are the statement's
