"""Blocking calls in threads, and the delivery of their results to the event loop. Knows nothing of what is called.

The event loop's default executor is not used, for two reasons. It has a fixed number of threads, so a few calls that
hang (a name look-up, a file on a dead mount) would make every other call wait. Its threads are joined when the process
ends; daemon threads are not.
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
    """Runs one blocking call at a time, in a new daemon thread and with a timeout.

    While an earlier call has not returned, a new call fails immediately. Otherwise each attempt would leave one more
    thread behind.
    """

    _returned: threading.Event | None = None

    async def run(self, call: Callable[[], T], *, timeout: float) -> T:
        """Return the result of `call()`, or raise its exception.

        Raises:
            TimeoutError: `call()` did not return within `timeout` seconds, or an earlier call has not returned yet.

        """
        if self._returned is not None and not self._returned.is_set():
            raise TimeoutError("an earlier call has not returned yet")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        returned = threading.Event()
        threading.Thread(target=_work, args=(call, future, returned), daemon=True, name="thread-call").start()
        self._returned = returned
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            if future.done() and not future.cancelled():  # the event loop was late, not the call
                return future.result()
            raise


def deliver_result(future: "asyncio.Future[T]", result: T) -> None:
    """Set the result of `future` from another thread. It is dropped if `future` is done or its loop is closed."""
    _deliver(future, partial(future.set_result, result))


def deliver_exception(future: "asyncio.Future[T]", error: Exception) -> None:
    """Set the exception of `future` from another thread. It is dropped if `future` is done or its loop is closed."""
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
            returned.set()  # before the delivery, because the receiver of the result may call again immediately
    except Exception as error:  # noqa: BLE001  # the exception is raised where the result is awaited
        deliver_exception(future, error)
    else:
        deliver_result(future, result)
