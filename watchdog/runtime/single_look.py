"""One look for a command that looks once, with the evidence of sockets that the daemon has.

Evidence from sockets takes two readings of the rows with one of the sockets between them. The daemon has them from one
look to the next; a command makes them within itself.
"""

import asyncio

from watchdog.core.present.look import Look
from watchdog.runtime.cycle import Cycle

SOCKET_GAP = 0.2
"""Seconds between the two readings of the rows. A client that is just leaving has then left."""


async def look_with_sockets(cycle: Cycle) -> Look:
    """Look; where the sockets of running clients can be read, read them and look once more.

    Raises:
        ReadError: the cluster could not be read.

    """
    look = await cycle.look(tick=True)
    if cycle.sweep_pause is None:
        return look
    await asyncio.sleep(SOCKET_GAP)
    cycle.sweep()
    return await cycle.look(tick=True)
