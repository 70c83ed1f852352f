"""The actor of one cluster: it checks whether it may act, and carries out the acts that policy has decided on.

The intent of an act is written to the ledger before the signal is sent, and its answer after that. Without a durable
intent nothing is signalled. What disarms is checked again before each signal.
"""

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Never, assert_never

from watchdog.core.acting.acts import Act, ActResult, ObservedEffect, Result, cancel_target
from watchdog.core.acting.effects import Retry
from watchdog.core.acting.limits import Limits
from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.status import DRY, ActingStatus, DisarmReason, Lease
from watchdog.core.acting.verdicts import Due, Hand, Withheld
from watchdog.core.judging.evidence import Evidence
from watchdog.core.observed.activity import Backend
from watchdog.core.observed.census import Census, ServerIdentity
from watchdog.core.observed.statement_failures import failing
from watchdog.core.observed.versions import is_untested
from watchdog.runtime.arming import Arming, DisarmFile, FileAnswer
from watchdog.runtime.leadership import Leadership
from watchdog.runtime.outbox import Outbox
from watchdog.runtime.ports import Acting, Source

NAMES_AND_RIGHTS = ("census_databases", "census_roles", "census_sessions", "census_settings", "census_stored")
FIRST_WORDS = "backends"
"""Names of the statements that acts depend on, besides those of the lease, which have reasons of their own."""

CLAIM_EVERY, TRY_CLAIM_EVERY = 60.0, 10.0
"""Seconds after which the cluster's name is claimed again, and after which that is tried again if it is taken."""

_NOT_US = frozenset({DisarmReason.NOT_LEADER, DisarmReason.LEASE_UNREAD})


