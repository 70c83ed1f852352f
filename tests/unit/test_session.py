"""What a session leaves behind when its deadline passes, without a server."""

import asyncio
import gc
from types import SimpleNamespace

import psycopg

from watchdog.postgres.session import _abandon


async def test_a_statement_that_fails_long_after_it_was_given_up_is_not_reported_by_the_event_loop() -> None:
    ended = asyncio.Event()
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    async def stubborn() -> list[tuple[object, ...]]:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)  # longer than anybody waits for it
        ended.set()
        raise psycopg.OperationalError("the connection is closed")

    finished: list[bool] = []
    pgconn = SimpleNamespace(status=psycopg.pq.ConnStatus.BAD, finish=lambda: finished.append(True))
    task = asyncio.ensure_future(stubborn())
    await asyncio.sleep(0)
    await _abandon(SimpleNamespace(pgconn=pgconn), task)  # type: ignore[arg-type]  # as much of one as is asked for
    assert finished
    assert not task.done(), "it outlives the waiting"
    await ended.wait()
    await asyncio.sleep(0)
    del task
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []
