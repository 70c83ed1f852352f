"""The words of policy: hands, actions, every reason why an action is withheld, and what is made of a finding."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from watchdog.core.judging.evidence import Finding


class Hand(StrEnum):
    """By whom a verdict is carried out."""

    SIGNAL = "signal"
    REHEARSE = "rehearse"
    NONE = "none"


class Action(StrEnum):
    """What a rule asks for."""

    CANCEL = "cancel"
    OBSERVE = "observe"


class Withheld(StrEnum):
    """Every reason why an action is withheld, in the order in which they are asked: a label of metrics."""

    SUPERUSER = "superuser"
    PROVIDER = "provider"
    UNKNOWN_ROLE = "unknown_role"
    HIDDEN = "hidden"
    PROTECTED_ROLE = "protected_role"
    PROTECTED_APPLICATION = "protected_application"
    BACKUP = "backup"
    SYNC_REP = "sync_rep"
    WAITS_FOR_CLIENT = "waits_for_client"
    CLIENT_TALKING = "client_talking"
    WRITER = "writer"
    UNBOUND_JOB = "unbound_job"
    MAINTENANCE = "maintenance"
    COMMAND_UNREADABLE = "command_unreadable"
    LAST_COPY = "last_copy"
    PATIENCE = "patience"
    REFUSED = "refused"
    INEFFECTIVE = "ineffective"
    TRANSACTION_TRIED = "transaction_tried"
    RESTING = "resting"
    NOT_ARMED = "not_armed"
    NO_LEDGER = "no_ledger"
    NOT_LEADER = "not_leader"
    NOT_PERMITTED = "not_permitted"
    WARMING_UP = "warming_up"
    BREAKER = "breaker"
    SHARE = "share"
    PAUSE = "pause"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What policy makes of one finding.

    `withheld` is the first reason why an action is not carried out. `carried_out`: that was done at an earlier look,
    and its effect is awaited. `passed_over` are later rules that would have spoken about the finding as well.
    """

    finding: Finding
    hand: Hand
    action: Action
    rule: str | None = None
    withheld: Withheld | None = None
    carried_out: bool = False
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decisions:
    """The verdicts of one look.

    `news` are those that are said about their run for the first time, `due` those to be carried out now, in this
    order. `waits` are the times after which another look may find a withheld action possible.
    """

    verdicts: tuple[Verdict, ...] = ()
    news: tuple[Verdict, ...] = ()
    due: tuple[Verdict, ...] = ()
    waits: tuple[timedelta, ...] = ()
    warming_up: bool = False
    stopped: bool = False
