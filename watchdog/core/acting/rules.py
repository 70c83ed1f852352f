"""Rules: which findings an operator wants acted on. A rule speaks about a finding if every condition holds."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from watchdog.core.judging.evidence import Evidence, Finding, Kind


class Action(StrEnum):
    """What a rule asks for."""

    CANCEL = "cancel"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True)
class Names:
    """Globs for roles, databases and jobs. A run without a usable key has no job, and no glob matches it."""

    roles: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule, in the order of the configuration.

    `only` are conditions, each of which must hold where it is given; `ignore` beats them: one hit, and the rule does
    not speak about the finding. `after` is the patience from the moment it became what `kind` says.
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
    """One condition of a rule, and whether it holds for a finding: `explain` shows them all."""

    name: str
    holds: bool
    seen: tuple[str, ...]
    wanted: Iterable[str]
    words: str = "{seen}; {wanted}"

    @property
    def detail(self) -> str:
        """What was seen and what was wanted, in words: put together only where somebody reads it."""
        return self.words.format(seen=", ".join(self.seen) or "none", wanted=", ".join(self.wanted))


OVER_BUDGET_RULE = Rule(
    name="over-budget",
    kind=Kind.ORPHAN,
    evidence=frozenset({Evidence.OVER_BUDGET}),
    action=Action.CANCEL,
    only=Names(roles=("*",)),
)
"""The rule in force where the configuration has none: what would be cancelled if somebody armed it. Never armed."""


def speaks(rule: Rule, finding: Finding) -> bool:
    """True where every condition of `rule` holds for `finding`."""
    return all(each.holds for each in conditions(rule, finding))


def conditions(rule: Rule, finding: Finding) -> Iterator[Condition]:
    """Every condition of `rule` with its answer, in the order in which they stand in the configuration."""
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


def matches(value: str, globs: Iterable[str]) -> bool:
    """True where one of the globs fits; case counts, and the empty value fits none."""
    return bool(value) and any(fnmatchcase(value, glob) for glob in globs)


def _listed(names: Names, finding: Finding, *, wanted: bool) -> Iterator[Condition]:
    for name, value_of in _NAMES:
        globs: tuple[str, ...] = getattr(names, name)
        if globs:
            value = value_of(finding)
            title = name if wanted else f"ignore {name}"
            yield Condition(name=title, holds=matches(value, globs) is wanted, seen=(value,), wanted=globs)


_NAMES: tuple[tuple[str, Callable[[Finding], str]], ...] = (
    ("roles", lambda finding: finding.backend.role),
    ("databases", lambda finding: finding.backend.database),
    ("jobs", lambda finding: finding.key.job if finding.key else ""),
    ("applications", lambda finding: finding.backend.application_name),
)
