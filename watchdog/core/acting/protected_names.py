"""The roles and applications that are protected from a cancel by default."""

from watchdog.core.observed.services import SERVICES

PROVIDER_ROLES: frozenset[str] = frozenset().union(*(service.provider_roles for service in SERVICES))
"""Roles under which the providers of managed services run their own sessions. These sessions run for a long time, and
no caller waits for them."""

BACKUP_APPLICATIONS = frozenset(
    {
        "pg_dump",
        "pg_dumpall",
        "pg_basebackup",
        "pg_receivewal",
        "pgbackrest",
        "pgcopydb",
        "barman",
        "barman_streaming_backup",
        "barman_receive_wal",
        "wal-g",
        "pg_probackup",
    }
)
"""Names of backup tools, in lower case. A session is a backup if this is its application_name."""

BACKUP_PREFIXES = tuple(sorted(f"{name}{separator}" for name in BACKUP_APPLICATIONS for separator in " /["))
"""A session is also a backup if its application_name begins so: pgBackRest adds its command in brackets, and pgcopydb
its process and what it copies."""
