"""The exceptions whose messages are shown to a user, and the exit code of each.

This module knows nothing of how an error is shown: the command line prints the message and sets the exit code.

WatchdogError
├── UsageError          a flag, a file or a setting is wrong                 exit 2
│   └── ConfigurationError   every problem of one configuration
├── LedgerError         the ledger cannot be read or written                 exit 3
│   └── LedgerRefusedError   the ledger can be reached, but this version must not use it
└── ReadError           a cluster could not be read; carries its Reason      exit 3
"""

from collections.abc import Sequence

from watchdog.core.observed.reasons import Reason


class WatchdogError(Exception):
    """The base class. The message of every subclass is a sentence for the user, shown without a traceback."""


class UsageError(WatchdogError):
    """A request that cannot be carried out as given. The message says what to do instead."""


class ConfigurationError(UsageError):
    """A configuration that cannot be used. `problems` lists every problem, each with its place."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Keep all problems. The message shows one problem per line."""
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class LedgerError(WatchdogError):
    """The ledger cannot be read or written. Nothing is signalled without a ledger. The message holds no password."""


class LedgerRefusedError(LedgerError):
    """The ledger must not be used, because a newer version of pgwatchdog has changed its schema incompatibly."""


class ReadError(WatchdogError):
    """A cluster could not be read. The message holds no password and fits on one line."""

    def __init__(self, reason: Reason, detail: str, *, state: str | None = None) -> None:
        """Keep `reason`, which is a label value, apart from `detail`, which is a sentence for the user.

        `state` is the server's SQLSTATE, if the server has answered.
        """
        super().__init__(detail)
        self.reason = reason
        self.state = state
