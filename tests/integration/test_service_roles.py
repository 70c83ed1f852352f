"""Managed services, by their roles on a real server: protections and doctor read the same table."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from support.gates import CANCELED, WAIT, Gates, only_these_are_signalled
from support.processes import command
from support.servers import Client, Connect, MakeRole, TestServer, start
from support.watching import actor_on, answer

from watchdog.core.acting.verdicts import Withheld
from watchdog.core.observed.services import SERVICES, Service

each_service = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.key)
with_roles = pytest.mark.parametrize(
    "service", [each for each in SERVICES if each.provider_roles], ids=lambda service: service.key
)


@pytest.fixture
def gates(connect: Connect) -> Gates:
    return Gates(connect(role="etl_app"))


@pytest.fixture
def schemas(server: TestServer) -> Iterator[list[str]]:
    """Schemas that are gone after the test."""
    made: list[str] = []
    yield made
    for each in made:
        with suppress(psycopg.Error):
            server.run(f"DROP SCHEMA {each}")


@with_roles
async def test_sessions_of_the_providers_roles_are_left_alone_while_others_are_not(
    server: TestServer, connect: Connect, make_role: MakeRole, gates: Gates, tmp_path: Path, service: Service
) -> None:
    names = sorted(service.provider_roles)
    victim = connect()
    control = start(victim, "SELECT pg_sleep(60)", server)
    sessions: list[Client] = [connect(role=make_role(name)) for name in names]
    spared = [start(each, f"SELECT {WAIT}", server) for each in sessions]
    with actor_on(server, tmp_path, roles={"web_app": 0.5, **dict.fromkeys(names, 0.5)}) as cycle:
        await only_these_are_signalled(cycle, {**dict.fromkeys(spared, Withheld.PROVIDER), control: None})
    gates.open()
    assert {answer(each) for each in sessions} == {None}
    assert answer(victim) == CANCELED


@each_service
def test_the_doctor_recognises_the_service_and_prints_no_alter_system_there(
    server: TestServer, make_role: MakeRole, schemas: list[str], service: Service
) -> None:
    assert "ALTER SYSTEM" in command("doctor", server.dsn(), "--format", "sql").stdout
    for name in sorted(service.roles):
        make_role(name)
    for name in sorted(service.schemas):
        server.run(f"CREATE SCHEMA {name}")
        schemas.append(name)

    [cluster] = json.loads(command("doctor", server.dsn(), "--format", "json").stdout)["clusters"]
    sql = command("doctor", server.dsn(), "--format", "sql").stdout

    told = [each["saw"].partition(":")[0] for each in cluster["checks"] if each["name"] == "service"]
    assert told == [service.name]
    assert "ALTER SYSTEM" not in sql
    assert "ALTER SYSTEM" not in json.dumps(cluster)
    assert (service.parameters or "how a parameter is set there is not known here") in sql
    assert "tcp_keepalives_idle = '60s'" in sql
