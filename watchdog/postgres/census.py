"""Taking a census: several short statements, each with the session's deadline."""

from datetime import timedelta
from typing import cast

from watchdog.core.observed.census import Census, DatabaseWork
from watchdog.core.observed.stored_settings import OTHERS, UNITS, Stored, StoredSettings
from watchdog.postgres.session import Session


async def take_census(session: Session) -> Census:
    """Read names, rights and what is out of sight.

    Raises:
        ReadError: any of the statements failed; half a census is none.

    """
    roles = cast("list[tuple[int, str, bool, bool]]", await session.rows("census_roles"))
    databases = cast("list[tuple[int, str, float, int]]", await session.rows("census_databases"))
    settings = await read_settings(session)
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
        databases={oid: name for oid, name, _, _ in databases},
        superusers=frozenset(name for _, name, superuser, _ in roles if superuser),
        hidden=hidden,
        hidden_roles=frozenset(names[oid] for oid in hidden_roles or () if oid in names),
        tracking_off=tracking_off,
        connections_used=used,
        connections_max=most,
        may_cancel_all=may_cancel_all,
        may_cancel_superusers=any(oid == session.own_role and superuser for oid, _, superuser, _ in roles),
        settings=settings,
        work={name: DatabaseWork(timedelta(seconds=active), abandoned) for _, name, active, abandoned in databases},
        may_cancel=frozenset(name for _, name, _, member in roles if member),
    )


async def read_settings(session: Session) -> StoredSettings:
    """What is stored for roles and databases, and the server's own values where our session does not hide them.

    Raises:
        ReadError: with the reason.

    """
    names = [*UNITS, *OTHERS]
    lines = cast("list[tuple[str | None, str | None, str]]", await session.rows("census_stored"))
    own = cast("list[tuple[str, str, str, str]]", await session.rows("census_settings", (names,)))
    stored = [
        Stored(database, role, name, text)
        for database, role, line in lines
        for name, _, text in (line.partition("="),)
        if name in names
    ]
    server = {
        name: None if any(_concerns(each, name, role=role, database=database) for each in stored) else value
        for name, value, role, database in own
    }
    return StoredSettings(tuple(stored), server)


def _concerns(stored: Stored, name: str, *, role: str, database: str) -> bool:
    return stored.name == name and stored.role in {None, role} and stored.database in {None, database}
