"""The ledger for the event loop: one thread, one call after the other, a deadline for each.

A call that does not come back within its deadline has failed for whoever asked, and everybody who waits behind it
fails as well: a ledger that hangs withholds acts, it does not stop looks. The thread is a daemon, so that it cannot
hold up the end of the process either.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from watchdog.core.acting.acts import Act, ActResult, ObservedEffect, Result
from watchdog.core.acting.recall import Recorded
from watchdog.errors import LedgerError
from watchdog.ledger.store import Answer, Store
from watchdog.threads import deliver_exception, deliver_result

T = TypeVar("T")
Waiter = asyncio.Future[Any]  # of whatever the call gives


@dataclass(slots=True, kw_only=True)
class _Job:
    """One call for the thread. `given_up` once nobody waits: then it is not begun any more."""

    call: Callable[[], object]
    waiter: Waiter
    late: Callable[[], object] | None
    given_up: bool = False
    finished: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class Writer:
    """The daemon's ledger. `deadline` is in seconds."""

    store: Store
    deadline: float
    _jobs: "queue.SimpleQueue[_Job]" = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None

    async def intend(self, acts: Sequence[Act]) -> None:
        """Put intents durably on record.

        Raises:
            LedgerError: they are not; should they get there late, they are marked as not tried.

        """
        late = [Answer(act.id, Result.NOT_TRIED, "the ledger answered too late") for act in acts]
        await self._run(lambda: self.store.intend(acts), late=lambda: self.store.answer(late, effects=(), came_back=()))

    async def record(
        self, done: Iterable[ActResult], *, effects: Iterable[ObservedEffect], came_back: Iterable[tuple[str, datetime]]
    ) -> None:
        """Put on record what came of acts.

        Raises:
            LedgerError: it is not.

        """
        answers = [
            Answer(each.act.id, each.result, each.detail or (each.withheld.value if each.withheld else ""))
            for each in done
        ]
        seen, again = list(effects), list(came_back)
        await self._run(lambda: self.store.answer(answers, effects=seen, came_back=again))

    async def recall(self, server: str, *, since: datetime, at: datetime) -> list[Recorded]:
        """What was done on `server`; what was left open is closed as unknown.

        Raises:
            LedgerError: it cannot be told.

        """
        return await self._run(lambda: self.store.recall(server, since=since, at=at))

    async def prune(self, before: datetime) -> int:
        """Drop what is older.

        Raises:
            LedgerError: it could not be dropped.

        """
        return await self._run(lambda: self.store.prune(before))

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
        """Nobody waits for the job any more. If it got there all the same, it is undone behind it."""
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
        except Exception as error:  # noqa: BLE001  # handed to whoever waits
            self._undo(job)  # a commit whose answer was lost may have been one
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
            with contextlib.suppress(Exception):  # nobody waits for this either
                job.late()


def _as_ledger_error(error: Exception) -> LedgerError:
    """A ledger's own error keeps its type; everything else is one as well, because the act is not on record."""
    return error if isinstance(error, LedgerError) else LedgerError(f"ledger: {type(error).__name__}: {error}")
