"""Exit codes, the same for every command."""

from enum import IntEnum


class Exit(IntEnum):
    """What the shell gets. A higher one of UNREAD and FINDINGS wins: what was not read weighs more."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    UNREAD = 3
    BUG = 70
    INTERRUPTED = 130
