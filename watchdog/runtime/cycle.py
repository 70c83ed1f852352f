"""One look at one cluster, from the poll to the verdicts. Always forward: each step takes the one before it."""

import time
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field

from watchdog.core.activity import Snapshot
from watchdog.core.acts import Effect
from watchdog.core.census import Census
from watchdog.core.commands import UNREAD, Commands, Sessions, statement_key
from watchdog.core.effects import Retry, came_back, follow, vanished
from watchdog.core.judge import Bench, Judgement, Memory, judge
from watchdog.core.look import Look
from watchdog.core.memory import PolicyMemory, forget, learn, rest, settle
from watchdog.core.neighbours import waiters, wants_blocking
from watchdog.core.policy import Policy, decide, wanted_commands
from watchdog.core.protections import Scene
from watchdog.core.sockets import StatementRun
from watchdog.core.standing import Standing
from watchdog.core.verdicts import Decisions, Withheld
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
    bench: Bench
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

    def take_over(self, before: "Cycle") -> None:
        """Go on from what another cycle of the same cluster remembers."""
        self.memory = before.memory
        self.policy_memory = before.policy_memory
        self.actor.take_over(before.actor)

    def adopt(self, other: "Cycle") -> None:
        """Take on a new configuration."""
        self.bench, self.policy = other.bench, other.policy
        self.actor.adopt(other.actor)

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
        standing, policy_memory = await self.actor.standing(
            self.policy_memory, census=census, complete=snapshot.sees_all, tick=tick, at=snapshot.at
        )
        asked = await self._asked(snapshot, judgement, census=census, memory=policy_memory)
        effects, retries, policy_memory = self._followed(snapshot, judgement, asked=asked, memory=policy_memory)
        decisions, policy_memory = await self._decided(
            snapshot, judgement, census=census, standing=standing, asked=asked, memory=policy_memory
        )
        done = await self.actor.carry_out(decisions.due, memory=policy_memory, at=snapshot.at, read_at=self.read_at)
        for each in done:
            policy_memory = settle(policy_memory, each, at=snapshot.at)
        present = frozenset(case.run for case in judgement.cases) | memory.set_aside
        self.policy_memory = forget(policy_memory, present=present, at=snapshot.at)
        self.memory = memory
        await self.actor.record(done, effects, retries, at=snapshot.at)
        return Look(
            self.server,
            snapshot,
            census,
            judgement,
            decisions,
            self.bench.interval,
            took,
            tick,
            self.census_failures,
            standing,
            self.actor.lease,
            tuple(done),
            tuple(effects),
            tuple(retries),
            sight=self.sweeper.sight,
            stuck=sum(each.final is Withheld.INEFFECTIVE for each in policy_memory.acts.values()),
        )

    async def _asked(
        self, snapshot: Snapshot, judgement: Judgement, *, census: Census, memory: PolicyMemory
    ) -> Sessions:
        """Whether the sessions behind earlier acts are still there, and the first words that matter now.

        Only what is not known yet is asked for, all of it at once; no text is remembered, only words.
        """
        scene = Scene(census, self.policy.protect, {})
        wanted = {
            key: finding.backend.pid
            for finding in wanted_commands(judgement, policy=self.policy, scene=scene)
            if (key := statement_key(finding.backend)) is not None
        }
        self.commands = {key: command for key, command in self.commands.items() if key in wanted}
        return await self._sessions(
            commands=[pid for key, pid in wanted.items() if key not in self.commands],
            alive=vanished(memory.acts, snapshot=snapshot) if snapshot.sees_all else (),
        )

    async def _sessions(self, *, commands: Sequence[int], alive: Sequence[int] = ()) -> Sessions:
        """Ask, and remember the words."""
        try:
            asked = await self.source.sessions(commands=commands, alive=alive)
        except ReadError:
            # Words stay unknown, and that protects; whether a session is idle or gone makes no difference to its run.
            # If our own session is lost, the next poll says so.
            return Sessions()
        self.commands = {**self.commands, **asked.commands}
        return asked

    def _followed(
        self, snapshot: Snapshot, judgement: Judgement, *, asked: Sessions, memory: PolicyMemory
    ) -> tuple[list[Effect], list[Retry], PolicyMemory]:
        """What came of earlier acts, and the memory that knows it. A look in part shows nothing of the kind."""
        if not snapshot.sees_all:
            return [], [], memory
        limits, at = self.policy.limits, snapshot.at
        effects, acts = follow(
            memory.acts, snapshot=snapshot, alive=asked.alive, interval=self.bench.interval, tries=limits.tries
        )
        memory = learn(memory, effects=effects, acts=acts, limits=limits, at=at)
        retries, cancelled = came_back(memory.cancelled, cases=judgement.cases, at=at)
        return effects, retries, rest(memory, retries=retries, cancelled=cancelled, limits=limits, at=at)

    async def _decided(
        self,
        snapshot: Snapshot,
        judgement: Judgement,
        *,
        census: Census,
        standing: Standing,
        asked: Sessions,
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
                standing=standing,
                scene=Scene(census, self.policy.protect, self.commands),
                memory=memory,
                interval=self.bench.interval,
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
        first = judge(snapshot, bench=self.bench, census=census, memory=memory, tick=tick, gone=gone)
        if not wants_blocking(first[0].findings, snapshot=snapshot):
            return first
        try:
            blocking = await self.source.blocking(waiters(snapshot))
        except ReadError:
            return first  # it stays unknown; if the session is lost, the next poll says so
        return judge(snapshot, bench=self.bench, census=census, memory=memory, tick=tick, blocking=blocking, gone=gone)
