"""Policy: the verdict on each finding, which is an action or the first reason why the action is withheld.

In dry run, `decide` takes the same path as in an armed cluster: it sets the hand of a verdict to REHEARSE instead of
SIGNAL. What must be remembered for the next look is in `PolicyMemory`, which is a parameter and a return value. This
module carries nothing out and knows nothing of the ledger.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from watchdog.core.acting.breakers import open_breakers, until_closed, with_rights
from watchdog.core.acting.lifecycle import closed_because, is_under_way, takes_share
from watchdog.core.acting.limits import Bucket, Limits
from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.misses import misses_of
from watchdog.core.acting.protections import Protect, ProtectionContext, needs_words, protection, row_protection
from watchdog.core.acting.rules import EVERY_ORPHAN_RULE, Action, Rule, speaks
from watchdog.core.acting.status import ActingStatus
from watchdog.core.acting.verdicts import (
    ActionWithheld,
    Decisions,
    Due,
    Hand,
    Observed,
    UnderWay,
    Verdict,
    Withheld,
    withheld_reason,
)
from watchdog.core.judging.cases import Case
from watchdog.core.judging.copies import copy_key
from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.judging.judge import Judgement
from watchdog.core.observed.activity import ActivityKind, Run

NOBODY_WAITS = frozenset({Evidence.CLIENT_GONE, Evidence.DEADLINE_PASSED})
"""Evidence by which the caller is known to have gone. With the others it may still wait and would try again."""

WARM_UP_INTERVALS = 2
"""Number of intervals for which a new actor does not act."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The part of the configuration that concerns acting."""

    rules: tuple[Rule, ...] = (EVERY_ORPHAN_RULE,)
    limits: Limits = field(default_factory=Limits)
    protect: Protect = field(default_factory=Protect)

    @property
    def needs_words(self) -> bool:
        """True if acts depend on the first words of commands."""
        return any(rule.action is Action.CANCEL and needs_words(rule, self.protect) for rule in self.rules)


def decide(
    judgement: Judgement,
    *,
    at: datetime,
    policy: Policy,
    status: ActingStatus,
    context: ProtectionContext,
    memory: PolicyMemory,
    interval: timedelta,
) -> tuple[Decisions, PolicyMemory]:
    """One verdict for each finding, by the first rule that applies to it."""
    memory = _begun(memory, policy=policy, status=status, at=at)
    found = {(each.run, each.kind): memory.found.get((each.run, each.kind), at) for each in judgement.findings}
    memory = replace(memory, found=found, breakers=with_rights(memory.breakers, census=context.census))
    turn = _Turn(
        judgement=judgement, at=at, policy=policy, status=status, context=context, memory=memory, interval=interval
    )
    verdicts = tuple(turn.verdict(each) for each in judgement.findings)
    said = {_word(each): each for each in verdicts if each.rule is not None}
    decisions = Decisions(
        verdicts=verdicts,
        news=tuple(verdict for word, verdict in said.items() if word not in memory.said),
        due=tuple(turn.due),
        waits=tuple(sorted(turn.waits)),
        warming_up=turn.warm_up > timedelta(0),
        open_breakers=tuple(sorted(open_breakers(memory.breakers, limits=policy.limits, at=at))),
    )
    return decisions, replace(memory, said=memory.said | said.keys(), buckets=turn.buckets)


def wanted_commands(judgement: Judgement, *, policy: Policy, context: ProtectionContext) -> list[Finding]:
    """The findings for which the first word of the command must be read.

    A rule asks to cancel them, and no protection applies that can be tested without the first word.
    """
    return [
        finding
        for finding in judgement.findings
        if (rule := _rule_for(finding, policy.rules)[0]) is not None
        and rule.action is Action.CANCEL
        and needs_words(rule, policy.protect)
        and row_protection(finding, rule=rule, context=context) is None
    ]


