"""What changes rarely on a cluster: the names of oids, pgwatchdog's rights, and the sessions that cannot be judged.

A census is taken once a minute. This module knows nothing of budgets or findings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from watchdog.core.observed.activity import UNKNOWN
from watchdog.core.observed.stored_settings import StoredSettings


@dataclass(frozen=True, slots=True)
class DatabaseWork:
    """Two statistics of one database since they were last reset, from `pg_stat_database`.

    `active` is `active_time`: the time spent executing statements. `abandoned` is `sessions_abandoned`: the number of
    sessions that ended because the connection to the client was lost.
    """

    active: timedelta
    abandoned: int


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Which server was read: the system identifier of its cluster (None if not known), and the start of its postmaster.

    A copy shares the first and not the second.
    """

    system_identifier: int | None
    postmaster_start: datetime | None

    def is_other_cluster(self, other: "ServerIdentity") -> bool:
        """True if the two are surely not one cluster or copies of it."""
        return _differ(self.system_identifier, other.system_identifier)

    def is_other_server(self, other: "ServerIdentity") -> bool:
        """True if the two are surely not one server since one start of its postmaster."""
        return self.is_other_cluster(other) or _differ(self.postmaster_start, other.postmaster_start)


UNKNOWN_SERVER = ServerIdentity(None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """The facts of one census.

    `hidden` and `tracking_off` count sessions that cannot be judged: their rows are not visible to pgwatchdog's role,
    or `track_activities` is off for them. `settings` are the stored settings. The keys of `work` are database names.

    `may_cancel_all` is True if pgwatchdog's role has the privileges of `pg_signal_backend`. `may_cancel` are the login
    roles whose queries it may cancel as a member of them. `may_cancel_superusers` is True if it is a superuser itself.
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
    system_identifier: int | None = None
    """The identifier that initdb gave the cluster; a standby and a restored copy share it. None if it was refused."""

    @property
    def version(self) -> str:
        """The server's version in the usual form, such as `18.6` for 180006."""
        return f"{self.server_version // 10000}.{self.server_version % 10000}"

    @property
    def tracking_is_off(self) -> bool:
        """True if track_activities is off on the server: then no session can be judged that does not set it itself."""
        return self.settings.server.get("track_activities") == "off"

    @property
    def may_cancel_any(self) -> bool:
        """True if pgwatchdog's role may cancel the queries of at least one other role."""
        return self.may_cancel_all or bool(self.may_cancel)

    def may_cancel_of(self, role: str) -> bool:
        """True if pgwatchdog's role may cancel queries of `role`. Only a superuser may cancel those of a superuser."""
        if role in self.superusers:
            return self.may_cancel_superusers
        return self.may_cancel_all or role in self.may_cancel

    def role(self, oid: int | None) -> str:
        """The role's name, or `unknown` if `oid` is None or the role was created after this census."""
        return UNKNOWN if oid is None else self.roles.get(oid, UNKNOWN)

    def database(self, oid: int | None) -> str:
        """The database's name, or `unknown` if `oid` is None or the database was created after this census."""
        return UNKNOWN if oid is None else self.databases.get(oid, UNKNOWN)


def _differ(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other
