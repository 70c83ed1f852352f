"""The callers, in a process of their own: `python -m truth.workload ARGUMENTS` with the arguments as JSON.

Each caller draws how long it waits, how long its query works, its role, job and window, and how it leaves. On standard
output one JSON line per run, in seconds of the machine's clock, which on this machine is the server's too.
"""

import asyncio
import json
import random
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import asyncpg

BUDGETS = {"web_app": 3.0, "etl_app": 5.0}
GRACE = 0.5
COPIES_GAP = 1.0
KINDS = {"polite": 2, "killed": 3, "dropped": 3, "slow": 3, "retry": 2, "overlap": 1, "wrong": 1}
"""How callers leave, and how many of each: a cancel; the process dies; a middle layer lives on; not at all; with a
retry; not at all, and in two copies; later than their budget says."""


@dataclass(slots=True)
class Run:
    """The truth about one query. `left` is when its caller stopped waiting, None if it got its answer."""

    kind: str
    role: str
    name: str
    pid: int
    began: float
    left: float | None
    ended: float
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the harness asks for: callers per second, how many, and the seed of every draw."""

    port: int
    password: str
    callers: int
    seconds: float
    seed: int
    noise: bool


async def main(arguments: Arguments) -> None:
    """Let all callers come, spread over the time, with the noise beside them."""
    rng = random.Random(arguments.seed)
    noise = [asyncio.create_task(each) for each in (_noise(arguments) if arguments.noise else [])]
    async with asyncio.TaskGroup() as group:
        for number in range(arguments.callers):
            delay = arguments.seconds * number / arguments.callers
            kind = rng.choices(list(KINDS), weights=list(KINDS.values()))[0]
            group.create_task(_caller(arguments, kind, number, delay, random.Random(rng.random())))
    for task in noise:
        task.cancel()
    await asyncio.gather(*noise, return_exceptions=True)


async def _caller(arguments: Arguments, kind: str, number: int, delay: float, rng: random.Random) -> None:
    await asyncio.sleep(delay)
    role = rng.choice(list(BUDGETS))
    budget = BUDGETS[role]
    keyed = kind in {"retry", "overlap"} or rng.random() < 0.5
    name = f"scan:{rng.choice(['threads', 'digest', 'mails'])}:w{number}" if keyed else rng.choice(["", "psql", "shop"])
    wait = rng.uniform(0.3, 1.0) * budget
    work = rng.uniform(0.2, 3.0) * budget
    match kind:
        case "slow":
            await _query(arguments, kind, role, name, work=rng.uniform(0.1, 0.95) * budget, wait=None)
        case "overlap":
            both = [rng.uniform(0.5, 0.9) * budget for _ in range(2)]
            first = asyncio.create_task(_query(arguments, kind, role, name, work=both[0], wait=None))
            await asyncio.sleep(rng.uniform(0.0, 0.3))
            await asyncio.gather(first, _query(arguments, kind, role, name, work=both[1], wait=None))
        case "retry":
            for attempt in range(1, 4):
                await _query(arguments, kind, role, name, work=max(work, 1.5 * wait), wait=wait, attempt=attempt)
        case "wrong":
            late = rng.uniform(1.3, 2.0) * budget + GRACE
            await _query(arguments, kind, role, name, work=rng.uniform(0.8, 1.5) * late, wait=late)
        case _:
            await _query(arguments, kind, role, name, work=work, wait=wait)


async def _query(
    arguments: Arguments, kind: str, role: str, name: str, *, work: float, wait: float | None, attempt: int = 1
) -> None:
    """One query; the caller leaves after `wait` seconds if there is no answer by then."""
    connection = await _connect(arguments, role=role, name=name)
    pid = connection.get_server_pid()
    began = time.time()
    query = asyncio.ensure_future(connection.fetch("SELECT pg_sleep($1)", work))
    done, _ = await asyncio.wait({query}, timeout=wait)
    left, ended = (None, time.time()) if done else (time.time(), began + work)
    if not done and kind == "polite":
        query.cancel()
        await asyncio.wait({query})
        ended = time.time()
    if not done and kind in {"killed", "retry"}:
        connection.terminate()
        await asyncio.wait({query})
        query.exception()
    print(json.dumps(asdict(Run(kind, role, name, pid, began, left, ended, attempt))), flush=True)
    if kind in {"dropped", "wrong"}:
        await asyncio.wait({query})
    if not connection.is_closed():
        await connection.close(timeout=5)


def _noise(arguments: Arguments) -> list[Any]:  # coroutines of different kinds
    return [
        *(_short_statements(arguments) for _ in range(3)),
        _cursor(arguments),
        _short_calls(arguments),
        _batches(arguments),
        _parallel(arguments),
        _dumps(arguments),
    ]


async def _short_statements(arguments: Arguments) -> None:
    """About a hundred statements a second."""
    connection = await _connect(arguments, role="noise", name="web")
    while True:
        await connection.fetch("SELECT count(*) FROM busy WHERE n < 50")
        await asyncio.sleep(0.01)


async def _cursor(arguments: Arguments) -> None:
    connection = await _connect(arguments, role="noise", name="loader")
    while True:
        async with connection.transaction():
            cursor = await connection.cursor("SELECT n, pg_sleep(0.02) FROM busy")
            for _ in range(20):
                await cursor.fetch(1)
                await asyncio.sleep(0.02)


async def _short_calls(arguments: Arguments) -> None:
    connection = await _connect(arguments, role="noise", name="basket")
    while True:
        async with connection.transaction():
            for _ in range(15):
                await connection.fetch("SELECT pg_sleep(0.08)")


async def _batches(arguments: Arguments) -> None:
    connection = await _connect(arguments, role="noise", name="batches")
    while True:
        await connection.execute("CALL batches()")


async def _parallel(arguments: Arguments) -> None:
    connection = await _connect(arguments, role="noise", name="statistics")
    for setting in ("parallel_setup_cost = 0", "parallel_tuple_cost = 0", "min_parallel_table_scan_size = 0"):
        await connection.execute(f"SET {setting}")
    while True:
        await connection.fetch("SELECT count(pg_sleep(0.005)) FROM busy WHERE n < 600")


async def _dumps(arguments: Arguments) -> None:
    connection = await _connect(arguments, role="noise", name="pg_dump")
    while True:
        await connection.copy_from_query("SELECT n, pg_sleep(0.001) FROM busy LIMIT 800", output=_discard)
        await connection.execute("UPDATE busy SET n = n WHERE n % 10 = 0")  # keeps autovacuum busy


async def _discard(_: bytes) -> None:
    """Take what a copy gives and do nothing with it."""


async def _connect(arguments: Arguments, *, role: str, name: str) -> "asyncpg.Connection[asyncpg.Record]":
    return await asyncpg.connect(
        host="127.0.0.1",
        port=arguments.port,
        user=role,
        password=arguments.password,
        database="postgres",
        server_settings={"application_name": name},
    )


if __name__ == "__main__":
    asyncio.run(main(Arguments(**json.loads(sys.argv[1]))))
