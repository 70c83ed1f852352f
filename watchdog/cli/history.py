"""`pgwatchdog history`: prints the acts in the ledger with their evidence, results and outcomes."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.table import Table

from watchdog.cli import configuration
from watchdog.cli.options import Config, duration
from watchdog.cli.text import drawn
from watchdog.core.present.escapes import printable
from watchdog.core.present.phrases import span
from watchdog.errors import UsageError
from watchdog.ledger.history import Wanted, as_values
from watchdog.ledger.store import Store
from watchdog.ledger.url import shown

WIDTH = 100
Act = Mapping[str, Any]  # a row of the ledger


class Output(StrEnum):
    """How acts are written. JSON has one act per line."""

    TABLE = "table"
    JSON = "json"


def history(  # noqa: PLR0913, PLR0917  # one option for each column that can be filtered
    config: Config = None,
    server: Annotated[str | None, typer.Option(help="Only this cluster.")] = None,
    rule: Annotated[str | None, typer.Option(help="Only this rule; by-hand for what people did.")] = None,
    role: Annotated[str | None, typer.Option(help="Only sessions of this login role.")] = None,
    job: Annotated[str | None, typer.Option(help="Only this job.")] = None,
    hand: Annotated[str | None, typer.Option(help="Only signal, or only rehearse.")] = None,
    result: Annotated[
        str | None, typer.Option(help="Only with this answer of the server, for example moved_on.")
    ] = None,
    outcome: Annotated[str | None, typer.Option(help="Only with this outcome, for example ineffective.")] = None,
    since: Annotated[str | None, typer.Option(help="Only the last so long, for example 24h.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 50,
    form: Annotated[Output, typer.Option("--format", help="How to write it.")] = Output.TABLE,
) -> None:
    """Show what was done, rehearsed or tried, newest first. Reads the ledger alone, no database that is watched."""
    settings = configuration.load_settings(config, env=os.environ)
    if settings.ledger_url is None:
        raise UsageError(f"{settings.source}: ledger.url is not set, so nothing is on record")
    begin = None if since is None else datetime.now(UTC) - duration(since, option="--since")
    wanted = Wanted(
        server=server,
        rule=rule,
        role=role,
        job=job,
        hand=hand,
        result=result,
        outcome=outcome,
        since=begin,
        limit=limit,
    )
    store = Store(settings.ledger_url, read_only=True)
    if store.is_missing:
        typer.echo(f"pgwatchdog: there is no ledger yet at {shown(settings.ledger_url)}", err=True)
        acts = []
    else:
        try:
            acts = store.history(wanted)
        finally:
            store.close()
    typer.echo(_table(acts) if form is Output.TABLE else _lines(acts), nl=False)


def _lines(acts: Sequence[Act]) -> str:
    return "".join(f"{json.dumps(as_values(act))}\n" for act in acts)


def _table(acts: Sequence[Act]) -> str:
    if not acts:
        return "Nothing on record.\n"
    width = max(WIDTH, min(shutil.get_terminal_size((WIDTH, 24)).columns, 160))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("WHEN (UTC), ACT", "WHO", "JOB, WINDOW", "RAN, BUDGET", "WHY", "WHAT", "WHAT CAME OF IT"):
        table.add_column(column, overflow="fold", no_wrap=column.startswith("WHEN"))
    for act in acts:
        table.add_row(*_row(act))
    return drawn(lambda console: console.print(table), width=width)


def _row(act: Act) -> tuple[str, ...]:
    budget = None if act["budget_seconds"] is None else timedelta(seconds=act["budget_seconds"])
    again = "\ncame back at once" if act["came_back_at"] is not None else ""
    return (
        f"{act['intended_at']:%Y-%m-%d %H:%M:%S}\n{act['id']}",
        f"{printable(act['role'])}\npid {act['pid']}\non {printable(act['server'])}",
        f"{printable(act['job'] or '-')}\n{printable(act['window'] or '')}".rstrip(),
        f"{span(timedelta(seconds=act['running_seconds']))}\n{span(budget)}",
        f"{act['kind']}\n{_words(act['evidence'])}\nby {act['rule']}",
        f"{_words(act['result']) if act['result'] else 'intended'}\ntry {act['attempt']}",
        f"{_words(act['outcome']) if act['outcome'] else 'not known'}{again}",
    )


def _words(text: str) -> str:
    return text.replace(",", ", ").replace("_", " ")
