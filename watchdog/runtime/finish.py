"""Lets work that has begun come to its end although its task is being cancelled, for a bounded time.

An act is a signal and its record. A stop or a reload between the two would lose the answer.
"""

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def finished(work: Coroutine[Any, Any, T], *, deadline: float) -> T:
    """The result of `work`. If this task is cancelled, `work` may first go on for `deadline` seconds.

    Further cancellations change nothing.
    """
    task = asyncio.create_task(work)  # it is waited for here
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        ends = time.monotonic() + deadline
        while not task.done() and (left := ends - time.monotonic()) > 0:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({task}, timeout=left)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):  # what it raises is overtaken by the stop
            await task
        raise
