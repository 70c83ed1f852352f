"""Rules: which findings the operator wants to be acted on. A rule applies to a finding if all of its conditions hold.

This module knows nothing of protections and limits.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from watchdog.core.judging.evidence import EVIDENCE, Evidence, Finding, Kind
from watchdog.core.observed.names import matches, matches_application


class Action(StrEnum):
    """The action that a rule asks for."""

    CANCEL = "cancel"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True)
class Names:
    """Patterns of roles, databases, jobs and application names. None matches the job of a run without a usable key."""

    roles: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of the configuration.

    The finding must match each list in `only` that is not empty. It must match no list in `ignore`. `evidence` is empty
    or holds the kinds of evidence of which the finding must have one. `after` is how long the rule waits after the run
    became a finding of this `kind`. `writers` is True if transactions that have written may be cancelled.
    """

    name: str
    kind: Kind
    evidence: frozenset[Evidence]
    action: Action
    only: Names = field(default_factory=Names)
    ignore: Names = field(default_factory=Names)
    after: timedelta = timedelta(0)
    writers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition of a rule, and whether it holds for a finding. The command `explain` shows all conditions."""

    name: str
    holds: bool
    seen: tuple[str, ...]
    wanted: Iterable[str]
    words: str = "{seen}; {wanted}"

    @property
    def detail(self) -> str:
        """What was seen and what was wanted, in words. The text is built only when it is shown."""
        return self.words.format(seen=", ".join(self.seen) or "none", wanted=", ".join(self.wanted))


EVERY_ORPHAN_RULE = Rule(
    name="every-orphan",
    kind=Kind.ORPHAN,
    evidence=frozenset(kind.name for kind in EVIDENCE if kind.holds is not None),
    action=Action.CANCEL,
    only=Names(roles=("*",)),
)
"""Default rule if none is configured. It shows in dry run what would be cancelled. It is never armed."""


def speaks(rule: Rule, finding: Finding) -> bool:
    """True if every condition of `rule` holds for `finding`."""
    return all(each.holds for each in conditions(rule, finding))


def conditions(rule: Rule, finding: Finding) -> Iterator[Condition]:
    """Every condition of `rule`, and whether it holds for `finding`, in the order of the configuration."""
    yield Condition(
        name="finding",
        holds=rule.kind is finding.kind,
        seen=(finding.kind,),
        wanted=(rule.kind,),
        words="{seen}, the rule is about {wanted}",
    )
    if rule.evidence:
        holds = not rule.evidence.isdisjoint(finding.evidence)
        yield Condition(
            name="evidence",
            holds=holds,
            seen=finding.evidence,
            wanted=sorted(rule.evidence),
            words="{seen}; any of {wanted}",
        )
    yield from _listed(rule.only, finding, wanted=True)
    yield from _listed(rule.ignore, finding, wanted=False)


def _listed(names: Names, finding: Finding, *, wanted: bool) -> Iterator[Condition]:
    backend = finding.backend
    job = finding.key.job if finding.key else ""
    for name, value, patterns in (
        ("roles", backend.role, names.roles),
        ("databases", backend.database, names.databases),
        ("jobs", job, names.jobs),
    ):
        if patterns:
            yield _condition(name, value, patterns, holds=matches(value, patterns) is wanted, wanted=wanted)
    if names.applications:
        # What `ignore` means must not be missed because the server has cut its name.
        found = matches_application(backend.application_name, names.applications, spares=not wanted)
        yield _condition(
            "applications", backend.application_name, names.applications, holds=found is wanted, wanted=wanted
        )


def _condition(name: str, value: str, patterns: tuple[str, ...], *, holds: bool, wanted: bool) -> Condition:
    return Condition(name=name if wanted else f"ignore {name}", holds=holds, seen=(value,), wanted=patterns)
