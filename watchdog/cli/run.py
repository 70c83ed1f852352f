"""`pgwatchdog run`: runs the daemon."""

import asyncio
import os

import typer

from watchdog.cli import assembly, configuration
from watchdog.cli.daemon import tune_interpreter
from watchdog.cli.exits import Exit
from watchdog.cli.options import Config, DryRun, Listen, LogFormat, LogLevel
from watchdog.logs import Format, Level, configure_logs, say_line


def run(
    config: Config = None,
    listen: Listen = None,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.LOGFMT,
    dry_run: DryRun = False,
) -> None:
    """Watch every configured cluster and export what is found, until SIGTERM.

    Without a file, PGWATCHDOG_DSN (or PGWATCHDOG_DSN_FILE), PGWATCHDOG_PASSWORD_FILE and PGWATCHDOG_BUDGET describe
    one cluster. SIGHUP reloads the file; a bad one is refused and the old one stays in force, disarmed. SIGUSR1 disarms
    until the next start. Each act is one line of JSON on standard output.
    """
    stderr = configure_logs(form=log_format, level=log_level)
    settings = configuration.with_listen(configuration.load_settings(config, env=os.environ), listen)
    daemon = assembly.daemon(
        settings,
        reload=lambda: configuration.with_listen(configuration.load_settings(config, env=os.environ), listen),
        dry_run=dry_run,
        say=say_line,
    )

    daemon.own.lost_lines = lambda: stderr.lost

    async def main() -> None:
        stop = asyncio.Event()
        daemon.handle_signals(stop)
        await daemon.run(stop=stop)

    tune_interpreter()
    asyncio.run(main())
    if daemon.interrupted:
        raise typer.Exit(Exit.INTERRUPTED)
