"""Policy: what is made of a finding, an action or the reason why it is withheld.

`decide` picks the hand by a word and the cycle looks the hand up: dry run is a rule's hand, not a branch in the
path. The first "no" is recorded as the reason.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from watchdog.core.activity import Clock, Doing, Run
from watchdog.core.census import Census
from watchdog.core.evidence import Evidence, Finding, Kind
from watchdog.core.protected import BACKUP_APPLICATIONS, PROVIDER_ROLES


class Hand(StrEnum):
    """By whom a verdict is carried out."""

    SIGNAL = "signal"
    REHEARSE = "rehearse"
    NONE = "none"


class Action(StrEnum):
    """What a rule asks for."""

    CANCEL = "cancel"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: which findings it speaks about, on what evidence, and what it asks for."""

    name: str
    kind: Kind
    evidence: frozenset[Evidence]
    action: Action
    hand: Hand


@dataclass(frozen=True, slots=True)
class Verdict:
    """What policy makes of one finding. `withheld` is the reason why an action is not carried out."""

    finding: Finding
    hand: Hand
    action: Action
    rule: str | None = None
    withheld: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyMemory:
    """The runs that a rule has already dealt with, by the word that was said: each is counted once."""

    said: frozenset[tuple[Run, str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Decisions:
    """The verdicts of one look; `news` are those that are said about their run for the first time."""

    verdicts: tuple[Verdict, ...] = ()
    news: tuple[Verdict, ...] = ()


OVER_BUDGET_RULE = Rule(
    name="over-budget",
    kind=Kind.ORPHAN,
    evidence=frozenset({Evidence.OVER_BUDGET}),
    action=Action.CANCEL,
    hand=Hand.REHEARSE,
)
"""The one built-in rule: what would be cancelled if somebody armed it."""


def decide(
    findings: Iterable[Finding],
    *,
    rules: tuple[Rule, ...],
    census: Census,
    memory: PolicyMemory,
    present: frozenset[Run],
) -> tuple[Decisions, PolicyMemory]:
    """One verdict per finding: the first rule that speaks about it, unless a protection withholds it.

    `present` are the runs that may still be there: what was said about them is not news again, also when they
    were no finding in between.
    """
    verdicts = tuple(_verdict(each, rules=rules, census=census) for each in findings)
    said = {_word(each): each for each in verdicts if each.rule is not None}
    news = tuple(verdict for word, verdict in said.items() if word not in memory.said)
    kept = {word for word in memory.said if word[0] in present}
    return Decisions(verdicts, news), PolicyMemory(frozenset({*said, *kept}))


def protection(finding: Finding, *, census: Census) -> str | None:
    """The first reason why a finding's backend may not be touched, or None. Each reason is one row."""
    return next((reason for reason, holds in PROTECTIONS if holds(finding, census)), None)


def _verdict(finding: Finding, *, rules: tuple[Rule, ...], census: Census) -> Verdict:
    for rule in rules:
        if rule.kind is finding.kind and rule.evidence & set(finding.evidence):
            withheld = protection(finding, census=census)
            return Verdict(finding, rule.hand if withheld is None else Hand.NONE, rule.action, rule.name, withheld)
    return Verdict(finding, Hand.NONE, Action.OBSERVE)


def _word(verdict: Verdict) -> tuple[Run, str, str]:
    return verdict.finding.run, verdict.rule or "", verdict.withheld or ""


def _is_backup(finding: Finding, _: Census) -> bool:
    name = finding.backend.application_name.lower()
    return any(name == tool or name.startswith((f"{tool} ", f"{tool}/", f"{tool}[")) for tool in BACKUP_APPLICATIONS)


def _is_writer(finding: Finding, _: Census) -> bool:
    backend = finding.backend
    statement = backend.start(Clock.STATEMENT)
    committed_inside = (
        backend.doing is Doing.RUNNING
        and statement is not None
        and backend.transaction is not None
        and backend.transaction.at > statement.at
    )
    return backend.has_xid or committed_inside


Protection = Callable[[Finding, Census], bool]

PROTECTIONS: tuple[tuple[str, Protection], ...] = (
    ("superuser", lambda finding, census: finding.backend.role in census.superusers),
    ("provider", lambda finding, _: finding.backend.role in PROVIDER_ROLES),
    ("hidden", lambda finding, census: finding.backend.role in census.hidden_roles),
    ("backup", _is_backup),
    ("sync_rep", lambda finding, _: finding.backend.wait_event == "SyncRep"),
    ("waits_for_client", lambda finding, _: finding.backend.doing is not Doing.RUNNING),
    ("client_talking", lambda finding, _: finding.talking),
    ("writer", _is_writer),
)
