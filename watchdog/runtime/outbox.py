"""Writes the records of one cluster's actor to the ledger: intents before a signal, answers and effects after it.

A ledger that fails never stops a look. What could not be written is kept in order and written later.
"""

import asyncio
import secrets
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
from watchdog.core.observed.census import ServerIdentity
from watchdog.errors import LedgerError, LedgerRefusedError
from watchdog.logs import Event, get_logger
from watchdog.runtime.ports import Ledger

RECALLED = timedelta(days=1)
"""How far back a new actor reads the ledger. Callers are assumed not to wait for older runs."""

MAX_UNWRITTEN = 10_000
"""Upper bound of the looks whose records are kept for a ledger that fails. Above it the oldest are dropped."""


CLAIMANT = secrets.token_hex(8)
"""Who this process is, where the ledger is asked which server a name stands for."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """The records of one look. `came_back` are the ids of acts whose work began again, and when that was seen."""

    results: tuple[ActResult, ...] = ()
    effects: tuple[ObservedEffect, ...] = ()
    came_back: tuple[tuple[str, datetime], ...] = ()


@dataclass(slots=True, kw_only=True)
class Outbox:
    """Writes to the ledger for one cluster. `ledger` is None if none is configured, and then nothing is kept.

    `failed` is true if the last call failed. `refused` is true if the ledger can be reached but must not be used by
    this version.
    """

    server: str
    ledger: Ledger | None = None
    claimant: str = CLAIMANT
    failed: bool = False
    refused: bool = False
    unwritten: deque[Unwritten] = field(default_factory=lambda: deque(maxlen=MAX_UNWRITTEN))
    _probe_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def use(self, ledger: Ledger | None) -> bool:
        """Write to `ledger` from now on. True if it is another one than before."""
        if ledger is self.ledger:
            return False
        self.ledger, self.failed, self.refused = ledger, False, False
        return True

    async def recall(
        self, memory: PolicyMemory, *, limits: Limits, at: datetime, steady: datetime, identity: ServerIdentity
    ) -> PolicyMemory | None:
        """The memory together with what the ledger knows about the last day. None if the ledger fails."""
        if self.ledger is None:
            return memory
        await self._write_all()
        try:
            records = await self.ledger.recall(self.server, since=at - RECALLED, at=at, identity=identity)
        except LedgerError as error:
            self._note_failure(error)
            return None
        self._note_success()
        return recall(memory, records, limits=limits, at=steady, ahead=steady - at, identity=identity)

    async def claim(self, identity: ServerIdentity) -> bool | None:
        """Say in the ledger which server the name stands for. False if another one has it, None if the ledger fails."""
        if self.ledger is None:
            return None
        try:
            has_name = await self.ledger.claim(self.server, identity, claimant=self.claimant)
        except LedgerError as error:
            self._note_failure(error)
            return None
        self._note_success()
        return has_name

    async def intend(self, acts: Sequence[Act]) -> bool:
        """True once the intents are durable. Without a ledger, true if all acts belong to a dry run."""
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
        """Record the results of acts. What cannot be written now is kept and written later."""
        known = tuple(each for each in results if each.withheld is not Withheld.NO_LEDGER)
        one = Unwritten(known, tuple(effects), tuple((retry.act, at) for retry in retries))
        if one != Unwritten():
            self.unwritten.append(one)
            if not self.failed:
                await self._write_all()

    def want_probe(self) -> None:
        """Have a ledger that failed tried again beside the looks, because one that hangs must not slow them down."""
        self._probe_wanted.set()

    async def run_probes(self) -> Never:
        """Try the ledger again each time that `want_probe` is called, until cancelled."""
        while True:
            await self._probe_wanted.wait()
            self._probe_wanted.clear()
            await self._write_all(probe=True)

    async def _write_all(self, *, probe: bool = False) -> None:
        """Write what has not been written yet, in order. With `probe` the ledger is called even if there is nothing."""
        if self.ledger is None:
            self.unwritten.clear()
            return
        try:
            async with self._writing:  # a probe and a look may write at the same time
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
