"""Misses: attempts on a session that signalled nobody, because its row had changed since the look.

A session that changes its name all the time can be missed by every attempt. After each miss it is left alone for a
while, and in the end for as long as the same statement runs. This module knows nothing of rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from watchdog.core.acting.acts import Result
from watchdog.core.observed.activity import Backend, Clock

MAX_MISSES = 4
"""Number of misses after which the statement is left alone. The pauses before are of 1, 2 and 4 intervals."""

ROW_HAS_CHANGED = frozenset({Result.GONE, Result.MOVED_ON, Result.PROTECTED})
"""Answers that say that the row is no longer the one that was judged."""

Session = tuple[int, datetime]
"""Pid and backend start."""


@dataclass(frozen=True, slots=True)
class Misses:
    """The misses on one statement of a session: its start, how many, and until when the session is left alone."""

    statement: datetime | None
    count: int
    until: datetime

    @property
    def is_final(self) -> bool:
        """True if there is no further attempt while this statement runs."""
        return self.count >= MAX_MISSES


def missed(
    misses: Mapping[Session, Misses], backend: Backend, *, interval: timedelta, at: datetime
) -> dict[Session, Misses]:
    """The misses after one more on the statement that `backend` runs."""
    before = misses_of(misses, backend)
    count = 1 if before is None else before.count + 1
    one = Misses(_statement(backend), count, at + interval * float(2 ** (count - 1)))
    return {**misses, (backend.pid, backend.started): one}


def misses_of(misses: Mapping[Session, Misses], backend: Backend) -> Misses | None:
    """The misses on the statement that `backend` runs now, or None. Those on an earlier statement do not count."""
    found = misses.get((backend.pid, backend.started))
    return found if found is not None and found.statement == _statement(backend) else None


def _statement(backend: Backend) -> datetime | None:
    start = backend.start(Clock.STATEMENT)
    return None if start is None else start.at
