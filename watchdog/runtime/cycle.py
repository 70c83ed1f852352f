"""One look at one cluster, from the poll to the verdicts. Always forward: each step takes the one before it."""

import time
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field

from watchdog.core.acting.acts import ObservedEffect
from watchdog.core.acting.effects import Retry, came_back, follow, vanished
from watchdog.core.acting.memory import PolicyMemory, back_off, prune, record_effects, record_result
from watchdog.core.acting.policy import Policy, decide, wanted_commands
from watchdog.core.acting.protections import ProtectionContext
from watchdog.core.acting.status import ActingStatus
from watchdog.core.acting.verdicts import Decisions, Withheld
from watchdog.core.judging.judge import Judgement, JudgeSettings, Memory, judge
from watchdog.core.judging.neighbours import wants_blocking
from watchdog.core.observed.activity import Snapshot
from watchdog.core.observed.blocking import waiters
from watchdog.core.observed.census import Census
from watchdog.core.observed.commands import UNREAD, BackendLookup, Commands, statement_key
from watchdog.core.observed.sockets import StatementRun
from watchdog.core.present.look import Look
from watchdog.errors import ReadError
from watchdog.runtime.actor import Acting
from watchdog.runtime.ports import Sockets, Source
from watchdog.runtime.sweeper import Sweeper
from watchdog.runtime.timetable import Readings


