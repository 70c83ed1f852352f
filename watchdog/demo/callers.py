"""The callers of the demo. Each is a separate process that uses an ordinary driver and reports its events.

Usage: `python -m watchdog.demo.callers KIND ARGUMENTS` with the arguments as JSON and the password in PGPASSWORD. A
caller writes one JSON line per event with the backend's pid to standard output. The events are `started`, `left`,
`done` when the caller has its result, and `cancelled` when its query fails with query_canceled.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
import psycopg

Arguments = dict[str, Any]  # the arguments of a caller, which are JSON values


def tell(event: str, *, pid: int) -> None:
    """Report an event to the stage."""
    print(json.dumps({"event": event, "pid": pid}), flush=True)


def waits(arguments: Arguments) -> None:
    """Run one query with psycopg and wait for it. The stage may kill this process while it waits."""
    with psycopg.connect(arguments["dsn"], autocommit=True) as connection:
        tell("started", pid=connection.info.backend_pid)
        connection.execute(arguments["sql"])
        tell("done", pid=connection.info.backend_pid)


async def waits_async(arguments: Arguments) -> None:
    """Run one query with asyncpg and wait for it."""
    connection = await _connect(arguments)
    tell("started", pid=connection.get_server_pid())
    await connection.fetch(arguments["sql"])
    tell("done", pid=connection.get_server_pid())


async def middle_layer(arguments: Arguments) -> None:
    """Run a query for a user process that exits after `leaves` seconds. The query is not cancelled then."""
    connection = await _connect(arguments)
    query = asyncio.ensure_future(connection.fetch(arguments["sql"]))
    tell("started", pid=connection.get_server_pid())
    user = await asyncio.create_subprocess_exec(sys.executable, "-c", f"import time; time.sleep({arguments['leaves']})")
    await user.wait()
    tell("left", pid=connection.get_server_pid())
    try:
        await query
    except asyncpg.QueryCanceledError:
        tell("cancelled", pid=connection.get_server_pid())


async def retries(arguments: Arguments) -> None:
    """Run a query, close the socket after `leaves` seconds without a cancel, and try again, `attempts` times in all."""
    for _ in range(arguments["attempts"]):
        connection = await _connect(arguments)
        pid = connection.get_server_pid()
        query = asyncio.ensure_future(connection.fetch(arguments["sql"]))
        tell("started", pid=pid)
        done, _pending = await asyncio.wait({query}, timeout=arguments["leaves"])
        if done:
            tell("done", pid=pid)
            return
        connection.terminate()
        tell("left", pid=pid)
        await asyncio.wait({query})
        query.exception()


async def pool(arguments: Arguments) -> None:
    """Keep three idle connections that have run one query each, and run one more on each at the end."""
    connections = [await _connect(arguments) for _ in range(3)]
    for connection in connections:
        await connection.fetch("SELECT 1")
        tell("started", pid=connection.get_server_pid())
    await _until_told()
    for connection in connections:
        await connection.fetch("SELECT 1")
        tell("done", pid=connection.get_server_pid())


async def listener(arguments: Arguments) -> None:
    """Listen for notifications, and receive one at the end."""
    connection = await _connect(arguments)
    heard = asyncio.Event()
    await connection.add_listener("orders", lambda *_: heard.set())
    tell("started", pid=connection.get_server_pid())
    await _until_told()
    await connection.execute("NOTIFY orders")
    await heard.wait()
    tell("done", pid=connection.get_server_pid())


def calls(arguments: Arguments) -> None:
    """Run one transaction of many short statements."""
    with psycopg.connect(arguments["dsn"]) as connection:
        tell("started", pid=connection.info.backend_pid)
        for _ in range(arguments["calls"]):
            connection.execute(arguments["sql"])
        connection.commit()
        tell("done", pid=connection.info.backend_pid)
        sys.stdin.read()


KINDS: dict[str, Callable[[Arguments], Coroutine[Any, Any, None] | None]] = {
    kind.__name__: kind for kind in (waits, waits_async, middle_layer, retries, pool, listener, calls)
}


async def _connect(arguments: Arguments) -> "asyncpg.Connection[asyncpg.Record]":
    parameters = psycopg.conninfo.conninfo_to_dict(arguments["dsn"])
    return await asyncpg.connect(
        host=str(parameters["host"]),
        port=int(str(parameters["port"])),
        user=str(parameters["user"]),
        database=str(parameters["dbname"]),
        server_settings={"application_name": str(parameters["application_name"]), **arguments.get("settings", {})},
    )


async def _until_told() -> None:
    """Wait until standard input ends. A daemon thread reads, so that a blocked read cannot delay the exit."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def wait() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set_result, None)

    threading.Thread(target=wait, daemon=True).start()
    await ended


def main() -> None:
    """Run the caller that the command line names."""
    kind, arguments = KINDS[sys.argv[1]], json.loads(sys.argv[2])
    work = kind(arguments)
    if work is not None:
        asyncio.run(work)


if __name__ == "__main__":
    main()
