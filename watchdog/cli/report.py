"""`pgwatchdog report`: looks at every cluster, once or repeatedly, and prints what it found."""

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

import typer

from watchdog.cli import configuration, render, wiring
from watchdog.cli.exits import Exit
from watchdog.cli.options import Config, duration
from watchdog.cli.targets import Budget, Dsns, Grace, chosen
from watchdog.core.judging.budgets import MIN_INTERVAL
from watchdog.core.judging.evidence import ALARMING
from watchdog.core.observed.reasons import Reason
from watchdog.core.present.look import Look, Unread
from watchdog.core.present.not_looked_for import not_looked_for
from watchdog.errors import ReadError, UsageError
from watchdog.logs import Event, Format, Level, configure_logs, get_logger
from watchdog.runtime.cycle import Cycle
from watchdog.runtime.single_look import look_with_sockets
from watchdog.settings.tree import Settings

State = Look | Unread


class Output(StrEnum):
    """How a report is written."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


def report(
    dsns: Dsns = None,
    config: Config = None,
    budget: Budget = None,
    grace: Grace = None,
    form: Annotated[Output, typer.Option("--format", help="How to write it.")] = Output.TABLE,
    watch: Annotated[str | None, typer.Option(help="Look again and again, this far apart, for example 5s.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 for everything that was not looked for.")
    ] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 although there are findings.")] = False,
) -> None:
    """Look once at every cluster and say what runs on for nobody. Never acts.

    Exit codes: 0 nothing found, 1 findings, 2 usage, 3 a cluster could not be read, or something could have been
    looked for and that failed; with --strict also if something cannot be looked for from here.
    """
    configure_logs(form=Format.LOGFMT, level=Level.ERROR)
    settings = chosen(dsns or [], config=config, budget=budget, grace=grace)
    pause = None if watch is None else duration(watch, option="--watch")
    if pause is not None and pause < MIN_INTERVAL:
        raise UsageError("--watch: at least 1s: a watchdog must not become the load")
    code = asyncio.run(_report(settings, form=form, pause=pause, strict=strict))
    raise typer.Exit(Exit.OK if exit_zero and code is Exit.FINDINGS else code)


def exit_code(states: Sequence[State], *, strict: bool = False) -> Exit:
    """The exit code of a report. A cluster that was not read completely has precedence over findings."""
    if any(isinstance(state, Unread) or not state.complete for state in states):
        return Exit.UNREAD
    looks = [state for state in states if isinstance(state, Look)]
    if any(limit.failed or strict for look in looks for limit in not_looked_for(look)):
        return Exit.UNREAD
    found = any(each.kind in ALARMING for look in looks for each in look.judgement.findings)
    return Exit.FINDINGS if found else Exit.OK


async def _report(settings: Settings, *, form: Output, pause: timedelta | None, strict: bool) -> Exit:
    cycles = wiring.cycles(settings, pause=pause or timedelta(0))
    try:
        while True:
            states = await asyncio.gather(*(_state(cycle) for cycle in cycles))
            typer.echo(_written(states, settings=settings, form=form, again=pause is not None), nl=False)
            if pause is None:
                return exit_code(states, strict=strict)
            await asyncio.sleep(pause.total_seconds())
    finally:
        for cycle in cycles:
            cycle.close()


async def _state(cycle: Cycle) -> State:
    try:
        await cycle.renew_census()
        return await look_with_sockets(cycle)
    except ReadError as error:
        return Unread(cycle.server, error.reason, str(error))
    except Exception as error:  # noqa: BLE001  # because a bug in one look must not prevent the others
        get_logger().exception(Event.INTERNAL_ERROR, server=cycle.server)
        cycle.close()
        return Unread(cycle.server, Reason.INTERNAL, f"{type(error).__name__}: {error}")


def _written(states: Sequence[State], *, settings: Settings, form: Output, again: bool) -> str:
    arming = settings.source != configuration.COMMAND_LINE
    match form:
        case Output.TABLE:
            color = sys.stdout.isatty() or None  # otherwise as the environment asks
            return render.table(states, book=settings.book, arming=arming, color=color)
        case Output.MARKDOWN:
            return render.markdown(states, book=settings.book, arming=arming)
        case Output.JSON:
            return render.as_json(states, book=settings.book, lines=again)
