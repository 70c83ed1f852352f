"""A look: one reading of one cluster with all that follows from it, or the plain word that there was none."""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from watchdog.core.activity import Snapshot
from watchdog.core.acts import Done, Effect
from watchdog.core.census import Census
from watchdog.core.effects import Retry
from watchdog.core.judge import Judgement
from watchdog.core.sockets import Sight
from watchdog.core.standing import Lease, Obstacle, Standing
from watchdog.core.verdicts import Decisions


class Reason(StrEnum):
    """Why a cluster could not be read: a bounded set, a label of metrics."""

    UNREACHABLE = "unreachable"
    NAME_LOOKUP = "name_lookup"
    AUTHENTICATION = "authentication"
    NO_DATABASE = "no_database"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    STARTING_UP = "starting_up"
    TIMEOUT = "timeout"
    CONNECTION_LOST = "connection_lost"
    NOT_PERMITTED = "not_permitted"
    UNSUPPORTED_VERSION = "unsupported_version"
    CONFIGURATION = "configuration"
    STATEMENT = "statement"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Look:
    """One reading of one cluster. `took` is the time of the activity statement alone.

    `done` are the acts that this look brought about, `effects` what it showed of earlier ones, `retries` the work that
    came back at once after its cancel; `stuck` counts the runs that no cancel has moved.
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
    standing: Standing = field(default_factory=Standing)
    lease: Lease = field(default_factory=lambda: Lease(leads=False))
    done: tuple[Done, ...] = ()
    effects: tuple[Effect, ...] = ()
    retries: tuple[Retry, ...] = ()
    stuck: int = 0
    sight: Sight = Sight.NOT_ASKED

    @property
    def disarmed(self) -> tuple[Obstacle, ...]:
        """Every reason why the cluster is not acted on now, the passing ones too; empty while it is armed."""
        passing = (
            (Obstacle.WARMING_UP, self.decisions.warming_up),
            (Obstacle.BREAKER, self.decisions.stopped),
        )
        return (*self.standing.obstacles, *(obstacle for obstacle, holds in passing if holds))

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
