"""Roles and applications that are never touched by default.

Providers run sessions of their own on a managed server; they always look long-running and belong to
nobody who could be waiting.
"""

from watchdog.core.observed.services import SERVICES

PROVIDER_ROLES: frozenset[str] = frozenset().union(*(service.provider_roles for service in SERVICES))

BACKUP_APPLICATIONS = frozenset(
    {"pg_dump", "pg_dumpall", "pg_basebackup", "pg_receivewal", "pgbackrest", "barman", "wal-g", "pg_probackup"}
)
"""Matched against the first word of application_name, in lower case, before a blank, '/', '[' or '_'."""
