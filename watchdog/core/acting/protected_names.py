"""The roles and applications that are protected from a cancel by default."""

from watchdog.core.observed.services import SERVICES

PROVIDER_ROLES: frozenset[str] = frozenset().union(*(service.provider_roles for service in SERVICES))
"""Roles under which the providers of managed services run their own sessions. These sessions run for a long time, and
no caller waits for them."""

BACKUP_APPLICATIONS = frozenset(
    {"pg_dump", "pg_dumpall", "pg_basebackup", "pg_receivewal", "pgbackrest", "barman", "wal-g", "pg_probackup"}
)
"""Names of backup tools. A session is a backup if its application_name in lower case is one of them, or begins with one
of them and a space, '/', '[' or '_' after it."""
