"""Bounds the number of log lines of one kind in a minute, and counts those that were left out."""

import time
from collections.abc import Callable
from dataclasses import dataclass

LINES_PER_MINUTE = 120
MINUTE = 60.0


@dataclass(slots=True, kw_only=True)
class LineLimit:
    """Admits at most `most` lines in each minute. A minute begins with the first line after the one before.

    `clock` is a monotonic clock in seconds.
    """

    most: int = LINES_PER_MINUTE
    clock: Callable[[], float] = time.monotonic
    _until: float = float("-inf")
    _admitted: int = 0
    _left_out: int = 0

    def admit(self) -> bool:
        """True if one more line may be written now. Otherwise the line is counted as left out."""
        now = self.clock()
        if now >= self._until:
            self._until, self._admitted = now + MINUTE, 0
        if self._admitted < self.most:
            self._admitted += 1
            return True
        self._left_out += 1
        return False

    def take_left_out(self, *, early: bool = False) -> int:
        """The number of lines that were left out in the minute that is over, each counted once.

        With `early` also those of a minute that is not over yet.
        """
        if not early and self.clock() < self._until:
            return 0
        left_out, self._left_out = self._left_out, 0
        return left_out
