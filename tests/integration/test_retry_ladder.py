"""A retry ladder under the default limits: its seconds for nobody are what `chain` predicts, and armed they end.

Each attempt is a client that is killed after a while, and the next one begins at once under the same job key. A key
whose work comes back after a cancel rests, but not for clients that are known to be gone.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from support.acting import cancel_rule
from support.builders import rule
from support.servers import TestServer
from support.watching import actor_on

from watchdog.core.acting.limits import Limits
from watchdog.core.acting.policy import Policy
from watchdog.core.chain.chain import Chain, Layer
from watchdog.core.chain.ladder import play
from watchdog.core.judging.evidence import Evidence
from watchdog.sockets.kernel import KernelSockets

WORK, LEAVES, ATTEMPTS = 8.0, 1.0, 4
CALLER = """
import sys, psycopg
connection = psycopg.connect(sys.argv[1], autocommit=True, application_name="scan:threads:w1")
print(connection.info.backend_pid, flush=True)
connection.execute("SELECT pg_sleep(%s)" % sys.argv[2])
"""


async def played(server: TestServer, folder: Path, *, enforces: bool) -> float:
    """Play the ladder under a daemon's looks. Returns the seconds for nobody of all attempts together."""
    evidence = frozenset({Evidence.OVER_BUDGET, Evidence.CLIENT_GONE})
    policy = Policy((replace(cancel_rule(), evidence=evidence),), Limits())
    job = rule(roles=frozenset({"etl_app"}), budgets={"threads": 30}, copies=1, retry_gap=0.5)
    left: dict[int, float] = {}
    ended: dict[int, float] = {}
    with actor_on(server, folder, job, policy=policy, interval=0.5, enforces=enforces) as cycle:
        cycle.sweeper.sockets = KernelSockets()

        async def watch() -> None:
            while len(ended) < ATTEMPTS:
                look = await cycle.look(tick=True)
                running = {each.pid for each in look.snapshot.backends}
                for pid in left.keys() - ended.keys() - running:
                    ended[pid] = time.monotonic()
                await asyncio.sleep(0.1)

        async def climbs() -> None:
            for _ in range(ATTEMPTS):
                command = [sys.executable, "-c", CALLER, server.dsn("etl_app"), str(WORK)]
                process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
                assert process.stdout is not None
                pid = int(await process.stdout.readline())
                await asyncio.sleep(LEAVES)
                os.kill(process.pid, signal.SIGKILL)
                left[pid] = time.monotonic()
                await process.wait()

        async with asyncio.timeout(90):
            await asyncio.gather(watch(), climbs())
    return sum(ended[pid] - left[pid] for pid in left)


def predicted(*, statement_timeout: float | None = None) -> float:
    layer = Layer(name="caller", attempts=ATTEMPTS, timeout=timedelta(seconds=LEAVES))
    limit = None if statement_timeout is None else timedelta(seconds=statement_timeout)
    chain = Chain((layer,), timedelta(seconds=WORK), statement_timeout=limit)
    return play(chain).for_nobody / timedelta(seconds=1)


@pytest.mark.timeout(200)
async def test_a_ladder_of_killed_clients_costs_what_chain_predicts_and_armed_next_to_nothing(
    server: TestServer, tmp_path: Path
) -> None:
    for each in ("dry", "armed"):
        (tmp_path / each).mkdir()
    dry = await played(server, tmp_path / "dry", enforces=False)
    assert predicted() == ATTEMPTS * (WORK - LEAVES)
    assert dry == pytest.approx(predicted(), abs=ATTEMPTS * 0.7)
    armed = await played(server, tmp_path / "armed", enforces=True)
    # Each is found and cancelled within a second or so, and the default limits allow one act a second.
    assert armed <= predicted(statement_timeout=LEAVES + 2.0) + ATTEMPTS * 0.7
