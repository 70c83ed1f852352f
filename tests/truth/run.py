"""`make truth`: the whole measurement, some minutes, written to docs/truth.md."""

import asyncio
import os
import platform
import tempfile
from pathlib import Path

from support.servers import make_server

from truth.harness import measure, table
from watchdog.demo.guardian import Guardian

CALLERS, SECONDS, SEED = 450, 200.0, 20261129
PAGE = Path(__file__).parents[2] / "docs" / "truth.md"

INTRODUCTION = f"""\
# Known truth

`make truth` plays {CALLERS} callers on a real server over {SECONDS:g} s, under an ordinary daemon. Each draws how
long it waits, how long its query works, its role, job and window, and writes down when it stopped waiting. Some leave
with a cancel, some are killed, some leave a middle layer behind that lives on, some are slow inside their budget,
some retry, some overlap with both callers waiting. Beside them: some hundred short statements a second, a cursor,
transactions of short calls, a procedure that commits inside, parallel plans, a session called pg_dump, autovacuum.

Findings are compared with what the callers wrote down, not with the budget. Waits are drawn at or below the budget; the
callers whose budget is wrong, because they wait longer, are reported apart. `over_budget` can know of a run that is
still there a moment after budget and grace; `superseded` of one whose retry stood beside it for two looks. Sockets
are left out of it (`detached`): they tell the death of a client at once, and what time alone knows is the harder part.

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
