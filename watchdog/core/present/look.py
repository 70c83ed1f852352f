"""A look: one reading of one cluster with all that follows from it, or the plain word that there was none."""

from dataclasses import dataclass, field
from datetime import timedelta

from watchdog.core.acting.acts import ActResult, ObservedEffect
from watchdog.core.acting.effects import Retry
from watchdog.core.acting.status import ActingStatus, DisarmReason, Lease
from watchdog.core.acting.verdicts import Decisions
from watchdog.core.judging.judge import Judgement
from watchdog.core.observed.activity import Snapshot
from watchdog.core.observed.census import Census
from watchdog.core.observed.reasons import Reason
from watchdog.core.observed.sockets import SocketVisibility
from watchdog.core.observed.statement_failures import StatementFailures


@dataclass(frozen=True, slots=True)
class LookTiming:
    """When a look was taken, in seconds of our monotonic clock.

    `read_at` is when the snapshot came in, `placed_at` when the server read its clock for it: waits until crossings
    count from there.
    """

    read_at: float = 0.0
    placed_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One reading of one cluster. `took` is the time of the activity statement alone.

    `results` are the acts that this look brought about, `effects` what it showed of earlier ones, `retries` the work
    that came back at once after its cancel; `stuck` counts the runs that no cancel has moved.
    `census_failures` counts the censuses that failed so far: names and rights are then older than they should be.
    """

    server: str
    snapshot: Snapshot
    census: Census
    judgement: Judgement
    decisions: Decisions
    interval: timedelta
    took: timedelta
    tick: bool
    census_failures: int = 0
    status: ActingStatus = field(default_factory=ActingStatus)
    lease: Lease = field(default_factory=lambda: Lease(leads=False))
    results: tuple[ActResult, ...] = ()
    effects: tuple[ObservedEffect, ...] = ()
    retries: tuple[Retry, ...] = ()
    stuck: int = 0
    socket_visibility: SocketVisibility = SocketVisibility.NOT_ASKED
    timing: LookTiming = LookTiming()
    statement_failures: StatementFailures = field(default_factory=dict)

    @property
    def disarmed(self) -> tuple[DisarmReason, ...]:
        """Every reason why the cluster is not acted on now, the passing ones too; empty while it is armed."""
        passing = (
            (DisarmReason.WARMING_UP, self.decisions.warming_up),
            (DisarmReason.BREAKER, self.decisions.stopped),
        )
        return (*self.status.disarm_reasons, *(disarm_reason for disarm_reason, holds in passing if holds))

    @property
    def waits(self) -> list[timedelta]:
        """The times, shortest first, after which another look may find more: crossings, and acts that must wait."""
        return sorted([*self.judgement.crossings, *self.decisions.waits])

    @property
    def complete(self) -> bool:
        """False where other roles' rows could not be read: then an empty list of findings means nothing."""
        return self.snapshot.sees_all


@dataclass(frozen=True, slots=True)
class Unread:
    """A cluster that could not be read: no findings, not even none. `detail` is for people, never a label."""

    server: str
    reason: Reason
    detail: str
