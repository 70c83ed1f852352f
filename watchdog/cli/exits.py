"""Exit codes, the same for every command."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit code of a command. UNREAD has precedence over FINDINGS, because the findings are incomplete then."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    UNREAD = 3
    BUG = 70
    INTERRUPTED = 130
