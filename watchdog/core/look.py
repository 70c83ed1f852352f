"""A look: one reading of one cluster with all that follows from it, or the plain word that there was none."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from watchdog.core.activity import Snapshot
from watchdog.core.census import Census
from watchdog.core.judge import Judgement
from watchdog.core.policy import Decisions


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
