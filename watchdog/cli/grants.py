"""`pgwatchdog grants`: prints the SQL for a role with the least privileges. It connects to no database."""

from typing import Annotated

import typer

from watchdog.core.doctor.grants import grants as sql_of
from watchdog.core.observed.services import SERVICES, service_of
from watchdog.core.observed.versions import MAX_SUPPORTED, MAX_TESTED, MIN_SUPPORTED, version_num
from watchdog.errors import UsageError

KEYS = tuple(each.key for each in SERVICES)
RANGE = f"{MIN_SUPPORTED} to {MAX_SUPPORTED}"


def grants(
    role: Annotated[str, typer.Option(help="The role that pgwatchdog connects as.")] = "pgwatchdog",
    server_version: Annotated[
        int, typer.Option("--server-version", help=f"The server's major version, {RANGE}.", show_default=True)
    ] = MAX_TESTED,
    enforce: Annotated[bool, typer.Option("--enforce", help="With what it needs to cancel.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="With --enforce: cancel this role's queries alone; repeatable.")
    ] = None,
    service: Annotated[
        str | None, typer.Option(help=f"Add what differs on this managed service: {', '.join(KEYS)}.")
    ] = None,
) -> None:
    """Print the SQL of the least-privilege role, each grant with its reason. Runs nothing."""
    if not MIN_SUPPORTED <= server_version <= MAX_SUPPORTED:
        raise UsageError(f"--server-version: {server_version} is not supported; write {RANGE}")
    if only and not enforce:
        raise UsageError("--only goes with --enforce: to watch, no membership is needed")
    if not role.strip():
        raise UsageError("--role: is empty")
    chosen = None if service is None else service_of(service)
    if service is not None and chosen is None:
        raise UsageError(f"--service: {service!r} is not known; write one of {', '.join(KEYS)}")
    text = sql_of(
        role=role, version=version_num(server_version), acting=enforce, only=tuple(only or ()), service=chosen
    )
    typer.echo(text, nl=False)
