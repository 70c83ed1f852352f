"""The seams of the runtime: where snapshots come from, who signals, who keeps the record, who is told of a look."""

from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from watchdog.core.activity import Snapshot
from watchdog.core.acts import Act, Aim, Done, Effect, Result
from watchdog.core.census import Census
from watchdog.core.commands import Commands
from watchdog.core.look import Look, Unread
from watchdog.core.neighbours import Blocking
from watchdog.core.recall import Recorded
from watchdog.core.standing import Lease
from watchdog.core.verdicts import Withheld


class Source(Protocol):
    """One cluster to read. Used by one owner, one call at a time.

    Every method but `cancel` may raise `ReadError`, and then nothing is known of the cluster.
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

    async def alive(self, pids: Sequence[int]) -> frozenset[tuple[int, datetime]]:
        """Which sessions behind `pids` are still there, by pid and start."""

    async def commands(self, pids: Sequence[int]) -> Commands:
        """The first words of what the backends behind `pids` run."""

    async def lease(self, *, again: bool) -> Lease:
        """Take the lease, or say why not; `again`: from the server's own list of locks."""

    async def lease_holder(self) -> Lease:
        """Who holds the lease; does not take it."""

    async def cancel(self, aim: Aim, *, act: str) -> tuple[Result, Withheld | None, str]:
        """Signal what `aim` describes if it still is that, on the session that holds the lease."""

    def close(self) -> None:
        """End the session at once; the next call opens a new one."""


class Ledger(Protocol):
    """The record of acts. Every method may raise `LedgerError`, and has a deadline."""

    async def intend(self, acts: Sequence[Act]) -> None:
        """Put intents durably on record."""

    async def record(
        self, done: Iterable[Done], *, effects: Iterable[Effect], came_back: Iterable[tuple[str, datetime]]
    ) -> None:
        """Put on record what the signals answered and what later looks showed."""

    async def recall(self, server: str, *, since: datetime, at: datetime) -> list[Recorded]:
        """What was done on `server`; what was left open is closed as unknown."""


class Sink(Protocol):
    """Somebody who is told of every look. Must not block, and must not raise."""

    def publish(self, state: Look | Unread) -> None:
        """Take note of one cluster's newest state."""
