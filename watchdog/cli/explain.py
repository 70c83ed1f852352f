"""`pgwatchdog explain`: shows how budgets, evidence, rules and protections apply to one backend."""

import asyncio
import os
from typing import Annotated

import typer

from watchdog.cli import configuration, wiring
from watchdog.cli.options import Config
from watchdog.core.acting.protections import ProtectionContext
from watchdog.core.present.escapes import printable
from watchdog.core.present.explain import Line
from watchdog.core.present.explain import explain as explained
from watchdog.logs import Format, Level, configure_logs
from watchdog.runtime.single_look import look_with_sockets
from watchdog.settings.tree import Settings

MARK = "  <- decides"


def explain(
    server: Annotated[str, typer.Argument(help="The cluster's name in the configuration.")],
    pid: Annotated[int, typer.Argument(min=1, help="The backend's pid.")],
    config: Config = None,
) -> None:
    """Say what is made of one backend and which condition decided. Looks once and never acts.

    What only the running daemon knows (limits, pauses, earlier acts) is not in it: see pgwatchdog history.
    """
    configure_logs(form=Format.LOGFMT, level=Level.ERROR)
    settings = configuration.load_settings(config, env=os.environ)
    typer.echo(asyncio.run(_explain(settings, server, pid)), nl=False)


def written(line: Line) -> str:
    """One line of an explanation as it is printed."""
    return f"{'  ' * line.depth}{printable(line.text)}{MARK if line.decides else ''}\n"


async def _explain(settings: Settings, server: str, pid: int) -> str:
    cycle = wiring.looking(settings, server)
    try:
        look = await look_with_sockets(cycle)
        asked = await cycle.source.backends(commands=[pid])
        context = ProtectionContext(look.census, settings.policy.protect, asked.commands)
        lines = explained(look, pid=pid, book=settings.book, policy=settings.policy, context=context)
        if lines is not None:
            return "".join(map(written, lines))
        there = any(found == pid for found, _ in asked.alive or ())
    finally:
        cycle.close()
    what = "is idle, or no client: there is nothing to judge" if there else "is not there"
    return f"pid {pid} on {printable(server)} {what}.\n"
