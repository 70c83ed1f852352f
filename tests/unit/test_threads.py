"""Blocking calls in threads: results, exceptions, deadlines, and what happens to a call that hangs."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from support.servers import until

from watchdog.threads import ThreadCall, deliver_exception, deliver_result

Callers = Callable[[], set[threading.Thread]]

SOON = 0.1
"""A deadline that a test can wait for."""


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a call hangs on."""
    one = threading.Event()
    yield one
    one.set()


@pytest.fixture
def raised(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Whatever ends a thread with an exception."""
    found: list[object] = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    return found


@pytest.fixture
def callers() -> Callers:
    """The threads of this test that have not ended; a test of before may have left one that hangs."""
    before = set(threading.enumerate())
    return lambda: {each for each in threading.enumerate() if each.name == "thread-call"} - before


async def test_the_result_of_a_call_comes_from_another_thread_that_is_a_daemon() -> None:
    thread = await ThreadCall().run(threading.current_thread, timeout=5)
    assert thread is not threading.current_thread()
    assert thread.daemon


async def test_the_exception_of_a_call_is_raised_unchanged() -> None:
    error = OSError(2, "no such file")

    def fail() -> None:
        raise error

    with pytest.raises(OSError, match="no such file") as caught:
        await ThreadCall().run(fail, timeout=5)
    assert caught.value is error


async def test_calls_may_follow_each_other_at_once_whatever_came_of_them() -> None:
    one = ThreadCall()
    for number in range(200):
        assert await one.run(partial(int, number), timeout=5) == number
        with pytest.raises(ZeroDivisionError):
            await one.run(lambda: 1 // 0, timeout=5)


async def test_a_call_that_hangs_fails_after_its_deadline_and_the_loop_goes_on(gate: threading.Event) -> None:
    begun = time.monotonic()
    call = asyncio.ensure_future(ThreadCall().run(gate.wait, timeout=SOON))
    beats = 0
    while not call.done():
        await asyncio.sleep(0.01)
        beats += 1
    with pytest.raises(TimeoutError):
        await call
    assert SOON <= time.monotonic() - begun < SOON + 2
    assert beats >= 4


async def test_while_a_call_hangs_a_new_one_fails_at_once_and_is_not_begun(
    gate: threading.Event, callers: Callers
) -> None:
    one = ThreadCall()
    with pytest.raises(TimeoutError):
        await one.run(gate.wait, timeout=SOON)
    begun: list[int] = []
    for number in range(3):
        with pytest.raises(TimeoutError, match="an earlier call has not returned yet"):
            await one.run(partial(begun.append, number), timeout=600)
    assert begun == []
    assert await ThreadCall().run(lambda: "another", timeout=5) == "another"
    gate.set()
    await asyncio.to_thread(until, lambda: not callers(), what="the end of the call that hung")
    assert await one.run(lambda: "again", timeout=5) == "again"


async def test_a_call_whose_caller_was_cancelled_still_counts_until_it_returns(
    gate: threading.Event, callers: Callers
) -> None:
    one = ThreadCall()
    call = asyncio.ensure_future(one.run(gate.wait, timeout=600))
    await asyncio.to_thread(until, callers, what="the thread")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    with pytest.raises(TimeoutError, match="earlier call"):
        await one.run(lambda: None, timeout=600)


@pytest.mark.parametrize("fails", [False, True])
def test_a_loop_that_is_closed_while_a_call_hangs_raises_nothing_in_the_thread(
    gate: threading.Event, raised: list[object], callers: Callers, *, fails: bool
) -> None:
    def hang() -> None:
        gate.wait()
        if fails:
            raise OSError("too late")

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await one.run(hang, timeout=SOON)

    one = ThreadCall()
    asyncio.run(leave())
    gate.set()
    until(lambda: not callers(), what="the end of the thread")
    assert raised == []
    assert asyncio.run(one.run(lambda: "in another loop", timeout=5)) == "in another loop"


async def test_what_is_delivered_when_nobody_waits_any_more_is_dropped() -> None:
    complaints: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    cancelled: asyncio.Future[int] = loop.create_future()
    cancelled.cancel()
    answered: asyncio.Future[int] = loop.create_future()
    for future in (cancelled, answered):
        await asyncio.to_thread(deliver_result, future, 1)
        await asyncio.to_thread(deliver_exception, future, OSError("too late"))
    assert await answered == 1
    assert cancelled.cancelled()
    assert complaints == []


def test_what_is_delivered_to_a_loop_that_is_closed_is_dropped() -> None:
    async def leave() -> "asyncio.Future[int]":
        return asyncio.get_running_loop().create_future()

    future = asyncio.run(leave())
    deliver_result(future, 1)
    deliver_exception(future, OSError("too late"))
    assert not future.done()
