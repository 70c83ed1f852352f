"""One look at one cluster, from the poll to the acts. Each step takes the result of the step before it.

This module owns when the server is asked for what. All decisions are made in the core.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from datetime import datetime
from typing import Never

from watchdog.core.acting.acts import ActResult, Result
from watchdog.core.acting.effects import vanished
from watchdog.core.acting.lifecycle import ActState
from watchdog.core.acting.memory import PolicyMemory, on_server
from watchdog.core.acting.policy import Policy, wanted_commands
from watchdog.core.acting.protections import ProtectionContext
from watchdog.core.acting.status import ActingStatus
from watchdog.core.acting.steps import DecidedLook, FollowedLook, conclude, decide_on, follow_up
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.judging.judge import Judgement, JudgeSettings, Memory, judge
from watchdog.core.judging.neighbours import wants_blocking
from watchdog.core.observed.activity import Snapshot
from watchdog.core.observed.blocking import waiters
from watchdog.core.observed.census import Census, ServerIdentity
from watchdog.core.observed.commands import UNREAD, BackendLookup, Commands, StatementKey, statement_key
from watchdog.core.observed.sockets import StatementRun
from watchdog.core.observed.statement_failures import failing
from watchdog.core.observed.steady import Reading, SteadyTime, steady_time
from watchdog.core.present.look import Look, LookTiming
from watchdog.errors import ReadError
from watchdog.runtime.finish import finished
from watchdog.runtime.ports import Acting, Sockets, Source
from watchdog.runtime.sweeper import Sweeper
from watchdog.runtime.timetable import Readings

BACKENDS = "backends"
"""The name of the statement that looks up single backends."""

BLOCKING = "blocking"
"""The name of the statement that asks who blocks whom."""


def elapsed() -> float:
    """Seconds by a clock that cannot be set and goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_NAMES_ARE_OLD = frozenset({Withheld.RENAMED, Withheld.NAMES_UNREAD})
"""Answers by which the names of the last census are wrong, or may be."""

NO_BACKEND = 1
"""A pid that is asked for where only the answer matters."""


