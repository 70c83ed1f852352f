"""`make bench`: every benchmark in full, one after the other, and the page docs/benchmarks.md.

With the names of some it runs those alone, and only prints; `--short` takes the small sizes of the tests.
"""

import argparse
import asyncio
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import psycopg
from support.servers import make_server

from bench import client_death, fleet, overshoot, poll_cost, throughput
from bench.machine import allow_many_files, description
from bench.report import Section, page
from watchdog.demo.guardian import Guardian

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
LONGEST = 420.0
"""Seconds after which a benchmark has failed."""

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class Measured(Protocol):
    """What a benchmark hands back."""

    def sections(self) -> tuple[Section, ...]: ...


class Measure(Protocol[S_contra]):
    """Measures at a size."""

    async def __call__(self, size: S_contra, *, guardian: Guardian) -> Measured: ...


@dataclass(frozen=True, slots=True)
class Benchmark(Generic[S]):
    """One benchmark and its two sizes."""

    title: str
    measure: Measure[S]
    full: S
    short: S

    async def run(self, guardian: Guardian, *, short: bool) -> tuple[Section, ...]:
        return (await self.measure(self.short if short else self.full, guardian=guardian)).sections()


BENCHMARKS: dict[str, Benchmark[Any]] = {  # each with the sizes of its own
    "overshoot": Benchmark("overshoot past the crossing", overshoot.measure, overshoot.FULL, overshoot.SHORT),
    "client_death": Benchmark(
        "from the client's death to the finding", client_death.measure, client_death.FULL, client_death.SHORT
    ),
    "poll_cost": Benchmark("what a poll costs the server", poll_cost.measure, poll_cost.FULL, poll_cost.SHORT),
    "fleet": Benchmark("many clusters in one process, and a scrape of them", fleet.measure, fleet.FULL, fleet.SHORT),
    "throughput": Benchmark("throughput of a watched server", throughput.measure, throughput.FULL, throughput.SHORT),
}


async def main(names: list[str], *, short: bool) -> None:
    """Run them, print as they come, and write the page where all were run in full."""
    allow_many_files()
    guardian = Guardian.start()
    sections: list[Section] = []
    failed: list[tuple[str, str]] = []
    try:
        machine = description(_version(guardian))
        for name in names or BENCHMARKS:
            benchmark = BENCHMARKS[name]
            begun = time.monotonic()
            try:
                async with asyncio.timeout(LONGEST):
                    found = await benchmark.run(guardian, short=short)
            except Exception as error:  # noqa: BLE001  # the others are worth their time all the same
                traceback.print_exc()
                failed.append((benchmark.title, type(error).__name__))
                continue
            sections += found
            print(
                *(section.text() for section in found), *(goal.row() for each in found for goal in each.goals), sep="\n"
            )
            print(f"({name}: {time.monotonic() - begun:.0f} s)\n", flush=True)
    finally:
        guardian.clean_up()
    if not names and not short:
        PAGE.write_text(page(machine, sections, failed=failed), encoding="utf-8")
        print(f"written: {PAGE.name}")


def _version(guardian: Guardian) -> str:
    server = make_server(guardian=guardian)
    try:
        with psycopg.connect(server.dsn()) as connection:
            return str(connection.info.parameter_status("server_version"))
    finally:
        server.embedded.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS])
    parser.add_argument("--short", action="store_true")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.names, short=arguments.short))
