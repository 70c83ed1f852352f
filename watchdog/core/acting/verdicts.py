"""Verdicts: what policy decided about a finding. There are four kinds, and each finding has exactly one verdict.

This module holds values only. It does not decide anything.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

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


def action_of(verdict: Verdict) -> Action:
    """The action that the rule asks for. Without a rule it is to observe."""
    return Action.OBSERVE if verdict.rule is None else verdict.rule.action


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """The verdicts of one look.

    `news` are the verdicts that were not reported before for their run. `due` are those to be carried out now, in this
    order. `waits` are the times after which a withheld action may become possible. `warming_up` is True while a new
    actor does not act yet. `stopped` is True while the breaker is open.
    """

    verdicts: tuple[Verdict, ...] = ()
    news: tuple[Verdict, ...] = ()
    due: tuple[Due, ...] = ()
    waits: tuple[timedelta, ...] = ()
    warming_up: bool = False
    stopped: bool = False
