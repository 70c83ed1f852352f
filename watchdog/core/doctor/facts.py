"""What the doctor reads of one server, besides a look and a census."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from watchdog.core.acting.status import Lease
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
    inherit and a role without login that it may become; `parameters` are settings that tell a managed service.
    """

    look: Look
    own: OwnRole
    roles: tuple[RoleFacts, ...]
    set_role: tuple[tuple[str, str], ...]
    prepared: Prepared
    parameters: Mapping[str, str]
    conflicts: int
    lease: Lease
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