@dataclass(slots=True, kw_only=True)
class Actor:
    """Acts on one cluster through the session that reads it."""

    source: Source
    arming: Arming
    outbox: Outbox
    enforces: bool = False
    allow_untested: bool = False
    new_id: Callable[[], str] = lambda: secrets.token_hex(8)
    leadership: Leadership = field(init=False)
    _disarm_file: DisarmFile = field(default_factory=DisarmFile)
    _epoch: int = -1
    _keys: frozenset[DisarmReason] = frozenset()
    _recalled: tuple[int, ServerIdentity] | None = None
    _claimed: ServerIdentity | None = None
    """The server for which the cluster's name was claimed last."""

    _has_name: bool = False
    _claims_again: float = 0.0
    _decided_by: int = -1
    """The generation at the last `status`: what is decided by it is carried out by no other."""

    def __post_init__(self) -> None:
        """Start without the lease."""
        self.leadership = Leadership(self.source)

    @property
    def lease(self) -> Lease:
        """Who holds the lease, as of the last look."""
        return self.leadership.lease

    def apply_config(self, other: Acting, *, rules_changed: bool) -> None:
        """Take on a new configuration. Other rules, another mode of the cluster or another ledger make a new actor."""
        if not isinstance(other, Actor):
            return
        other_ledger = self.outbox.use(other.outbox.ledger)
        keys_changed = (self.enforces, self.allow_untested) != (other.enforces, other.allow_untested)
        if rules_changed or other_ledger or keys_changed:
            self.leadership.generation += 1
        self.enforces, self.allow_untested = other.enforces, other.allow_untested

    def inherit_state(self, before: Acting) -> None:
        """Take over the generation and the unwritten records of an earlier actor of the same cluster.

        The first `status` begins a new generation.
        """
        if isinstance(before, Actor):
            self.leadership.generation = before.leadership.generation
            self.outbox.unwritten = before.outbox.unwritten

    async def status(  # what a look knows by now
        self,
        memory: PolicyMemory,
        *,
        census: Census,
        identity: ServerIdentity,
        complete: bool,
        tick: bool,
        policy: Policy,
        at: datetime,
        steady: datetime,
    ) -> tuple[ActingStatus, PolicyMemory]:
        """Whether we may act now, and the memory. For a new actor, what the ledger knows is added to the memory."""
        came = await self._renew_lease(tick=tick)
        own = await self._own_reasons()
        if self.outbox.failed and tick:
            self.outbox.want_probe()
        keys = frozenset(own) & DRY
        if came or (self._epoch, self._keys) != (self.arming.epoch, keys):
            self._epoch, self._keys = self.arming.epoch, keys
            self.leadership.generation += 1
        self._decided_by = self.leadership.generation
        taken = not own and await self._name_is_taken(identity)
        if not taken:
            memory = await self._recall(memory, limits=policy.limits, at=at, steady=steady, identity=identity)
        found = (
            *own,
            *([DisarmReason.NAME_TAKEN] if taken else []),
            *self._reasons_of_ledger_and_lease(),
            *reasons_of_server(
                census,
                complete=complete,
                allow_untested=self.allow_untested,
                failing=failing_for_acts(self.source, policy=policy),
            ),
        )
        return ActingStatus(self.leadership.generation, found), memory

    async def carry_out(
        self,
        due: Sequence[Due],
        *,
        memory: PolicyMemory,
        at: datetime,
        read_at: float,
        is_still_gone: Callable[[Backend], bool],
    ) -> list[ActResult]:
        """Carry out what is due, and return the result of each. `read_at` is the snapshot's monotonic second."""
        acts = [self._act(verdict, memory=memory, at=at) for verdict in due]
        if not acts:
            return []
        if not await self.outbox.intend(acts):
            return [_stopped(act, Withheld.NO_LEDGER, read_at) for act in acts]
        return [await self._result(act, read_at=read_at, is_still_gone=is_still_gone) for act in acts]

    async def record(
        self,
        results: Sequence[ActResult],
        *,
        effects: Sequence[ObservedEffect],
        retries: Iterable[Retry],
        at: datetime,
    ) -> None:
        """Record the results of acts. What cannot be written now is kept and written later."""
        await self.outbox.put(results, effects=effects, retries=retries, at=at)

    async def run_beside(self) -> Never:
        """Run beside the looks until cancelled: retry a ledger that has failed."""
        await self.outbox.run_probes()

    async def _renew_lease(self, *, tick: bool) -> bool:
        """Renew the lease. If the ledger refuses this version, release it, so that another version may act."""
        if self.outbox.refused:
            await self.leadership.give_up()
            return False
        return await self.leadership.renew(tick=tick)

    async def _own_reasons(self) -> tuple[DisarmReason, ...]:
        """Every reason of this process to be disarmed now."""
        file = await self._disarm_file.look(self.arming.disarm_file)
        self.arming.take_note(file)
        return self.arming.disarm_reasons(cluster_enforces=self.enforces, by_file=file is not FileAnswer.ABSENT)

    def _reasons_of_ledger_and_lease(self) -> Iterable[DisarmReason]:
        if self.outbox.ledger is None:
            yield DisarmReason.NO_LEDGER
        elif self.outbox.failed:
            yield DisarmReason.LEDGER_FAILED
        if self.lease.disarm_reason is not None:
            yield self.lease.disarm_reason

    async def _name_is_taken(self, identity: ServerIdentity) -> bool:
        """Claim the cluster's name for its server in the ledger, once a minute. True if another one has it.

        Breakers, rests and attempts are remembered by that name.
        """
        if self.outbox.ledger is None or self.outbox.failed or not self.lease.leads:
            return False
        now = time.monotonic()
        if self._claimed != identity or now >= self._claims_again:
            has_name = await self.outbox.claim(identity)
            if has_name is None:
                self._claimed = None
                return False  # the ledger fails, and that is a reason of its own
            self._claims_again = now + (CLAIM_EVERY if has_name else TRY_CLAIM_EVERY)
            self._claimed, self._has_name = identity, has_name
        return not self._has_name

    async def _recall(
        self, memory: PolicyMemory, *, limits: Limits, at: datetime, steady: datetime, identity: ServerIdentity
    ) -> PolicyMemory:
        """Read the ledger once for each new actor, but not while it fails or another pgwatchdog holds the lease."""
        generation = self.leadership.generation
        waits = self.outbox.failed or self.lease.disarm_reason in _NOT_US
        if self.outbox.ledger is None or self._recalled == (generation, identity) or waits:
            return memory
        recalled = await self.outbox.recall(memory, limits=limits, at=at, steady=steady, identity=identity)
        if recalled is None:
            return memory
        self._recalled = generation, identity
        return recalled

    def _act(self, verdict: Due, *, memory: PolicyMemory, at: datetime) -> Act:
        before = memory.acts.get(verdict.finding.run)
        return Act(
            id=self.new_id(),
            server=self.outbox.server,
            finding=verdict.finding,
            rule=verdict.rule,
            hand=verdict.hand,
            attempt=1 if before is None else before.attempts + 1,
            at=at,
            identity=memory.identity,
        )

    async def _result(self, act: Act, *, read_at: float, is_still_gone: Callable[[Backend], bool]) -> ActResult:
        """Carry out one act by the hand that policy has chosen."""
        match act.hand:
            case Hand.REHEARSE:
                return ActResult(act=act, result=Result.REHEARSED, took=_since(read_at))
            case Hand.SIGNAL:
                return await self._signal(act, read_at=read_at, is_still_gone=is_still_gone)
        assert_never(act.hand)

    async def _signal(self, act: Act, *, read_at: float, is_still_gone: Callable[[Backend], bool]) -> ActResult:
        # If a disarm file came and went since the look, the epoch has changed, and what was decided before is void.
        # A reload since the look has made a new generation.
        reasons = await self._own_reasons()
        if reasons or self.arming.epoch != self._epoch or self.leadership.generation != self._decided_by:
            return _stopped(act, Withheld.NOT_ARMED, read_at)
        if not self.leadership.is_held():
            return _stopped(act, Withheld.NOT_LEADER, read_at)
        target = cancel_target(act.finding, rule=act.rule)
        if target is None:
            detail = "the row does not show enough to be sure"
            return ActResult(act=act, result=Result.NOT_TRIED, took=_since(read_at), detail=detail)
        if Evidence.CLIENT_GONE in act.finding.evidence and not is_still_gone(act.finding.backend):
            return _stopped(act, Withheld.CLIENT_THERE, read_at)
        result, withheld, detail = await self.source.cancel(target, act=act.id)
        if withheld is Withheld.NOT_LEADER or not self.source.is_open:
            await self.leadership.read_holder()
        return ActResult(act=act, result=result, took=_since(read_at), withheld=withheld, detail=detail)


