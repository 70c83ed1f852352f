"""What kind of command a backend runs: maintenance, or a query. Text is read by the server, its first word told us.

A query that only mentions VACUUM is a query. Where the first word cannot be read (no right, tracking off, a comment
that is cut or nested), nobody knows, and that protects.
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
"""First words of commands that keep the database in order or change its shape. CREATE INDEX CONCURRENTLY, when it
is cancelled, leaves an invalid index behind."""

StatementKey = tuple[int, datetime, datetime]
"""Pid, backend start and query start: the text behind it does not change."""


@dataclass(frozen=True, slots=True)
class Command:
    """`word`: the first word in upper case, None where it cannot be read; `in_progress`: a progress view names it."""

    word: str | None
    in_progress: bool = False
    unread: bool = False
    """The statement that reads first words failed, so nothing is known of this one."""

    @property
    def is_maintenance(self) -> bool:
        """True for what a progress view shows, and by the first word."""
        return self.in_progress or self.word in MAINTENANCE


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
    """Which statement's text would have to be read; None for a fast-path call, whose row shows the one before."""
    if backend.state == FASTPATH or backend.query is None:
        return None
    return backend.pid, backend.started, backend.query.at
