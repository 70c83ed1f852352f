"""A loop that fetches from a cursor: how it is known for one, and what becomes of a signal that it has just outrun."""

from pathlib import Path

import pytest
from support.acting import protecting
from support.gates import CANCELED, WAIT, WAIT_AGAIN, Gates, acts_of, before_the_signal
from support.servers import Connect, TestServer, start
from support.watching import actor_on, answer, history, look_until, orphaned, verdict_of

from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.verdicts import Withheld, withheld_reason


async def test_a_loop_that_was_missed_between_two_fetches_is_tried_again_at_its_next_one(
    server: TestServer, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was signalled: there is no effect to wait for, and the next look may try."""
    gates, loop = Gates(connect(role="etl_app")), connect(name="scan:orders:w1")
    loop.execute("BEGIN")
    rows = f"SELECT CASE n WHEN 1 THEN {WAIT} ELSE {WAIT_AGAIN} END FROM generate_series(1, 9) AS n"
    loop.execute(f"DECLARE c CURSOR FOR {rows}")
    loop.execute("SELECT pg_sleep(1.1)")
    pid = start(loop, "FETCH 1 FROM c", server)

    def between_two_fetches(_: CancelTarget) -> None:
        gates.open()
        assert answer(loop) is None

    with actor_on(server, tmp_path, policy=protecting(talking=False)) as cycle:
        before_the_signal(monkeypatch, between_two_fetches)
        missed = await look_until(cycle, lambda look: look.results)
        monkeypatch.undo()
        start(loop, "FETCH 1 FROM c", server)
        again = await look_until(cycle, lambda look: look.results or look.effects)
    assert acts_of(missed) == [(pid, Result.MOVED_ON)]
    assert again.effects == (), "nothing was signalled, so nothing has come of it"
    assert acts_of(again) == [(pid, Result.SIGNALLED)]
    assert answer(loop) == CANCELED
    assert [(row["attempt"], row["result"]) for row in history(tmp_path)] == [(1, "moved_on"), (2, "signalled")]


async def test_a_loop_talks_also_where_it_is_over_its_budget_before_an_interval_has_passed(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    gates, loop = Gates(connect(role="etl_app")), connect(name="scan:orders:w1")
    loop.execute("BEGIN")
    loop.execute("SELECT pg_sleep(0.6)")
    pid = start(loop, f"SELECT {WAIT}", server)
    with actor_on(server, tmp_path, interval=5.0) as cycle:
        look = await look_until(cycle, lambda look: orphaned(look, pid))
    assert withheld_reason(verdict_of(look, pid)) is Withheld.CLIENT_TALKING
    gates.open()
    assert answer(loop) is None
