"""Maintenance is told from queries by progress views and a command's first word; what cannot be told is spared."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.acting import FREE, cancel_rule, protecting
from support.gates import CANCELED, WAIT, Gates, only_these_are_signalled
from support.servers import Connect, TestServer, start
from support.watching import actor_on, answer

from watchdog.core.acting.policy import Policy
from watchdog.core.acting.verdicts import Withheld

SHOWN = 1023
"""How many bytes of a text the server shows with its default track_activity_query_size."""


@pytest.fixture
def chores(server: TestServer, connect: Connect) -> Iterator[str]:
    """A table of fifteen pages that belongs to web_app, with an index and a materialized view."""
    server.run("CREATE SCHEMA web_app AUTHORIZATION web_app")
    owner = connect()
    owner.execute("CREATE TABLE chores AS SELECT n AS id, repeat('x', 1000) AS it FROM generate_series(1, 100) AS n")
    owner.execute("CREATE INDEX by_id ON chores (id)")
    owner.execute("CREATE MATERIALIZED VIEW digest AS SELECT count(*) FROM chores")
    owner.close()
    yield "chores"
    server.end_sessions()
    server.run("SET client_min_messages = warning; DROP SCHEMA web_app CASCADE")


def padded(length: int) -> str:
    """A comment of so many bytes."""
    return "/*" + "x" * (length - 4) + "*/"


@pytest.mark.parametrize(
    "text",
    [
        "VACUUM chores",
        "vacuum(analyze) chores",
        "ANALYZE chores",
        "CREATE INDEX ON chores (id)",
        "CREATE INDEX CONCURRENTLY ON chores (id)",
        "REINDEX TABLE chores",
        "CLUSTER chores USING by_id",
        "REFRESH MATERIALIZED VIEW digest",
        "TRUNCATE chores",
        "-- nightly\nVACUUM chores",
        "-- nightly\rVACUUM\nchores",
        "/* nightly */ -- of the house\n\t/**/VACUUM chores",
        "/***/ ; ;\r\nREINDEX TABLE chores",
        "-- /* \nANALYZE chores",
        "/* it's -- */CREATE INDEX ON chores (id)",
    ],
)
async def test_maintenance_that_waits_for_a_lock_is_left_alone(
    text: str, server: TestServer, connect: Connect, chores: str, tmp_path: Path
) -> None:
    """Also where the rule allows writers: most of these have a transaction id while they wait."""
    busy, victim, holder = connect(), connect(), connect()
    holder.execute("BEGIN")
    holder.execute(f"LOCK TABLE {chores} IN ACCESS EXCLUSIVE MODE")
    pid, control = start(busy, text, server), start(victim, "SELECT pg_sleep(60)", server)
    with actor_on(server, tmp_path, policy=Policy((cancel_rule(writers=True),), FREE)) as cycle:
        await only_these_are_signalled(cycle, {pid: Withheld.MAINTENANCE, control: None})
    holder.execute("ROLLBACK")
    assert (answer(busy), answer(victim)) == (None, CANCELED)


@pytest.mark.parametrize(
    "text",
    ["VACUUM chores", "ANALYZE chores", "/* a /* nested */ comment */ VACUUM chores", "SELECT 1; ANALYZE chores"],
)
async def test_maintenance_at_work_is_known_by_its_progress_whatever_its_text_says(
    text: str, server: TestServer, connect: Connect, chores: str, tmp_path: Path
) -> None:
    assert chores in text
    busy, victim = connect(options="-c vacuum_cost_delay=100 -c vacuum_cost_limit=1"), connect()
    pid, control = start(busy, text, server), start(victim, "SELECT pg_sleep(60)", server)
    with actor_on(server, tmp_path) as cycle:
        await only_these_are_signalled(cycle, {pid: Withheld.MAINTENANCE, control: None})
    assert (answer(busy), answer(victim)) == (None, CANCELED)


async def test_maintenance_is_not_protected_where_the_configuration_says_so(
    server: TestServer, connect: Connect, chores: str, tmp_path: Path
) -> None:
    busy, holder = connect(), connect()
    holder.execute("BEGIN")
    holder.execute(f"LOCK TABLE {chores} IN ACCESS EXCLUSIVE MODE")
    pid = start(busy, f"VACUUM {chores}", server)
    with actor_on(server, tmp_path, policy=protecting(maintenance=False)) as cycle:
        await only_these_are_signalled(cycle, {pid: None})
    assert answer(busy) == CANCELED


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("/* a /* nested */ comment */ ", id="nested comment"),
        pytest.param(padded(SHOWN + 50), id="comment that is cut"),
        pytest.param(padded(SHOWN), id="comment that ends where the text is cut"),
        pytest.param("-- " + "x" * SHOWN + "\n", id="line comment that is cut"),
        pytest.param("/*" + "é" * SHOWN + "*/", id="comment that is cut inside a character"),
        pytest.param(padded(SHOWN - 1), id="word of which one letter is left"),
        pytest.param(padded(SHOWN - len("SELECT")), id="word that may go on where the text is cut"),
    ],
)
async def test_a_command_whose_first_word_cannot_be_read_is_left_alone(
    before: str, server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    gates = Gates(connect(role="etl_app"))
    unread, victim = connect(), connect()
    pid = start(unread, f"{before}SELECT {WAIT}", server)
    control = start(victim, f"{padded(SHOWN - len('SELECT') - 1)}SELECT pg_sleep(60)", server)
    with actor_on(server, tmp_path) as cycle:
        await only_these_are_signalled(cycle, {pid: Withheld.COMMAND_UNREADABLE, control: None})
    gates.open()
    assert (answer(unread), answer(victim)) == (None, CANCELED)


async def test_a_query_that_only_mentions_maintenance_is_a_query(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    texts = (
        "/* VACUUM */ SELECT pg_sleep(60)",
        "-- VACUUM chores\nSELECT pg_sleep(60)",
        "SELECT 'VACUUM', pg_sleep(60)",
        "SELECT pg_sleep(60) AS vacuum",
        "WITH vacuum AS (SELECT pg_sleep(60)) TABLE vacuum",
        "((SELECT pg_sleep(60))) -- REINDEX",
        "(/* ANALYZE */ SELECT pg_sleep(60))",
        "EXPLAIN ANALYZE SELECT pg_sleep(60)",
    )
    sessions = [connect() for _ in texts]
    pids = [start(each, text, server) for each, text in zip(sessions, texts, strict=True)]
    with actor_on(server, tmp_path) as cycle:
        await only_these_are_signalled(cycle, dict.fromkeys(pids))
    assert {answer(each) for each in sessions} == {CANCELED}
