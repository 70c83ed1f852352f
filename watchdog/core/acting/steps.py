"""The steps of a look after it has been judged, as pure functions.

The order is `follow_up`, `decide_on`, then the acts are carried out, then `conclude`. Each step takes the return value
of the step before it, so that they cannot be called in another order. The caller sends the statements in between.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from watchdog.core.acting.acts import ActResult, ObservedEffect
from watchdog.core.acting.effects import Retry, came_back, follow
from watchdog.core.acting.memory import PolicyMemory, back_off, prune, record_effects, record_result
from watchdog.core.acting.policy import Policy, decide
from watchdog.core.acting.protections import ProtectionContext
from watchdog.core.acting.status import ActingStatus
from watchdog.core.acting.verdicts import Decisions
from watchdog.core.judging.judge import Judgement, Memory
from watchdog.core.observed.activity import Snapshot
from watchdog.core.observed.census import Census
from watchdog.core.observed.commands import Commands
from watchdog.core.observed.steady import SteadyTime


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedLook:
    """A judged look, with the outcomes of earlier acts.

    `interval` is `JudgeSettings.patience`. `at` is the steady time, by which policy measures.
    """

    snapshot: Snapshot
    judgement: Judgement
    census: Census
    policy: Policy
    interval: timedelta
    at: datetime
    memory: PolicyMemory
    effects: tuple[ObservedEffect, ...] = ()
    retries: tuple[Retry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedLook:
    """A followed look with its verdicts, and the memory after these verdicts."""

    followed: FollowedLook
    decisions: Decisions
    memory: PolicyMemory


def follow_up(  # all that is known of the look at this step
    snapshot: Snapshot,
    judgement: Judgement,
    *,
    census: Census,
    policy: Policy,
    interval: timedelta,
    memory: PolicyMemory,
    alive: frozenset[tuple[int, datetime]] | None,
    steady: SteadyTime,
) -> FollowedLook:
    """Find the outcomes of earlier acts on this server. A snapshot without the rows of other roles shows no outcomes.

    `alive` are sessions (pid and start) that are not in the snapshot and still there, idle; None where the
    server did not say.
    """
    at = steady.at
    if steady.step is not None:  # what was running then may be younger or older than its row says
        memory = replace(memory, watched=dict.fromkeys((case.run for case in judgement.cases), at))
    effects: list[ObservedEffect] = []
    retries: list[Retry] = []
    if snapshot.sees_all:
        limits = policy.limits
        effects, acts = follow(
            memory.acts, snapshot=snapshot, at=at, alive=alive, interval=interval, tries=limits.tries
        )
        memory = record_effects(memory, effects=effects, acts=acts, limits=limits, at=at)
        retries, cancelled = came_back(memory.cancelled, cases=judgement.cases, at=at, ahead=at - snapshot.at)
        memory = back_off(memory, retries=retries, cancelled=cancelled, limits=limits, at=at)
    return FollowedLook(
        snapshot=snapshot,
        judgement=judgement,
        census=census,
        policy=policy,
        interval=interval,
        at=at,
        memory=memory,
        effects=tuple(effects),
        retries=tuple(retries),
    )


def decide_on(look: FollowedLook, *, status: ActingStatus, commands: Commands) -> DecidedLook:
    """Decide on the findings. It can be called again with the same look when more first words have been read."""
    decisions, memory = decide(
        look.judgement,
        at=look.at,
        policy=look.policy,
        status=status,
        context=ProtectionContext(look.census, look.policy.protect, commands),
        memory=look.memory,
        interval=look.interval,
    )
    return DecidedLook(followed=look, decisions=decisions, memory=memory)


def conclude(look: DecidedLook, results: Iterable[ActResult], *, judged: Memory) -> PolicyMemory:
    """Remember the acts that were carried out, and drop what is over.

    `judged` is the judge's memory after this look.
    """
    at, memory, limits = look.followed.at, look.memory, look.followed.policy.limits
    for result in results:
        memory = record_result(memory, result, limits=limits, interval=look.followed.interval, at=at)
    present = frozenset(case.run for case in look.followed.judgement.cases) | judged.set_aside
    return prune(memory, present=present, limits=limits, at=at)
