"""`pgwatchdog grants`: the least-privilege SQL, printed."""

from typing import Annotated

import typer

from watchdog.core.doctor.grants import NEWEST, OLDEST
from watchdog.core.doctor.grants import grants as sql_of
from watchdog.errors import UsageError


def grants(
    role: Annotated[str, typer.Option(help="The role that pgwatchdog connects as.")] = "pgwatchdog",
    server_version: Annotated[
        int, typer.Option("--server-version", help="The server's major version, 14 to 18.", show_default=True)
    ] = NEWEST,
    enforce: Annotated[bool, typer.Option("--enforce", help="With what it needs to cancel.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="With --enforce: cancel this role's queries alone; repeatable.")
    ] = None,
) -> None:
    """Print the SQL of the least-privilege role, each grant with its reason. Runs nothing."""
    if not OLDEST <= server_version <= NEWEST:
        raise UsageError(f"--server-version: {server_version} is not supported; write {OLDEST} to {NEWEST}")
    if only and not enforce:
        raise UsageError("--only goes with --enforce: to watch, no membership is needed")
    if not role.strip():
        raise UsageError("--role: is empty")
    text = sql_of(role=role, version=server_version * 10_000, acting=enforce, only=tuple(only or ()))
    typer.echo(text, nl=False)
