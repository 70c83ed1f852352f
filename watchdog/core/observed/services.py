"""Managed services: how each is recognised, and what differs there from a server of one's own.

Protections, the doctor, the grants and the hints of errors read this one table. `None` means that it is not known:
the documentation does not say, or could not be found. Whoever shows it says so.
"""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reserved:
    """Connections that a service reserves by a setting of its own, for members of `roles`. `hint`: how to get in."""

    setting: str
    roles: frozenset[str]
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One managed service.

    It is recognised by any of `roles`, by a setting that begins with one of `settings`, or by one of `schemas` in the
    database that we are connected to. `built_on`: services whose marks it shows as well; they are not named beside it.

    `provider_roles` are login roles of the provider alone, never one that a customer logs in with: a role that is
    missing exposes the provider's sessions, one too many protects a customer's orphans. The set is matched by name on
    every server, so names that anybody might choose stay out even where a provider uses them: `postgres`, `standby`,
    `replication`, `pgbouncer`, `pooler`. Sessions of replication are walsenders, which are never found.
    """

    key: str
    name: str
    roles: frozenset[str] = frozenset()
    settings: tuple[str, ...] = ()
    schemas: frozenset[str] = frozenset()
    built_on: frozenset[str] = frozenset()
    provider_roles: frozenset[str] = frozenset()
    reserved: Reserved | None = None
    parameters: str | None = None
    """How a parameter of the server is set: words that follow `set it `. ALTER SYSTEM is none of the ways."""

    rights: str | None = None
    """Who may grant the rights to read and to cancel, and whom they do not reach."""

    ca: str | None = None
    """Where the certificate that signs the server's comes from: words that follow `sslrootcert=`."""

    sleeps: bool | None = None
    """It can scale to zero, which polling keeps it from."""

    sources: tuple[str, ...]

    def is_recognised(self, *, roles: Collection[str], settings: Collection[str], schemas: Collection[str]) -> bool:
        """True where the server shows any mark of it."""
        marked = any(each.startswith(self.settings) for each in settings) if self.settings else False
        return marked or not self.roles.isdisjoint(roles) or not self.schemas.isdisjoint(schemas)


_DUMP = "role dumps of instances in public repositories (pg_dumpall --roles-only): memberships and ADMIN OPTION"
_RDS_MARKS = frozenset({"rdsadmin", "rds_superuser"})
_RDS_RIGHTS = (
    "a member of rds_superuser may GRANT pg_monitor, pg_signal_backend and pg_use_reserved_connections (16 and later); "
    "rdsadmin is a superuser, its sessions cannot be signalled"
)
# rds_superuser has no ADMIN OPTION on rds_reserved (role dump of a version 17 instance), so it is not advised.
_RDS_RESERVED = Reserved(
    "rds.rds_superuser_reserved_connections",
    frozenset({"rds_superuser", "rds_reserved"}),
    "only members of rds_superuser and rds_reserved get in through these; on 16 and later reserved_connections above 0 "
    "and pg_use_reserved_connections serve other roles",
)
_RDS_CA = "global-bundle.pem from truststore.pki.rds.amazonaws.com/global/"
# In: rdsadmin, rdsrepladmin and rdstopmgr run the service; rdswriteforwarduser forwards writes of an Aurora global
# database; rdsproxyadmin belongs to RDS Proxy. Out: rds_superuser, rds_password and the like, groups without login.
_RDS_ROLES = frozenset({"rdsadmin", "rdsrepladmin", "rdstopmgr", "rdswriteforwarduser", "rdsproxyadmin"})

