"""Where a command's first word protects: read anew before every act, and alike in a database of any language."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest
from support.acting import FREE, cancel_rule
from support.gates import WAIT, WAIT_AGAIN, Gates, acts_of, only_these_are_signalled
from support.servers import Client, Connect, TestServer, make_server, start, until
from support.watching import actor_on, answer, look_until, orphaned, verdict_of

from watchdog.core.acting.policy import Policy
from watchdog.core.acting.verdicts import Withheld, withheld_reason
from watchdog.demo.guardian import Guardian
from watchdog.postgres.source import PostgresSource

PATIENT = Policy((cancel_rule(after=1.0),), FREE)


@pytest.fixture
def slow_chores(server: TestServer, connect: Connect) -> Iterator[str]:
    """A table of web_app whose ANALYZE waits at the second gate: it asks for an index's expression."""
    server.run("CREATE SCHEMA web_app AUTHORIZATION web_app")
    with connect() as owner:
        body = f"BEGIN PERFORM {WAIT_AGAIN}; RETURN id; END"
        owner.execute(f"CREATE FUNCTION slowly(id int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ {body} $$")
        owner.execute("CREATE TABLE chores AS SELECT n AS id FROM generate_series(1, 10) AS n")
        owner.execute("CREATE INDEX ON chores (slowly(id))")
    yield "chores"
    server.end_sessions()
    server.run("SET client_min_messages = warning; DROP SCHEMA web_app CASCADE")


async def test_maintenance_that_begins_later_in_the_same_text_is_found_before_the_act(
    server: TestServer, connect: Connect, slow_chores: str, tmp_path: Path
) -> None:
    """Its first word is a query's, and so it was when it was read; the text and its starts have stayed the same."""
    gates, busy = Gates(connect(role="etl_app")), connect()
    pid = start(busy, f"SELECT {WAIT}; ANALYZE {slow_chores}", server)
    with actor_on(server, tmp_path, policy=PATIENT) as cycle:
        look = await look_until(cycle, lambda look: orphaned(look, pid))
        assert withheld_reason(verdict_of(look, pid)) is Withheld.PATIENCE
        gates.open()
        begun = "SELECT count(*) FROM pg_stat_progress_analyze WHERE pid = %s"
        until(lambda: server.value(begun, pid), what="the maintenance")
        look = await cycle.look(tick=True)
        assert withheld_reason(verdict_of(look, pid)) is Withheld.PATIENCE, "the word that is known will do to say so"
        due = await look_until(cycle, lambda look: withheld_reason(verdict_of(look, pid)) is not Withheld.PATIENCE)
        assert (withheld_reason(verdict_of(due, pid)), acts_of(due)) == (Withheld.MAINTENANCE, [])
        await only_these_are_signalled(cycle, {pid: Withheld.MAINTENANCE})
    gates.open(2)
    assert answer(busy) is None


@pytest.fixture
def turkish(
    guardian: Guardian, public_folder: Path, monkeypatch: pytest.MonkeyPatch, missing: Callable[[str], NoReturn]
) -> Iterator[TestServer]:
    """A server with a database `turk`, in whose letters the upper case of an i has a dot."""
    if shutil.which("localedef") is None:
        missing("localedef is not installed: apt-get install libc-bin")
    name = "tr_TR.UTF-8"
    made = subprocess.run(
        ["localedef", "-i", "tr_TR", "-f", "UTF-8", public_folder / name], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        missing(f"no Turkish locale can be made here: apt-get install locales: {made.stderr}")
    monkeypatch.setenv("LOCPATH", str(public_folder))
    server = make_server(guardian=guardian)
    try:
        server.create_database("turk", f"TEMPLATE template0 LOCALE '{name}' OWNER web_app")
        yield server
    finally:
        server.embedded.stop()


async def test_first_words_are_read_alike_in_a_turkish_database(turkish: TestServer, tmp_path: Path) -> None:
    opened: list[Client] = []

    def caller() -> Client:
        opened.append(psycopg.connect(turkish.dsn("web_app", database="turk"), autocommit=True))
        return opened[-1]

    try:
        holder, busy = caller(), caller()
        upper = holder.execute("SELECT upper('reindex')").fetchone()
        assert upper != ("REINDEX",), "otherwise this database tells nothing"
        holder.execute("CREATE TABLE chores (id int)")
        holder.execute("CREATE INDEX ON chores (id)")
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE chores IN ACCESS EXCLUSIVE MODE")
        pid = start(busy, "reindex table chores", turkish)
        with actor_on(turkish.dsn("canceller", database="turk"), tmp_path) as cycle:
            assert isinstance(cycle.source, PostgresSource)
            cycle.source.lease_database = "turk"
            await only_these_are_signalled(cycle, {pid: Withheld.MAINTENANCE})
        holder.execute("ROLLBACK")
        assert answer(busy) is None
    finally:
        for each in opened:
            each.close()