def reasons_of_server(
    census: Census, *, complete: bool, allow_untested: bool, failing: Collection[str]
) -> list[DisarmReason]:
    """What speaks against acting on this server: our rights, its version, statements that fail."""
    conditions = (
        (DisarmReason.NOT_PERMITTED, not census.may_cancel_any),
        (DisarmReason.INCOMPLETE, not complete),
        (DisarmReason.UNTESTED_VERSION, is_untested(census.server_version) and not allow_untested),
        (DisarmReason.STATEMENT_FAILED, bool(failing)),
    )
    return [reason for reason, holds in conditions if holds]


def failing_for_acts(source: Source, *, policy: Policy) -> set[str]:
    """The statements that acts depend on and whose last attempt failed.

    The census gives names and rights. First words are needed as long as maintenance commands or writers are protected.
    """
    needed = {*NAMES_AND_RIGHTS, *([FIRST_WORDS] if policy.needs_words else [])}
    return needed & failing(source.statement_failures).keys()


def _stopped(act: Act, withheld: Withheld, read_at: float) -> ActResult:
    return ActResult(act=act, result=Result.NOT_TRIED, took=_since(read_at), withheld=withheld)


def _since(read_at: float) -> timedelta:
    return timedelta(seconds=time.monotonic() - read_at)
