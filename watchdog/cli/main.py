"""The command line: registers the commands and maps every result and error to an exit code."""

import contextlib
import errno
import importlib
import os
import sys
import traceback
from typing import Annotated

import typer

from watchdog.cli.exits import Exit
from watchdog.core.present.escapes import printable
from watchdog.errors import UsageError, WatchdogError
from watchdog.version import own_version

COMMANDS = {
    "run": "run",
    "report": "report",
    "explain": "explain",
    "cancel": "cancel",
    "history": "history",
    "doctor": "doctor",
    "chain": "chain",
    "grants": "grants",
    "check": "check",
    "schema": "check",
    "demo": "demo",
}
"""Each command with its module. Only the module of the given command is imported, because some imports take seconds."""

SUMMARIES = {
    "run": "Watch every configured cluster and export what is found, until SIGTERM.",
    "report": "Look once at every cluster and say what runs on for nobody.",
    "explain": "Say what is made of one backend and which condition decided.",
    "cancel": "Cancel one orphan or duplicate by hand: protected, guarded and on record as the daemon's own acts are.",
    "history": "Show what was done, rehearsed or tried, newest first.",
    "doctor": "Check what on each server lets queries outlive their callers or hides them, and print the SQL that "
    "changes it.",
    "chain": "Compute what a chain of callers does to the database.",
    "grants": "Print the SQL of the least-privilege role, each grant with its reason.",
    "check": "Check the configuration and say what it means.",
    "schema": "Print the JSON Schema of the configuration file.",
    "demo": "Boot a Postgres of its own, play the stories of orphaned queries on it, and watch them.",
}
"""The first sentence of each command's help, for a list of all commands that imports none of them."""


def make_app(*, only: str | None = None, summaries: bool = False) -> typer.Typer:
    """Build the command line. It is built at each call and not at import.

    `only` limits it to that command. With `summaries` the commands are there by name and first sentence alone.
    """
    app = typer.Typer(
        name="pgwatchdog",
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_root)
    for name in COMMANDS if only is None else (only,):
        if summaries:
            app.command(name, help=SUMMARIES[name])(_nothing)
            continue
        module = importlib.import_module(f"watchdog.cli.{COMMANDS[name]}")
        app.command(name)(getattr(module, name))
    return app


def _nothing() -> None:
    """A command of which only the name and the first sentence are wanted."""


def run(arguments: list[str]) -> int:
    """Run the command line and return one of `Exit`."""
    return _flushed(_run(arguments))


def _run(arguments: list[str]) -> int:
    try:
        only = arguments[0] if arguments and arguments[0] in COMMANDS else None
        app = make_app(only=only, summaries=only is None)
        result = app(arguments, standalone_mode=False, prog_name="pgwatchdog")
    except typer.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    except (BrokenPipeError, SystemExit):
        return Exit.OK  # the reader has closed the pipe; typer turns that into SystemExit
    except Exception as error:  # noqa: BLE001  # every error has an exit code
        # Before Python 3.12 a class that is interrupted while it is made raises RuntimeError.
        return Exit.INTERRUPTED if isinstance(error.__cause__, KeyboardInterrupt) else _failed(error)
    return result if isinstance(result, int) else Exit.OK


def _flushed(code: int) -> int:
    """Flush the output and handle errors, so that the interpreter's flush at exit cannot change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if stream is sys.stdout and error.errno not in {None, errno.EPIPE}:
                _say(f"the output cannot be written: {error.strerror}")
                code = Exit.USAGE
    return code


def _failed(error: Exception) -> Exit:
    # The base of BadParameter is the base class of all usage errors. typer does not export it by name.
    if isinstance(error, typer.BadParameter.__bases__):
        error.show()  # type: ignore[attr-defined]  # a method of that base class
        return Exit.USAGE
    if isinstance(error, WatchdogError):
        for line in str(error).splitlines():
            _say(line)
        return Exit.USAGE if isinstance(error, UsageError) else Exit.UNREAD
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EIO}:
        _say(f"the output cannot be written: {error.strerror}")
        return Exit.USAGE
    traceback.print_exception(error)
    _say("this is a bug in pgwatchdog; the lines above say where")
    return Exit.BUG


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # if this cannot be written, the exit code still reports the error
        typer.echo(f"pgwatchdog: {printable(line)}", err=True)


def _version(wanted: bool) -> None:  # typer calls it with the value of the flag
    if wanted:
        typer.echo(f"pgwatchdog {own_version()}")
        raise typer.Exit(Exit.OK)


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Watch Postgres for orphans: queries that run on after everyone who wanted their result has given up."""
    del version
