"""Looks up single backends: whether they are still there, and the first words of their commands.

The server extracts the first word from the query text. The query text itself is never sent to us.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from watchdog.core.observed.commands import BackendLookup, Command
from watchdog.postgres.session import Session
from watchdog.postgres.statements import Statement

_SKIPPED = r"^(?:[[:space:];(]|--[^\n\r]*[\n\r]|/[*](?:(?!/[*]|[*]/).)*[*]/)*"
WORD = _SKIPPED + r"([A-Za-z_]+)"
"""Pattern of a query's first word, in PostgreSQL's regular expression syntax.

It does not match behind a nested comment, because a regular expression cannot find the end of one.
"""

WHOLE_WORD = _SKIPPED + r"[A-Za-z_]+[^A-Za-z_]"
"""Pattern of a first word with one more character behind it. Where it matches, the word is whole even in a cut text."""


class BackendRow(NamedTuple):
    """One backend that is still there. `read` says whether its first word was asked for.

    `in_progress` is true if a progress view lists the backend.
    """

    pid: int
    backend_start: datetime | None
    query_start: datetime | None
    read: bool
    first_word: str | None
    in_progress: bool | None


BACKENDS = Statement("backends", BackendRow)


async def read_backends(session: Session, *, commands: Iterable[int], alive: Iterable[int]) -> BackendLookup:
    """Which of all these pids are still there, and the first words of what the pids in `commands` run.

    Raises:
        ReadError: a statement failed; `reason` says why.

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
