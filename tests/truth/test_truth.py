"""The small version of `make truth`."""

from pathlib import Path

import pytest
from support.servers import make_server

from truth.harness import measure, percentile, table
from watchdog.demo.guardian import Guardian

BUSY = 0.9
"""Share of the machine's cores in use."""


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_what_is_said_agrees_with_what_the_callers_know(tmp_path: Path, guardian: Guardian) -> None:
    server = make_server(guardian=guardian)
    truth = await measure(server, folder=tmp_path, callers=60, seconds=20, seed=7, noise=True)
    server.embedded.stop()
    print(table(truth))
    assert truth.false_orphans == []
    assert truth.strangers == 0
    assert len(truth.knowable) >= 8
    assert truth.missed == []
    # Beside other work that takes every core only the median is judged here, and p99 by `make truth`.
    judged = 0.99 if truth.load < BUSY else 0.5
    assert percentile(truth.lags(since="crossing"), judged) <= 5 * 0.05
    assert truth.copies["differ"] == 0
    assert truth.said_running == pytest.approx(truth.running, rel=0.10)
    assert truth.said_orphaned == pytest.approx(truth.orphaned, rel=0.10)
