"""Asking for single sessions: whether they are there, and the first words of their commands.

The server takes the words out of the text; the text itself never leaves it.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import cast

from watchdog.core.observed.commands import BackendLookup, Command
from watchdog.postgres.session import Session

_SKIPPED = r"^(?:[[:space:];(]|--[^\n\r]*[\n\r]|/[*](?:(?!/[*]|[*]/).)*[*]/)*"
WORD = _SKIPPED + r"([A-Za-z_]+)"
"""In the server's own dialect. A nested comment matches nothing: where it ends cannot be told by an expression."""

WHOLE_WORD = _SKIPPED + r"[A-Za-z_]+[^A-Za-z_]"
"""The word with something behind it: even where the text is cut, the word is not."""


async def read_backends(session: Session, *, commands: Iterable[int], alive: Iterable[int]) -> BackendLookup:
    """Which of all these pids are there, and the first words of the commands of some.

    Raises:
        ReadError: with the reason.

    """
    asked = {**dict.fromkeys(alive, False), **dict.fromkeys(commands, True)}
    parameters = {"word": WORD, "whole_word": WHOLE_WORD, "pids": list(asked), "read": list(asked.values())}
    there, words = set(), {}
    for pid, started, query, read, word, in_progress in cast(
        "list[tuple[int, datetime, datetime | None, bool, str | None, bool | None]]",
        await session.rows("backends", parameters),
    ):
        there.add((pid, started))
        if read and query is not None:
            words[pid, started, query] = Command(word or None, in_progress=bool(in_progress))
    return BackendLookup(frozenset(there), words)
