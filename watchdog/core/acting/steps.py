"""The pure steps of a look after it has been judged, in the order in which they must be taken.

`follow_up` → `decide_on` → (acts are carried out) → `conclude`. Each takes what the one before it gives, so that
neither the daemon nor a test can take them in another order. Asking the server in between is the caller's work.
"""

from collections.abc import Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedLook:
    """A judged look that knows what came of earlier acts. `interval` is the one in force."""

    snapshot: Snapshot
    judgement: Judgement
    census: Census
    policy: Policy
    interval: timedelta
    memory: PolicyMemory
    effects: tuple[ObservedEffect, ...] = ()
    retries: tuple[Retry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedLook:
    """A followed look with its verdicts, and the memory that knows them."""

    followed: FollowedLook
    decisions: Decisions
    memory: PolicyMemory


def follow_up(  # what a look knows by now
    snapshot: Snapshot,
    judgement: Judgement,
    *,
    census: Census,
    policy: Policy,
    interval: timedelta,
    memory: PolicyMemory,
    alive: frozenset[tuple[int, datetime]] | None,
) -> FollowedLook:
    """See what came of earlier acts. A look at a part of the rows shows nothing of the kind.

    `alive` are sessions (pid and start) that are not in the snapshot and still there, idle; None where the
    server did not say.
    """
    effects: list[ObservedEffect] = []
    retries: list[Retry] = []
    if snapshot.sees_all:
        limits, at = policy.limits, snapshot.at
        effects, acts = follow(memory.acts, snapshot=snapshot, alive=alive, interval=interval, tries=limits.tries)
        memory = record_effects(memory, effects=effects, acts=acts, limits=limits, at=at)
        retries, cancelled = came_back(memory.cancelled, cases=judgement.cases, at=at)
        memory = back_off(memory, retries=retries, cancelled=cancelled, limits=limits, at=at)
    return FollowedLook(
        snapshot=snapshot,
        judgement=judgement,
        census=census,
        policy=policy,
        interval=interval,
        memory=memory,
        effects=tuple(effects),
        retries=tuple(retries),
    )


def decide_on(look: FollowedLook, *, status: ActingStatus, commands: Commands) -> DecidedLook:
    """Decide; a look that has read more first words is simply decided again."""
    decisions, memory = decide(
        look.judgement,
        at=look.snapshot.at,
        policy=look.policy,
        status=status,
        context=ProtectionContext(look.census, look.policy.protect, commands),
        memory=look.memory,
        interval=look.interval,
    )
    return DecidedLook(followed=look, decisions=decisions, memory=memory)


def conclude(look: DecidedLook, results: Iterable[ActResult], *, judged: Memory) -> PolicyMemory:
    """Remember what was carried out, and drop what is over; `judged` is the judge's memory after this look."""
    at, memory = look.followed.snapshot.at, look.memory
    for result in results:
        memory = record_result(memory, result, at=at)
    present = frozenset(case.run for case in look.followed.judgement.cases) | judged.set_aside
    return prune(memory, present=present, at=at)
