"""Options that several commands share, under the names that people type from memory."""

from pathlib import Path
from typing import Annotated

import typer

from watchdog.logs import Format, Level

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
