"""Access to the ledger from the event loop: one thread makes the blocking calls in order, each with a deadline.

A call that does not return within its deadline fails with `LedgerError`. Calls that are queued behind it fail at their
own deadlines. So a ledger that hangs prevents acts, but looks go on. The thread is a daemon thread, so that it cannot
delay the end of the process.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from watchdog.core.acting.acts import Act, ActResult, ObservedEffect, Result
from watchdog.core.acting.recall import Recorded
from watchdog.core.observed.census import UNKNOWN_SERVER, ServerIdentity
from watchdog.errors import LedgerError
from watchdog.ledger.store import Answer, Store
from watchdog.threads import deliver_exception, deliver_result

T = TypeVar("T")
Waiter = asyncio.Future[Any]  # the result of the call, of any type


@dataclass(slots=True, kw_only=True)
class _Job:
    """One call for the thread. A job that is given up before it begins is not run.

    `late` undoes the call if it succeeds after the job was given up.
    """

    call: Callable[[], object]
    waiter: Waiter
    late: Callable[[], object] | None
    given_up: bool = False
    finished: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class Writer:
    """The ledger of the daemon and of `pgwatchdog cancel`. `deadline` is in seconds for each call."""

    store: Store
    deadline: float
    _jobs: "queue.SimpleQueue[_Job]" = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None

    async def intend(self, acts: Sequence[Act]) -> None:
        """Write intents durably.

        Raises:
            LedgerError: the write failed or took too long. Intents that are written late are marked as not tried.

        """
        late = [Answer(act.id, Result.NOT_TRIED, "the ledger answered too late") for act in acts]
        await self._run(lambda: self.store.intend(acts), late=lambda: self.store.answer(late, effects=(), came_back=()))

    async def record(
        self, done: Iterable[ActResult], *, effects: Iterable[ObservedEffect], came_back: Iterable[tuple[str, datetime]]
    ) -> None:
        """Write the results of acts, the outcomes that were observed, and when their work came back.

        Raises:
            LedgerError: the write failed or took too long.

        """
        answers = [
            Answer(each.act.id, each.result, each.detail or (each.withheld.value if each.withheld else ""))
            for each in done
        ]
        seen, again = list(effects), list(came_back)
        await self._run(lambda: self.store.answer(answers, effects=seen, came_back=again))

    async def recall(
        self, server: str, *, since: datetime, at: datetime, identity: ServerIdentity = UNKNOWN_SERVER
    ) -> list[Recorded]:
        """The acts on `server` that were intended at or after `since`, oldest first. Open acts are closed as unknown.

        Raises:
            LedgerError: the ledger could not be read, or took too long.

        """
        return await self._run(lambda: self.store.recall(server, since=since, at=at, identity=identity))

    async def claim(self, server: str, identity: ServerIdentity, *, claimant: str) -> bool:
        """Say which server `server` is the name of (see `Store.claim`). False if another living one has that name.

        Raises:
            LedgerError: the write failed or took too long.

        """
        return await self._run(lambda: self.store.claim(server, identity, claimant=claimant))

    async def prune(self, now: datetime, *, keep: timedelta) -> int:
        """Delete the acts that were intended longer than `keep` ago (see `Store.prune`). Returns how many.

        Raises:
            LedgerError: the deletion failed or took too long.

        """
        return await self._run(lambda: self.store.prune(now, keep=keep))

    async def _run(self, call: Callable[[], T], *, late: Callable[[], object] | None = None) -> T:
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        job = _Job(call=call, waiter=waiter, late=late)
        self._jobs.put(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="ledger")
            self._thread.start()
        try:
            async with asyncio.timeout(self.deadline):
                return await waiter
        except TimeoutError as error:
            self._give_up(job)
            raise LedgerError(f"the ledger did not answer within {self.deadline:g} s") from error
        except asyncio.CancelledError:
            self._give_up(job)
            raise

    def _give_up(self, job: _Job) -> None:
        """Mark the job as given up. If it has succeeded already, queue the call that undoes it."""
        with job.lock:
            job.given_up = True
            unheard = job.finished
        if unheard and job.late is not None:
            self._jobs.put(_Job(call=job.late, waiter=job.waiter.get_loop().create_future(), late=None))

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if not job.given_up:
                self._do(job)

    def _do(self, job: _Job) -> None:
        try:
            result = job.call()
        except Exception as error:  # noqa: BLE001  # delivered to the waiter
            self._undo(job)  # because the commit may have succeeded although its reply was lost
            deliver_exception(job.waiter, _as_ledger_error(error))
            return
        with job.lock:
            job.finished = True
            too_late = job.given_up
        if too_late:
            self._undo(job)
        deliver_result(job.waiter, result)

    def _undo(self, job: _Job) -> None:
        if job.late is not None:
            with contextlib.suppress(Exception):  # nobody waits for the result of this call
                job.late()


def _as_ledger_error(error: Exception) -> LedgerError:
    """A `LedgerError` unchanged; any other error as a `LedgerError`, because the act is not on record then either."""
    return error if isinstance(error, LedgerError) else LedgerError(f"ledger: {type(error).__name__}: {error}")
