"""`pgwatchdog doctor`: checks what on the servers causes or hides orphans, and prints SQL that corrects it."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from watchdog.cli import wiring
from watchdog.cli.exits import Exit
from watchdog.cli.options import Config
from watchdog.cli.targets import Budget, Dsns, chosen
from watchdog.cli.text import cell, drawn
from watchdog.core.doctor.audit import audit, unread
from watchdog.core.doctor.checks import GRAVITY, Check, Status, worst
from watchdog.core.doctor.remedies import block
from watchdog.core.present.escapes import printable
from watchdog.errors import ReadError, UsageError
from watchdog.logs import Format, Level, configure_logs
from watchdog.runtime.cycle import Cycle
from watchdog.settings.tree import Settings

WIDTH = 100
STYLES = {Status.OK: "green", Status.UNKNOWN: "cyan", Status.WARNING: "yellow", Status.FAILED: "bold red"}


class Output(StrEnum):
    """How the result is written. `sql` prints only the SQL statements, for a review and for psql."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    SQL = "sql"


class FailOn(StrEnum):
    """The least serious status with which the exit code is 1. With `never` it is never 1."""

    FAILED = "failed"
    WARNING = "warning"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Examined:
    """The checks of one cluster, and whether the cluster could be read. `runner` is the role that will run the SQL."""

    server: str
    read: bool
    checks: list[Check]
    runner: str | None

    @property
    def block(self) -> str:
        """The SQL that closes the gaps."""
        return block(self.checks, server=self.server, runner=self.runner)


def doctor(
    dsns: Dsns = None,
    config: Config = None,
    budget: Budget = None,
    server: Annotated[str | None, typer.Option(help="Check only this cluster.")] = None,
    form: Annotated[Output, typer.Option("--format", help="Output format.")] = Output.TABLE,
    runner: Annotated[
        str | None,
        typer.Option("--as", metavar="ROLE", help="Role that will run the printed SQL; a superuser if not given."),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Exit with 1 if a check has this status or a worse one.")
    ] = FailOn.FAILED,
) -> None:
    """Check what on each server lets queries outlive their callers or hides them, and print the SQL that changes it.

    Reads only: the SQL is printed, not run. A statement that the role of --as may not run, or that would cancel other
    work, is printed as a comment with the reason. Exit codes: 0 no findings, 1 findings (see --fail-on), 2 wrong
    usage, 3 a cluster could not be read.
    """
    configure_logs(form=Format.LOGFMT, level=Level.ERROR)
    settings = chosen(dsns or [], config=config, budget=budget, grace=None)
    cycles = wiring.cycles(settings) if server is None else [wiring.looking(settings, server)]
    if form is Output.SQL and len(cycles) > 1:
        raise UsageError("--format sql is for one cluster at a time: choose it with --server")
    examined = asyncio.run(_examine(cycles, settings, runner=runner))
    typer.echo(_written(examined, form), nl=False)
    raise typer.Exit(_code(examined, fail_on))


async def _examine(cycles: Sequence[Cycle], settings: Settings, *, runner: str | None) -> list[Examined]:
    try:
        return list(await asyncio.gather(*(_one(cycle, settings, runner=runner) for cycle in cycles)))
    finally:
        for cycle in cycles:
            cycle.source.close()


async def _one(cycle: Cycle, settings: Settings, *, runner: str | None) -> Examined:
    try:
        look = await cycle.look(tick=True)
        facts = await cycle.source.facts(look)
    except ReadError as error:
        checks = unread(f"{error.reason.replace('_', ' ')}: {error}")
        return Examined(server=cycle.server, read=False, checks=checks, runner=runner)
    checks = audit(facts, book=settings.book, runner=runner)
    return Examined(server=cycle.server, read=True, checks=checks, runner=runner)


def _code(examined: Sequence[Examined], fail_on: FailOn) -> Exit:
    if any(not each.read for each in examined):
        return Exit.UNREAD
    if fail_on is FailOn.NEVER:
        return Exit.OK
    gravest = max(GRAVITY[worst(each.checks)] for each in examined)
    return Exit.FINDINGS if gravest >= GRAVITY[Status(fail_on)] else Exit.OK


def _written(examined: Sequence[Examined], form: Output) -> str:
    match form:
        case Output.TABLE:
            return _table(examined)
        case Output.JSON:
            return json.dumps({"clusters": [_record(each) for each in examined]}, indent=2) + "\n"
        case Output.MARKDOWN:
            return "\n".join(_markdown(each) for each in examined)
        case Output.SQL:
            return examined[0].block


def _record(examined: Examined) -> dict[str, object]:
    checks = [
        {
            "name": each.name,
            "scope": each.scope,
            "status": str(each.status),
            "saw": each.saw,
            "hint": each.hint or None,
            "sql": list(each.sql),
            "withheld": [{"sql": r.shown, "reason": r.withheld} for r in each.remedies if r.withheld],
        }
        for each in examined.checks
    ]
    return {"server": examined.server, "read": examined.read, "worst": str(worst(examined.checks)), "checks": checks}


def _markdown(examined: Examined) -> str:
    lines = [f"## {examined.server}", "", "| status | check | scope | saw | what to do |", "|---|---|---|---|---|"]
    lines += [
        f"| {each.status} | {each.name} | {cell(each.scope)} | {cell(each.saw)} | {cell(each.hint)} |"
        for each in examined.checks
    ]
    return "\n".join([*lines, "", "```sql", examined.block.rstrip(), "```", ""])


def _table(examined: Sequence[Examined]) -> str:
    def draw(console: Console) -> None:
        for each in examined:
            console.print(Text.assemble((each.server, "bold"), f"  {_summary(each.checks)}"))
            console.print(_rows(each.checks))
            if any(check.remedies for check in each.checks):
                console.print(Text("What closes the gaps (nothing has been run):", style="bold"))
                # The text is not wrapped, because the second line of a wrapped SQL comment would be a statement.
                console.print(Text(each.block), soft_wrap=True)

    return drawn(draw, width=WIDTH)


def _summary(checks: Sequence[Check]) -> str:
    counts = [(status, sum(check.status is status for check in checks)) for status in reversed(Status)]
    return ", ".join(f"{count} {status}" for status, count in counts if count)


def _rows(checks: Sequence[Check]) -> Table:
    """The rows of a table: every check that is not ok in full, then the checks that are ok.

    The ok checks of the scope `cluster` have a row each. Those of any other scope share one row.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(width=8)
    table.add_column(width=36, overflow="fold")
    table.add_column(overflow="fold")
    for each in sorted(checks, key=lambda check: -GRAVITY[check.status]):
        if each.status is not Status.OK:
            where = f"\n{printable(each.scope)}" if each.scope != "cluster" else ""
            told = Text(printable(each.saw))
            if each.hint:
                told.append(f"\n{printable(each.hint)}", style="dim")
            table.add_row(Text(str(each.status), style=STYLES[each.status]), f"{each.name}{where}", told)
    for scope in dict.fromkeys(each.scope for each in checks):
        fine = [each for each in checks if each.scope == scope and each.status is Status.OK]
        if scope == "cluster":
            for each in fine:
                table.add_row(Text("ok", style=STYLES[Status.OK]), each.name, Text(printable(each.saw), style="dim"))
        elif fine:
            names = Text(", ".join(c.name for c in fine), style="dim")
            table.add_row(Text("ok", style=STYLES[Status.OK]), printable(scope), names)
    return table
