"""The callers of the second part, in a process of their own: `python -m truth.acts_workload ARGUMENTS`, as JSON.

On standard output stands one line of JSON per caller (`acts_callers.Caller`), when the caller has left.
"""

import asyncio
import itertools
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping

from truth.acts_callers import (
    BUDGET,
    DIGEST_BUDGET,
    LOOP_BUDGET,
    POOLED_BUDGET,
    RETRY_GAP,
    STUBBORN_BUDGET,
    Arguments,
    Office,
    Session,
    give_up,
)

LONGEST = "stubborn"

Kind = Callable[[Office, random.Random], Awaitable[None]]


async def main(arguments: Arguments) -> None:
    """Let all callers come, spread over the time. Each round has one of each kind, and begins with the longest."""
    rng = random.Random(arguments.seed)
    office = Office(arguments, itertools.count(1).__next__)
    kinds: list[str] = []
    while len(kinds) < arguments.callers:
        others = [name for name in KINDS if name != LONGEST]
        kinds += [LONGEST, *rng.sample(others, len(others))]
    del kinds[arguments.callers :]
    async with asyncio.TaskGroup() as group:
        for number, kind in enumerate(kinds):
            delay = arguments.seconds * number / arguments.callers
            group.create_task(_later(delay, KINDS[kind], office, random.Random(rng.random())))


async def _later(delay: float, kind: Kind, office: Office, rng: random.Random) -> None:
    await asyncio.sleep(delay)
    await kind(office, rng)


def _patience(rng: random.Random, budget: float) -> float:
    """How long a caller waits: never as long as its budget says."""
    return rng.uniform(0.3, 0.9) * budget


async def _afterwards(office: Office, session: Session, rng: random.Random) -> None:
    """What becomes of a session whose work is over: it is closed, it stays idle, or the next caller uses it."""
    match rng.choice(["close", "idle", "next"]):
        case "idle":
            await asyncio.sleep(rng.uniform(1.5, 2.5))
        case "next":
            await office.passed_on(session, seconds=rng.uniform(0.5, 0.6) * BUDGET)
            await asyncio.sleep(rng.uniform(0.0, 1.0))
        case _:
            pass


# Callers who give up


async def _plain(office: Office, rng: random.Random) -> None:
    """A query that nobody waits for any more, while a layer in between keeps the connection."""
    async with office.session("plain", patience=_patience(rng, BUDGET)) as session:
        await session.run(f"SELECT pg_sleep({rng.uniform(1.5, 4.5) * BUDGET:.3f})")
        await _afterwards(office, session, rng)


async def _killed(office: Office, rng: random.Random) -> None:
    """A client whose process dies."""
    patience = _patience(rng, BUDGET)
    async with office.session("killed", patience=patience) as session:
        query = asyncio.ensure_future(session.run(f"SELECT pg_sleep({6 * BUDGET:.3f})"))
        await asyncio.wait({query}, timeout=patience + 0.02)
        session.drop()
        await query


async def _loop(office: Office, rng: random.Random) -> None:
    """A worker that goes on to fetch although who asked for the rows has left."""
    name = f"scan:loop:w{rng.getrandbits(40)}"
    async with office.session("loop", name=name, patience=_patience(rng, LOOP_BUDGET)) as session:
        each = rng.uniform(0.05, 0.8)
        await session.run("BEGIN")
        await session.run(f"DECLARE c CURSOR FOR SELECT pg_sleep({each:.3f}) FROM generate_series(1, 1000)")
        for _ in range(int(7 / each)):
            if await session.run("FETCH 1 FROM c"):
                break
        await session.run("ROLLBACK")
        await _afterwards(office, session, rng)


async def _savepoint(office: Office, rng: random.Random) -> None:
    """A worker that goes on with its transaction after a cancel."""
    async with office.session("savepoint", patience=_patience(rng, BUDGET)) as session:
        await session.run("BEGIN")
        await session.run("SAVEPOINT before")
        if await session.run(f"SELECT pg_sleep({rng.uniform(2.0, 4.5) * BUDGET:.3f})"):
            await session.run("ROLLBACK TO SAVEPOINT before")
        await session.run(f"SELECT pg_sleep({rng.uniform(1.0, 3.5):.3f})")
        await session.run("COMMIT")


async def _stubborn(office: Office, rng: random.Random) -> None:
    """A function that swallows every cancel."""
    patience = _patience(rng, STUBBORN_BUDGET)
    async with office.session("stubborn", role="stubborn_app", patience=patience) as session:
        await session.run(f"SELECT stubborn({rng.uniform(15.0, 17.0):.3f})")
        await asyncio.sleep(rng.uniform(0.0, 2.0))


async def _renaming(office: Office, rng: random.Random) -> None:
    """A statement that renames its own session every few milliseconds."""
    async with office.session("renaming", patience=_patience(rng, BUDGET)) as session:
        await session.run(f"SELECT renaming({rng.uniform(2.0, 5.0) * BUDGET:.3f})")


async def _foreign_read(office: Office, rng: random.Random) -> None:
    """A query on a foreign table. postgres_fdw hands a cancel on to the other server."""
    async with office.session("foreign_read", patience=_patience(rng, BUDGET)) as session:
        await session.run("SELECT sum(n) FROM far_slow")
        await _afterwards(office, session, rng)


