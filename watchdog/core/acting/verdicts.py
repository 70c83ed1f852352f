"""Verdicts: what policy decided about a finding. There are four kinds, and each finding has exactly one verdict.

This module holds values only. It does not decide anything.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

from watchdog.core.acting.breakers import CLUSTER, BreakerKey
from watchdog.core.acting.rules import Action, Rule
from watchdog.core.judging.evidence import Finding


class Hand(StrEnum):
    """How an action is carried out: by a signal, or in dry run by recording it without a signal."""

    SIGNAL = "signal"
    REHEARSE = "rehearse"


class Withheld(StrEnum):
    """The reasons why an action is withheld, in the order in which they are tested. They are label values."""

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
    COMMAND_UNREAD = "command_unread"
    LAST_COPY = "last_copy"
    CLOCK_STEPPED = "clock_stepped"
    CLIENT_THERE = "client_there"
    RENAMED = "renamed"
    NAMES_UNREAD = "names_unread"
    PATIENCE = "patience"
    REFUSED = "refused"
    INEFFECTIVE = "ineffective"
    TRANSACTION_TRIED = "transaction_tried"
    KEEPS_CHANGING = "keeps_changing"
    BACKING_OFF = "backing_off"
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


PASSING = frozenset(
    {
        Withheld.COMMAND_UNREAD,
        Withheld.LAST_COPY,
        Withheld.CLOCK_STEPPED,
        Withheld.CLIENT_THERE,
        Withheld.RENAMED,
        Withheld.NAMES_UNREAD,
        Withheld.PATIENCE,
        Withheld.BACKING_OFF,
        Withheld.RESTING,
        Withheld.NOT_ARMED,
        Withheld.NO_LEDGER,
        Withheld.NOT_LEADER,
        Withheld.WARMING_UP,
        Withheld.BREAKER,
        Withheld.SHARE,
        Withheld.PAUSE,
        Withheld.LIMIT,
    }
)
"""The reasons that only say "not yet": time, the state of pgwatchdog or other copies decide, and not the run itself."""

LASTING = frozenset(
    {
        Withheld.SUPERUSER,
        Withheld.PROVIDER,
        Withheld.UNKNOWN_ROLE,
        Withheld.HIDDEN,
        Withheld.PROTECTED_ROLE,
        Withheld.PROTECTED_APPLICATION,
        Withheld.BACKUP,
        Withheld.SYNC_REP,
        Withheld.WAITS_FOR_CLIENT,
        Withheld.CLIENT_TALKING,
        Withheld.WRITER,
        Withheld.UNBOUND_JOB,
        Withheld.MAINTENANCE,
        Withheld.COMMAND_UNREADABLE,
        Withheld.REFUSED,
        Withheld.INEFFECTIVE,
        Withheld.TRANSACTION_TRIED,
        Withheld.KEEPS_CHANGING,
        Withheld.NOT_PERMITTED,
    }
)
"""All other reasons: the run is left alone for what it or its role is, or because an attempt on it was in vain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """No action is asked for. `rule` observes only, or is None because no rule applies."""

    finding: Finding
    rule: Rule | None = None
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionWithheld:
    """`rule` asks for an action, which is withheld now. `reason` is the first reason."""

    finding: Finding
    rule: Rule
    reason: Withheld
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """The action was carried out at an earlier look, and its effect is not known yet."""

    finding: Finding
    rule: Rule
    hand: Hand
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The action is to be carried out now."""

    finding: Finding
    rule: Rule
    hand: Hand
    passed_over: tuple[str, ...] = ()


Verdict = Observed | ActionWithheld | UnderWay | Due
"""The verdict on one finding. `rule` is the first rule that applies; `passed_over` names the later ones that apply."""


def withheld_reason(verdict: Verdict) -> Withheld | None:
    """Why an action is withheld; None if no action is asked for or if it is carried out."""
    return verdict.reason if isinstance(verdict, ActionWithheld) else None


class Stage(StrEnum):
    """How far a verdict has come. The log has at most one line for each run, rule and stage."""

    OBSERVED = "observed"
    NOT_YET = "not_yet"
    LEFT_ALONE = "left_alone"
    REHEARSED = "rehearsed"
    SIGNALLED = "signalled"


def stage_of(verdict: Verdict) -> Stage:
    """The stage of a verdict. An act counts from the look that decides it."""
    match verdict:
        case Observed():
            return Stage.OBSERVED
        case ActionWithheld(reason=reason):
            return Stage.NOT_YET if reason in PASSING else Stage.LEFT_ALONE
        case UnderWay(hand=hand) | Due(hand=hand):
            return Stage.REHEARSED if hand is Hand.REHEARSE else Stage.SIGNALLED
    assert_never(verdict)


def action_of(verdict: Verdict) -> Action:
    """The action that the rule asks for. Without a rule it is to observe."""
    return Action.OBSERVE if verdict.rule is None else verdict.rule.action


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """The verdicts of one look.

    `news` are the verdicts that were not reported before for their run. `due` are those to be carried out now, in this
    order. `waits` are the times after which a withheld action may become possible. `warming_up` is True while a new
    actor does not act yet. `open_breakers` are the breakers that are open.
    """

    verdicts: tuple[Verdict, ...] = ()
    news: tuple[Verdict, ...] = ()
    due: tuple[Due, ...] = ()
    waits: tuple[timedelta, ...] = ()
    warming_up: bool = False
    open_breakers: tuple[BreakerKey, ...] = ()

    @property
    def stopped(self) -> bool:
        """True while the cluster's breaker is open, so that nobody is acted on."""
        return CLUSTER in self.open_breakers
