"""One look at one cluster, from the poll to the verdicts. Always forward: each step takes the one before it."""

import time
from dataclasses import dataclass, field

from watchdog.core.activity import Snapshot
from watchdog.core.census import Census
from watchdog.core.judge import Bench, Judgement, Memory, judge
from watchdog.core.look import Look
from watchdog.core.neighbours import waiters, wants_blocking
from watchdog.core.policy import OVER_BUDGET_RULE, PolicyMemory, Rule, decide
from watchdog.errors import ReadError
from watchdog.runtime.ports import Source


@dataclass(slots=True)
class Cycle:
    """What a cluster's looks have in common, and what one look leaves to the next.

    `read_at` is when the last snapshot came in, in monotonic seconds: waits until crossings count from there.
    """

    server: str
    source: Source
    bench: Bench
    rules: tuple[Rule, ...] = (OVER_BUDGET_RULE,)
    census: Census | None = None
    census_failures: int = 0
    read_at: float = 0.0
    memory: Memory = field(default_factory=Memory)
    policy_memory: PolicyMemory = field(default_factory=PolicyMemory)

    def take_over(self, before: "Cycle") -> None:
        """Go on from what another cycle of the same cluster remembers."""
        self.memory = before.memory
        self.policy_memory = before.policy_memory

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
        snapshot, took = await self.source.snapshot()
        self.read_at = time.monotonic()
        judgement, memory = await self._judged(snapshot, census=census, tick=tick)
        decisions, self.policy_memory = decide(
            judgement.findings,
            rules=self.rules,
            census=census,
            memory=self.policy_memory,
            present=frozenset(case.run for case in judgement.cases) | memory.set_aside,
        )
        self.memory = memory
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
        )

    async def _judged(self, snapshot: Snapshot, *, census: Census, tick: bool) -> tuple[Judgement, Memory]:
        """Judge; where a finding and a waiter stand in one snapshot, ask who blocks whom and judge again."""
        first = judge(snapshot, bench=self.bench, census=census, memory=self.memory, tick=tick)
        if not wants_blocking(first[0].findings, snapshot=snapshot):
            return first
        try:
            blocking = await self.source.blocking(waiters(snapshot))
        except ReadError:
            return first  # it stays unknown; if the session is lost, the next poll says so
        return judge(snapshot, bench=self.bench, census=census, memory=self.memory, tick=tick, blocking=blocking)
