"""Where a command's first word protects: read anew before every act, and alike in a database of any language."""

import shutil
import subprocess
import time
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
from watchdog.postgres.backends import PATTERNS, BackendRow, command_of
from watchdog.postgres.source import PostgresSource
from watchdog.postgres.sql import own_texts

COMMANDS: dict[str, set[str] | None] = {
    "SELECT 1": {"SELECT"},
    "SELECT 1;": {"SELECT"},
    "  ; ; select 1 ;  -- x": {"SELECT"},
    "SET lock_timeout = '1h'; CREATE INDEX ON x (id)": {"CREATE", "SET"},
    "BEGIN; ALTER TABLE x ADD y int; COMMIT": {"ALTER", "BEGIN", "COMMIT"},
    "SELECT 'a;DROP TABLE x'": {"SELECT"},
    "SELECT 'it''s;x' ; VACUUM": {"SELECT", "VACUUM"},
    'SELECT "a;b" FROM x; VACUUM': {"SELECT", "VACUUM"},
    "SELECT $$;DROP$$": {"SELECT"},
    "SELECT $$ a $1 $$; DROP TABLE x": {"DROP", "SELECT"},
    "SELECT $t$;DROP$t$": None,
    "SELECT E'\\'' ; DROP TABLE t; SELECT '": None,
    "SELECT 1 -- ; DROP\n; TRUNCATE x": {"SELECT", "TRUNCATE"},
    "SELECT 1 /* ; DROP */ ; TRUNCATE x": {"SELECT", "TRUNCATE"},
    "SELECT 1 /* a /* b */ ; */ ; TRUNCATE x": None,
    "/* a /* b */ c */ SELECT 1": None,
    "SELECT 1 /* a /* b */ c */": {"SELECT"},
    "CREATE TABLE a AS SELECT 1": {"CREATE TABLE AS"},
    'create temp table "a b" (x, y) with (fillfactor=10) on commit drop as (select 1)': {"CREATE TABLE AS"},
    "CREATE UNLOGGED TABLE IF NOT EXISTS s.a USING heap TABLESPACE t AS TABLE b": {"CREATE TABLE AS"},
    "CREATE TABLE a AS EXECUTE p": {"CREATE TABLE AS"},
    "CREATE TABLE a (x int GENERATED ALWAYS AS (y + 1) STORED)": {"CREATE"},
    "CREATE TABLE a (x int GENERATED ALWAYS AS IDENTITY)": {"CREATE"},
    "CREATE TABLE a (x text DEFAULT 'AS SELECT')": {"CREATE"},
    "CREATE MATERIALIZED VIEW m AS SELECT 1": {"CREATE"},
    "CREATE VIEW m AS SELECT 1": {"CREATE"},
    "SELECT 1 INTO x": {"SELECT INTO"},
    "SELECT * INTO TEMP x FROM y": {"SELECT INTO"},
    "SELECT ' INTO '": {"SELECT"},
    "COPY x FROM STDIN": {"COPY FROM"},
    "COPY x (a, b) FROM '/f'": {"COPY FROM"},
    "COPY x TO STDOUT": {"COPY"},
    "COPY (SELECT * FROM x) TO STDOUT": {"COPY"},
    "COPY (DELETE FROM x RETURNING *) TO STDOUT": {"COPY FROM"},
    "WITH a AS (SELECT 1) SELECT * FROM a": {"WITH"},
    "WITH a AS (INSERT INTO x VALUES (1) RETURNING 1) SELECT * FROM a": {"WITH INSERT"},
    "EXPLAIN ANALYZE INSERT INTO x VALUES (1)": {"WITH INSERT"},
    "CALL p()": {"CALL"},
    "DO $$ BEGIN NULL; END $$ -- CREATE INDEX": {"DO"},
    "DO $b$ BEGIN NULL; END $b$": None,
    "vacuum(analyze) x": {"VACUUM"},
    "((SELECT 1)) -- REINDEX": {"SELECT"},
    "EXECUTE p": {"EXECUTE"},
    "": None,
    "SELECT 1; 2": None,
}
"""Texts, and what the server says of the commands in them. None: they cannot be read, and that protects."""

EVIL = ("'" * 1023, "/*" * 511, "$$" * 511, "(" * 1023, "CREATE TABLE " + "a," * 500, "''$$" * 255, "--;" * 341)
"""Texts that would take long if a pattern went back and forth over them."""