def _begun(memory: PolicyMemory, *, policy: Policy, status: ActingStatus, at: datetime) -> PolicyMemory:
    """Begin with empty buckets if the actor is new; otherwise add the tokens that the buckets have gained."""
    per_minute = policy.limits.per_minute
    if memory.actor == status.actor and memory.since is not None:
        filled = {name: each.filled(at, per_minute=per_minute) for name, each in memory.buckets.items()}
        return replace(memory, buckets={rule.name: filled.get(rule.name, Bucket(0.0, at)) for rule in policy.rules})
    return replace(
        memory,
        actor=status.actor,
        since=at,
        buckets={rule.name: Bucket(0.0, at) for rule in policy.rules},
    )


def _rule_for(finding: Finding, rules: Iterable[Rule]) -> tuple[Rule | None, tuple[str, ...]]:
    speaking = [rule for rule in rules if speaks(rule, finding)]
    return (speaking[0], tuple(rule.name for rule in speaking[1:])) if speaking else (None, ())


def _word(verdict: Verdict) -> tuple[Run, str, str]:
    return verdict.finding.run, "" if verdict.rule is None else verdict.rule.name, withheld_reason(verdict) or ""


@dataclass(slots=True, kw_only=True)
class _Turn:
    """One pass over the findings of a look. An act that is decided for one finding counts in the limits of the next.

    `taken` are the runs for which an act was decided in this pass. `room` is the number of acts that may be decided.
    `groups` are the copies of each run.
    """

    judgement: Judgement
    at: datetime
    policy: Policy
    status: ActingStatus
    context: ProtectionContext
    memory: PolicyMemory
    interval: timedelta
    buckets: dict[str, Bucket] = field(init=False)
    due: list[Due] = field(default_factory=list)
    waits: list[timedelta] = field(default_factory=list)
    taken: set[Run] = field(default_factory=set)
    room: int = field(init=False)
    groups: dict[Run, Sequence[Case]] = field(init=False)

    def __post_init__(self) -> None:
        """Compute what the limits leave for this look."""
        self.buckets = dict(self.memory.buckets)
        running = sum(case.activity is ActivityKind.RUNNING for case in self.judgement.cases)
        under_way = sum(takes_share(each) for each in self.memory.acts.values())
        self.room = self.policy.limits.at_once(running) - under_way
        self.groups = {case.run: group for group in self.judgement.copies.values() for case in group}

    @property
    def warm_up(self) -> timedelta:
        """The time for which a new actor still does not act."""
        if self.status.at_once or self.memory.since is None:
            return timedelta(0)
        return self.memory.since + WARM_UP_INTERVALS * self.interval - self.at

    def verdict(self, finding: Finding) -> Verdict:
        rule, passed_over = _rule_for(finding, self.policy.rules)
        if rule is None or rule.action is Action.OBSERVE:
            return Observed(finding=finding, rule=rule, passed_over=passed_over)
        reason = self._first_no(finding, rule)
        hand = Hand.REHEARSE if self.status.rehearses else Hand.SIGNAL
        if reason is None and self._is_under_way(finding.run):
            return UnderWay(finding=finding, rule=rule, hand=hand, passed_over=passed_over)
        reason = reason or self._limited(finding, rule)
        if reason is not None:
            return ActionWithheld(finding=finding, rule=rule, reason=reason, passed_over=passed_over)
        self._spend(finding, rule)
        due = Due(finding=finding, rule=rule, hand=hand, passed_over=passed_over)
        self.due.append(due)
        return due

    def _first_no(self, finding: Finding, rule: Rule) -> Withheld | None:
        """The first reason to withhold: in the finding, in the acts on its run, or in the status of the cluster."""
        return (
            protection(finding, rule=rule, context=self.context)
            or self._copies(finding)
            or self._clock(finding)
            or self._patience(finding, rule)
            or self._history(finding)
            or (None if self._is_under_way(finding.run) else self._in_us(finding))
        )

    def _in_us(self, finding: Finding) -> Withheld | None:
        """The reason in the status of the cluster or in the rights of pgwatchdog's role, if any."""
        if self.status.withheld is not None or self.status.rehearses:
            return self.status.withheld
        may = self.context.census.may_cancel_of(finding.backend.role)
        return None if may else Withheld.NOT_PERMITTED

    def _copies(self, finding: Finding) -> Withheld | None:
        """Withhold the cancel of a duplicate that is the last copy within its budget."""
        if finding.kind is not Kind.DUPLICATE:
            return None
        group = self.groups.get(finding.run, ())
        within = {case.run for case in group if case.budget is None or case.age < case.budget.crossing}
        left = within - self.taken - set(self.memory.acts)
        return Withheld.LAST_COPY if finding.run in within and not left - {finding.run} else None

    def _clock(self, finding: Finding) -> Withheld | None:
        """Withhold what rests on times of the server's clock until we have watched the run for as long ourselves."""
        since = self.memory.watched.get(finding.run)
        if since is None or Evidence.CLIENT_GONE in finding.evidence:
            return None
        left = None if finding.budget is None else since + finding.budget.crossing - self.at
        if left is not None and left <= timedelta(0):
            return None
        if left is not None:
            self.waits.append(left)
        return Withheld.CLOCK_STEPPED

    def _patience(self, finding: Finding, rule: Rule) -> Withheld | None:
        budget = finding.budget
        if finding.kind is Kind.ORPHAN and Evidence.OVER_BUDGET in finding.evidence and budget is not None:
            waited = finding.running - budget.crossing
        else:
            waited = self.at - self.memory.found[finding.run, finding.kind]
        if waited >= rule.after:
            return None
        self.waits.append(rule.after - waited)
        return Withheld.PATIENCE

    def _history(self, finding: Finding) -> Withheld | None:
        before = self.memory.acts.get(finding.run)
        closed = None if before is None else closed_because(before)
        if closed is not None:
            return closed
        transaction = finding.backend.transaction
        if transaction is not None:
            key = (finding.backend.pid, finding.backend.started, transaction.at)
            if key in self.memory.shut:
                return Withheld.TRANSACTION_TRIED
        misses = misses_of(self.memory.misses, finding.backend)
        if misses is not None and misses.is_final:
            return Withheld.KEEPS_CHANGING
        if misses is not None and misses.until > self.at:
            self.waits.append(misses.until - self.at)
            return Withheld.BACKING_OFF
        return Withheld.RESTING if self._is_resting(finding) else None

    def _is_resting(self, finding: Finding) -> bool:
        """True if a cancel would only cause the next retry. Whose client or deadline is gone does not retry for it."""
        if NOBODY_WAITS & set(finding.evidence):
            return False
        key = copy_key(finding)
        until = None if key is None else self.memory.resting.get(key)
        return until is not None and until > self.at

    def _is_under_way(self, run: Run) -> bool:
        """True if an act on the run was decided at this look, or an earlier act on it is under way."""
        before = self.memory.acts.get(run)
        return run in self.taken or (before is not None and is_under_way(before, rehearses=self.status.rehearses))

    def _limited(self, finding: Finding, rule: Rule) -> Withheld | None:
        """The first limit that is reached, or None. A single look (`at_once`) has no limits."""
        if self.status.at_once:
            return None
        limits, role = self.policy.limits, finding.backend.role
        stopped = until_closed(self.memory.breakers, rule=rule.name, role=role, limits=limits, at=self.at)
        waits = (
            (Withheld.WARMING_UP, self.warm_up),
            (Withheld.BREAKER, stopped),
            (Withheld.SHARE, self.interval if self._share_is_taken() else timedelta(0)),
            (Withheld.PAUSE, self._until_pause_ends()),
            (Withheld.LIMIT, self.buckets[rule.name].until_token(per_minute=limits.per_minute)),
        )
        for reason, wait in waits:
            if wait > timedelta(0):
                self.waits.append(wait)
                return reason
        return None

    def _share_is_taken(self) -> bool:
        return len(self.due) >= self.room

    def _until_pause_ends(self) -> timedelta:
        pause = self.policy.limits.pause
        if self.due:
            return pause
        last = self.memory.last_act
        return timedelta(0) if last is None else last + pause - self.at

    def _spend(self, finding: Finding, rule: Rule) -> None:
        bucket = self.buckets[rule.name]
        self.buckets[rule.name] = Bucket(bucket.tokens - 1.0, bucket.at)
        self.taken.add(finding.run)
