"""`pgwatchdog check` and `pgwatchdog schema`. Both use only the configuration and no database."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from watchdog.cli import configuration
from watchdog.cli.options import Config
from watchdog.settings.differences import differences
from watchdog.settings.durations import format_duration
from watchdog.settings.load import json_schema
from watchdog.settings.tree import Settings

Against = Annotated[
    Path | None,
    typer.Option(
        "--against",
        metavar="FILE",
        help="Another configuration, such as the running one: say what would change by a reload.",
        show_default=False,
    ),
]


def check(config: Config = None, against: Against = None) -> None:
    """Check the configuration and say what it means. Touches no database.

    Warns if this user cannot write the file of the ledger. Creates nothing.
    """
    settings = configuration.load_settings(config, env=os.environ)
    running = None if against is None else configuration.load_settings(against, env=os.environ)
    clusters = len(settings.clusters)
    budgets = settings.book.sources()
    typer.echo(f"{settings.source}: good")
    typer.echo(f"  {clusters} cluster{'s' if clusters != 1 else ''}: {', '.join(c.name for c in settings.clusters)}")
    listed = ", ".join(f"{name} {format_duration(limit)}" for name, limit in budgets.items())
    typer.echo(f"  {len(budgets)} budget{'s' if len(budgets) != 1 else ''}{': ' if listed else ''}{listed}")
    typer.echo(f"  a look every {format_duration(settings.interval)}")
    for line in _acting(settings):
        typer.echo(f"  {line}")
    for warning in (*settings.warnings, *_ledger_warnings(settings)):
        typer.echo(f"warning: {warning}")
    if running is not None:
        found = differences(running, settings)
        typer.echo(f"against {running.source}: {'' if found else 'nothing changes'}".rstrip())
        for line in found:
            typer.echo(f"  {line}")


def _acting(settings: Settings) -> list[str]:
    """Lines about acting: the rules, the ledger, and the armed clusters."""
    rules = ", ".join(f"{rule.name} ({rule.action})" for rule in settings.policy.rules)
    ledger = (
        "none: nothing can be signalled"
        if settings.ledger_url is None
        else configuration.shown_url(settings.ledger_url)
    )
    armed = ", ".join(settings.armed)
    mode = f"ARMED: {armed}" if armed else "mode: dry run, nothing is signalled"
    return [f"rules: {rules}", f"ledger: {ledger}", mode]


def _ledger_warnings(settings: Settings) -> list[str]:
    """A warning and no error, because the file may be checked on another machine or as another user."""
    problem = None if settings.ledger_url is None else configuration.unwritable_ledger(settings.ledger_url)
    return [] if problem is None else [f"ledger.url: {problem}"]


def schema() -> None:
    """Print the JSON Schema of the configuration file."""
    typer.echo(json.dumps(json_schema(), indent=2))
