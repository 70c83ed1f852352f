"""What changes rarely on a cluster: names behind oids, rights, and what is out of sight.

A census is taken once a minute; it knows nothing of budgets or findings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from watchdog.core.observed.activity import UNKNOWN
from watchdog.core.observed.stored_settings import StoredSettings


@dataclass(frozen=True, slots=True)
class DatabaseWork:
    """What the server itself counts for one database since its statistics were last reset.

    `active` is the time spent executing, `abandoned` the sessions that ended because the client was lost.
    """

    active: timedelta
    abandoned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """The facts of one census. `hidden` and `tracking_off` count sessions that no poll can judge.

    `settings` are the stored settings, `work` is by database name.
    `may_cancel_all`: our role has pg_signal_backend; `may_cancel` are roles whose queries membership lets us cancel.
    """

    server_version: int
    sees_all: bool
    behind_pooler: bool
    roles: Mapping[int, str]
    databases: Mapping[int, str]
    superusers: frozenset[str]
    hidden: int
    hidden_roles: frozenset[str]
    tracking_off: int
    connections_used: int
    connections_max: int
    may_cancel_all: bool = False
    may_cancel: frozenset[str] = frozenset()
    may_cancel_superusers: bool = False
    settings: StoredSettings = field(default_factory=StoredSettings)
    work: Mapping[str, DatabaseWork] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """The server's version as people write it: `18.6` for 180006."""
        return f"{self.server_version // 10000}.{self.server_version % 10000}"

    @property
    def may_cancel_any(self) -> bool:
        """True where our role may cancel somebody's queries at all."""
        return self.may_cancel_all or bool(self.may_cancel)

    def may_cancel_of(self, role: str) -> bool:
        """True where our role may cancel queries of `role`: a superuser's only if it is one itself."""
        if role in self.superusers:
            return self.may_cancel_superusers
        return self.may_cancel_all or role in self.may_cancel

    def role(self, oid: int | None) -> str:
        """The role's name, or `unknown` for NULL and for a role younger than this census."""
        return UNKNOWN if oid is None else self.roles.get(oid, UNKNOWN)

    def database(self, oid: int | None) -> str:
        """The database's name, or `unknown` for NULL and for one younger than this census."""
        return UNKNOWN if oid is None else self.databases.get(oid, UNKNOWN)
