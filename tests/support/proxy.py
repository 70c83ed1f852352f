"""A TCP proxy that can stall or drop connections at any moment, for network faults that need no namespaces."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(slots=True)
class Proxy:
    """Forwards connections to `port` on loopback to `target` on loopback."""

    target: int
    port: int = 0
    _flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def stall(self) -> None:
        """Stop forwarding in both directions from now on and keep connections open, like a frozen link."""
        self._flowing.clear()

    def flow(self) -> None:
        """Forward again."""
        self._flowing.set()

    def drop(self) -> None:
        """Cut every connection."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers.append(back)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump(reader, back))
            group.create_task(self._pump(there, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
            writer.close()


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    """A proxy in front of `port` on loopback."""
    proxy = Proxy(port)
    proxy.flow()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        proxy.flow()
        proxy.drop()
        server.close()
