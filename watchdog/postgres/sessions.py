"""Reading the first words of commands. The server takes them out of the text; the text itself never leaves it."""

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from watchdog.core.commands import Command, Commands
from watchdog.postgres.session import Session

_SKIPPED = r"^(?:[[:space:];(]|--[^\n\r]*[\n\r]|/[*](?:(?!/[*]|[*]/).)*[*]/)*"
WORD = _SKIPPED + r"([A-Za-z_]+)"
"""In the server's own dialect. A nested comment matches nothing: where it ends cannot be told by an expression."""

WHOLE_WORD = _SKIPPED + r"[A-Za-z_]+[^A-Za-z_]"
"""The word with something behind it: even where the text is cut, the word is not."""


async def read_commands(session: Session, pids: Sequence[int]) -> Commands:
    """The first words by statement.

    Raises:
        ReadError: with the reason.

    """
    rows = await session.rows("commands", {"word": WORD, "whole_word": WHOLE_WORD, "pids": list(pids)})
    found = {}
    for pid, started, query, word, in_progress in cast(
        "list[tuple[int, datetime, datetime | None, str | None, bool | None]]", rows
    ):
        if query is not None:
            found[pid, started, query] = Command(word or None, in_progress=bool(in_progress))
    return found