@dataclass(slots=True)
class Cycle:
    """What a cluster's looks have in common, and what one look leaves to the next.

    `read_at` is when the last snapshot came in, in monotonic seconds, and `placed_at` when the server's clock was read
    for it: waits until crossings count from there.
    """

    server: str
    source: Source
    judge_settings: JudgeSettings
    actor: Acting
    policy: Policy = field(default_factory=Policy)
    sweeper: Sweeper = field(init=False)
    sockets: InitVar[Sockets | None] = None
    census: Census | None = None
    census_failures: int = 0
    read_at: float = 0.0
    placed_at: float = 0.0
    readings: Readings = field(default_factory=Readings)
    memory: Memory = field(default_factory=Memory)
    policy_memory: PolicyMemory = field(default_factory=PolicyMemory)
    commands: Commands = field(default_factory=dict)

    def __post_init__(self, sockets: Sockets | None) -> None:
        """Make the sweeper of this cluster's sockets."""
        self.sweeper = Sweeper(self.source, sockets)

    def inherit_state(self, before: "Cycle") -> None:
        """Go on from what another cycle of the same cluster remembers."""
        self.memory = before.memory
        self.policy_memory = before.policy_memory
        self.actor.inherit_state(before.actor)

    def apply_config(self, other: "Cycle") -> None:
        """Take on a new configuration."""
        self.judge_settings, self.policy = other.judge_settings, other.policy
        self.actor.apply_config(other.actor)

    async def take_census(self) -> Census:
        """Take a census for this look and the next ones.

        Raises:
            ReadError: with the reason.

        """
        self.census = await self.source.census()
        return self.census

    async def renew_census(self) -> Census:
        """Take a census if it can be had; otherwise go on with the last one, and count the failure.

        Raises:
            ReadError: there is no last one, or the session is lost: then the next look would fail as well.

        """
        try:
            return await self.take_census()
        except ReadError:
            if self.census is None or not self.source.is_open:
                raise
            self.census_failures += 1
            return self.census

    async def look(self, *, tick: bool) -> Look:
        """Look once.

        Raises:
            ReadError: the cluster could not be read; nothing is remembered of the attempt.

        """
        census = self.census or await self.take_census()
        if tick:  # a crossing must not wait for it
            self.sweeper.sweep_if_due()
        asked_at = time.monotonic()
        snapshot, took = await self.source.snapshot()
        self.read_at = time.monotonic()
        self.placed_at = self.readings.place(snapshot.at, asked_at=asked_at, read_at=self.read_at)
        gone = self.sweeper.confirm(snapshot)
        judgement, memory = await self._judged(snapshot, census=census, tick=tick, gone=gone)
        # First what the ledger knows, where an actor begins anew: then each effect is seen, and told, once.
        status, policy_memory = await self.actor.status(
            self.policy_memory, census=census, complete=snapshot.sees_all, tick=tick, at=snapshot.at
        )
        asked = await self._asked(snapshot, judgement, census=census, memory=policy_memory)
        effects, retries, policy_memory = self._followed(snapshot, judgement, asked=asked, memory=policy_memory)
        decisions, policy_memory = await self._decided(
            snapshot, judgement, census=census, status=status, asked=asked, memory=policy_memory
        )
        done = await self.actor.carry_out(decisions.due, memory=policy_memory, at=snapshot.at, read_at=self.read_at)
        for each in done:
            policy_memory = record_result(policy_memory, each, at=snapshot.at)
        present = frozenset(case.run for case in judgement.cases) | memory.set_aside
        self.policy_memory = prune(policy_memory, present=present, at=snapshot.at)
        self.memory = memory
        await self.actor.record(done, effects, retries, at=snapshot.at)
        return Look(
            self.server,
            snapshot,
            census,
            judgement,
            decisions,
            self.judge_settings.interval,
            took,
            tick,
            self.census_failures,
            status,
            self.actor.lease,
            tuple(done),
            tuple(effects),
            tuple(retries),
            socket_visibility=self.sweeper.socket_visibility,
            stuck=sum(each.final is Withheld.INEFFECTIVE for each in policy_memory.acts.values()),
        )

    async def _asked(
        self, snapshot: Snapshot, judgement: Judgement, *, census: Census, memory: PolicyMemory
    ) -> BackendLookup:
        """Whether the sessions behind earlier acts are still there, and the first words that matter now.

        Only what is not known yet is asked for, all of it at once; no text is remembered, only words.
        """
        context = ProtectionContext(census, self.policy.protect, {})
        wanted = {
            key: finding.backend.pid
            for finding in wanted_commands(judgement, policy=self.policy, context=context)
            if (key := statement_key(finding.backend)) is not None
        }
        self.commands = {key: command for key, command in self.commands.items() if key in wanted}
        return await self._sessions(
            commands=[pid for key, pid in wanted.items() if key not in self.commands],
            alive=vanished(memory.acts, snapshot=snapshot) if snapshot.sees_all else (),
        )

    async def _sessions(self, *, commands: Sequence[int], alive: Sequence[int] = ()) -> BackendLookup:
        """Ask, and remember the words."""
        try:
            asked = await self.source.backends(commands=commands, alive=alive)
        except ReadError:
            # Words stay unknown, and that protects; whether a session is idle or gone makes no difference to its run.
            # If our own session is lost, the next poll says so.
            return BackendLookup()
        self.commands = {**self.commands, **asked.commands}
        return asked

    def _followed(
        self, snapshot: Snapshot, judgement: Judgement, *, asked: BackendLookup, memory: PolicyMemory
    ) -> tuple[list[ObservedEffect], list[Retry], PolicyMemory]:
        """What came of earlier acts, and the memory that knows it. A look in part shows nothing of the kind."""
        if not snapshot.sees_all:
            return [], [], memory
        limits, at = self.policy.limits, snapshot.at
        effects, acts = follow(
            memory.acts, snapshot=snapshot, alive=asked.alive, interval=self.judge_settings.interval, tries=limits.tries
        )
        memory = record_effects(memory, effects=effects, acts=acts, limits=limits, at=at)
        retries, cancelled = came_back(memory.cancelled, cases=judgement.cases, at=at)
        return effects, retries, back_off(memory, retries=retries, cancelled=cancelled, limits=limits, at=at)

    async def _decided(
        self,
        snapshot: Snapshot,
        judgement: Judgement,
        *,
        census: Census,
        status: ActingStatus,
        asked: BackendLookup,
        memory: PolicyMemory,
    ) -> tuple[Decisions, PolicyMemory]:
        """Decide, with the first words that could still protect.

        Words of earlier looks will do to say what would be done. To do it they are read again: one text may hold
        several commands, and maintenance may be the second.
        """

        def decided() -> tuple[Decisions, PolicyMemory]:
            return decide(
                judgement,
                at=snapshot.at,
                policy=self.policy,
                status=status,
                context=ProtectionContext(census, self.policy.protect, self.commands),
                memory=memory,
                interval=self.judge_settings.interval,
            )

        result, read = decided(), set(asked.commands)
        while self.policy.protect.maintenance:
            due = {statement_key(each.finding.backend): each.finding.backend.pid for each in result[0].due}
            stale = {key: pid for key, pid in due.items() if key is not None and key not in read}
            if not stale:
                break
            # Each is asked for once. Where one is no longer to be done, another may be due in its place.
            self.commands = {**self.commands, **dict.fromkeys(stale, UNREAD)}
            await self._sessions(commands=list(stale.values()))
            read |= stale.keys()
            result = decided()
        return result

    async def _judged(
        self, snapshot: Snapshot, *, census: Census, tick: bool, gone: frozenset[StatementRun]
    ) -> tuple[Judgement, Memory]:
        """Judge; where a finding and a waiter stand in one snapshot, ask who blocks whom and judge again."""
        memory = self.memory
        first = judge(snapshot, settings=self.judge_settings, census=census, memory=memory, tick=tick, gone=gone)
        if not wants_blocking(first[0].findings, snapshot=snapshot):
            return first
        try:
            blocking = await self.source.blocking(waiters(snapshot))
        except ReadError:
            return first  # it stays unknown; if the session is lost, the next poll says so
        return judge(
            snapshot,
            settings=self.judge_settings,
            census=census,
            memory=memory,
            tick=tick,
            blocking=blocking,
            gone=gone,
        )