PATIENT = Policy((cancel_rule(after=1.0, writers=True),), FREE)


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
    """Its word does not tell of it, and so it was when it was read; the text and its starts have stayed the same."""
    gates, busy = Gates(connect(role="etl_app")), connect()
    pid = start(busy, f"DO $$ BEGIN PERFORM {WAIT}; ANALYZE {slow_chores}; END $$", server)
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


def said_of(client: Client, text: str, *, major: int) -> frozenset[str] | None:
    """What the statement of the daemon says of a text. Only the row is another: it has this text."""
    row = "(SELECT 1 AS pid, now() AS backend_start, now() AS query_start, %(text)s::text AS query) AS a"
    statement = own_texts().pick("backends", version=major * 10_000).decode()
    asked = statement.replace("pg_catalog.pg_stat_get_activity(i.pid) AS a", row)
    found = client.execute(asked, {**PATTERNS, "pids": [1], "read": [True], "text": text}).fetchone()
    assert found is not None
    return command_of(BackendRow._make(found)).words


def test_d10_every_command_of_a_text_counts_and_what_cannot_be_taken_apart_is_unreadable(
    every_version: TestServer,
) -> None:
    """Rule: one text may hold several commands; each of them counts, or the text is unreadable and protects."""
    with every_version.admin() as client:
        major = every_version.major
        said = {text: said_of(client, text, major=major) for text in COMMANDS}
        assert said == COMMANDS
        cut = "SELECT 1" + " " * (1023 - len("SELECT 1"))
        assert said_of(client, cut, major=major) == frozenset({"SELECT"})
        assert said_of(client, "SELECT 1;" + cut[9:], major=major) is None, "more may have followed"
        for text in EVIL:
            begun = time.monotonic()
            said_of(client, text, major=major)
            assert time.monotonic() - begun < 0.5


@pytest.fixture
def stage(server: TestServer, connect: Connect) -> Iterator[Client]:
    """A session that holds a lock on a table of web_app, `chores`."""
    server.run("CREATE SCHEMA web_app AUTHORIZATION web_app")
    holder = connect()
    holder.execute("CREATE TABLE chores (id int)")
    holder.execute("BEGIN")
    holder.execute("LOCK TABLE chores IN ACCESS EXCLUSIVE MODE")
    yield holder
    server.end_sessions()
    server.run("SET client_min_messages = warning; DROP SCHEMA web_app CASCADE")


@pytest.mark.usefixtures("stage")
async def test_d10_a_migration_in_one_text_is_left_alone_and_d08_a_writer_without_a_transaction_id_too(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    """Rule of D08: a command that writes and has no transaction id has not begun, or writes elsewhere."""
    texts = {
        "SET lock_timeout = '1h'; CREATE INDEX ON chores (id)": Withheld.MAINTENANCE,
        "BEGIN; ALTER TABLE chores ADD x int; COMMIT": Withheld.WRITER,
        "INSERT INTO chores SELECT 1": Withheld.WRITER,
        "CREATE TABLE other_chores AS SELECT * FROM chores": Withheld.WRITER,
        "DO $$ BEGIN PERFORM * FROM chores; END $$": Withheld.WRITER,
        "COPY chores TO '/dev/null'": None,
        "SELECT * FROM chores": None,
    }
    server.run("GRANT pg_write_server_files TO web_app")
    try:
        pids = {start(connect(), text, server): reason for text, reason in texts.items()}
        with actor_on(server, tmp_path) as cycle:
            await only_these_are_signalled(cycle, pids)
    finally:
        server.run("REVOKE pg_write_server_files FROM web_app")


@pytest.mark.usefixtures("stage")
async def test_where_writers_are_allowed_only_a_migration_and_what_cannot_be_read_are_left_alone(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    texts = {
        "BEGIN; ALTER TABLE chores ADD x int; COMMIT": Withheld.MAINTENANCE,
        "INSERT INTO chores SELECT 1": None,
        "CREATE TABLE other_chores AS SELECT * FROM chores": None,
        "SELECT $x$;$x$ FROM chores; SELECT 1": Withheld.COMMAND_UNREADABLE,
    }
    pids = {start(connect(), text, server): reason for text, reason in texts.items()}
    with actor_on(server, tmp_path, policy=Policy((cancel_rule(writers=True),), FREE)) as cycle:
        await only_these_are_signalled(cycle, pids)
