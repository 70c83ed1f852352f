"""Whether a cluster may be acted on now, and if not, all reasons why.

This module owns the reasons and their texts. It knows nothing of how a reason is found out.
"""

from dataclasses import dataclass
from enum import StrEnum

from watchdog.core.acting.verdicts import Withheld


class DisarmReason(StrEnum):
    """Why a cluster is not acted on. The values are label values of metrics. The first four are those in `DRY`."""

    POLICY_MODE = "policy_mode"
    CLUSTER_MODE = "cluster_mode"
    FLAG = "flag"
    NO_RULE = "no_rule"
    DISARM_FILE = "disarm_file"
    SIGNAL = "signal"
    RELOAD_FAILED = "reload_failed"
    NO_LEDGER = "no_ledger"
    LEDGER_FAILED = "ledger_failed"
    NAME_TAKEN = "name_taken"
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
"""Reasons for dry run. With one of them, an act is rehearsed instead of carried out."""

_WITHHOLDS = {
    DisarmReason.DISARM_FILE: Withheld.NOT_ARMED,
    DisarmReason.SIGNAL: Withheld.NOT_ARMED,
    DisarmReason.RELOAD_FAILED: Withheld.NOT_ARMED,
    DisarmReason.INCOMPLETE: Withheld.HIDDEN,
    DisarmReason.NO_LEDGER: Withheld.NO_LEDGER,
    DisarmReason.LEDGER_FAILED: Withheld.NO_LEDGER,
    DisarmReason.NAME_TAKEN: Withheld.NOT_ARMED,
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
    DisarmReason.NAME_TAKEN: "another pgwatchdog uses this cluster's name for another server in the same ledger",
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
    """Whether one cluster may be acted on.

    `actor` is a number that changes with each new actor, such as after a start, after the lease was taken, or after a
    change of the rules. `at_once` is True for a single look, which has no actor. It needs no warm-up and has no limits.
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
        """The reason why every act is withheld now, or None.

        In dry run only a ledger that fails and a lease that another watchdog holds, or may hold, withhold an act:
        the other one rehearses, and nothing is to be counted twice.
        """
        if self.rehearses:
            hard = (each for each in self.disarm_reasons if each in _STOPS_REHEARSALS)
            return next((_WITHHOLDS[each] for each in hard), None)
        return next((_WITHHOLDS[each] for each in self.disarm_reasons if each in _WITHHOLDS), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHolder:
    """Who holds the lease's key: a session, or a prepared transaction, whose identifier is `prepared`.

    `role` is an oid. `database` is the oid of the database in which the key is held, None for our own.
    """

    pid: int | None
    role: int | None
    database: int | None = None
    prepared: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Whether pgwatchdog's session holds the lease, and if not, why.

    `holder` is who holds it instead of us, if that is known. `ignored` hold the key in another database and could not
    signal, so they do not count.
    """

    leads: bool
    disarm_reason: DisarmReason | None = None
    holder: KeyHolder | None = None
    ignored: tuple[KeyHolder, ...] = ()
    just_acquired: bool = False

    @property
    def held_by_other(self) -> bool:
        """True if somebody else is known to hold the lease."""
        return self.holder is not None
