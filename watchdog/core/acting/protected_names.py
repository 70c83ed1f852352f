"""The roles and applications that are protected from a cancel by default. This module holds two tables and no code.

Sources: the providers' documentation of their reserved roles.
"""

PROVIDER_ROLES = frozenset(
    {
        "rdsadmin",  # Amazon RDS and Aurora
        "rdsrepladmin",
        "rdstopmgr",
        "rdswriteforwarduser",
        "rdsproxyadmin",
        "azuresu",  # Azure Database for PostgreSQL
        "azure_superuser",
        "cloudsqladmin",  # Google Cloud SQL
        "cloudsqlagent",
        "cloudsqlreplica",
        "cloudsqlimportexport",
        "alloydbadmin",  # Google AlloyDB
        "supabase_admin",  # Supabase
        "supabase_replication_admin",
        "cloud_admin",  # Neon
        "streaming_replica",  # CloudNativePG
    }
)
"""Roles under which the providers of managed services run their own sessions. These sessions run for a long time, and
no caller waits for them."""

BACKUP_APPLICATIONS = frozenset(
    {"pg_dump", "pg_dumpall", "pg_basebackup", "pg_receivewal", "pgbackrest", "barman", "wal-g", "pg_probackup"}
)
"""Names of backup tools. A session is a backup if its application_name in lower case is one of them, or begins with one
of them and a space, '/', '[' or '_' after it."""
