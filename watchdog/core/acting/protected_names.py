"""Roles and applications that are never touched by default: a table, nothing else.

Providers run sessions of their own on a managed server; they always look long-running and belong to
nobody who could be waiting. Sources: the providers' documentation of their reserved roles.
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

BACKUP_APPLICATIONS = frozenset(
    {"pg_dump", "pg_dumpall", "pg_basebackup", "pg_receivewal", "pgbackrest", "barman", "wal-g", "pg_probackup"}
)
"""Matched against the first word of application_name, in lower case, before a blank, '/', '[' or '_'."""
