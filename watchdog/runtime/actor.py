"""The actor of one cluster: may it act, and if policy says so, intent, signal and answer, in this order.

The ledger comes first: without a durable intent nothing is signalled. What disarms is asked again before each signal.
"""

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from watchdog.core.acting.acts import Act, ActResult, ObservedEffect, Result, cancel_target
from watchdog.core.acting.effects import Retry
from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.recall import recall
from watchdog.core.acting.status import DRY, ActingStatus, DisarmReason, Lease
from watchdog.core.acting.verdicts import Hand, Verdict, Withheld
from watchdog.core.observed.census import Census
from watchdog.errors import LedgerError, ReadError
from watchdog.logs import Event, get_logger
from watchdog.runtime.arming import Arming
from watchdog.runtime.ports import Ledger, Source

RECALLED = timedelta(days=1)
"""How far back a new actor reads the ledger: no run is older that anybody would still wait for."""

MAX_UNWRITTEN = 10_000

_LOST = Lease(leads=False, disarm_reason=DisarmReason.NOT_LEADER)
"""Where nobody knows who leads, only that it is not us."""


Unwritten = tuple[list[ActResult], list[ObservedEffect], list[tuple[str, datetime]]]


@dataclass(slots=True)
class Actor:
    """Acts on one cluster through the session that reads it.

    `number` counts the actors that there have been, `unwritten` is what the ledger has not taken yet.
    `ledger` is None where none is configured: then there is dry run only, and nothing is kept of it.
    """

    server: str
    source: Source
    arming: Arming
    policy: Policy
    enforces: bool = False
    ledger: Ledger | None = None
    new_id: Callable[[], str] = lambda: secrets.token_hex(8)
    lease: Lease = _LOST
    number: int = 0
    _started: bool = False
    _epoch: int = -1
    _keys: frozenset[DisarmReason] = frozenset()
    _recalled: int = -1
    unwritten: deque[Unwritten] = field(default_factory=lambda: deque(maxlen=MAX_UNWRITTEN))
    _ledger_failed: bool = False
    _probe: asyncio.Task[None] | None = None
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def apply_config(self, other: "Acting") -> None:
        """Take on a new configuration. Other rules make a new actor."""
        if not isinstance(other, Actor):
            return
        if (self.policy, self.enforces) != (other.policy, other.enforces) or self.ledger is not other.ledger:
            self.number += 1
            self._ledger_failed = False
        self.policy, self.enforces, self.ledger = other.policy, other.enforces, other.ledger

    def inherit_state(self, before: "Acting") -> None:
        """Follow another actor of the same cluster: whatever it did, we begin anew."""
        if isinstance(before, Actor):
            self.number, self.unwritten = before.number, before.unwritten

    async def status(
        self, memory: PolicyMemory, *, census: Census, complete: bool, tick: bool, at: datetime
    ) -> tuple[ActingStatus, PolicyMemory]:
        """Where we stand now, and the memory with what the ledger knows where an actor has begun anew."""
        began = await self._take_lease(tick=tick)
        own = self.arming.disarm_reasons(cluster_enforces=self.enforces)
        if self._ledger_failed and tick:
            self._probe_ledger()
        keys = frozenset(own) & DRY
        if began or (self._epoch, self._keys) != (self.arming.epoch, keys):
            self._epoch, self._keys = self.arming.epoch, keys
            self.number += 1
        memory = await self._recall(memory, at=at)
        found = list(own)
        if self.ledger is None:
            found.append(DisarmReason.NO_LEDGER)
        elif self._ledger_failed:
            found.append(DisarmReason.LEDGER_FAILED)
        if self.lease.disarm_reason is not None:
            found.append(self.lease.disarm_reason)
        found += _by_rights(census, complete=complete)
        return ActingStatus(self.number, tuple(found)), memory

    async def carry_out(
        self, due: Sequence[Verdict], *, memory: PolicyMemory, at: datetime, read_at: float
    ) -> list[ActResult]:
        """Carry out what is due, and say of each what became of it; `read_at` is the snapshot's monotonic second."""
        acts = [self._act(verdict, memory=memory, at=at) for verdict in due]
        if not acts:
            return []
        if not await self._intend(acts):
            return [_stopped(act, Withheld.NO_LEDGER, read_at) for act in acts]
        return [await self._done(act, read_at=read_at) for act in acts]

    async def record(
        self, done: Sequence[ActResult], effects: Sequence[ObservedEffect], retries: Iterable[Retry], *, at: datetime
    ) -> None:
        """Put on record what came of acts; what cannot be written now is written with the next."""
        came_back = [(retry.act, at) for retry in retries]
        done = [each for each in done if each.withheld is not Withheld.NO_LEDGER]
        if done or effects or came_back:
            self.unwritten.append((list(done), list(effects), came_back))
            if not self._ledger_failed:
                await self._write(at_least_once=False)

    def _act(self, verdict: Verdict, *, memory: PolicyMemory, at: datetime) -> Act:
        before = memory.acts.get(verdict.finding.run)
        return Act(self.new_id(), self.server, verdict, 1 if before is None else before.attempts + 1, at)

    async def _done(self, act: Act, *, read_at: float) -> ActResult:
        """One act, by the hand that policy named."""
        match act.verdict.hand:
            case Hand.REHEARSE:
                return ActResult(act, Result.REHEARSED, _since(read_at))
            case Hand.NONE:
                return _stopped(act, Withheld.NOT_ARMED, read_at)
            case Hand.SIGNAL:
                return await self._signal(act, read_at=read_at)

    async def _signal(self, act: Act, *, read_at: float) -> ActResult:
        # A disarm file that came and went since the look is seen by the epoch: what was decided before is void.
        if self.arming.disarm_reasons(cluster_enforces=self.enforces) or self.arming.epoch != self._epoch:
            return _stopped(act, Withheld.NOT_ARMED, read_at)
        if not self.source.is_open:  # another session would be another actor, which has seen nothing
            self.lease = _LOST
        if not self.lease.leads:
            return _stopped(act, Withheld.NOT_LEADER, read_at)
        rule = next((each for each in self.policy.rules if each.name == act.verdict.rule), None)
        target = None if rule is None else cancel_target(act.finding, rule=rule)
        if target is None:
            return ActResult(act, Result.NOT_TRIED, _since(read_at), detail="the row does not show enough to be sure")
        result, withheld, detail = await self.source.cancel(target, act=act.id)
        if withheld is Withheld.NOT_LEADER or not self.source.is_open:
            await self._lost_lease()
        return ActResult(act, result, _since(read_at), withheld, detail)

    async def _take_lease(self, *, tick: bool) -> bool:
        """True where an actor begins: at the start, and whenever the lease has come to us."""
        before = self.lease.leads
        if not tick and not before and self._started:
            return False  # who does not lead asks once a tick
        try:
            self.lease = await self.source.lease()
        except ReadError:
            self.lease = _LOST
        began = not self._started or self.lease.just_acquired or (self.lease.leads and not before)
        self._started = True
        return began

    async def _lost_lease(self) -> None:
        """Whoever has lost the lease says at once who holds it now, if that can be had on the same session.

        Should that be ourselves again, this actor has lost it all the same; the next look makes a new one.
        """
        self.lease = _LOST
        if self.source.is_open:
            with contextlib.suppress(ReadError):
                now = await self.source.lease_holder()
                if not now.leads:
                    self.lease = now

    async def _recall(self, memory: PolicyMemory, *, at: datetime) -> PolicyMemory:
        """Read the ledger once for each new actor; whoever does not lead has nothing to remember."""
        waits = self._ledger_failed or self.lease.disarm_reason is DisarmReason.NOT_LEADER
        if self.ledger is None or self._recalled == self.number or waits:
            return memory
        await self._write(at_least_once=False)
        try:
            records = await self.ledger.recall(self.server, since=at - RECALLED, at=at)
        except LedgerError as error:
            self._failed(error)
            return memory
        self._recalled = self.number
        self._ledger_failed = False
        return recall(memory, records, limits=self.policy.limits, at=at)

    async def _intend(self, acts: Sequence[Act]) -> bool:
        """True once the intents are on the disk; in dry run without a ledger there is nothing to keep."""
        if self.ledger is None:
            return all(act.verdict.hand is Hand.REHEARSE for act in acts)
        try:
            await self.ledger.intend(acts)
        except LedgerError as error:
            self._failed(error)
            return False
        self._ledger_failed = False
        return True

    async def _write(self, *, at_least_once: bool) -> None:
        """Write what has not been written yet, in its order; `at_least_once`: also if there is nothing, to see."""
        if self.ledger is None:
            self.unwritten.clear()
            return
        try:
            async with self._writing:  # the probe and a look may both be at it
                if at_least_once:
                    await self.ledger.record((), effects=(), came_back=())
                while self.unwritten:
                    done, seen, again = self.unwritten[0]
                    await self.ledger.record(done, effects=seen, came_back=again)
                    self.unwritten.popleft()
        except LedgerError as error:
            self._failed(error)
        else:
            self._ledger_failed = False

    def _probe_ledger(self) -> None:
        """Try a ledger that has failed again, beside the looks: one that hangs must not slow them down."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._write(at_least_once=True), name=f"ledger of {self.server}")

    def _failed(self, error: LedgerError) -> None:
        if not self._ledger_failed:
            get_logger().error(Event.LEDGER_FAILED, server=self.server, detail=str(error))
        self._ledger_failed = True


def _stopped(act: Act, withheld: Withheld, read_at: float) -> ActResult:
    return ActResult(act, Result.NOT_TRIED, _since(read_at), withheld)


def _since(read_at: float) -> timedelta:
    return timedelta(seconds=time.monotonic() - read_at)


@dataclass(slots=True)
class ReadOnlyActor:
    """No actor at all, for a single look: says where the cluster stands by this configuration, and does nothing.

    It reads who holds the lease and never takes it.
    """

    source: Source
    arming: Arming
    enforces: bool = False
    has_ledger: bool = False
    lease: Lease = field(default_factory=lambda: Lease(leads=False))

    def apply_config(self, other: "Acting") -> None:
        """Nothing changes for somebody who only looks."""

    def inherit_state(self, before: "Acting") -> None:
        """Nothing is taken over by somebody who only looks."""

    async def status(
        self, memory: PolicyMemory, *, census: Census, complete: bool, tick: bool, at: datetime
    ) -> tuple[ActingStatus, PolicyMemory]:
        """Where the cluster stands."""
        del tick, at
        try:
            self.lease = await self.source.lease_holder()
        except ReadError:
            self.lease = Lease(leads=False)
        found = list(self.arming.disarm_reasons(cluster_enforces=self.enforces))
        if not self.has_ledger:
            found.append(DisarmReason.NO_LEDGER)
        if self.lease.disarm_reason not in {None, DisarmReason.NOT_LEADER}:
            found.append(self.lease.disarm_reason)
        found += _by_rights(census, complete=complete)
        return ActingStatus(0, tuple(found), at_once=True), memory

    async def carry_out(
        self, due: Sequence[Verdict], *, memory: PolicyMemory, at: datetime, read_at: float
    ) -> list[ActResult]:
        """Nothing is carried out."""
        del due, memory, at, read_at
        return []

    async def record(
        self, done: Sequence[ActResult], effects: Sequence[ObservedEffect], retries: Iterable[Retry], *, at: datetime
    ) -> None:
        """Nothing is to be put on record."""


Acting = Actor | ReadOnlyActor


def _by_rights(census: Census, *, complete: bool) -> list[DisarmReason]:
    found = [] if census.may_cancel_any else [DisarmReason.NOT_PERMITTED]
    return found if complete else [*found, DisarmReason.INCOMPLETE]
