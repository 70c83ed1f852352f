"""Verdicts: what policy makes of a finding. Exactly one of four, each with what belongs to it and no more."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from watchdog.core.acting.rules import Action, Rule
from watchdog.core.judging.evidence import Finding


class Hand(StrEnum):
    """By whom an action is carried out: by a signal, or, in dry run, by recording that it would be."""

    SIGNAL = "signal"
    REHEARSE = "rehearse"


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
    """No action is asked for: `rule` only observes, or no rule matches (None)."""

    finding: Finding
    rule: Rule | None = None
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionWithheld:
    """`rule` asks for an action, and `reason` is the first thing that speaks against it now."""

    finding: Finding
    rule: Rule
    reason: Withheld
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """The action was carried out at an earlier look, and its effect is awaited."""

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
"""What policy makes of one finding. `rule` is the first that matches it; `passed_over` names the later ones that do."""


def withheld_reason(verdict: Verdict) -> Withheld | None:
    """Why an action is withheld; None where none is asked for, and where it is carried out."""
    return verdict.reason if isinstance(verdict, ActionWithheld) else None


def action_of(verdict: Verdict) -> Action:
    """What is asked for; without a rule, to observe."""
    return Action.OBSERVE if verdict.rule is None else verdict.rule.action


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """The verdicts of one look.

    `news` are those that are said about their run for the first time, `due` those to be carried out now, in this
    order. `waits` are the times after which another look may find a withheld action possible.
    """

    verdicts: tuple[Verdict, ...] = ()
    news: tuple[Verdict, ...] = ()
    due: tuple[Due, ...] = ()
    waits: tuple[timedelta, ...] = ()
    warming_up: bool = False
    stopped: bool = False
