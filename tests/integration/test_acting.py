"""Acting on a real server: the guarded statement, its effect at the next look, and the record of both."""

from pathlib import Path

from support.servers import Connect, TestServer, start
from support.watching import actor_on, answer, history, look_until

from watchdog.core.acts import Outcome, Result
from watchdog.core.look import Look

CANCELED = "57014"


def results(look: Look) -> list[tuple[int, Result]]:
    return [(each.act.finding.backend.pid, each.result) for each in look.done]


async def test_an_orphan_is_cancelled_and_the_record_says_so(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    caller = connect()
    pid = start(caller, "SELECT pg_sleep(60)", server)
    with actor_on(server, tmp_path) as cycle:
        look = await look_until(cycle, lambda look: look.done)
        assert results(look) == [(pid, Result.SIGNALLED)]
        after = await look_until(cycle, lambda look: look.effects)
    assert answer(caller) == CANCELED
    assert [each.outcome for each in after.effects] == [Outcome.BETWEEN_STATEMENTS]
    [act] = history(tmp_path)
    assert (act["id"], act["pid"], act["result"]) == (look.done[0].act.id, pid, "signalled")
    assert act["outcome"] == "between_statements"


async def test_the_signal_carries_the_acts_id_into_the_servers_log(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    server.run("ALTER ROLE canceller SET log_statement = 'all'")
    try:
        start(connect(), "SELECT pg_sleep(60)", server)
        with actor_on(server, tmp_path) as cycle:
            look = await look_until(cycle, lambda look: look.done)
    finally:
        server.run("ALTER ROLE canceller RESET log_statement")
    assert f"/* pgwatchdog act {look.done[0].act.id} */" in server.embedded.log.read_text()
