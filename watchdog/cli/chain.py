"""`pgwatchdog chain`: computes the effects of the caller chain. It uses no database, so that it can run in CI."""

import json
import os
import sys
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from watchdog.cli import configuration
from watchdog.cli.drawing import chain_text, spike_text
from watchdog.cli.exits import Exit
from watchdog.cli.options import Config, duration
from watchdog.core.chain.chain import Chain
from watchdog.core.chain.chain_inversions import inversions
from watchdog.core.chain.ladder import play
from watchdog.core.chain.loop import PLOTTED, Course, Remedy, Spike, loop_of, simulate, spike_of
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
    as_json = form is Output.JSON
    typer.echo(json_of(described, spike) if as_json else text_of(described, spike, color=sys.stdout.isatty()))
    raise typer.Exit(_exit_of(described))


def text_of(described: Chain | None, spike: Spike | None, *, color: bool = False) -> str:
    """The chain and the simulation of the spike as text. A None is left out."""
    texts: list[str] = []
    if described is not None:
        found, loop = inversions(described), loop_of(described)
        texts.append(chain_text(described, play(described), found=found, loop=loop, color=color))
    if spike is not None:
        texts.append(spike_text(spike, [simulate(spike, remedy) for remedy in Remedy], color=color))
    return "\n".join(texts).rstrip("\n")


def json_of(described: Chain | None, spike: Spike | None) -> str:
    """The chain and the simulation of the spike as JSON. A None is left out."""
    record: Record = {} if described is None else _chain_record(described)
    if spike is not None:
        record["simulation"] = {remedy.name.lower(): _course_record(simulate(spike, remedy)) for remedy in Remedy}
    return json.dumps(record, indent=2)


def _exit_of(described: Chain | None) -> Exit:
    if described is None:
        return Exit.OK
    loop = loop_of(described)
    return Exit.FINDINGS if inversions(described) or (loop is not None and loop.feeds_itself) else Exit.OK


def _described(config: Path | None, *, work: str | None) -> Chain:
    if config is None:
        raise UsageError("give the file whose section `chain` describes the layers: -c FILE")
    found = configuration.load_settings(config, env=os.environ).chain
    if found is None:
        raise UsageError(f"{config}: there is no section `chain`; docs/chain.md and config/every-key.yaml show one")
    return found if work is None else replace(found, work=duration(work, option="--work"))


def _chain_record(described: Chain) -> Record:
    ladder, loop = play(described), loop_of(described)
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
            for each in inversions(described)
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
        "most_at_once": course.most,
        "in_flight": [*course.in_flight, *[None] * (PLOTTED + 1 - len(course.in_flight))],
        "answered_in_time": len(course.served),
        "given_up": len(course.given_up),
        "retries": course.retries,
        "stopped_at_seconds": _number(course.stopped),
    }
