"""The entry point of the command. It imports the command line inside a frame that handles an interrupt.

An import takes up to a second, in which Ctrl-C would otherwise print a traceback.
"""

import os
import signal
import sys

INTERRUPTED = 130
"""`Exit.INTERRUPTED`, which takes an import."""


def main() -> None:
    """Run the command line and exit with one of `exits.Exit`."""
    try:
        from watchdog.cli.main import run  # noqa: PLC0415  # inside this frame

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # What was interrupted may be half imported, and to end the interpreter would run it.
        os._exit(INTERRUPTED)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the exit code is known, and no interrupt may change it any more
    sys.exit(code)
