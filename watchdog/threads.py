"""Blocking calls on a thread of their own, for what may hang: name look-ups and files on dead mounts.

Not the loop's shared executor: a handful of hanging look-ups would fill it, and healthy clusters would wait. The
threads are daemons, so a call that never returns does not hold up the end of the process either.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(slots=True)
class ThreadCall:
    """One purpose of one cluster. While a call of it hangs, there is no second one: threads would pile up."""

    _thread: threading.Thread | None = None

    async def run(self, call: Callable[[], Result], *, timeout: float) -> Result:
        """The result of `call()`, made in a thread of its own.

        Raises:
            TimeoutError: it has not come back within `timeout` seconds, or an earlier call still hangs.

        """
        if self._thread is not None and self._thread.is_alive():
            raise TimeoutError("an earlier call has not come back yet")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        def deliver(action: Callable[[], None]) -> None:
            try:
                loop.call_soon_threadsafe(lambda: None if future.done() else action())
            except RuntimeError:
                return  # the loop has ended while the call hung: nobody waits for the result any more

        def work() -> None:
            try:
                result = call()
            except Exception as error:  # noqa: BLE001  # handed to whoever waits, unchanged
                failure = error
                deliver(lambda: future.set_exception(failure))
            else:
                deliver(lambda: future.set_result(result))

        self._thread = threading.Thread(target=work, daemon=True, name="thread-call")
        self._thread.start()
        async with asyncio.timeout(timeout):
            return await future
