"""The daemon in a process of its own that also samples how late its event loop is. Spoken to by `bench.fleet`.

It prints its address, and then, for each line that it reads, a line of JSON about the time since the line before.
"""

import asyncio
import json
import os
import resource
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.machine import allow_many_files, memory_of
from watchdog.cli import assembly, configuration
from watchdog.cli.daemon import tune_interpreter
from watchdog.core.present.look import Look, Unread
from watchdog.logs import Format, Level, configure_logs

BEAT = 0.01
"""Seconds between two samples of the loop's lateness."""


@dataclass(slots=True)
class Reading:
    """What has been since the reading before. Times are seconds, memory is in MB."""

    seconds: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0
    looks: int = 0
    failures: int = 0
    unseen: int = 0
    lags: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Meter:
    """A sink that counts looks, and the task that samples lateness."""

    reading: Reading = field(default_factory=Reading)
    seen: set[str] = field(default_factory=set)
    _begun: float = field(default_factory=time.monotonic)
    _cpu: float = 0.0

    def publish(self, state: Look | Unread) -> None:
        if isinstance(state, Look):
            self.reading.looks += 1
            self.seen.add(state.server)
        else:
            self.reading.failures += 1

    async def sample(self) -> None:
        while True:
            due = time.monotonic() + BEAT
            await asyncio.sleep(BEAT)
            self.reading.lags.append(max(0.0, time.monotonic() - due))

    def take(self) -> Reading:
        """The reading so far, and a new one begins."""
        taken, self.reading = self.reading, Reading()
        begun, self._begun = self._begun, time.monotonic()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        before, self._cpu = self._cpu, usage.ru_utime + usage.ru_stime
        taken.seconds, taken.cpu = self._begun - begun, self._cpu - before
        taken.memory = memory_of(os.getpid())
        return taken


async def main(config: Path) -> None:
    """Run until standard input ends."""
    settings = configuration.with_listen(configuration.load_settings(config, env={}), "127.0.0.1:0")
    meter, stop = Meter(), asyncio.Event()
    daemon = assembly.daemon(settings, reload=None, sinks=(meter,))
    task = asyncio.create_task(daemon.run(stop=stop, listening=lambda address: print(address, flush=True)))
    sampling = asyncio.create_task(meter.sample())
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        reading = meter.take()
        reading.unseen = len(settings.clusters) - len(meter.seen)
        print(json.dumps(asdict(reading)), flush=True)
    sampling.cancel()
    stop.set()
    await task


if __name__ == "__main__":
    allow_many_files()
    configure_logs(form=Format.JSON, level=Level.ERROR)
    tune_interpreter()
    asyncio.run(main(Path(sys.argv[1])))
