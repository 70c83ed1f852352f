"""The clusters that a command looks at: those of a configuration, or connection strings on the command line."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from watchdog.cli import configuration
from watchdog.cli.options import duration
from watchdog.errors import UsageError
from watchdog.settings.tree import Settings

Dsns = Annotated[
    list[str] | None, typer.Argument(metavar="[DSN]...", help="Connection strings: URL, key=value or service=.")
]
Budget = Annotated[str | None, typer.Option(help="Budget of every role, for example 15min.")]
Grace = Annotated[str | None, typer.Option(help="Added to the budget; 5s if not given.")]


def chosen(dsns: Sequence[str], *, config: Path | None, budget: str | None, grace: str | None) -> Settings:
    """The settings of a file, or of connection strings with their options.

    Raises:
        UsageError: both are given, or options that do not belong together.

    """
    if dsns and config is not None:
        raise UsageError("give connection strings or a configuration file, not both")
    if dsns:
        return configuration.settings_for(
            dsns,
            env=os.environ,
            budget=None if budget is None else duration(budget, option="--budget"),
            grace=None if grace is None else duration(grace, option="--grace", zero=True),
        )
    if budget is not None or grace is not None:
        raise UsageError("--budget and --grace go with connection strings; a file has its own budgets")
    return configuration.load_settings(config, env=os.environ)
