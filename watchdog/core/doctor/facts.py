"""What the doctor reads of one server, besides a look and a census."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from watchdog.core.acting.status import Lease
from watchdog.core.observed.services import Service, recognised
from watchdog.core.observed.stored_settings import StoredSettings
from watchdog.core.present.look import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFacts:
    """One role of the server. `connection_limit` is -1 for none."""

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
    """The role that we are connected as, and what it may do beyond what it needs."""

    name: str
    superuser: bool
    create_role: bool
    create_database: bool
    replication: bool
    bypass_rls: bool
    connection_limit: int
    sessions: int
    reserved: bool | None
    """Whether it may use reserved connections; None before 16."""

    has: frozenset[str] = frozenset()
    """The roles whose rights it has."""

    password_ends: timedelta | None = None
    """Until its password is no longer accepted, negative if it is not now; None where it has no end."""

    @property
    def excess(self) -> list[str]:
        """The rights that nothing here needs."""
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
    """Prepared transactions: they hold locks with no session at all."""

    count: int
    oldest: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One server as the doctor sees it.

    `variables` are libpq's that took part in the connection; `set_role` are pairs of a login role that does not
    inherit and a role without login that it may become; `members` are all memberships; `parameters` and `schemas` are
    settings and schemas that tell a managed service.
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
    """How long our own session is silent at most."""

    names: tuple[str, ...] = field(default=())
    """The application names of every client session, idle ones too."""

    @property
    def settings(self) -> StoredSettings:
        """What is stored, and the server's own values."""
        return self.look.census.settings

    @property
    def server_version(self) -> int:
        """As the server counts."""
        return self.look.census.server_version

    @property
    def services(self) -> tuple[Service, ...]:
        """The managed services that the server shows the marks of."""
        return recognised(roles=[role.name for role in self.roles], settings=self.parameters, schemas=self.schemas)

    def role(self, name: str) -> RoleFacts | None:
        """The role of that name."""
        return next((each for each in self.roles if each.name == name), None)
