"""Reads the facts that the doctor needs by a few short statements, each with the session's deadline.

It knows the columns of the `sql/facts_*.sql` statements. It does not judge what it reads.
"""

from datetime import timedelta
from typing import NamedTuple

from watchdog.core.acting.status import Lease
from watchdog.core.doctor.facts import Facts, OwnRole, Prepared, RoleFacts
from watchdog.core.present.look import Look
from watchdog.postgres.session import Session
from watchdog.postgres.statements import Statement


class OwnRow(NamedTuple):
    """Our own role. `may_use_reserved` is NULL before PostgreSQL 16."""

    rolname: str
    rolsuper: bool
    rolcreaterole: bool
    rolcreatedb: bool
    rolreplication: bool
    rolbypassrls: bool
    rolconnlimit: int
    sessions: int
    may_use_reserved: bool | None


class ServerRow(NamedTuple):
    """Counts for the whole server. `oldest_prepared_age` is that of the oldest prepared transaction, in seconds."""

    prepared_transactions: int
    oldest_prepared_age: float | None
    conflicts: int
    application_names: list[str]


class RoleFactsRow(NamedTuple):
    """One role."""

    rolname: str
    rolcanlogin: bool
    rolinherit: bool
    rolsuper: bool
    rolconnlimit: int


class SetRoleRow(NamedTuple):
    """A NOINHERIT login role, and a NOLOGIN role that it can switch to by SET ROLE."""

    member: str
    role: str


class ParameterRow(NamedTuple):
    """One setting."""

    name: str
    setting: str


FACTS_OWN = Statement("facts_own", OwnRow)
FACTS_SERVER = Statement("facts_server", ServerRow)
FACTS_ROLES = Statement("facts_roles", RoleFactsRow)
FACTS_SET_ROLE = Statement("facts_set_role", SetRoleRow)
FACTS_PARAMETERS = Statement("facts_parameters", ParameterRow)


async def read_facts(
    session: Session, look: Look, *, lease: Lease, silence: timedelta, variables: tuple[str, ...]
) -> Facts:
    """Read the facts of one server.

    Raises:
        ReadError: a statement failed; `reason` says why.

    """
    [own] = await session.rows(FACTS_OWN)
    [server] = await session.rows(FACTS_SERVER)
    roles = await session.rows(FACTS_ROLES)
    pairs = await session.rows(FACTS_SET_ROLE)
    parameters = await session.rows(FACTS_PARAMETERS)
    return Facts(
        look=look,
        own=_own(own),
        roles=tuple(map(_role, roles)),
        set_role=tuple((pair.member, pair.role) for pair in pairs),
        prepared=_prepared(server),
        parameters={each.name: each.setting for each in parameters},
        conflicts=server.conflicts,
        lease=lease,
        variables=variables,
        silence=silence,
        names=tuple(server.application_names),
    )


def _own(row: OwnRow) -> OwnRole:
    return OwnRole(
        name=row.rolname,
        superuser=row.rolsuper,
        create_role=row.rolcreaterole,
        create_database=row.rolcreatedb,
        replication=row.rolreplication,
        bypass_rls=row.rolbypassrls,
        connection_limit=row.rolconnlimit,
        sessions=row.sessions,
        reserved=row.may_use_reserved,
    )


def _role(row: RoleFactsRow) -> RoleFacts:
    return RoleFacts(
        name=row.rolname,
        can_login=row.rolcanlogin,
        inherits=row.rolinherit,
        superuser=row.rolsuper,
        connection_limit=row.rolconnlimit,
    )


def _prepared(row: ServerRow) -> Prepared:
    age = row.oldest_prepared_age
    return Prepared(row.prepared_transactions, None if age is None else timedelta(seconds=age))
