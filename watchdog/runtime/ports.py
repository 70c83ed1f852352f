"""The protocols of the runtime: the source of snapshots, the sockets, the ledger, the actor, and the sinks of looks.

They use values of the core only. Their implementations are not known here.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
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
from watchdog.core.observed.activity import Backend, ClientEndpoint, Snapshot
from watchdog.core.observed.blocking import Blocking
from watchdog.core.observed.census import UNKNOWN_SERVER, Census, ServerIdentity
from watchdog.core.observed.commands import BackendLookup
from watchdog.core.observed.sockets import OwnConnection, Session, SocketReading
from watchdog.core.observed.statement_failures import StatementFailures
from watchdog.core.present.look import Look, Unread


class Source(Protocol):
    """One cluster to read. It has one owner, which makes one call at a time.

    Every async method except `cancel` may raise `ReadError`. Then nothing is known of the cluster.
    """

    @property
    def census_is_stale(self) -> bool:
        """True if the last snapshot shows an unknown role or database, or a change of our right to see all rows."""

    @property
    def statement_failures(self) -> StatementFailures:
        """The failures of the statements beside the poll, by name."""

    @property
    def is_open(self) -> bool:
        """True while the session is open. A statement that the server refuses does not close it."""

    @property
    def identity(self) -> Hashable:
        """What is read and how. Two sources with the same identity can replace each other."""

    @property
    def own_connection(self) -> OwnConnection | None:
        """The four ends of our session, or None while there is none."""

    def inherit_state(self, before: object) -> None:
        """Go on with the counts of failures of `before`, an earlier source of the same cluster."""

    async def census(self) -> Census:
        """Read names, privileges, stored settings, and how many sessions are hidden from us."""

    async def snapshot(self) -> tuple[Snapshot, timedelta]:
        """One poll, and how long it took."""

    async def blocking(self, waiters: Sequence[int]) -> Blocking | None:
        """The pids that block each of `waiters`. None if the server was not asked."""

    async def backends(self, *, commands: Sequence[int] = (), alive: Sequence[int] = ()) -> BackendLookup:
        """In one round trip: the first words of what the pids in `commands` run, and which pids are still there."""

    async def facts(self, look: Look) -> Facts:
        """What the doctor needs to know in addition to a look."""

    async def lease(self) -> Lease:
        """Take the lease, or say why we do not have it."""

    async def lease_holder(self) -> Lease:
        """Read who holds the lease, without taking it."""

    async def release_lease(self) -> None:
        """Release the lease if this session holds it."""

    async def cancel(
        self, target: CancelTarget, *, act: str, manual: bool = False
    ) -> tuple[Result, Withheld | None, str]:
        """Signal the run that `target` describes, if its row still matches.

        Unless `manual` is true, the session must hold the lease.
        """

    def close(self) -> None:
        """End the session at once. The next call opens a new one."""


class Sockets(Protocol):
    """The kernel's sockets, as far as they can be seen from here. A call does not block for long and never raises."""

    @property
    def pause(self) -> float:
        """Seconds between two sweeps of one cluster."""

    def read(self, clients: Mapping[Session, ClientEndpoint], *, own: OwnConnection) -> SocketReading:
        """The state of the client of each of these sessions, and whether that can be known here.

        `own` is our session on the same server.
        """


class Ledger(Protocol):
    """The record of acts. Every method has a deadline and may raise `LedgerError`."""

    async def intend(self, acts: Sequence[Act]) -> None:
        """Record intents durably."""

    async def record(
        self, done: Iterable[ActResult], *, effects: Iterable[ObservedEffect], came_back: Iterable[tuple[str, datetime]]
    ) -> None:
        """Record the answers to the signals and what later looks showed."""

    async def claim(self, server: str, identity: ServerIdentity, *, claimant: str) -> bool:
        """Say which server `server` is the name of. False if another claimant says so of another living server."""

    async def recall(
        self, server: str, *, since: datetime, at: datetime, identity: ServerIdentity = UNKNOWN_SERVER
    ) -> list[Recorded]:
        """The acts on `server` since `since`. Acts that were left open are closed with the outcome `unknown`.

        Those that were surely on another cluster than `identity` are left alone.
        """


class Acting(Protocol):
    """The actor of a cluster, as a look uses it. It may be one that never acts."""

    @property
    def lease(self) -> Lease:
        """Who holds the lease, as of the last look."""

    def apply_config(self, other: "Acting", *, rules_changed: bool) -> None:
        """Take on the configuration of `other`."""

    def inherit_state(self, before: "Acting") -> None:
        """Take over from `before`, which acted on the same cluster through another session."""

    async def status(  # what a look knows by then
        self,
        memory: PolicyMemory,
        *,
        census: Census,
        identity: ServerIdentity,
        complete: bool,
        tick: bool,
        policy: Policy,
        at: datetime,
        steady: datetime,
    ) -> tuple[ActingStatus, PolicyMemory]:
        """Whether it may act now, every reason why not, and the memory for the next steps."""

    async def carry_out(
        self,
        due: Sequence[Due],
        *,
        memory: PolicyMemory,
        at: datetime,
        read_at: float,
        is_still_gone: Callable[[Backend], bool],
    ) -> list[ActResult]:
        """Carry out what is due, in this order. `read_at` is the snapshot's monotonic second.

        `is_still_gone` looks at the socket of a client that was gone.
        """

    async def record(
        self,
        results: Sequence[ActResult],
        *,
        effects: Sequence[ObservedEffect],
        retries: Iterable[Retry],
        at: datetime,
    ) -> None:
        """Record the results of acts."""

    async def run_beside(self) -> Never:
        """Run what is to run beside the looks, until cancelled."""


class Sink(Protocol):
    """A receiver of every look. It must not block and must not raise."""

    def publish(self, state: Look | Unread) -> None:
        """Receive one cluster's newest state."""
