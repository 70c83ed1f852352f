"""Blocking calls in threads, and their results in the event loop.

The loop's shared executor is not used: it has a fixed number of threads, so a few calls that hang (a name look-up, a
file on a dead mount) would keep every other call waiting. Its threads are also joined when the process ends; daemon
threads are not.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class ThreadCall:
    """One blocking call at a time, each in a daemon thread of its own, with a deadline.

    While an earlier call hangs, a new one fails at once: otherwise every attempt would leave one more thread behind.
    """

    _returned: threading.Event | None = None

    async def run(self, call: Callable[[], T], *, timeout: float) -> T:
        """The result of `call()`, or its exception.

        Raises:
            TimeoutError: it has not returned within `timeout` seconds, or an earlier call has not returned yet.

        """
        if self._returned is not None and not self._returned.is_set():
            raise TimeoutError("an earlier call has not returned yet")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        returned = threading.Event()
        threading.Thread(target=_work, args=(call, future, returned), daemon=True, name="thread-call").start()
        self._returned = returned
        async with asyncio.timeout(timeout):
            return await future


def deliver_result(future: "asyncio.Future[T]", result: T) -> None:
    """Set a result from another thread. It is dropped if nobody waits any more or the loop has been closed."""
    _deliver(future, partial(future.set_result, result))


def deliver_exception(future: "asyncio.Future[T]", error: Exception) -> None:
    """Set an exception from another thread. It is dropped if nobody waits any more or the loop has been closed."""
    _deliver(future, partial(future.set_exception, error))


def _deliver(future: "asyncio.Future[T]", action: Callable[[], None]) -> None:
    try:
        future.get_loop().call_soon_threadsafe(lambda: None if future.done() else action())
    except RuntimeError:  # the loop has been closed
        return


def _work(call: Callable[[], T], future: "asyncio.Future[T]", returned: threading.Event) -> None:
    try:
        try:
            result = call()
        finally:
            returned.set()  # before the delivery: whoever receives the result may call again at once
    except Exception as error:  # noqa: BLE001  # it is raised where the result is awaited
        deliver_exception(future, error)
    else:
        deliver_result(future, result)
