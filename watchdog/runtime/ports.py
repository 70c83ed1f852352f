"""The seams of the runtime: where snapshots come from, who signals, who keeps the record, who is told of a look."""

from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Never, Protocol

from watchdog.core.acting.acts import Act, ActResult, CancelTarget, ObservedEffect, Result
from watchdog.core.acting.effects import Retry
from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.recall import Recorded
from watchdog.core.acting.status import ActingStatus, Lease
from watchdog.core.acting.verdicts import Due, Withheld
from watchdog.core.doctor.facts import Facts
from watchdog.core.observed.activity import ClientEndpoint, Snapshot
from watchdog.core.observed.blocking import Blocking
from watchdog.core.observed.census import Census
from watchdog.core.observed.commands import BackendLookup
from watchdog.core.observed.sockets import SocketVisibility
from watchdog.core.observed.statement_failures import StatementFailures
from watchdog.core.present.look import Look, Unread


class Source(Protocol):
    """One cluster to read. Used by one owner, one call at a time.

    Every method but `cancel` may raise `ReadError`, and then nothing is known of the cluster.
    """

    @property
    def census_is_stale(self) -> bool:
        """True where the last snapshot named somebody whom the census does not know."""

    @property
    def statement_failures(self) -> StatementFailures:
        """The failures of the statements beside the poll, by name."""

    @property
    def is_open(self) -> bool:
        """True while the session stands, also after a statement that the server has refused."""

    @property
    def identity(self) -> Hashable:
        """What it reads and how: two sources with the same identity can stand in for each other."""

    @property
    def endpoints(self) -> tuple[ClientEndpoint | None, int | None]:
        """Our own end as the server sees it, None for a Unix socket, and the server's port where it is known."""

    async def census(self) -> Census:
        """Read names, rights and what is out of sight."""

    async def snapshot(self) -> tuple[Snapshot, timedelta]:
        """One poll, and how long it took."""

    async def blocking(self, waiters: Sequence[int]) -> Blocking | None:
        """Who blocks whom among `waiters`; None where that was not asked."""

    async def backends(self, *, commands: Sequence[int] = (), alive: Sequence[int] = ()) -> BackendLookup:
        """In one round trip the first words of what the backends behind `commands` run, and which of all are there."""

    async def facts(self, look: Look) -> Facts:
        """What the doctor wants to know besides a look."""

    async def lease(self) -> Lease:
        """Take the lease, or say why not."""

    async def lease_holder(self) -> Lease:
        """Who holds the lease; does not take it."""

    async def release_lease(self) -> None:
        """Let go of the lease if this session holds it."""

    async def cancel(
        self, target: CancelTarget, *, act: str, manual: bool = False
    ) -> tuple[Result, Withheld | None, str]:
        """Signal what `target` describes if it still is that, and if the session holds the lease or it is `manual`."""

    def close(self) -> None:
        """End the session at once; the next call opens a new one."""


class Sockets(Protocol):
    """The kernel's sockets, as far as they can be seen from here. Does not block for long, and never raises."""

    @property
    def pause(self) -> float:
        """Seconds between two sweeps of one cluster."""

    def closed(
        self, ends: Iterable[ClientEndpoint], *, port: int, own: ClientEndpoint | None
    ) -> tuple[SocketVisibility, frozenset[ClientEndpoint]]:
        """Which of the clients' ends are in no established connection to `port`, and whether that can be told."""


class Ledger(Protocol):
    """The record of acts. Every method may raise `LedgerError`, and has a deadline."""

    async def intend(self, acts: Sequence[Act]) -> None:
        """Put intents durably on record."""

    async def record(
        self, done: Iterable[ActResult], *, effects: Iterable[ObservedEffect], came_back: Iterable[tuple[str, datetime]]
    ) -> None:
        """Put on record what the signals answered and what later looks showed."""

    async def recall(self, server: str, *, since: datetime, at: datetime) -> list[Recorded]:
        """What was done on `server`; what was left open is closed as unknown."""


class Acting(Protocol):
    """What a look asks of the one who acts on its cluster, or would."""

    @property
    def lease(self) -> Lease:
        """Who leads, as far as the last look knows."""

    def apply_config(self, other: "Acting", *, rules_changed: bool) -> None:
        """Take on the configuration that `other` was made with."""

    def inherit_state(self, before: "Acting") -> None:
        """Follow `before`, which acted on the same cluster by another session."""

    async def status(  # what a look knows by then
        self, memory: PolicyMemory, *, census: Census, complete: bool, tick: bool, policy: Policy, at: datetime
    ) -> tuple[ActingStatus, PolicyMemory]:
        """Whether it may act now, every reason why not, and the memory that the next steps go by."""

    async def carry_out(
        self, due: Sequence[Due], *, memory: PolicyMemory, at: datetime, read_at: float
    ) -> list[ActResult]:
        """Carry out what is due, in this order; `read_at` is the snapshot's monotonic second."""

    async def record(
        self,
        results: Sequence[ActResult],
        *,
        effects: Sequence[ObservedEffect],
        retries: Iterable[Retry],
        at: datetime,
    ) -> None:
        """Put on record what came of acts."""

    async def run_beside(self) -> Never:
        """What is to run beside the looks, until cancelled."""


class Sink(Protocol):
    """Somebody who is told of every look. Must not block, and must not raise."""

    def publish(self, state: Look | Unread) -> None:
        """Take note of one cluster's newest state."""
