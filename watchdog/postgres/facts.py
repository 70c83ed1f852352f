"""Reads the facts that the doctor needs by a few short statements, each with the session's deadline.

It knows the columns of the `sql/facts_*.sql` statements. It does not judge what it reads.
"""

from datetime import timedelta
from ipaddress import ip_address
from typing import NamedTuple

from psycopg.pq.abc import PGconn

from watchdog.core.acting.status import Lease
from watchdog.core.doctor.facts import Facts, Membership, OwnRole, Prepared, RoleFacts, Transport
from watchdog.core.observed.services import MARKING_SCHEMAS, MARKING_SETTINGS
from watchdog.core.present.look import Look
from watchdog.postgres.session import Session
from watchdog.postgres.statements import Statement


class OwnRow(NamedTuple):
    """Our own role. `may_use_reserved` is NULL before PostgreSQL 16.

    `password_ends` is the time until its password expires, in seconds; NULL if it does not.
    """

    rolname: str
    rolsuper: bool
    rolcreaterole: bool
    rolcreatedb: bool
    rolreplication: bool
    rolbypassrls: bool
    rolconnlimit: int
    sessions: int
    may_use_reserved: bool | None
    has_roles: list[str]
    password_ends: float | None


class ServerRow(NamedTuple):
    """Counts for the whole server. `oldest_prepared_age` is that of the oldest prepared transaction, in seconds."""

    prepared_transactions: int
    oldest_prepared_age: float | None
    conflicts: int
    application_names: list[str]
    schemas: list[str]
    public_connects: bool


class RoleFactsRow(NamedTuple):
    """One role."""

    rolname: str
    rolcanlogin: bool
    rolinherit: bool
    rolsuper: bool
    rolconnlimit: int
    rolcreaterole: bool
    rolreplication: bool


class MemberRow(NamedTuple):
    """One membership. `inherits`: the member has the rights of the role."""

    member: str
    role: str
    admin: bool
    inherits: bool


class TransportRow(NamedTuple):
    """Our own session as the server sees it."""

    ssl: bool
    version: str | None
    gss_encrypted: bool


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
FACTS_MEMBERS = Statement("facts_members", MemberRow)
FACTS_TRANSPORT = Statement("facts_transport", TransportRow)
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
    [server] = await session.rows(FACTS_SERVER, (list(MARKING_SCHEMAS),))
    roles = await session.rows(FACTS_ROLES)
    pairs = await session.rows(FACTS_SET_ROLE)
    members = await session.rows(FACTS_MEMBERS)
    parameters = await session.rows(FACTS_PARAMETERS, (list(MARKING_SETTINGS),))
    [transport] = await session.rows(FACTS_TRANSPORT)
    return Facts(
        look=look,
        own=_own(own),
        roles=tuple(map(_role, roles)),
        set_role=tuple((pair.member, pair.role) for pair in pairs),
        prepared=_prepared(server),
        parameters={each.name: each.setting for each in parameters},
        transport=_transport(transport, session.connection.pgconn),
        conflicts=server.conflicts,
        lease=lease,
        members=tuple(Membership(*member) for member in members),
        schemas=frozenset(server.schemas),
        variables=variables,
        silence=silence,
        names=tuple(server.application_names),
        public_connects=server.public_connects,
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
        has=frozenset(row.has_roles),
        password_ends=None if row.password_ends is None else timedelta(seconds=row.password_ends),
    )


def _role(row: RoleFactsRow) -> RoleFacts:
    return RoleFacts(
        name=row.rolname,
        can_login=row.rolcanlogin,
        inherits=row.rolinherit,
        superuser=row.rolsuper,
        connection_limit=row.rolconnlimit,
        create_role=row.rolcreaterole,
        replication=row.rolreplication,
    )


def _transport(row: TransportRow, pgconn: PGconn) -> Transport:
    modes = (each.val for each in pgconn.info if each.keyword == b"sslmode")
    return Transport(
        encrypted=row.ssl,
        version=row.version,
        gssapi=row.gss_encrypted,
        local=is_local(host=pgconn.host, address=pgconn.hostaddr),
        sslmode=(next(modes, None) or b"").decode(),
    )


def is_local(*, host: bytes, address: bytes) -> bool:
    """True for a Unix socket, and where the address that libpq has connected to is the loopback's."""
    if not address:
        return host.startswith((b"/", b"@"))
    try:
        return ip_address(address.decode()).is_loopback
    except ValueError:
        return False


def _prepared(row: ServerRow) -> Prepared:
    age = row.oldest_prepared_age
    return Prepared(row.prepared_transactions, None if age is None else timedelta(seconds=age))
