"""Servers that are none: they accept a connection and do as a test says."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def fake_server(after_startup: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    """A server that reads the startup message and then does as told."""
    tasks: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            (size,) = struct.unpack("!I", await reader.readexactly(4))
            await reader.readexactly(size - 4)
            await after_startup(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in tasks:
            writer.transport.abort()
