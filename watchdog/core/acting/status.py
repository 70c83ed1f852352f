"""Whether a cluster may be acted on at this moment, and if not, every reason why."""

from dataclasses import dataclass
from enum import StrEnum

from watchdog.core.acting.verdicts import Withheld


class DisarmReason(StrEnum):
    """What keeps a cluster from being acted on: a label of metrics. The first three are the configuration's."""

    POLICY_MODE = "policy_mode"
    CLUSTER_MODE = "cluster_mode"
    FLAG = "flag"
    NO_RULE = "no_rule"
    DISARM_FILE = "disarm_file"
    SIGNAL = "signal"
    RELOAD_FAILED = "reload_failed"
    NO_LEDGER = "no_ledger"
    LEDGER_FAILED = "ledger_failed"
    NOT_LEADER = "not_leader"
    LEASE_TAKEN = "lease_taken"
    OTHER_DATABASE = "other_database"
    BEHIND_POOLER = "behind_pooler"
    LEASE_UNREAD = "lease_unread"
    NOT_PERMITTED = "not_permitted"
    UNTESTED_VERSION = "untested_version"
    STATEMENT_FAILED = "statement_failed"
    INCOMPLETE = "incomplete"
    UNREAD = "unread"
    WARMING_UP = "warming_up"
    BREAKER = "breaker"


DRY = frozenset({DisarmReason.POLICY_MODE, DisarmReason.CLUSTER_MODE, DisarmReason.FLAG, DisarmReason.NO_RULE})
"""With one of these the cluster is in dry run: what would be done is rehearsed."""

_WITHHOLDS = {
    DisarmReason.DISARM_FILE: Withheld.NOT_ARMED,
    DisarmReason.SIGNAL: Withheld.NOT_ARMED,
    DisarmReason.RELOAD_FAILED: Withheld.NOT_ARMED,
    DisarmReason.INCOMPLETE: Withheld.HIDDEN,
    DisarmReason.NO_LEDGER: Withheld.NO_LEDGER,
    DisarmReason.LEDGER_FAILED: Withheld.NO_LEDGER,
    DisarmReason.NOT_LEADER: Withheld.NOT_LEADER,
    DisarmReason.LEASE_TAKEN: Withheld.NOT_LEADER,
    DisarmReason.OTHER_DATABASE: Withheld.NOT_LEADER,
    DisarmReason.BEHIND_POOLER: Withheld.NOT_LEADER,
    DisarmReason.LEASE_UNREAD: Withheld.NOT_LEADER,
    DisarmReason.NOT_PERMITTED: Withheld.NOT_PERMITTED,
    DisarmReason.UNTESTED_VERSION: Withheld.NOT_ARMED,
    DisarmReason.STATEMENT_FAILED: Withheld.NOT_ARMED,
}

_STOPS_REHEARSALS = frozenset({DisarmReason.LEDGER_FAILED, DisarmReason.NOT_LEADER, DisarmReason.LEASE_UNREAD})

EXPLAINED = {
    DisarmReason.POLICY_MODE: "policy.mode is dry-run",
    DisarmReason.CLUSTER_MODE: "the cluster's mode is dry-run",
    DisarmReason.FLAG: "started with --dry-run",
    DisarmReason.NO_RULE: "no rule asks for a cancel",
    DisarmReason.DISARM_FILE: "the disarm file exists, or cannot be looked for",
    DisarmReason.SIGNAL: "disarmed by SIGUSR1 until the next start",
    DisarmReason.RELOAD_FAILED: "the last reload of the configuration failed",
    DisarmReason.NO_LEDGER: "no ledger is configured",
    DisarmReason.LEDGER_FAILED: "the ledger cannot be written",
    DisarmReason.NOT_LEADER: "another pgwatchdog holds the lease",
    DisarmReason.LEASE_TAKEN: "somebody who is no pgwatchdog holds the lease's key",
    DisarmReason.OTHER_DATABASE: "connected to another database than lease_database",
    DisarmReason.BEHIND_POOLER: "connected through a pooler",
    DisarmReason.LEASE_UNREAD: "the lease cannot be read, so it is not known who leads",
    DisarmReason.UNTESTED_VERSION: "the server is newer than every version that this pgwatchdog was tested with; "
    "allow_untested on the cluster lets it act",
    DisarmReason.STATEMENT_FAILED: "a statement that acts depend on fails",
    DisarmReason.NOT_PERMITTED: "our role may not cancel others' queries: GRANT pg_signal_backend",
    DisarmReason.INCOMPLETE: "other roles' sessions are hidden from us: GRANT pg_monitor",
    DisarmReason.UNREAD: "the cluster cannot be read",
    DisarmReason.WARMING_UP: "watching for two intervals before the first act",
    DisarmReason.BREAKER: "stopped for a while after acts that failed",
}


@dataclass(frozen=True, slots=True)
class ActingStatus:
    """Where we stand with one cluster. `actor` changes whenever an actor begins anew: start, takeover, new rules.

    `at_once`: no actor at all but a single look, for which there is nothing to warm up and no limit to keep.
    """

    actor: int = 0
    disarm_reasons: tuple[DisarmReason, ...] = (DisarmReason.POLICY_MODE,)
    at_once: bool = False

    @property
    def rehearses(self) -> bool:
        """True in dry run."""
        return bool(DRY & set(self.disarm_reasons))

    @property
    def withheld(self) -> Withheld | None:
        """What withholds every act now, or None.

        In dry run only a ledger that fails and a lease that another watchdog holds, or may hold, withhold an act:
        the other one rehearses, and nothing is to be counted twice.
        """
        if self.rehearses:
            hard = (each for each in self.disarm_reasons if each in _STOPS_REHEARSALS)
            return next((_WITHHOLDS[each] for each in hard), None)
        return next((_WITHHOLDS[each] for each in self.disarm_reasons if each in _WITHHOLDS), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Whether our session leads, and if not, why; who holds the key, where that is known."""

    leads: bool
    disarm_reason: DisarmReason | None = None
    holder_pid: int | None = None
    holder_role: int | None = None
    just_acquired: bool = False
    held_by_other: bool = False
    """By somebody else; by a prepared transaction where there is no pid."""