SERVICES: tuple[Service, ...] = (
    Service(
        key="rds",
        name="Amazon RDS or Aurora",  # an Aurora without marks of its own looks the same
        roles=_RDS_MARKS,
        settings=("rds.",),
        provider_roles=_RDS_ROLES,
        reserved=_RDS_RESERVED,
        parameters="in the DB parameter group of the instance, on Aurora the DB cluster parameter group",
        rights=_RDS_RIGHTS,
        ca=_RDS_CA,
        sleeps=None,  # of these Aurora Serverless v2 with a minimum of 0 ACUs pauses, and the server does not show it
        sources=(
            "Amazon RDS User Guide: Understanding the rds_superuser role",
            "Amazon RDS User Guide: RDS Proxy considerations (rdsproxyadmin)",
            _DUMP,
            "AWS re:Post: remaining connection slots are reserved (rds.rds_superuser_reserved_connections)",
            "Amazon RDS User Guide: Using SSL/TLS to encrypt a connection (certificate bundles)",
        ),
    ),
    Service(
        key="aurora",
        name="Amazon Aurora",
        roles=frozenset({"rdswriteforwarduser"}),
        settings=("apg_",),
        built_on=frozenset({"rds"}),
        provider_roles=_RDS_ROLES,
        reserved=_RDS_RESERVED,
        parameters="in the DB cluster parameter group, or the DB parameter group of the instance",
        rights=_RDS_RIGHTS,
        ca=_RDS_CA,
        sleeps=None,
        sources=(
            "Amazon Aurora User Guide: Understanding the rds_superuser role",
            _DUMP,
            "Amazon Aurora User Guide: Using write forwarding (apg_write_forward.consistency_mode)",
        ),
    ),
    Service(
        key="cloudsql",
        name="Google Cloud SQL",
        roles=frozenset({"cloudsqladmin", "cloudsqlsuperuser"}),
        settings=("cloudsql.",),
        # Out: cloudsqlsuperuser, the customer's group; cloudsqliamuser and cloudsqliamserviceaccount, groups too.
        provider_roles=frozenset({"cloudsqladmin", "cloudsqlagent", "cloudsqlreplica", "cloudsqlimportexport"}),
        parameters="as a database flag of the instance (gcloud sql instances patch --database-flags)",
        rights="a member of cloudsqlsuperuser has pg_monitor and pg_signal_backend, and may GRANT them before 16; from "
        "16 on it takes their ADMIN OPTION; cloudsqladmin is a superuser, its sessions cannot be signalled",
        ca="server-ca.pem of the instance (gcloud sql ssl server-ca-certs list)",
        sleeps=False,
        sources=(
            "Cloud SQL documentation: About PostgreSQL users and roles, /sql/docs/postgres/users",
            _DUMP,
            "Cloud SQL documentation: Configure database flags, /sql/docs/postgres/flags",
            "Google Cloud CLI reference: gcloud sql ssl server-ca-certs",
        ),
    ),
    Service(
        key="alloydb",
        name="Google AlloyDB",
        roles=frozenset({"alloydbadmin", "alloydbsuperuser"}),
        settings=("alloydb.",),
        # Out: alloydbsuperuser and alloydbiamuser, groups of the customer.
        provider_roles=frozenset({"alloydbadmin", "alloydbagent", "alloydbimportexport", "alloydbreplica"}),
        parameters="as a database flag of the instance (gcloud alloydb instances update --database-flags)",
        rights=None,  # alloydbsuperuser has pg_monitor; about pg_signal_backend nothing was found
        ca=None,
        sleeps=False,
        sources=(
            "AlloyDB documentation: Manage AlloyDB user roles, /alloydb/docs/database-users/about",
            "AlloyDB documentation: Configure database flags, /alloydb/docs/instance-configure-database-flags",
        ),
    ),
    Service(
        key="azure",
        name="Azure Database for PostgreSQL",
        roles=frozenset({"azuresu", "azure_pg_admin"}),
        settings=("azure.",),
        # azure_superuser was the name on Single Server. Out: azure_pg_admin, the customer's group; replication, a
        # name that anybody might choose.
        provider_roles=frozenset({"azuresu", "azure_superuser"}),
        parameters="under Server parameters of the server (az postgres flexible-server parameter set)",
        rights="a member of azure_pg_admin may GRANT pg_monitor and pg_signal_backend; azuresu is a superuser, its "
        "sessions cannot be signalled",
        ca="the root certificates that Azure's page names: DigiCert Global Root G2 and Microsoft RSA Root CA 2017",
        sleeps=False,
        sources=(
            "Microsoft Learn: Describe built-in Azure Database for PostgreSQL server roles",
            _DUMP,
            "Microsoft Learn: Server parameters, /azure/postgresql/flexible-server/concepts-server-parameters",
            "Microsoft Learn: TLS in Azure Database for PostgreSQL, /azure/postgresql/flexible-server/security-tls",
        ),
    ),
    Service(
        key="supabase",
        name="Supabase",
        roles=frozenset({"supabase_admin", "supabase_auth_admin"}),
        settings=("supautils.",),
        # Each belongs to one of Supabase's own services. Out: authenticator, under which the customer's requests run;
        # postgres, anon, authenticated, service_role and cli_login_postgres; pgbouncer, a name that anybody chooses.
        provider_roles=frozenset(
            {
                "supabase_admin",
                "supabase_auth_admin",
                "supabase_storage_admin",
                "supabase_functions_admin",
                "supabase_realtime_admin",
                "supabase_replication_admin",
                "supabase_etl_admin",
                "supabase_read_only_user",
            }
        ),
        parameters="by the command line (supabase postgres-config update --config NAME=VALUE)",
        rights="postgres has pg_monitor and pg_signal_backend and may GRANT both; connect to the database, not to its "
        "pooler; supabase_admin is a superuser, its sessions cannot be signalled",
        ca="the certificate under Database settings, SSL configuration, of the dashboard",
        sleeps=True,
        sources=(
            "Supabase documentation: Postgres roles, /docs/guides/database/postgres/roles",
            "supabase/postgres: migrations/db and ansible/files/postgresql_config/supautils.conf.j2",
            _DUMP,
            "Supabase documentation: Customizing Postgres configs, /docs/guides/database/custom-postgres-config",
            "Supabase documentation: Connecting with PSQL, /docs/guides/database/psql",
        ),
    ),
    Service(
        key="neon",
        name="Neon",
        roles=frozenset({"neon_superuser", "cloud_admin"}),
        settings=("neon.",),
        # neon_service logs in for Neon's own console. Out: neon_superuser, a group; neondb_owner, the customer's.
        provider_roles=frozenset({"cloud_admin", "neon_service"}),
        parameters="for a role, a database or a session; what can be set for the server alone is Neon's",
        rights="a member of neon_superuser has pg_monitor and pg_signal_backend and may GRANT both; use the host "
        "without -pooler; cloud_admin is a superuser, its sessions cannot be signalled",
        ca="system (libpq 16 and later)",
        sleeps=True,
        sources=(
            "Neon documentation: Manage roles, /docs/manage/roles",
            _DUMP,
            "Neon documentation: Postgres compatibility, /docs/reference/compatibility",
        ),
    ),
    Service(
        key="crunchy",
        name="Crunchy Bridge",
        roles=frozenset({"crunchy_superuser", "crunchy_replication"}),
        # Out: postgres, application and u_ACCOUNT, the customer's; crunchy_read and crunchy_write, groups.
        provider_roles=frozenset({"crunchy_superuser", "crunchy_replication", "crunchy_pooler"}),
        parameters=None,
        rights="postgres is a superuser and yours: it may GRANT pg_monitor and pg_signal_backend",
        ca="the certificate of the team (GET /teams/TEAM.pem of the API)",
        sleeps=None,
        sources=(
            "Crunchy Bridge documentation: User management, /concepts/users",
            "Crunchy Bridge documentation: PgBouncer, /how-to/pgbouncer (crunchy_pooler)",
            "Crunchy Bridge API reference: Certificate, /api/certificate",
        ),
    ),
    Service(
        key="aiven",
        name="Aiven for PostgreSQL",
        roles=frozenset({"avnadmin", "_avnadmin_monitor", "_avnadmin_managed"}),
        settings=("aiven.",),
        # Out: avnadmin, the customer's; _avnadmin_managed, a group. The provider's superuser is named postgres.
        provider_roles=frozenset({"_avnadmin_monitor"}),
        parameters="under Advanced configuration of the service (avn service update -c pg.NAME=VALUE)",
        rights="avnadmin has pg_signal_backend and may GRANT pg_read_all_stats; from 16 on not pg_monitor and "
        "pg_signal_backend themselves; postgres is the provider's superuser",
        ca="ca.pem of the project (avn project ca-get)",
        sleeps=None,
        sources=(
            "Aiven documentation: Perform DBA-type tasks, /docs/products/postgresql/concepts/dba-tasks-pg",
            _DUMP,
            "aiven/aiven-pg-security: README (aiven.pg_security_agent)",
        ),
    ),
    Service(
        key="heroku",
        name="Heroku Postgres",
        schemas=frozenset({"heroku_ext"}),
        built_on=frozenset({"rds", "aurora"}),  # the plans below Standard
        parameters="by the command line as far as it offers it (heroku pg:settings)",
        rights="the default credential has pg_monitor and pg_signal_backend; roles are made as credentials "
        "(heroku pg:credentials:create), not by CREATE ROLE",
        ca=None,
        sleeps=None,
        sources=(
            "Heroku Dev Center: Heroku Postgres credentials, /articles/heroku-postgresql-credentials",
            "Heroku Help: Heroku Postgres extension changes (the schema heroku_ext)",
        ),
    ),
    Service(
        key="digitalocean",
        name="DigitalOcean Managed PostgreSQL",
        roles=frozenset({"doadmin", "_dodb", "_doadmin_monitor"}),
        built_on=frozenset({"aiven"}),
        # Out: doadmin, the customer's; _doadmin_managed, a group.
        provider_roles=frozenset({"_dodb", "_dodb_repl", "_dodb_rewind", "_doadmin_monitor"}),
        parameters="under Advanced configuration of the cluster (PATCH /v2/databases/ID/config of the API)",
        rights="doadmin has pg_signal_backend and may GRANT pg_read_all_stats; from 16 on not pg_monitor and "
        "pg_signal_backend themselves; _dodb and postgres are the provider's superusers",
        ca="ca-certificate.crt of the cluster (doctl databases get-ca)",
        sleeps=None,
        sources=(
            "DigitalOcean documentation: Manage PostgreSQL users, /products/databases/postgresql/how-to",
            _DUMP,
            "doctl reference: databases get-ca, databases configuration update",
        ),
    ),
    Service(
        key="zalando",
        name="Zalando Postgres Operator",
        roles=frozenset({"robot_zmon"}),
        settings=("bg_mon.",),
        # Out: postgres, standby and pooler, its superuser, its replication and its PgBouncer: anybody's names.
        parameters="under spec.postgresql.parameters of the cluster's manifest",
        rights="postgres is a superuser and yours: it may GRANT pg_monitor and pg_signal_backend",
        ca="caFile of the secret that spec.tls names; without one the certificate is signed by itself",
        sleeps=False,
        sources=(
            "Postgres Operator documentation: Cluster manifest reference, /docs/reference/cluster_manifest",
            "zalando/spilo: postgres-appliance/scripts/post_init.sh (robot_zmon)",
        ),
    ),
    Service(
        key="cnpg",
        name="CloudNativePG",
        roles=frozenset({"streaming_replica"}),  # cnpg.config_sha256 is a placeholder, which pg_settings does not show
        provider_roles=frozenset({"streaming_replica", "cnpg_pooler_pgbouncer", "cnpg_metrics_exporter"}),
        parameters="under spec.postgresql.parameters of the Cluster",
        rights="declare the role under spec.managed.roles with inRoles: [pg_monitor, pg_signal_backend]",
        ca="ca.crt of the secret CLUSTER-ca",
        sleeps=False,
        sources=(
            "CloudNativePG documentation: PostgreSQL role management, and Connection pooling",
            "CloudNativePG documentation: Certificates (Server CA secret)",
            "CloudNativePG 1.22 release notes: ALTER SYSTEM is disabled by default",
        ),
    ),
)

MARKING_SETTINGS = tuple(sorted({prefix for service in SERVICES for prefix in service.settings}))
MARKING_SCHEMAS = tuple(sorted({schema for service in SERVICES for schema in service.schemas}))


def recognised(
    *, roles: Collection[str], settings: Collection[str], schemas: Collection[str] = ()
) -> tuple[Service, ...]:
    """The services that the server's roles, settings and schemas speak of; without those that others are built on."""
    found = [each for each in SERVICES if each.is_recognised(roles=roles, settings=settings, schemas=schemas)]
    beneath = {key for service in found for key in service.built_on}
    return tuple(service for service in found if service.key not in beneath)


def service_of(key: str) -> Service | None:
    """The service of that key."""
    return next((each for each in SERVICES if each.key == key), None)
