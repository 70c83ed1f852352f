"""The entry point of the command. It imports the command line inside a frame that handles an interrupt.

An import takes up to a second, in which Ctrl-C would otherwise print a traceback.
"""

import os
import signal
import sys

INTERRUPTED, USAGE = 130, 2
"""`Exit.INTERRUPTED` and `Exit.USAGE`, which take an import."""

FOREIGN = "observers"
"""A package of the file-watching library that has the import name `watchdog` too."""


def main() -> None:
    """Run the command line and exit with one of `exits.Exit`."""
    try:
        if _is_shared():
            sys.stderr.write(
                "pgwatchdog: a file-watching library is installed in this environment under the same import name, "
                "watchdog: install pgwatchdog in an environment of its own (pipx, uv tool, or the image)\n"
            )
            sys.exit(USAGE)
        if sys.argv[1:] == ["--version"]:  # answered before the command line's library is imported
            from watchdog.version import own_version  # noqa: PLC0415  # inside this frame

            sys.stdout.write(f"pgwatchdog {own_version()}\n")
            sys.exit(0)
        from watchdog.cli.main import run  # noqa: PLC0415  # inside this frame

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # What was interrupted may be half imported, and to end the interpreter would run it.
        os._exit(INTERRUPTED)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the exit code is known, and no interrupt may change it any more
    sys.exit(code)


def _is_shared() -> bool:
    """True if another distribution has put its modules into our import package, or ours into its."""
    package = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120  # pathlib takes an import
    return os.path.isdir(os.path.join(package, FOREIGN))  # noqa: PTH112, PTH118  # as above
