"""`pgwatchdog chain`: computes the effects of the caller chain. It uses no database, so that it can run in CI."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from watchdog.cli import wiring
from watchdog.cli.drawing import chain_text, spike_text
from watchdog.cli.exits import Exit
from watchdog.cli.options import Config, duration
from watchdog.core.chain.chain import Chain
from watchdog.core.chain.chain_inversions import Inversion, inversions
from watchdog.core.chain.ladder import Ladder, play
from watchdog.core.chain.loop import Course, Loop, Remedy, Spike, loop_of, simulate, spike_of
from watchdog.errors import UsageError

Record = dict[str, object]


class Output(StrEnum):
    """How the result is written."""

    TABLE = "table"
    JSON = "json"


def chain(
    config: Config = None,
    work: Annotated[str | None, typer.Option(help="How long the query takes, instead of chain.work.")] = None,
    simulated: Annotated[
        bool, typer.Option("--simulate", help="Play a spike under four remedies; without a file, the textbook one.")
    ] = False,
    form: Annotated[Output, typer.Option("--format", help="How to write it.")] = Output.TABLE,
) -> None:
    """Compute what a chain of callers does to the database.

    Copies, time for nobody, inverted timeouts and the load of retries, from the section `chain` of the configuration
    alone: no database is touched. Exit codes: 0 fine, 1 a child can outlive
    its parent's wait or a retry loop would sustain itself, 2 usage.
    """
    described = None if config is None and work is None and simulated else _described(config, work=work)
    spike = None
    if simulated:
        spike = Spike() if described is None else spike_of(described)
        if spike is None:
            raise UsageError(f"{config}: --simulate needs chain.period, the time between two runs")
    courses = [] if spike is None else [simulate(spike, remedy) for remedy in Remedy]
    raise typer.Exit(_told(described, spike, courses, form=form))


def _described(config: Path | None, *, work: str | None) -> Chain:
    if config is None:
        raise UsageError("give the file whose section `chain` describes the layers: -c FILE")
    found = wiring.load_settings(config, env=os.environ).chain
    if found is None:
        raise UsageError(f"{config}: there is no section `chain`; docs/chain.md and config/every-key.yaml show one")
    return found if work is None else replace(found, work=duration(work, option="--work"))


def _told(described: Chain | None, spike: Spike | None, courses: Sequence[Course], *, form: Output) -> Exit:
    record: Record = {}
    texts: list[str] = []
    code, color = Exit.OK, sys.stdout.isatty()
    if described is not None:
        ladder, found, loop = play(described), inversions(described), loop_of(described)
        if found or (loop is not None and loop.feeds_itself):
            code = Exit.FINDINGS
        record |= _chain_record(described, ladder, found=found, loop=loop)
        texts.append(chain_text(described, ladder, found=found, loop=loop, color=color))
    if spike is not None:
        record["simulation"] = {each.remedy.name.lower(): _course_record(each) for each in courses}
        texts.append(spike_text(spike, courses, color=color))
    typer.echo(json.dumps(record, indent=2) if form is Output.JSON else "\n".join(texts).rstrip("\n"))
    return code


def _chain_record(described: Chain, ladder: Ladder, *, found: Sequence[Inversion], loop: Loop | None) -> Record:
    return {
        "copies_started": len(ladder.copies),
        "most_at_once": ladder.at_once,
        "for_nobody_seconds": ladder.for_nobody.total_seconds(),
        "database_seconds": ladder.database.total_seconds(),
        "result": str(ladder.result),
        "attempts_multiplied": described.product,
        "copies": [
            {
                "start_seconds": each.start.total_seconds(),
                "end_seconds": each.end.total_seconds(),
                "wanted_until_seconds": _number(each.wanted_until),
            }
            for each in ladder.copies
        ],
        "inversions": [
            {
                "parent": each.parent,
                "child": each.child,
                "wait_seconds": each.wait.total_seconds(),
                "total_seconds": _number(each.total),
                "change": each.where,
                "from": _number(each.was),
                "to": _number(each.to),
            }
            for each in found
        ],
        "loop": None
        if loop is None
        else {
            "copies": loop.copies,
            "utilisation": loop.utilisation,
            "load": loop.load,
            "sustains_itself": loop.feeds_itself,
        },
    }


def _number(value: timedelta | int | None) -> float | None:
    """A number of attempts unchanged, a duration in seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def _course_record(course: Course) -> Record:
    return {
        "recovered": course.recovered,
        "in_flight": list(course.in_flight),
        "answered_in_time": len(course.served),
        "given_up": len(course.given_up),
        "retries": course.retries,
    }
