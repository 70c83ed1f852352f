"""The table of managed services: recognised by its marks, complete, and free of names that customers log in with."""

from dataclasses import replace

import pytest
from test_doctor import facts, one

from watchdog.core.acting.protected_names import PROVIDER_ROLES
from watchdog.core.doctor.checks import Status
from watchdog.core.doctor.grants import grants
from watchdog.core.observed.reasons import Reason
from watchdog.core.observed.services import SERVICES, Service, recognised, service_of
from watchdog.postgres.failures import connect_failure

CUSTOMERS = {
    *("postgres", "doadmin", "avnadmin", "application", "neondb_owner", "authenticator", "anon", "authenticated"),
    *("service_role", "cloudsqlsuperuser", "alloydbsuperuser", "rds_superuser", "azure_pg_admin", "neon_superuser"),
    *("cli_login_postgres", "dashboard_user", "pgbouncer", "pooler", "standby", "replication", "app", "web_app"),
}
"""The customers' administrators and groups, and names that anybody might choose."""

by_key = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.key)


def keys(*, roles: tuple[str, ...] = (), settings: tuple[str, ...] = (), schemas: tuple[str, ...] = ()) -> list[str]:
    return [each.key for each in recognised(roles=roles, settings=settings, schemas=schemas)]


@by_key
def test_each_mark_of_a_service_recognises_it(service: Service) -> None:
    assert all(service.key in keys(roles=(mark,)) for mark in service.roles)
    assert all(service.key in keys(settings=(f"{mark}x",)) for mark in service.settings)
    assert all(service.key in keys(schemas=(mark,)) for mark in service.schemas)
    assert service.roles or service.settings or service.schemas


@by_key
def test_each_row_has_its_sources(service: Service) -> None:
    assert service.sources
    assert service_of(service.key) is service


def test_a_server_of_ones_own_is_no_service() -> None:
    assert keys(roles=("postgres", "web_app", "standby"), settings=("work_mem", "pg_stat_statements.max")) == []


@pytest.mark.parametrize(
    ("roles", "settings", "schemas", "key"),
    [
        (("rdsadmin",), ("rds.extensions",), (), "rds"),
        (("rdsadmin", "rdswriteforwarduser"), ("rds.extensions", "apg_write_forward.x"), (), "aurora"),
        (("rdsadmin",), ("rds.extensions",), ("heroku_ext",), "heroku"),
        (("doadmin", "_dodb", "_avnadmin_managed"), ("aiven.pg_security_agent",), (), "digitalocean"),
        (("avnadmin",), ("aiven.pg_security_agent",), (), "aiven"),
    ],
)
def test_what_a_service_is_built_on_is_not_named_beside_it(
    roles: tuple[str, ...], settings: tuple[str, ...], schemas: tuple[str, ...], key: str
) -> None:
    assert keys(roles=roles, settings=settings, schemas=schemas) == [key]


def test_no_role_of_a_customer_is_protected_as_a_providers() -> None:
    assert PROVIDER_ROLES.isdisjoint(CUSTOMERS)


def test_the_providers_roles_are_those_of_the_table() -> None:
    assert {"rdsadmin", "alloydbagent", "supabase_auth_admin", "_dodb", "cnpg_pooler_pgbouncer"} <= PROVIDER_ROLES
    assert {role for service in SERVICES for role in service.provider_roles} == PROVIDER_ROLES


@pytest.mark.parametrize("key", ["alloydb", "crunchy", "heroku"])
def test_what_is_not_known_of_a_service_is_said_to_be_not_known(key: str) -> None:
    service = service_of(key)
    assert service is not None
    found = facts(roles=(), schemas=service.schemas, parameters={f"{each}x": "" for each in service.settings})
    if service.rights is None:
        assert "not known here" in one(found, "service").saw
        assert "not known here" in grants(role="x", version=180_000, acting=True, service=service)
    if service.sleeps is None and (service.settings or service.schemas):
        assert one(found, "scale_to_zero").status is Status.UNKNOWN


RDS = {"rds.rds_superuser_reserved_connections": "2"}


@pytest.mark.parametrize(
    ("reserved", "has", "parameters", "status", "words"),
    [
        (None, {"rds_reserved"}, RDS, Status.OK, "2 reserved by rds.rds_superuser_reserved_connections"),
        (False, {"rds_superuser"}, RDS, Status.OK, "and pgwatchdog may use them"),
        (None, set(), RDS, Status.WARNING, "pgwatchdog may not use them"),
        (None, {"rds_reserved"}, {**RDS, next(iter(RDS)): "0"}, Status.OK, "before PostgreSQL 16"),
        (True, set(), RDS, Status.OK, "2 reserved, and it may use them"),
        (False, set(), RDS, Status.WARNING, "may not use them"),
        (None, {"rds_reserved"}, {}, Status.OK, "before PostgreSQL 16"),
    ],
)
def test_the_connections_that_a_service_reserves_count_for_whom_it_lets_in(
    *, reserved: bool | None, has: set[str], parameters: dict[str, str], status: Status, words: str
) -> None:
    own = replace(facts().own, reserved=reserved, has=frozenset(has))
    check = one(facts(own=own, parameters=parameters), "rights.reserved_connections")
    assert (check.status, words in check.saw) == (status, True), check


def test_a_refusal_that_names_a_services_role_is_answered_with_what_the_service_has() -> None:
    words = "remaining connection slots are reserved for {}connections"
    of_rds = connect_failure("53300", message=words.format("rds_reserved, and rds_superuser "))
    plain = connect_failure("53300", message=words.format("superuser "))
    assert (of_rds.reason, plain.reason) == (Reason.TOO_MANY_CONNECTIONS, Reason.TOO_MANY_CONNECTIONS)
    assert "only members of rds_superuser and rds_reserved" in str(of_rds)
    assert "on PostgreSQL 16 and later grant pg_use_reserved_connections" in str(plain)


@by_key
def test_the_grants_say_what_differs_on_the_service_and_only_as_comments(service: Service) -> None:
    text = grants(role="pgwatchdog", version=180_000, acting=True, service=service)
    plain = grants(role="pgwatchdog", version=180_000, acting=True)
    head = text.removesuffix(plain)
    assert head.startswith(f"-- {service.name}: ")
    assert all(line.startswith("-- ") for line in head.splitlines() if line)
