"""What one cluster's actor has to put on record: intents before a signal, answers and effects after it.

A ledger that fails never stops a look. What it has not taken is kept, in its order, and written later.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Never

from watchdog.core.acting.acts import Act, ActResult, ObservedEffect
from watchdog.core.acting.effects import Retry
from watchdog.core.acting.limits import Limits
from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.recall import recall
from watchdog.core.acting.verdicts import Hand, Withheld
from watchdog.errors import LedgerError, LedgerRefusedError
from watchdog.logs import Event, get_logger
from watchdog.runtime.ports import Ledger

RECALLED = timedelta(days=1)
"""How far back a new actor reads the ledger: no run is older that anybody would still wait for."""

MAX_UNWRITTEN = 10_000
"""Looks whose outcomes are kept for a ledger that fails; beyond that the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """What one look has to put on record; `came_back` are acts whose work began again, and when."""

    results: tuple[ActResult, ...] = ()
    effects: tuple[ObservedEffect, ...] = ()
    came_back: tuple[tuple[str, datetime], ...] = ()


@dataclass(slots=True, kw_only=True)
class Outbox:
    """Writes to the ledger for one cluster. `ledger` is None where none is configured: nothing is kept then.

    `failed`: the last call failed. `refused`: it can be reached and must not be used by this version.
    """

    server: str
    ledger: Ledger | None = None
    failed: bool = False
    refused: bool = False
    unwritten: deque[Unwritten] = field(default_factory=lambda: deque(maxlen=MAX_UNWRITTEN))
    _probe_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def use(self, ledger: Ledger | None) -> bool:
        """Write to another ledger from now on; True where it is another one."""
        if ledger is self.ledger:
            return False
        self.ledger, self.failed, self.refused = ledger, False, False
        return True

    async def recall(self, memory: PolicyMemory, *, limits: Limits, at: datetime) -> PolicyMemory | None:
        """The memory with what the ledger knows about the last day; None where it does not answer."""
        if self.ledger is None:
            return memory
        await self._write_all()
        try:
            records = await self.ledger.recall(self.server, since=at - RECALLED, at=at)
        except LedgerError as error:
            self._note_failure(error)
            return None
        self._note_success()
        return recall(memory, records, limits=limits, at=at)

    async def intend(self, acts: Sequence[Act]) -> bool:
        """True once the intents are durable; in dry run without a ledger there is nothing to keep."""
        if self.ledger is None:
            return all(act.hand is Hand.REHEARSE for act in acts)
        try:
            await self.ledger.intend(acts)
        except LedgerError as error:
            self._note_failure(error)
            return False
        self._note_success()
        return True

    async def put(
        self,
        results: Iterable[ActResult],
        *,
        effects: Iterable[ObservedEffect],
        retries: Iterable[Retry],
        at: datetime,
    ) -> None:
        """Put on record what came of acts; what cannot be written now is written with the next."""
        known = tuple(each for each in results if each.withheld is not Withheld.NO_LEDGER)
        one = Unwritten(known, tuple(effects), tuple((retry.act, at) for retry in retries))
        if one != Unwritten():
            self.unwritten.append(one)
            if not self.failed:
                await self._write_all()

    def want_probe(self) -> None:
        """Have a ledger that failed tried again, beside the looks: one that hangs must not slow them down."""
        self._probe_wanted.set()

    async def run_probes(self) -> Never:
        """Try the ledger again each time that is wanted, until cancelled."""
        while True:
            await self._probe_wanted.wait()
            self._probe_wanted.clear()
            await self._write_all(probe=True)

    async def _write_all(self, *, probe: bool = False) -> None:
        """Write what has not been written yet, in its order; with `probe` also where there is nothing, to see."""
        if self.ledger is None:
            self.unwritten.clear()
            return
        try:
            async with self._writing:  # a probe and a look may both be at it
                if probe:
                    await self.ledger.record((), effects=(), came_back=())
                while self.unwritten:
                    one = self.unwritten[0]
                    await self.ledger.record(one.results, effects=one.effects, came_back=one.came_back)
                    self.unwritten.popleft()
        except LedgerError as error:
            self._note_failure(error)
        else:
            self._note_success()

    def _note_success(self) -> None:
        self.failed = self.refused = False

    def _note_failure(self, error: LedgerError) -> None:
        if not self.failed:
            get_logger().error(Event.LEDGER_FAILED, server=self.server, detail=str(error))
        self.failed, self.refused = True, isinstance(error, LedgerRefusedError)