@dataclass(slots=True, kw_only=True)
class Cycle:
    """What the looks at one cluster have in common, and what each look passes on to the next."""

    server: str
    source: Source
    judge_settings: JudgeSettings
    actor: Acting
    policy: Policy = field(default_factory=Policy)
    sweeper: Sweeper = field(init=False)
    sockets: InitVar[Sockets | None] = None
    census: Census | None = None
    census_failures: int = 0
    _wants_census: bool = False
    """What is known of names and rights is wrong: the last census failed, or the server refused an act."""

    readings: Readings = field(default_factory=Readings)
    memory: Memory = field(default_factory=Memory)
    policy_memory: PolicyMemory = field(default_factory=PolicyMemory)
    commands: Commands = field(default_factory=dict)
    deadline: float = 3.0
    """Seconds for which an act that has begun may go on when the cycle is stopped."""

    elapsed: Callable[[], float] = field(default=elapsed)
    """Seconds by a clock that cannot be set."""

    _census_start: datetime | None = None
    """The start of the postmaster that the census is of, as the first look after it has shown."""

    _clock: tuple[Reading, Reading] | None = None
    """The first and the last reading of the server's clock."""

    def __post_init__(self, sockets: Sockets | None) -> None:
        """Create the sweeper of this cluster's sockets."""
        self.sweeper = Sweeper(
            source=self.source, sockets=sockets, spares_half_closed=self.judge_settings.book.spares_half_closed
        )

    @property
    def identity(self) -> Hashable:
        """What is read and how. Cycles with the same identity can go on with each other's session."""
        return self.source.identity

    @property
    def census_is_stale(self) -> bool:
        """True where the next census should come early."""
        return self.source.census_is_stale or self._wants_census

    @property
    def sweep_pause(self) -> float | None:
        """Seconds until the next sweep of sockets. None if there is nothing to sweep."""
        return self.sweeper.pause

    def sweep(self) -> bool:
        """Look at the sockets of known runs. True if one is closed that was not known to be."""
        return self.sweeper.sweep()

    def close(self) -> None:
        """End the session at once. The next look opens a new one."""
        self.source.close()

    async def run_beside(self) -> Never:
        """Run what the actor has to run beside the looks, until cancelled."""
        await self.actor.run_beside()

    def inherit_state(self, before: "Cycle") -> None:
        """Take over the memory of another cycle of the same cluster, and the state of its actor."""
        self.source.inherit_state(before.source)
        self.memory = before.memory
        self.policy_memory = before.policy_memory
        self._clock = before._clock  # noqa: SLF001  # of the same class
        self.actor.inherit_state(before.actor)

    def apply_config(self, other: "Cycle") -> None:
        """Take on a new configuration. What decides on this cluster is its rules, and its budgets, jobs and poolers."""
        rules_changed = (self.policy, self.judge_settings) != (other.policy, other.judge_settings)
        self.actor.apply_config(other.actor, rules_changed=rules_changed)
        self.judge_settings, self.policy = other.judge_settings, other.policy
        self.sweeper.spares_half_closed = other.sweeper.spares_half_closed

    async def take_census(self) -> Census:
        """Take a census for this look and the next ones.

        Raises:
            ReadError: the census could not be taken; `reason` says why.

        """
        self.census, self._census_start = await self.source.census(), None
        return self.census

    async def renew_census(self) -> Census:
        """Take a census. If that fails, go on with the last one and count the failure.

        Raises:
            ReadError: there is no last one, or the session is lost. The next look would fail as well.

        """
        try:
            census = await self.take_census()
        except ReadError:
            self._wants_census = True
            if self.census is None or not self.source.is_open:
                raise
            self.census_failures += 1
            return self.census
        self._wants_census = False
        return census

    async def look(self, *, tick: bool) -> Look:
        """Take one look.

        Raises:
            ReadError: the cluster could not be read. The memories stay as they were.

        """
        census = self.census or await self.take_census()
        if tick:  # not at a crossing, because its look must not wait for a sweep
            self.sweeper.sweep_if_due()
        asked_at, asked = time.monotonic(), self.elapsed()
        snapshot, took = await self.source.snapshot()
        read_at, came = time.monotonic(), self.elapsed()
        timing = LookTiming(read_at, self.readings.place(snapshot.at, asked_at=asked_at, read_at=read_at))
        placed = came - (read_at - timing.placed_at)
        steady = self._steady(Reading(at=snapshot.at, asked=asked, came=came, placed=placed))
        gone = self.sweeper.confirm(snapshot)
        judgement, memory = await self._judged(snapshot, census=census, tick=tick, gone=gone)
        identity = self._identity(census, snapshot)
        known, lost = on_server(self.policy_memory, identity, at=snapshot.at)
        # A new actor reads the ledger before effects are observed, so that each effect is seen and reported once.
        status, policy_memory = await self.actor.status(
            known,
            census=census,
            identity=identity,
            complete=snapshot.sees_all,
            tick=tick,
            policy=self.policy,
            at=snapshot.at,
            steady=steady.at,
        )
        lookup = await self._asked(snapshot, judgement, census=census, memory=policy_memory)
        followed = follow_up(
            snapshot,
            judgement,
            census=census,
            policy=self.policy,
            interval=self.judge_settings.patience,
            memory=policy_memory,
            alive=lookup.alive,
            steady=steady,
        )
        followed = replace(followed, effects=(*lost, *followed.effects))
        decided = await self._decided(followed, status=status, asked=lookup)
        # A stop between a signal and its record would lose the answer.
        results = await finished(self._act(decided, judged=memory, read_at=read_at), deadline=self.deadline)
        return Look(
            server=self.server,
            snapshot=snapshot,
            census=census,
            judgement=judgement,
            decisions=decided.decisions,
            interval=self.judge_settings.interval,
            took=took,
            tick=tick,
            census_failures=self.census_failures,
            status=status,
            lease=self.actor.lease,
            results=tuple(results),
            effects=followed.effects,
            retries=followed.retries,
            stuck=sum(act.state is ActState.INEFFECTIVE for act in self.policy_memory.acts.values()),
            socket_visibility=self.sweeper.socket_visibility,
            clients=self.sweeper.clients,
            timing=timing,
            statement_failures=self.source.statement_failures,
            clock_step=steady.step,
        )

    async def _act(self, decided: DecidedLook, *, judged: Memory, read_at: float) -> list[ActResult]:
        """Carry out what is due, remember it, and put it on record together with what came of earlier acts."""
        followed, at = decided.followed, decided.followed.snapshot.at
        results = await self.actor.carry_out(
            decided.decisions.due,
            memory=decided.memory,
            at=at,
            read_at=read_at,
            is_still_gone=self.sweeper.is_still_gone,
        )
        self._wants_census |= any(
            each.result is Result.NOT_PERMITTED or each.withheld in _NAMES_ARE_OLD for each in results
        )
        self.policy_memory = conclude(decided, results, judged=judged)
        self.memory = judged
        await self.actor.record(results, effects=followed.effects, retries=followed.retries, at=at)
        return results

    def _identity(self, census: Census, snapshot: Snapshot) -> ServerIdentity:
        """Which server was read. Behind one address there may be another one since the census was taken."""
        if self._census_start is None:
            self._census_start = snapshot.postmaster_start
        same = self._census_start == snapshot.postmaster_start
        return ServerIdentity(census.system_identifier if same else None, snapshot.postmaster_start)

    def _steady(self, reading: Reading) -> SteadyTime:
        first, before = self._clock or (reading, reading)
        self._clock = first, reading
        return steady_time(reading, first=first, before=before)

    async def _asked(
        self, snapshot: Snapshot, judgement: Judgement, *, census: Census, memory: PolicyMemory
    ) -> BackendLookup:
        """Look up whether the sessions of earlier acts are still there, and the first words that matter now.

        One statement asks for all that is not known yet. Only first words are remembered, never query texts.
        """
        context = ProtectionContext(census, self.policy.protect, {})
        wanted = {
            key: finding.backend.pid
            for finding in wanted_commands(judgement, policy=self.policy, context=context)
            if (key := statement_key(finding.backend)) is not None
        }
        fails = BACKENDS in failing(self.source.statement_failures)
        known = {key: each for key, each in self.commands.items() if key in wanted and not (fails or each.unread)}
        self.commands = known
        commands = {key: pid for key, pid in wanted.items() if key not in known}
        alive = vanished(memory.acts, snapshot=snapshot) if snapshot.sees_all else []
        if fails and not commands and not alive:
            alive = [NO_BACKEND]  # so that a failure does not last for as long as there is nothing to ask
        return await self._backends(commands=commands, alive=alive)

    async def _backends(self, *, commands: Mapping[StatementKey, int], alive: Sequence[int] = ()) -> BackendLookup:
        """Ask for the first words of `commands` and for the sessions `alive`, and remember the words.

        A failure is known as such: the words are unread, and of the sessions nothing is known. If our own session is
        lost, the next poll says so.
        """
        try:
            asked = await self.source.backends(commands=list(commands.values()), alive=alive)
        except ReadError:
            self.commands = {**self.commands, **dict.fromkeys(commands, UNREAD)}
            return BackendLookup(alive=None)
        others = {key: command for key, command in self.commands.items() if key not in commands}
        self.commands = {**others, **asked.commands}  # a session that has gone has told no word
        return asked

    async def _decided(self, followed: FollowedLook, *, status: ActingStatus, asked: BackendLookup) -> DecidedLook:
        """Decide, with the first words that could still protect a run.

        For the first decision the words of earlier looks are enough. Those of the runs that are due are read again
        before the acts: one query text may hold several commands, and maintenance may be the second.
        """
        decided, read = decide_on(followed, status=status, commands=self.commands), set(asked.commands)
        while self.policy.needs_words:
            due = {statement_key(each.finding.backend): each.finding.backend.pid for each in decided.decisions.due}
            stale = {key: pid for key, pid in due.items() if key is not None and key not in read}
            if not stale:
                break
            # Each is asked for once. Where one is no longer to be done, another may be due in its place.
            await self._backends(commands=stale)
            read |= stale.keys()
            decided = decide_on(followed, status=status, commands=self.commands)
        return decided

    async def _judged(
        self, snapshot: Snapshot, *, census: Census, tick: bool, gone: frozenset[StatementRun]
    ) -> tuple[Judgement, Memory]:
        """Judge. If the snapshot has a finding and a waiter, read who blocks whom and judge again."""
        memory, settings = self.memory, self.judge_settings
        first = judge(snapshot, settings=settings, census=census, memory=memory, tick=tick, gone=gone)
        wanted = wants_blocking(first[0].findings, snapshot=snapshot)
        # Where there is nothing to ask, a failure is asked again, so that it is not shown for as long as that lasts.
        if not wanted and not (tick and BLOCKING in failing(self.source.statement_failures)):
            return first
        try:
            blocking = await self.source.blocking(waiters(snapshot) if wanted else [NO_BACKEND])
        except ReadError:
            return first  # blocking stays unknown; if the session is lost, the next poll fails
        if not wanted:
            return first
        return judge(snapshot, settings=settings, census=census, memory=memory, tick=tick, blocking=blocking, gone=gone)