async def _retry(office: Office, rng: random.Random) -> None:
    """A caller that gives up and tries again; it waits for the answer of its second attempt."""
    name = f"scan:digest:w{rng.getrandbits(40)}"
    async with office.session("retry", name=name) as first, office.session("again", name=name) as second:
        query = asyncio.ensure_future(first.run(f"SELECT pg_sleep({2 * DIGEST_BUDGET:.3f})"))
        await asyncio.sleep(rng.uniform(1.2, 1.5) * RETRY_GAP)
        give_up(first.caller)
        await second.run(f"SELECT pg_sleep({0.8 * DIGEST_BUDGET:.3f})")
        await query


async def _pooled_late(office: Office, rng: random.Random) -> None:
    """A caller behind the pooler that gives up."""
    patience = _patience(rng, POOLED_BUDGET)
    async with office.session("pooled_late", role="etl_app", pooled=True, patience=patience) as session:
        await session.run(f"SELECT pg_sleep({rng.uniform(1.6, 2.5) * POOLED_BUDGET:.3f})")


# Callers who wait until they have their answer


async def _within(office: Office, rng: random.Random) -> None:
    """A query that ends within its budget."""
    async with office.session("within") as session:
        for _ in range(3):
            await session.run(f"SELECT pg_sleep({rng.uniform(0.4, 0.95) * BUDGET:.3f})")


async def _loop_within(office: Office, rng: random.Random) -> None:
    """A loop of FETCH that ends within the budget of its job, and another one right after it in the same session."""
    async with office.session("loop_within", name=f"scan:loop:w{rng.getrandbits(40)}") as session:
        for _ in range(3):
            ends = time.monotonic() + rng.uniform(0.4, 0.7) * LOOP_BUDGET
            await session.run("BEGIN")
            await session.run("DECLARE c CURSOR FOR SELECT pg_sleep(0.1) FROM generate_series(1, 1000)")
            while time.monotonic() < ends:
                await session.run("FETCH 1 FROM c")
            await session.run("COMMIT")


async def _writer(office: Office, rng: random.Random) -> None:
    """A transaction that has written and works on past its budget."""
    async with office.session("writer") as session:
        await session.run("BEGIN")
        await session.run(f"INSERT INTO written VALUES ({session.caller.number})")
        await session.run(f"SELECT pg_sleep({rng.uniform(2.0, 3.5) * BUDGET:.3f})")
        await session.run("COMMIT")


async def _migration(office: Office, rng: random.Random) -> None:
    """A migration in one string. It waits for a lock, so it has no transaction id for most of its time."""
    async with office.session("migration") as session, office.session("helper", role="helper") as helper:
        table = f"migrating_{session.caller.number}"
        await helper.run(f"CREATE TABLE {table} (n int)")
        await helper.run("BEGIN")
        await helper.run(f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
        migrates = asyncio.ensure_future(session.run(f"SET lock_timeout = '60s'; CREATE INDEX ON {table} (n)"))
        await asyncio.sleep(rng.uniform(2.0, 3.5) * BUDGET)
        await helper.run("COMMIT")
        await migrates


async def _foreign_write(office: Office, rng: random.Random) -> None:
    """A command that writes on the other server, and has no transaction id here."""
    async with office.session("foreign_write") as session:
        rows = f"SELECT {session.caller.number} FROM pg_sleep({rng.uniform(2.0, 3.5) * BUDGET:.3f})"
        insert = f"INSERT INTO far_written {rows}"
        await session.run(rng.choice([insert, f"WITH w AS ({insert} RETURNING n) SELECT n FROM w"]))


async def _pooled(office: Office, rng: random.Random) -> None:
    """Pairs behind the pooler within the budget of their role. By their name they would be late, or one a retry."""

    async def pair(name: str) -> None:
        first = asyncio.ensure_future(attempt(name))
        await asyncio.sleep(1.2 * RETRY_GAP)
        await asyncio.gather(first, attempt(name))

    async def attempt(name: str) -> None:
        async with office.session("pooled", role="etl_app", name=name, pooled=True) as session:
            await session.run(f"SELECT pg_sleep({rng.uniform(0.75, 0.9) * POOLED_BUDGET:.3f})")

    await asyncio.gather(*(pair(f"scan:{job}:w{rng.getrandbits(40)}") for job in ("loop", "digest")))


async def _backup(office: Office, rng: random.Random) -> None:
    """A session with the name of a backup, past its budget."""
    async with office.session("backup", name=rng.choice(["pg_dump", "pgBackRest [backup]"])) as session:
        await session.run(f"SELECT pg_sleep({rng.uniform(2.0, 3.5) * BUDGET:.3f})")


async def _overlap(office: Office, rng: random.Random) -> None:
    """Two copies that began at nearly the same time, so neither is a retry."""
    name = f"scan:digest:w{rng.getrandbits(40)}"
    async with office.session("overlap", name=name) as one, office.session("overlap", name=name) as other:
        await asyncio.gather(
            *(each.run(f"SELECT pg_sleep({rng.uniform(0.5, 0.9) * DIGEST_BUDGET:.3f})") for each in (one, other))
        )


KINDS: Mapping[str, Kind] = {
    "plain": _plain,
    "killed": _killed,
    "loop": _loop,
    "savepoint": _savepoint,
    "stubborn": _stubborn,
    "renaming": _renaming,
    "foreign_read": _foreign_read,
    "retry": _retry,
    "pooled_late": _pooled_late,
    "within": _within,
    "loop_within": _loop_within,
    "writer": _writer,
    "migration": _migration,
    "foreign_write": _foreign_write,
    "pooled": _pooled,
    "backup": _backup,
    "overlap": _overlap,
}


if __name__ == "__main__":
    asyncio.run(main(Arguments(**json.loads(sys.argv[1]))))
