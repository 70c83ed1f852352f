"""Errors that people see, each with its exit code's meaning.

WatchdogError
├── UsageError          a flag, file or setting is wrong                    exit 2
│   └── ConfigurationError   every problem of a configuration at once
├── LedgerError         the ledger cannot be read or written               exit 3
│   └── LedgerRefusedError   it can be reached, but this version must not use it
└── ReadError           a cluster could not be read; carries its Reason     exit 3
"""

from collections.abc import Sequence

from watchdog.core.observed.reasons import Reason


class WatchdogError(Exception):
    """The root: everything below is a sentence for a person, never a traceback."""


class UsageError(WatchdogError):
    """What was asked for cannot be done as asked; the message says what to do instead."""


class ConfigurationError(UsageError):
    """A configuration that cannot be used. `problems` holds every one of them, each with its place."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Keep all problems; the message shows one per line."""
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class LedgerError(WatchdogError):
    """The ledger cannot be read or written: without one nothing is signalled. The message names no password."""


class LedgerRefusedError(LedgerError):
    """The ledger can be reached, but this version must not use it: a newer one has changed its schema incompatibly."""


class ReadError(WatchdogError):
    """A cluster could not be read. The message names no password and fits on one line."""

    def __init__(self, reason: Reason, detail: str) -> None:
        """Keep the bounded reason apart from the sentence for people."""
        super().__init__(detail)
        self.reason = reason
