"""Taking a census: several short statements, each with the session's deadline."""

from typing import cast

from watchdog.core.census import Census
from watchdog.postgres.session import Session


async def take_census(session: Session) -> Census:
    """Read names, rights and what is out of sight.

    Raises:
        ReadError: any of the statements failed; half a census is none.

    """
    roles = cast("list[tuple[int, str, bool, bool]]", await session.rows("census_roles"))
    databases = cast("list[tuple[int, str]]", await session.rows("census_databases"))
    [sessions] = await session.rows("census_sessions")
    hidden, hidden_roles, tracking_off, used, most, sees_all, may_cancel_all = cast(
        "tuple[int, list[int] | None, int, int, int, bool, bool]", sessions
    )
    names = {oid: name for oid, name, _, _ in roles}
    return Census(
        server_version=session.server_version,
        sees_all=sees_all,
        behind_pooler=session.behind_pooler,
        roles=names,
        databases=dict(databases),
        superusers=frozenset(name for _, name, superuser, _ in roles if superuser),
        hidden=hidden,
        hidden_roles=frozenset(names[oid] for oid in hidden_roles or () if oid in names),
        tracking_off=tracking_off,
        connections_used=used,
        connections_max=most,
        may_cancel_all=may_cancel_all,
        may_cancel=frozenset(name for _, name, _, member in roles if member),
    )
