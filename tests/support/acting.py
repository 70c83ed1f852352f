"""Runs policy over a series of looks without I/O. A stand-in for the server carries the acts out."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from support.builders import NOW, book, census, judge_settings, seconds, snapshot
from watchdog.core.acting.acts import Act, ActResult, ObservedEffect, Result
from watchdog.core.acting.effects import Retry
from watchdog.core.acting.limits import Limits
from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.protections import Protect
from watchdog.core.acting.rules import Action, Names, Rule
from watchdog.core.acting.status import ActingStatus, DisarmReason
from watchdog.core.acting.steps import conclude, decide_on, follow_up
from watchdog.core.acting.verdicts import Decisions, Due, Hand, Verdict, Withheld, withheld_reason
from watchdog.core.judging.evidence import Evidence, Kind
from watchdog.core.judging.judge import Judgement, JudgeSettings, Memory, judge
from watchdog.core.observed.activity import Backend
from watchdog.core.observed.census import Census
from watchdog.core.observed.commands import Command, Commands, statement_key
from watchdog.core.observed.sockets import StatementRun
from watchdog.core.observed.steady import SteadyTime

ARMED = ActingStatus(actor=1, disarm_reasons=())
DRY = ActingStatus(actor=1, disarm_reasons=(DisarmReason.POLICY_MODE,))
ONCE = ActingStatus(disarm_reasons=(DisarmReason.POLICY_MODE,), at_once=True)

FREE = Limits(per_minute=600, share=1.0, pause=seconds(0))
"""Limits so wide that they withhold no act."""


def cancel_rule(
    *,
    name: str = "orphans",
    kind: Kind = Kind.ORPHAN,
    evidence: Evidence = Evidence.OVER_BUDGET,
    only: Names = Names(roles=("*",)),  # noqa: B008  # frozen
    ignore: Names = Names(),  # noqa: B008  # frozen
    after: float = 0,
    writers: bool = False,
    action: Action = Action.CANCEL,
) -> Rule:
    return Rule(
        name=name,
        kind=kind,
        evidence=frozenset({evidence}),
        action=action,
        only=only,
        ignore=ignore,
        after=seconds(after),
        writers=writers,
    )


def rule_name(verdict: Verdict) -> str | None:
    return None if verdict.rule is None else verdict.rule.name


def commands_of(*rows: Backend, word: str | None = "SELECT", in_progress: bool = False) -> Commands:
    """The commands of these rows: each has this first word."""
    keys = [key for row in rows if (key := statement_key(row)) is not None]
    return dict.fromkeys(keys, Command(None if word is None else frozenset({word}), in_progress=in_progress))


@dataclass(frozen=True)
class Step:
    """The results of one look."""

    judgement: Judgement
    decisions: Decisions
    effects: list[ObservedEffect]
    retries: list[Retry]
    results: list[ActResult]

    @property
    def signalled(self) -> list[int]:
        return [each.act.finding.backend.pid for each in self.results]

    def verdict(self, pid: int, *, kind: Kind = Kind.ORPHAN) -> Verdict:
        [found] = [
            each for each in self.decisions.verdicts if each.finding.backend.pid == pid and each.finding.kind is kind
        ]
        return found

    def withheld(self, pid: int, *, kind: Kind = Kind.ORPHAN) -> Withheld | None:
        return withheld_reason(self.verdict(pid, kind=kind))


@dataclass
class Play:
    """One cluster with one actor. `answers` gives the result of the guarded statement for an act."""

    policy: Policy = field(default_factory=lambda: Policy((cancel_rule(),), FREE))
    status: ActingStatus = ARMED
    judge_settings: JudgeSettings = field(default_factory=lambda: judge_settings(book()))
    census: Census = field(default_factory=census)
    answers: Callable[[Act], Result] = lambda act: Result.REHEARSED if act.hand is Hand.REHEARSE else Result.SIGNALLED
    memory: Memory = field(default_factory=Memory)
    policy_memory: PolicyMemory = field(default_factory=PolicyMemory)
    acts: list[ActResult] = field(default_factory=list)
    number: int = 0
    stepped: float = 0

    def warm(self, *, at: float = -60) -> "Play":
        """Take a look in the past, so that the warm-up is over and the buckets of the limits are full."""
        self.look(at=at)
        return self

    def look(
        self,
        *rows: Backend,
        at: float = 0,
        alive: frozenset[tuple[int, datetime]] = frozenset(),
        commands: Commands | None = None,
        sees_all: bool = True,
        gone: frozenset[StatementRun] = frozenset(),
        step: float = 0,
    ) -> Step:
        """One look at `rows`, `at` seconds after NOW. The ages of the rows are not adjusted.

        `step` is by how many seconds the server's clock was stepped before this look.
        """
        self.stepped += step
        when = NOW + seconds(at)
        steady = SteadyTime(when - seconds(self.stepped), seconds(step) if step else None)
        seen = snapshot(*rows, at=when, sees_all=sees_all)
        judgement, self.memory = judge(
            seen, settings=self.judge_settings, census=self.census, memory=self.memory, tick=True, gone=gone
        )
        followed = follow_up(
            seen,
            judgement,
            census=self.census,
            policy=self.policy,
            interval=self.judge_settings.patience,
            memory=self.policy_memory,
            alive=alive,
            steady=steady,
        )
        words = commands_of(*rows) if commands is None else commands
        decided = decide_on(followed, status=self.status, commands=words)
        results = [self._carried_out(verdict, decided.memory, when) for verdict in decided.decisions.due]
        self.acts += results
        self.policy_memory = conclude(decided, results, judged=self.memory)
        return Step(judgement, decided.decisions, list(followed.effects), list(followed.retries), results)

    def _carried_out(self, verdict: Due, memory: PolicyMemory, when: datetime) -> ActResult:
        self.number += 1
        before = memory.acts.get(verdict.finding.run)
        attempt = 1 if before is None else before.attempts + 1
        act = act_of(verdict, number=self.number, attempt=attempt, at=when)
        return ActResult(act=act, result=self.answers(act), took=timedelta(milliseconds=2))


def act_of(verdict: Due, *, number: int = 1, attempt: int = 1, at: datetime = NOW) -> Act:
    """The act for a verdict."""
    return Act(
        id=f"act{number}",
        server="main",
        finding=verdict.finding,
        rule=verdict.rule,
        hand=verdict.hand,
        attempt=attempt,
        at=at,
    )


def protecting(**changes: object) -> Policy:
    """A policy with other protections."""
    return Policy((cancel_rule(),), FREE, replace(Protect(), **changes))  # type: ignore[arg-type]  # names of fields
