"""Which commands a backend runs: maintenance, commands that write, or queries.

The server extracts the first word of each command in the text; the rest of the text never leaves it. So a query that
merely contains the word VACUUM is a query. The words are unknown if pgwatchdog may not read the text, if
`track_activities` is off, or if the text cannot be taken apart. By default, a backend whose words are unknown is not
cancelled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from watchdog.core.observed.activity import FASTPATH, Backend

MAINTENANCE = frozenset(
    {
        "VACUUM",
        "ANALYZE",
        "ANALYSE",
        "REINDEX",
        "CLUSTER",
        "REPACK",
        "CREATE",
        "ALTER",
        "DROP",
        "TRUNCATE",
        "REFRESH",
        "CHECKPOINT",
        "IMPORT",
        "SECURITY",
    }
)
"""First words of the commands that maintain a database or change its schema. As an example of what a cancel does to
them: a cancelled CREATE INDEX CONCURRENTLY leaves an invalid index behind."""

WRITES = frozenset(
    {
        "INSERT",
        "UPDATE",
        "DELETE",
        "MERGE",
        "COPY FROM",
        "CALL",
        "DO",
        "CREATE TABLE AS",
        "SELECT INTO",
        "WITH INSERT",
    }
)
"""Commands that write, or may write, as the server names them. One without a transaction id has either not begun or
writes elsewhere, for example into a foreign table: there the remote session has the transaction id."""

EXECUTES = "EXECUTE"
"""A command that does not show what it executes."""

StatementKey = tuple[int, datetime, datetime]
"""Pid, backend start and query start. Together they identify one query text, which does not change."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is known of the commands in one text.

    `words` are their first words in upper case, or None if they cannot be read. `in_progress` is True if a progress
    view (such as `pg_stat_progress_vacuum`) lists the backend.
    """

    words: frozenset[str] | None
    in_progress: bool = False
    unread: bool = False
    """The statement that reads first words failed, so nothing is known of these."""

    @property
    def is_maintenance(self) -> bool:
        """True if a progress view lists the backend, or if one of the words is in `MAINTENANCE`."""
        return self.in_progress or bool(MAINTENANCE & (self.words or frozenset()))

    @property
    def writes(self) -> bool:
        """True if one of the commands writes or may write."""
        return bool(WRITES & (self.words or frozenset()))

    @property
    def is_unreadable(self) -> bool:
        """True if it is not known which commands these are, although the server was asked."""
        return not self.unread and (self.words is None or EXECUTES in self.words)


UNREAD = Command(None, unread=True)
"""The server was asked and did not answer."""

Commands = Mapping[StatementKey, Command]


@dataclass(frozen=True, slots=True)
class BackendLookup:
    """What single backends were asked for: which are there (pid and start), and the commands of some.

    `alive` is None where the server did not answer.
    """

    alive: frozenset[tuple[int, datetime]] | None = frozenset()
    commands: Commands = field(default_factory=dict)


def statement_key(backend: Backend) -> StatementKey | None:
    """The key of the statement that `backend` runs.

    It is None for a fast-path call, because its row shows the text and start of the statement before it, and None if
    the row shows no query start.
    """
    if backend.state == FASTPATH or backend.query is None:
        return None
    return backend.pid, backend.started, backend.query.at
