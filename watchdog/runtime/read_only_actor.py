"""The actor of a single look. It acts on nothing.

It reports whether this configuration would act on the cluster, and if not, why.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Never

from watchdog.core.acting.acts import ActResult, ObservedEffect
from watchdog.core.acting.effects import Retry
from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.status import ActingStatus, DisarmReason, Lease
from watchdog.core.acting.verdicts import Due
from watchdog.core.observed.activity import Backend
from watchdog.core.observed.census import Census, ServerIdentity
from watchdog.errors import ReadError
from watchdog.runtime.actor import failing_for_acts, reasons_of_server
from watchdog.runtime.arming import Arming, DisarmFile
from watchdog.runtime.leadership import UNKNOWN_HOLDER
from watchdog.runtime.ports import Acting, Source


@dataclass(slots=True, kw_only=True)
class ReadOnlyActor:
    """Reads who holds the lease and never takes it. It carries nothing out."""

    source: Source
    arming: Arming
    enforces: bool = False
    has_ledger: bool = False
    allow_untested: bool = False
    lease: Lease = field(default_factory=lambda: Lease(leads=False))
    _disarm_file: DisarmFile = field(default_factory=DisarmFile)

    def apply_config(self, other: Acting, *, rules_changed: bool) -> None:
        """Do nothing, because this actor never acts."""

    def inherit_state(self, before: Acting) -> None:
        """Do nothing, because there is no state."""

    async def status(  # the port's signature
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
        """Where the cluster stands."""
        del identity, tick, at, steady
        try:
            self.lease = await self.source.lease_holder()
        except ReadError:
            self.lease = UNKNOWN_HOLDER
        by_file = await self._disarm_file.disarms(self.arming.disarm_file)
        found = list(self.arming.disarm_reasons(cluster_enforces=self.enforces, by_file=by_file))
        if not self.has_ledger:
            found.append(DisarmReason.NO_LEDGER)
        if self.lease.disarm_reason not in {None, DisarmReason.NOT_LEADER}:
            found.append(self.lease.disarm_reason)
        found += reasons_of_server(
            census,
            complete=complete,
            allow_untested=self.allow_untested,
            failing=failing_for_acts(self.source, policy=policy),
        )
        return ActingStatus(0, tuple(found), at_once=True), memory

    async def carry_out(
        self,
        due: Sequence[Due],
        *,
        memory: PolicyMemory,
        at: datetime,
        read_at: float,
        is_still_gone: Callable[[Backend], bool],
    ) -> list[ActResult]:
        """Carry out nothing."""
        del due, memory, at, read_at, is_still_gone
        return []

    async def record(
        self,
        results: Sequence[ActResult],
        *,
        effects: Sequence[ObservedEffect],
        retries: Iterable[Retry],
        at: datetime,
    ) -> None:
        """Record nothing."""

    async def run_beside(self) -> Never:
        """Wait until cancelled, because nothing runs beside the looks."""
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")
