"""The callers of the demo: each is a process of its own, with an ordinary driver, and tells what it does.

Usage: `python -m watchdog.demo.callers KIND ARGUMENTS` with the arguments as JSON and the password in PGPASSWORD. On
standard output one JSON line per event with the backend's pid: `started`, `left`, `done` when it has what it wanted,
`cancelled` when it is told that somebody has cancelled its query.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
import psycopg

Arguments = dict[str, Any]  # what a story gives its caller: values of JSON


def tell(event: str, *, pid: int) -> None:
    """Tell the stage what has happened."""
    print(json.dumps({"event": event, "pid": pid}), flush=True)


def waits(arguments: Arguments) -> None:
    """Run one query with psycopg and wait for it; whoever kills this process decides how that ends."""
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
    """Serve a user who goes away after a while; the query is not told."""
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
    """Try, give up on the socket after a while without a cancel, and try again: the ladder."""
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
    """Hold three connections that have worked a moment and are idle now, and need them once more at the end."""
    connections = [await _connect(arguments) for _ in range(3)]
    for connection in connections:
        await connection.fetch("SELECT 1")
        tell("started", pid=connection.get_server_pid())
    await _until_told()
    for connection in connections:
        await connection.fetch("SELECT 1")
        tell("done", pid=connection.get_server_pid())


async def listener(arguments: Arguments) -> None:
    """Listen for notifications, and hear one at the end."""
    connection = await _connect(arguments)
    heard = asyncio.Event()
    await connection.add_listener("orders", lambda *_: heard.set())
    tell("started", pid=connection.get_server_pid())
    await _until_told()
    await connection.execute("NOTIFY orders")
    await heard.wait()
    tell("done", pid=connection.get_server_pid())


def calls(arguments: Arguments) -> None:
    """One transaction of many short calls."""
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
    """Until standard input ends. In a thread of its own: a read that never returns must not hold up the exit."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def wait() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set_result, None)

    threading.Thread(target=wait, daemon=True).start()
    await ended


def main() -> None:
    """Be one caller."""
    kind, arguments = KINDS[sys.argv[1]], json.loads(sys.argv[2])
    work = kind(arguments)
    if work is not None:
        asyncio.run(work)


if __name__ == "__main__":
    main()
