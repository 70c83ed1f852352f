"""`pgwatchdog cancel`: one act on one run, requested by a person, with the daemon's guard and record."""

import asyncio
import json
import os
from datetime import datetime
from typing import Annotated

import typer

from watchdog.cli import configuration, wiring
from watchdog.cli.exits import Exit
from watchdog.cli.options import Config
from watchdog.core.acting.acts import ActResult, ObservedEffect, Result
from watchdog.core.present.records import act_record
from watchdog.errors import UsageError
from watchdog.logs import Format, Level, configure_logs
from watchdog.runtime.manual_cancel import Refusal, manual_cancel
from watchdog.settings.tree import Settings


def cancel(
    server: Annotated[str, typer.Argument(help="The cluster's name in the configuration.")],
    pid: Annotated[int, typer.Argument(min=1, help="The backend's pid.")],
    start: Annotated[str, typer.Option(help="The run's start, as a report with --format json gives it.")],
    config: Config = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do everything but the signal.")] = False,
) -> None:
    """Cancel one orphan or duplicate by hand: protected, guarded and on record as the daemon's own acts are.

    The act is one line of JSON on standard output. Exit codes: 0 done, 1 not done, 2 usage, 3 the cluster could not
    be read or the ledger not written.
    """
    configure_logs(form=Format.LOGFMT, level=Level.ERROR)
    settings = configuration.load_settings(config, env=os.environ)
    answer = asyncio.run(_cancel(settings, server, pid, _instant(start), dry_run))
    if isinstance(answer, Refusal):
        typer.echo(f"pgwatchdog: not done: {answer.sentence}; pgwatchdog explain {server} {pid} says more", err=True)
        raise typer.Exit(Exit.FINDINGS)
    done, effect = answer
    typer.echo(json.dumps(act_record(done) | {"outcome": None if effect is None else str(effect.outcome)}))
    typer.echo(f"pgwatchdog: {_sentence(done, effect)}", err=True)
    raise typer.Exit(Exit.OK if done.result in {Result.SIGNALLED, Result.REHEARSED} else Exit.FINDINGS)


async def _cancel(
    settings: Settings, server: str, pid: int, start: datetime, dry_run: bool
) -> tuple[ActResult, ObservedEffect | None] | Refusal:
    cycle, ledger = wiring.manual(settings, server)
    try:
        return await manual_cancel(
            cycle, ledger, pid=pid, start=start, rehearse=dry_run, disarm_file=settings.disarm_file
        )
    finally:
        cycle.close()


def _instant(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--start: {text!r} is no instant: copy `start` from report --format json") from error
    if found.tzinfo is None:
        raise UsageError(f"--start: {text!r} has no zone: copy `start` from report --format json")
    return found


def _sentence(done: ActResult, effect: ObservedEffect | None) -> str:
    act = f"act {done.act.id}"
    if done.result is Result.REHEARSED:
        return f"would be cancelled ({act}, dry run)"
    if done.result is Result.TIMED_OUT:
        return f"not known: the server did not answer in time, so the signal may have been sent ({act})"
    if done.result is not Result.SIGNALLED:
        why = done.withheld or done.result
        return f"not done: {why.replace('_', ' ')} {done.detail}".rstrip() + f" ({act})"
    outcome = "its effect is not known" if effect is None else str(effect.outcome).replace("_", " ")
    return f"cancelled: {outcome} ({act})"
