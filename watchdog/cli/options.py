"""Options that several commands share."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from watchdog.errors import UsageError
from watchdog.logs import Format, Level
from watchdog.settings.durations import parse_duration

Config = Annotated[
    Path | None,
    typer.Option("-c", "--config", "--config.file", envvar="PGWATCHDOG_CONFIG_FILE", help="Configuration file (YAML)."),
]
Listen = Annotated[
    str | None, typer.Option("--web.listen-address", help="Address to listen on, for example :10187.", metavar="ADDR")
]
LogLevel = Annotated[
    Level, typer.Option("--log.level", envvar="PGWATCHDOG_LOG_LEVEL", help="Least level that is logged.")
]
LogFormat = Annotated[Format, typer.Option("--log.format", envvar="PGWATCHDOG_LOG_FORMAT", help="Shape of log lines.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Never signal anything, whatever the file says.")]


def duration(text: str, *, option: str, zero: bool = False) -> timedelta:
    """Read a duration from the command line.

    Raises:
        UsageError: the text is no duration; the message names the option.

    """
    if text.isdigit():
        text_or_number: object = int(text)
    else:
        text_or_number = text
    try:
        return parse_duration(text_or_number, zero=zero)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
