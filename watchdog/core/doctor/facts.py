"""What the doctor knows of one server: a look with its census, and further facts.

This module holds values only. It knows nothing of the checks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from watchdog.core.acting.status import Lease
from watchdog.core.observed.services import Service, recognised
from watchdog.core.observed.stored_settings import StoredSettings
from watchdog.core.present.look import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFacts:
    """One role of the server. A `connection_limit` of -1 means no limit."""

    name: str
    can_login: bool
    inherits: bool
    superuser: bool
    connection_limit: int
    create_role: bool = False
    replication: bool = False


@dataclass(frozen=True, slots=True)
class Membership:
    """That one role is a member of another. `admin`: with ADMIN OPTION; `inherits`: it has the other's rights."""

    member: str
    role: str
    admin: bool
    inherits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """How our own session is protected on its way.

    `encrypted` by TLS of `version` (as the server writes it: `TLSv1.3`), or by GSSAPI; `local`: it goes over a Unix
    socket or the loopback; `sslmode` is libpq's, wherever it came from.
    """

    encrypted: bool
    version: str | None
    gssapi: bool
    local: bool
    sslmode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRole:
    """The role as which pgwatchdog is connected, its attributes, and the number of its sessions."""

    name: str
    superuser: bool
    create_role: bool
    create_database: bool
    replication: bool
    bypass_rls: bool
    connection_limit: int
    sessions: int
    reserved: bool | None
    """Whether the role has the privileges of pg_use_reserved_connections; None before PostgreSQL 16."""

    has: frozenset[str] = frozenset()
    """The roles whose rights it has."""

    password_ends: timedelta | None = None
    """Until its password is no longer accepted, negative if it is not now; None where it has no end."""

    @property
    def excess(self) -> list[str]:
        """The role attributes that pgwatchdog does not need."""
        rights = {
            "SUPERUSER": self.superuser,
            "CREATEROLE": self.create_role,
            "CREATEDB": self.create_database,
            "REPLICATION": self.replication,
            "BYPASSRLS": self.bypass_rls,
        }
        return [name for name, held in rights.items() if held]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The number of prepared transactions and the age of the oldest. They hold locks without a session."""

    count: int
    oldest: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of one server.

    - `set_role` are pairs of roles: a login role with NOINHERIT, and a role without login that it may SET ROLE to.
    - `members` are all memberships.
    - `parameters` and `schemas` are the settings and the schemas that only a managed service has.
    - `conflicts` is the number of queries that were cancelled by conflicts with recovery.
    - `variables` are the names of libpq's environment variables that were used for the connection.
    """

    look: Look
    own: OwnRole
    roles: tuple[RoleFacts, ...]
    set_role: tuple[tuple[str, str], ...]
    prepared: Prepared
    parameters: Mapping[str, str]
    transport: Transport
    conflicts: int
    lease: Lease
    members: tuple[Membership, ...] = ()
    schemas: frozenset[str] = frozenset()
    variables: tuple[str, ...] = ()
    silence: timedelta = timedelta(0)
    """The idle_session_timeout that pgwatchdog sets for its own session."""

    names: tuple[str, ...] = field(default=())
    """The application names of all other client sessions, including idle ones."""

    public_connects: bool = False
    """Whether every role may connect to the database that we are connected to."""

    @property
    def settings(self) -> StoredSettings:
        """The settings stored for roles and databases, and the server's own values."""
        return self.look.census.settings

    @property
    def server_version(self) -> int:
        """The server's version as in `server_version_num`, such as 180006."""
        return self.look.census.server_version

    @property
    def services(self) -> tuple[Service, ...]:
        """The managed services that the server shows the marks of."""
        return recognised(roles=[role.name for role in self.roles], settings=self.parameters, schemas=self.schemas)

    def role(self, name: str) -> RoleFacts | None:
        """The role of that name."""
        return next((each for each in self.roles if each.name == name), None)
