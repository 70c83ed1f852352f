"""Policy over a row of looks without any I/O: judged, followed, decided, carried out by a stand-in for a server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from support.builders import NOW, book, census, judge_settings, seconds, snapshot
from watchdog.core.acting.acts import Act, ActResult, ObservedEffect, Result
from watchdog.core.acting.effects import Retry, came_back, follow
from watchdog.core.acting.limits import Limits
from watchdog.core.acting.memory import PolicyMemory, back_off, prune, record_effects, record_result
from watchdog.core.acting.policy import Policy, decide
from watchdog.core.acting.protections import Protect, ProtectionContext
from watchdog.core.acting.rules import Names, Rule
from watchdog.core.acting.status import ActingStatus, DisarmReason
from watchdog.core.acting.verdicts import Action, Decisions, Hand, Verdict, Withheld
from watchdog.core.judging.evidence import Evidence, Kind
from watchdog.core.judging.judge import Judgement, JudgeSettings, Memory, judge
from watchdog.core.observed.activity import Backend, Run
from watchdog.core.observed.census import Census
from watchdog.core.observed.commands import Command, Commands, statement_key

ARMED = ActingStatus(actor=1, disarm_reasons=())
DRY = ActingStatus(actor=1, disarm_reasons=(DisarmReason.POLICY_MODE,))
ONCE = ActingStatus(disarm_reasons=(DisarmReason.POLICY_MODE,), at_once=True)

FREE = Limits(per_minute=600, share=1.0, pause=seconds(0))
"""Limits that are in nobody's way."""


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
    return Rule(name, kind, frozenset({evidence}), action, only, ignore, seconds(after), writers)


def commands_of(*rows: Backend, word: str | None = "SELECT", in_progress: bool = False) -> Commands:
    """Every row runs a command with this first word."""
    keys = [key for row in rows if (key := statement_key(row)) is not None]
    return dict.fromkeys(keys, Command(word, in_progress=in_progress))


@dataclass(frozen=True)
class Step:
    """What one look brought."""

    judgement: Judgement
    decisions: Decisions
    effects: list[ObservedEffect]
    retries: list[Retry]
    done: list[ActResult]

    @property
    def signalled(self) -> list[int]:
        return [each.act.finding.backend.pid for each in self.done]

    def verdict(self, pid: int, *, kind: Kind = Kind.ORPHAN) -> Verdict:
        [found] = [
            each for each in self.decisions.verdicts if each.finding.backend.pid == pid and each.finding.kind is kind
        ]
        return found

    def withheld(self, pid: int, *, kind: Kind = Kind.ORPHAN) -> Withheld | None:
        return self.verdict(pid, kind=kind).withheld


@dataclass
class Play:
    """One cluster, one actor. `answers` says what the guarded statement answers to an act."""

    policy: Policy = field(default_factory=lambda: Policy((cancel_rule(),), FREE))
    status: ActingStatus = ARMED
    judge_settings: JudgeSettings = field(default_factory=lambda: judge_settings(book()))
    census: Census = field(default_factory=census)
    answers: Callable[[Act], Result] = lambda act: (
        Result.REHEARSED if act.verdict.hand is Hand.REHEARSE else Result.SIGNALLED
    )
    memory: Memory = field(default_factory=Memory)
    policy_memory: PolicyMemory = field(default_factory=PolicyMemory)
    acts: list[ActResult] = field(default_factory=list)
    number: int = 0

    def warm(self, *, at: float = -60) -> "Play":
        """Begin long before: nothing warms up any more and the buckets are full."""
        self.look(at=at)
        return self

    def look(
        self,
        *rows: Backend,
        at: float = 0,
        alive: frozenset[tuple[int, datetime]] = frozenset(),
        commands: Commands | None = None,
        sees_all: bool = True,
    ) -> Step:
        """One look at `rows`, `at` seconds after NOW; the rows' ages are the caller's business."""
        when = NOW + seconds(at)
        seen = snapshot(*rows, at=when, sees_all=sees_all)
        judgement, self.memory = judge(
            seen, settings=self.judge_settings, census=self.census, memory=self.memory, tick=True
        )
        limits, interval = self.policy.limits, self.judge_settings.interval
        memory = self.policy_memory
        effects: list[ObservedEffect] = []
        retries: list[Retry] = []
        if sees_all:
            effects, acts = follow(memory.acts, snapshot=seen, alive=alive, interval=interval, tries=limits.tries)
            memory = record_effects(memory, effects=effects, acts=acts, limits=limits, at=when)
            retries, cancelled = came_back(memory.cancelled, cases=judgement.cases, at=when)
            memory = back_off(memory, retries=retries, cancelled=cancelled, limits=limits, at=when)
        context = ProtectionContext(
            self.census, self.policy.protect, commands_of(*rows) if commands is None else commands
        )
        decisions, memory = decide(
            judgement,
            at=when,
            policy=self.policy,
            status=self.status,
            context=context,
            memory=memory,
            interval=interval,
        )
        done = []
        for verdict in decisions.due:
            each = self._carried_out(verdict, memory, when)
            done.append(each)
            memory = record_result(memory, each, at=when)
        self.acts += done
        present = frozenset(case.run for case in judgement.cases) | self.memory.set_aside
        self.policy_memory = prune(memory, present=present, at=when)
        return Step(judgement, decisions, effects, retries, done)

    def _carried_out(self, verdict: Verdict, memory: PolicyMemory, when: datetime) -> ActResult:
        self.number += 1
        before: Mapping[Run, object] = memory.acts
        attempt = memory.acts[verdict.finding.run].attempts + 1 if verdict.finding.run in before else 1
        act = Act(f"act{self.number}", "main", verdict, attempt, when)
        return ActResult(act, self.answers(act), timedelta(milliseconds=2))


def protecting(**changes: object) -> Policy:
    """A policy with other protections."""
    return Policy((cancel_rule(),), FREE, replace(Protect(), **changes))  # type: ignore[arg-type]  # names of fields
