"""A table of managed services: the roles and settings by which each is recognised, and how to grant rights there.

Sources: the providers' documentation of reserved roles, parameters and grants. This module knows nothing of the checks.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One managed service. It is recognised by one of `roles` or by a setting that begins with one of `settings`."""

    name: str
    roles: frozenset[str]
    settings: tuple[str, ...]
    grants: str
    sleeps: bool = False
    """Whether the service can scale to zero. Polling keeps the server awake."""


SERVICES = (
    Service(
        name="Amazon RDS or Aurora",
        roles=frozenset({"rdsadmin", "rds_superuser"}),
        settings=("rds.",),
        grants="as a member of rds_superuser, GRANT pg_monitor and pg_signal_backend; "
        "rdsadmin's sessions stay out of reach",
    ),
    Service(
        name="Google Cloud SQL",
        roles=frozenset({"cloudsqladmin", "cloudsqlsuperuser"}),
        settings=("cloudsql.",),
        grants="as a member of cloudsqlsuperuser, GRANT pg_monitor and pg_signal_backend",
    ),
    Service(
        name="Azure Database for PostgreSQL",
        roles=frozenset({"azuresu", "azure_pg_admin"}),
        settings=("azure.",),
        grants="as a member of azure_pg_admin, GRANT pg_monitor and pg_signal_backend; "
        "azuresu's sessions stay out of reach",
    ),
    Service(
        name="Supabase",
        roles=frozenset({"supabase_admin", "supabase_auth_admin"}),
        settings=("supautils.",),
        grants="as postgres, GRANT pg_monitor and pg_signal_backend; connect to the database, not to its pooler",
        sleeps=True,
    ),
    Service(
        name="Neon",
        roles=frozenset({"neon_superuser", "cloud_admin"}),
        settings=("neon.",),
        grants="as a member of neon_superuser, GRANT pg_monitor and pg_signal_backend; use the host without -pooler",
        sleeps=True,
    ),
    Service(
        name="CloudNativePG",
        roles=frozenset({"streaming_replica"}),
        settings=("cnpg.",),
        grants="declare the role under spec.managed.roles with inRoles: [pg_monitor, pg_signal_backend]",
    ),
)


def recognised(roles: Collection[str], parameters: Mapping[str, str]) -> list[Service]:
    """The services whose roles or settings the server has."""
    return [
        service
        for service in SERVICES
        if service.roles & set(roles) or any(name.startswith(service.settings) for name in parameters)
    ]
