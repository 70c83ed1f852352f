"""Takes a census by several short statements, each with the session's deadline.

It knows the columns of the `sql/census_*.sql` statements. It does not judge what it reads.
"""

from datetime import timedelta
from typing import NamedTuple

from watchdog.core.observed.activity import UNKNOWN
from watchdog.core.observed.census import Census, DatabaseWork
from watchdog.core.observed.stored_settings import OTHERS, UNITS, Stored, StoredSettings
from watchdog.errors import ReadError
from watchdog.postgres.session import Session
from watchdog.postgres.statements import Statement


class RoleRow(NamedTuple):
    """One role. `may_cancel` is true if it can log in and we may cancel its queries because we are a member of it."""

    oid: int
    rolname: str
    rolsuper: bool
    may_cancel: bool


class DatabaseRow(NamedTuple):
    """One database. `active_seconds` is `active_time` of `pg_stat_database`, which is in milliseconds there."""

    oid: int
    datname: str
    active_seconds: float
    sessions_abandoned: int


class SessionsRow(NamedTuple):
    """Counts of sessions, and our privileges. `hidden_usesysids` are the roles of the hidden ones, NULL for none."""

    hidden: int
    hidden_usesysids: list[int] | None
    tracking_off: int
    connections_used: int
    max_connections: int
    sees_all: bool
    may_cancel_all: bool
    may_read_identity: bool


class IdentityRow(NamedTuple):
    """The system identifier of the cluster."""

    system_identifier: int


class StoredRow(NamedTuple):
    """One `name=value` that is stored for a database, a role or both. NULL means every database or every role."""

    datname: str | None
    rolname: str | None
    line: str


class SettingRow(NamedTuple):
    """One setting with the value that our session started with, and the role and database of our session."""

    name: str
    reset_val: str | None
    rolname: str
    datname: str


CENSUS_ROLES = Statement("census_roles", RoleRow)
CENSUS_DATABASES = Statement("census_databases", DatabaseRow)
CENSUS_SESSIONS = Statement("census_sessions", SessionsRow)
CENSUS_IDENTITY = Statement("census_identity", IdentityRow)
CENSUS_STORED = Statement("census_stored", StoredRow)
CENSUS_SETTINGS = Statement("census_settings", SettingRow)


async def take_census(session: Session) -> Census:
    """Read names, privileges, stored settings, and how many sessions are hidden from us.

    Raises:
        ReadError: one of the statements failed. A partial census is not returned.

    """
    roles = await session.rows(CENSUS_ROLES)
    databases = await session.rows(CENSUS_DATABASES)
    settings = await read_settings(session)
    [sessions] = await session.rows(CENSUS_SESSIONS)
    names = {role.oid: _told_apart(role.rolname) for role in roles}
    return Census(
        server_version=session.server_version,
        sees_all=sessions.sees_all,
        behind_pooler=session.behind_pooler,
        roles=names,
        databases={each.oid: _told_apart(each.datname) for each in databases},
        superusers=frozenset(names[role.oid] for role in roles if role.rolsuper),
        hidden=sessions.hidden,
        hidden_roles=frozenset(names[oid] for oid in sessions.hidden_usesysids or () if oid in names),
        tracking_off=sessions.tracking_off,
        connections_used=sessions.connections_used,
        connections_max=sessions.max_connections,
        may_cancel_all=sessions.may_cancel_all,
        may_cancel_superusers=any(role.oid == session.own_role and role.rolsuper for role in roles),
        settings=settings,
        work={
            _told_apart(each.datname): DatabaseWork(timedelta(seconds=each.active_seconds), each.sessions_abandoned)
            for each in databases
        },
        may_cancel=frozenset(names[role.oid] for role in roles if role.may_cancel),
        system_identifier=await _system_identifier(session) if sessions.may_read_identity else None,
    )


async def _system_identifier(session: Session) -> int | None:
    """The cluster's system identifier, or None if it cannot be read. That is counted and costs no census."""
    try:
        [row] = await session.rows(CENSUS_IDENTITY)
    except ReadError:
        if session.connection.closed:
            raise
        return None
    return row.system_identifier


def _told_apart(name: str) -> str:
    """The name of a role or database, in quotes where it is the word for a name that is not known."""
    return f'"{name}"' if name == UNKNOWN else name


async def read_settings(session: Session) -> StoredSettings:
    """The settings stored for roles and databases, and the server's own values.

    A server value is None if a setting stored for our role or our database hides it.

    Raises:
        ReadError: a statement failed; `reason` says why.

    """
    names = [*UNITS, *OTHERS]
    lines = await session.rows(CENSUS_STORED)
    own = await session.rows(CENSUS_SETTINGS, (names,))
    stored = [
        Stored(row.datname, row.rolname, name, text)
        for row in lines
        for name, _, text in (row.line.partition("="),)
        if name in names
    ]
    server = {row.name: None if any(_concerns(each, row) for each in stored) else row.reset_val for row in own}
    return StoredSettings(tuple(stored), server)


def _concerns(stored: Stored, own: SettingRow) -> bool:
    return stored.name == own.name and stored.role in {None, own.rolname} and stored.database in {None, own.datname}
