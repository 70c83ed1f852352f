"""Looks up single backends: whether they are still there, and the first words of their commands.

The server extracts the first word from the query text. The query text itself is never sent to us.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from watchdog.core.observed.commands import BackendLookup, Command
from watchdog.postgres.session import Session
from watchdog.postgres.statements import Statement

_NAME = r'[^][:space:](),;"]+'
_NAMES = rf"[(][[:space:]]*{_NAME}(?:[[:space:]]*,[[:space:]]*{_NAME})*[[:space:]]*[)]"
_BLANK, _BLANKS = "[[:space:]]*", "[[:space:]]+"

_SKIPPED = r"^(?:[[:space:];(]|--[^\n\r]*[\n\r]|/[*](?:(?!/[*]|[*]/).)*[*]/)*"

PATTERNS = {
    "first_word": _SKIPPED + r"([A-Za-z_]+)",
    "whole_first_word": _SKIPPED + r"[A-Za-z_]+[^A-Za-z_]",
    "into": r"\mINTO\M",
    # What is taken out: strings, strings in $$, comments that are not nested; kept is what is in double quotes. The end
    # of a text that is cut inside one of them is its end.
    "quoted": (
        r"""('(?:[^']|'')*(?:'|$)|[$][$](?:[^$]|[$][^$])*(?:[$][$]|$)"""
        r"""|--[^\n\r]*|/[*](?:(?!/[*]|[*]/).)*(?:[*]/|$))|("(?:[^"]|"")*(?:"|$))"""
    ),
    "identifier": r"""[ ]?"(?:[^"]|"")*(?:"|$)""",
    # What is left of a nested comment, or of quotes in $tag$.
    "open_comment": r"^[[:space:];(]*(?:/[*]|[*]/)",
    "left_over": r"/[*]|[*]/|[$][A-Za-z_][A-Za-z0-9_]*[$]",
    "escaped_quote": r"\\'",
    "several": r"[^[:space:];(][^;]*;[[:space:];(]*[^[:space:];(]",
    "behind_semicolon": r"[^[:space:];(][^;]*;",
    "word": r"^[[:space:](]*([A-Za-z_]+)",
    "whole_word": r"^[[:space:];(]*[A-Za-z_]+[^A-Za-z_]",
    # A list of columns with types, as in GENERATED ALWAYS AS, is not one of names.
    "create_table_as": (
        rf"^[[:space:](]*CREATE{_BLANKS}(?:(?:GLOBAL|LOCAL){_BLANKS})?(?:(?:TEMP|TEMPORARY|UNLOGGED){_BLANKS})?TABLE{_BLANKS}"
        rf"(?:IF{_BLANKS}NOT{_BLANKS}EXISTS{_BLANKS})?{_NAME}{_BLANK}(?:{_NAMES}{_BLANK})?(?:USING{_BLANKS}{_NAME}{_BLANKS})?"
        rf"(?:WITH{_BLANK}[(][^()]*[)]{_BLANK}|WITHOUT{_BLANKS}OIDS{_BLANKS})?"
        rf"(?:ON{_BLANKS}COMMIT{_BLANKS}(?:PRESERVE{_BLANKS}ROWS|DELETE{_BLANKS}ROWS|DROP){_BLANKS})?"
        rf"(?:TABLESPACE{_BLANKS}{_NAME}{_BLANKS})?AS{_BLANK}(?:[(]|(?:SELECT|WITH|VALUES|TABLE|EXECUTE)\M)"
    ),
    "select_into": r"^[[:space:](]*SELECT\M.*\mINTO\M",
    "copy_from": (
        rf"^[[:space:](]*COPY{_BLANKS}[^[:space:](].*\mFROM\M"
        rf"|^[[:space:](]*COPY{_BLANK}[(].*\m(?:INSERT|UPDATE|DELETE|MERGE)\M"
    ),
    "writes_inside": r"\m(?:INSERT|UPDATE|DELETE|MERGE)\M",
}
"""The patterns of `backends.sql`, in PostgreSQL's regular expression syntax.

A nested comment cannot be taken out, because a regular expression cannot find the end of one.
"""


class BackendRow(NamedTuple):
    """One backend that is still there. `read` says whether its first words were asked for.

    `words` has one for each command of its text. `in_progress` is true if a progress view lists the backend.
    """

    pid: int
    backend_start: datetime | None
    query_start: datetime | None
    read: bool
    words: list[str] | None
    in_progress: bool | None


BACKENDS = Statement("backends", BackendRow)


async def read_backends(session: Session, *, commands: Iterable[int], alive: Iterable[int]) -> BackendLookup:
    """Which of all these pids are still there, and the first words of what the pids in `commands` run.

    Raises:
        ReadError: a statement failed; `reason` says why.

    """
    asked = {**dict.fromkeys(alive, False), **dict.fromkeys(commands, True)}
    parameters = {**PATTERNS, "pids": list(asked), "read": list(asked.values())}
    there, words = set(), {}
    for row in await session.rows(BACKENDS, parameters):
        if row.backend_start is None:  # hidden from our role
            continue
        there.add((row.pid, row.backend_start))
        if row.read and row.query_start is not None:
            words[row.pid, row.backend_start, row.query_start] = command_of(row)
    return BackendLookup(frozenset(there), words)


def command_of(row: BackendRow) -> Command:
    """What a row says of the commands in its text. Where one of their words is missing, none is known."""
    readable = bool(row.words) and all(row.words or ())
    return Command(frozenset(row.words or ()) if readable else None, in_progress=bool(row.in_progress))
