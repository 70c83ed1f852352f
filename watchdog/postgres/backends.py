"""Asking for single sessions: whether they are there, and the first words of their commands.

The server takes the words out of the text; the text itself never leaves it.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from watchdog.core.observed.commands import BackendLookup, Command
from watchdog.postgres.session import Session
from watchdog.postgres.statements import Statement

_SKIPPED = r"^(?:[[:space:];(]|--[^\n\r]*[\n\r]|/[*](?:(?!/[*]|[*]/).)*[*]/)*"
WORD = _SKIPPED + r"([A-Za-z_]+)"
"""In the server's own dialect. A nested comment matches nothing: where it ends cannot be told by an expression."""

WHOLE_WORD = _SKIPPED + r"[A-Za-z_]+[^A-Za-z_]"
"""The word with something behind it: even where the text is cut, the word is not."""


class BackendRow(NamedTuple):
    """One session that is there; `first_word` and `in_progress` (a progress view names it) are of its command."""

    pid: int
    backend_start: datetime | None
    query_start: datetime | None
    read: bool
    first_word: str | None
    in_progress: bool | None


BACKENDS = Statement("backends", BackendRow)


async def read_backends(session: Session, *, commands: Iterable[int], alive: Iterable[int]) -> BackendLookup:
    """Which of all these pids are there, and the first words of the commands of some.

    Raises:
        ReadError: with the reason.

    """
    asked = {**dict.fromkeys(alive, False), **dict.fromkeys(commands, True)}
    parameters = {"word": WORD, "whole_word": WHOLE_WORD, "pids": list(asked), "read": list(asked.values())}
    there, words = set(), {}
    for row in await session.rows(BACKENDS, parameters):
        if row.backend_start is None:  # hidden from our role
            continue
        there.add((row.pid, row.backend_start))
        if row.read and row.query_start is not None:
            command = Command(row.first_word or None, in_progress=bool(row.in_progress))
            words[row.pid, row.backend_start, row.query_start] = command
    return BackendLookup(frozenset(there), words)
