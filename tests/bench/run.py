"""`make bench`: every benchmark in full, one after the other, and the page docs/benchmarks.md.

With names of benchmarks it runs those only, and prints; `--short` runs the small sizes of the tests.
"""

import asyncio
import sys
import time
from pathlib import Path

from bench import overshoot
from bench.report import Section, page
from watchdog.demo.guardian import Guardian

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


async def _overshoot(guardian: Guardian, *, short: bool) -> Section:
    return (await overshoot.measure(overshoot.SHORT if short else overshoot.FULL, guardian=guardian)).section()

if __name__ == "__main__":
    g = Guardian.start()
    t = time.monotonic()
    s = asyncio.run(_overshoot(g, short="--short" in sys.argv))
    print(page("m", [s], failed=[]), time.monotonic() - t)
    g.clean_up()
