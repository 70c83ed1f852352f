"""`make truth`: both parts of the whole measurement, some minutes, written to docs/truth.md."""

import asyncio
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from support.servers import make_server

from truth.acts import Plan, Played, play
from truth.acts_table import acts_table, too_few
from truth.acts_truth import ActsTruth
from truth.harness import REACH, Truth, measure, table
from watchdog.demo.guardian import Guardian

CALLERS, SECONDS, SEED = 450, 200.0, 20261129
ACTS = Plan(callers=510, seconds=200.0, kills=10, seed=SEED)
ENOUGH = 0.5
"""Share of the callers of each kind that must be reached: the others come while a daemon starts and warms up."""
PAGE = Path(__file__).parents[2] / "docs" / "truth.md"

INTRODUCTION = f"""\
# Known truth

`make truth` measures two things: whether findings are right, and whether acts are. Both are compared with what labelled
callers know.

## Findings

The first part runs {CALLERS} callers on a real server over {SECONDS:g} s, while an ordinary daemon watches it. For each
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


ACTS_INTRODUCTION = f"""\

## Acts

The second part runs {ACTS.callers} callers, and those who come with them, over {ACTS.seconds:g} s under a daemon that
is armed, with one rule (`over_budget`, `client_gone`, `superseded`) and wide limits. Meanwhile the daemon is killed
{ACTS.kills} times by SIGKILL, mostly at the moment when the server logs an act, and reloaded as often. The server logs
every command with its caller's number, every act with its id, and every cancel. Each caller records when it gave up and
what each of its commands returned.

These callers give up, each before its budget is over, and their commands go on:

- `plain` leaves a query behind on a connection that stays. After that the session is closed, stays idle, or is used by
  the next caller (`next`, who waits).
- `killed` loses its connection.
- `loop` fetches from a cursor, a new statement all the time, under the name of a job.
- `savepoint` goes on with its transaction after a cancel, and commits.
- `stubborn` runs a function that swallows every cancel.
- `renaming` runs a statement that renames its own session every few milliseconds. It may never be hit.
- `foreign_read` reads from a foreign table; postgres_fdw hands a cancel on.
- `retry` gives up and tries again (`again`, who waits) under the same name.
- `pooled_late` gives up behind PgBouncer in transaction mode.

These callers wait, and nobody may disturb them:

- `within` and `loop_within` end within their budget. `overlap` runs two copies at once.
- `writer` has written in its transaction.
- `foreign_write` writes into a foreign table, so it has no transaction id here.
- `migration` sends `SET lock_timeout = …; CREATE INDEX …` in one string and waits for a lock, which `helper` holds.
- `backup` has the application name of a backup.
- `pooled` comes through PgBouncer, in pairs, within the budget of its role. By its name, which a role in
  `pooled.roles` is not judged by, it would be late or a retry.

A cancel in the log is right if the caller of the cancelled command had given up by then. An outcome is right if the
log and the caller show the same at that time. `unknown` is allowed only for an act whose daemon was killed before its
outcome was known.

"""


def main() -> None:
    """Measure both parts, print, write."""
    pooler = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if pooler is None:
        sys.exit("make truth needs PgBouncer: apt-get install pgbouncer")
    guardian = Guardian.start()
    try:
        major, truth = _findings(guardian)
        text = table(truth)
        print(text)
        for run in (*truth.false_orphans, *truth.missed):
            print(run)
        acts = ActsTruth(_acts(guardian, pooler=pooler))
        acts_text = acts_table(acts)
        print(acts_text)
        contradictions = [f"{words}: {each}" for words, found in acts.contradictions().items() for each in found]
        print(*contradictions, sep="\n")
        where = f"PostgreSQL {major}, {os.cpu_count()} cores, Python {platform.python_version()}, seed {SEED}."
        PAGE.write_text(f"{INTRODUCTION}{text}{ACTS_INTRODUCTION}{acts_text}\n{where}\n", encoding="utf-8")
    finally:
        guardian.clean_up()
    if contradictions:
        sys.exit("acts and callers contradict each other")
    if few := too_few(acts, share=ENOUGH):
        sys.exit(f"too little has happened: {few}")


def _findings(guardian: Guardian) -> tuple[int, Truth]:
    server = make_server(guardian=guardian)
    try:
        with tempfile.TemporaryDirectory() as folder:
            playing = measure(server, folder=Path(folder), callers=CALLERS, seconds=SECONDS, seed=SEED, noise=True)
            return server.major, asyncio.run(playing)
    finally:
        server.embedded.stop()


def _acts(guardian: Guardian, *, pooler: str) -> Played:
    with tempfile.TemporaryDirectory() as folder:
        return play(ACTS, folder=Path(folder), guardian=guardian, pooler=pooler)


if __name__ == "__main__":
    main()
