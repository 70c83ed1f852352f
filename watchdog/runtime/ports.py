"""The seams of the runtime: where snapshots come from, and who is told of a look."""

from collections.abc import Hashable, Sequence
from datetime import timedelta
from typing import Protocol

from watchdog.core.activity import Snapshot
from watchdog.core.census import Census
from watchdog.core.look import Look, Unread
from watchdog.core.neighbours import Blocking


class Source(Protocol):
    """One cluster to read. Used by one owner, one call at a time.

    Every method may raise `ReadError`, and then nothing is known of the cluster.
    """

    @property
    def census_is_stale(self) -> bool:
        """True where the last snapshot named somebody whom the census does not know."""

    @property
    def is_open(self) -> bool:
        """True while the session stands, also after a statement that the server has refused."""

    @property
    def identity(self) -> Hashable:
        """What it reads and how: two sources with the same identity can stand in for each other."""

    async def census(self) -> Census:
        """Read names, rights and what is out of sight."""

    async def snapshot(self) -> tuple[Snapshot, timedelta]:
        """One poll, and how long it took."""

    async def blocking(self, waiters: Sequence[int]) -> Blocking | None:
        """Who blocks whom among `waiters`; None where that was not asked."""

    def close(self) -> None:
        """End the session at once; the next call opens a new one."""


class Sink(Protocol):
    """Somebody who is told of every look. Must not block, and must not raise."""

    def publish(self, state: Look | Unread) -> None:
        """Take note of one cluster's newest state."""
