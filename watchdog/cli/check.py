"""`pgwatchdog check` and `pgwatchdog schema`: the configuration alone, no database."""

import json
import os

import typer

from watchdog.cli import wiring
from watchdog.cli.options import Config
from watchdog.settings.durations import format_duration
from watchdog.settings.load import json_schema


def check(config: Config = None) -> None:
    """Check the configuration and say what it means. Touches no database."""
    settings = wiring.load_settings(config, env=os.environ)
    clusters = len(settings.clusters)
    budgets = settings.book.sources()
    typer.echo(f"{settings.source}: good")
    typer.echo(f"  {clusters} cluster{'s' if clusters != 1 else ''}: {', '.join(c.name for c in settings.clusters)}")
    listed = ", ".join(f"{name} {format_duration(limit)}" for name, limit in budgets.items())
    typer.echo(f"  {len(budgets)} budget{'s' if len(budgets) != 1 else ''}{': ' if listed else ''}{listed}")
    typer.echo(f"  mode: dry run, a look every {format_duration(settings.interval)}")
    for warning in settings.warnings:
        typer.echo(f"warning: {warning}")


def schema() -> None:
    """Print the JSON Schema of the configuration file."""
    typer.echo(json.dumps(json_schema(), indent=2))
