"""A look: one poll of one cluster with all that follows from it, or the reason why the cluster could not be read.

This module holds values only. It knows nothing of how they are shown.
"""

from collections.abc import Mapping
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
from watchdog.core.observed.sockets import ClientState, Session, SocketVisibility
from watchdog.core.observed.statement_failures import StatementFailures


@dataclass(frozen=True, slots=True)
class LookTiming:
    """The times of a look, in seconds of the monotonic clock of pgwatchdog's machine.

    `read_at` is when the snapshot was received. `placed_at` is the estimated time at which the server read its clock
    for the snapshot. The times until crossings count from `placed_at`.
    """

    read_at: float = 0.0
    placed_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One poll of one cluster, with all that follows from it.

    `took` is the duration of the activity statement alone. `results` are the acts of this look, `effects` the outcomes
    of earlier acts, and `retries` the runs that began again after their cancel. `stuck` is the number of runs on which
    no attempt had an effect. `census_failures` is the number of censuses that failed so far. After a failure, the names
    and rights of an earlier census are used.
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
    clients: Mapping[Session, ClientState] = field(default_factory=dict)
    """What the sockets said of the clients of running sessions. Sessions that were not asked for are left out."""

    timing: LookTiming = LookTiming()
    statement_failures: StatementFailures = field(default_factory=dict)
    clock_step: timedelta | None = None
    """By how much the server's clock was stepped since the look before, if it was."""

    @property
    def disarmed(self) -> tuple[DisarmReason, ...]:
        """Every reason why the cluster is not acted on now, including the warm-up and the breaker; empty if armed."""
        passing = (
            (DisarmReason.WARMING_UP, self.decisions.warming_up),
            (DisarmReason.BREAKER, self.decisions.stopped),
        )
        return (*self.status.disarm_reasons, *(disarm_reason for disarm_reason, holds in passing if holds))

    @property
    def waits(self) -> list[timedelta]:
        """The times after which another look is useful: until crossings, and until withheld acts may be possible.

        The shortest is first.
        """
        return sorted([*self.judgement.crossings, *self.decisions.waits])

    @property
    def complete(self) -> bool:
        """False if the rows of other roles could not be read. An empty list of findings then means nothing."""
        return self.snapshot.sees_all and not self.census.tracking_is_off


@dataclass(frozen=True, slots=True)
class Unread:
    """A cluster that could not be read, so that nothing is known of its findings.

    `reason` may be a label value. `detail` is a message for the user and must not be one.
    """

    server: str
    reason: Reason
    detail: str
