"""`make truth`: the whole measurement, some minutes, written to docs/truth.md."""

import asyncio
import os
import platform
import tempfile
from pathlib import Path

from support.servers import make_server

from truth.harness import REACH, measure, table
from watchdog.demo.guardian import Guardian

CALLERS, SECONDS, SEED = 450, 200.0, 20261129
PAGE = Path(__file__).parents[2] / "docs" / "truth.md"

INTRODUCTION = f"""\
# Known truth

`make truth` runs {CALLERS} callers on a real server over {SECONDS:g} s, while an ordinary daemon watches it. For each
caller, random numbers decide how long it waits, how long its query works, its role, its job and its window. Each caller
records when it stopped waiting. There are these kinds:

- `polite` sends a cancel when it stops waiting.
- `killed` loses its connection when it stops waiting, and sends no cancel.
- `dropped` stops waiting, while a middle layer keeps the connection open.
- `slow` waits, and gets its answer within the budget.
- `retry` loses its connection like `killed`, and makes three attempts in all.
- `overlap` runs two copies at the same time, and both callers wait.
- `wrong` waits longer than its budget says.

Other sessions run at the same time: short statements, each session pausing 10 ms between two; a cursor; transactions of
short calls; a procedure that commits inside; parallel plans; a session called pg_dump; autovacuum.

Findings are compared with what the callers recorded, not with the budget. No caller but `wrong` waits longer than its
budget. `wrong` has a row of its own and is left out of precision and recall. The recall of `over_budget` is taken over
the runs that were still there {REACH:g} s after budget and grace. The recall of `superseded` is taken over the orphans
whose next attempt ran beside them for two polls.

Evidence from sockets is switched off (`detached`): a socket shows at once that a client has died. So this page measures
what can be known from time alone.

"""


async def main() -> None:
    """Measure, print, write."""
    guardian = Guardian.start()
    try:
        server = make_server(guardian=guardian)
        with tempfile.TemporaryDirectory() as folder:
            truth = await measure(server, folder=Path(folder), callers=CALLERS, seconds=SECONDS, seed=SEED, noise=True)
        text = table(truth)
        print(text)
        for run in (*truth.false_orphans, *truth.missed):
            print(run)
        where = f"PostgreSQL {server.major}, {os.cpu_count()} cores, Python {platform.python_version()}, seed {SEED}."
        PAGE.write_text(f"{INTRODUCTION}{text}\n{where}\n", encoding="utf-8")
        server.embedded.stop()
    finally:
        guardian.clean_up()


if __name__ == "__main__":
    asyncio.run(main())
