"""The ledger on SQLite: durable intents, what goes wrong beside it, and the writer that never blocks the loop."""

import asyncio
import contextlib
import gc
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.builders import NOW, seconds
from support.ledger_schema import SchemaContract
from support.ledgers import GatedStore, StoreContract, act, answered, effect, gated, rows, wait_for_row
from support.servers import until

from watchdog.core.acting.acts import ActResult, Outcome, Result
from watchdog.core.acting.verdicts import Withheld
from watchdog.errors import LedgerError, LedgerRefusedError
from watchdog.ledger.engine import BUSY_SECONDS
from watchdog.ledger.store import Answer, Store
from watchdog.ledger.url import check_url, shown, unwritable
from watchdog.ledger.writer import Writer

SOON = 0.25
"""A deadline that a healthy ledger keeps and a test can wait for."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


class TestOnSQLite(StoreContract):
    """The contract on a file."""


class TestSchemaOnSQLite(SchemaContract):
    """The schema's contract on a file."""


# Durability


def test_our_connection_writes_ahead_and_waits_for_the_disk_at_each_commit(url: str) -> None:
    store = Store(url)
    store.intend([act("a1")])
    for _ in range(2):  # also on a connection that has been opened anew
        assert store._engine is not None
        with store._engine.connect() as connection:
            settings = [
                connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
                for name in ("journal_mode", "synchronous", "busy_timeout")
            ]
        assert settings == ["wal", 2, BUSY_SECONDS * 1000]
        store.close()
        store.open()
    store.close()


def test_a_new_file_that_another_one_is_about_to_make_is_waited_for(url: str, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")  # SQLite refuses the switch to WAL at once then, whatever the busy timeout
    release = threading.Timer(SOON, other.rollback)
    release.start()
    store = Store(url)
    store.intend([act("a1")])
    store.close()
    release.join()
    other.close()
    assert [row["id"] for row in rows(url)] == ["a1"]


def test_each_intent_is_on_the_disk_before_it_is_said_to_be(url: str, tmp_path: Path) -> None:
    """The files as they are when `intend` returns are a whole ledger, whatever happens to the process afterwards."""
    store = Store(url)
    for number in range(5):
        store.intend([act(f"a{number}")])
        copy = tmp_path / f"copy{number}"
        copy.mkdir()
        for file in ("ledger.db", "ledger.db-wal"):
            shutil.copy(tmp_path / file, copy / file)
        assert len(rows(f"sqlite:///{copy}/ledger.db")) == number + 1
    store.close()


# What goes wrong


def test_a_file_that_is_no_database_is_an_error_and_stays_as_it_is(url: str, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"something else entirely" * 500)
    with pytest.raises(LedgerError, match=r"ledger sqlite:///.*/ledger\.db: file is not a database"):
        Store(url).intend([act()])
    assert (tmp_path / "ledger.db").read_bytes() == b"something else entirely" * 500


def test_a_damaged_page_is_an_error_and_no_traceback(url: str, tmp_path: Path) -> None:
    store = Store(url)
    for number in range(50):
        store.intend([act(f"a{number}")])
    store.close()
    file = tmp_path / "ledger.db"
    whole = bytearray(file.read_bytes())
    for page in range(1, len(whole) // 4096):  # every page but the first, which names the tables
        whole[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    file.write_bytes(whole)
    with pytest.raises(LedgerError, match="malformed"):
        store.recall("main", since=NOW, at=NOW)
    with pytest.raises(LedgerError, match="malformed"):
        store.intend([act("b1")])


def test_other_tables_in_the_same_file_are_left_alone(url: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("CREATE TABLE theirs (n INTEGER)")
        connection.execute("INSERT INTO theirs VALUES (7)")
    connection.close()
    store = Store(url)
    store.intend([act()])
    store.close()
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        assert connection.execute("SELECT n FROM theirs").fetchall() == [(7,)]
    connection.close()


@pytest.mark.parametrize("place", ["missing/ledger.db", "."])
def test_a_place_where_no_file_can_be_is_an_error(tmp_path: Path, place: str) -> None:
    with pytest.raises(LedgerError, match="unable to open database file"):
        Store(f"sqlite:///{tmp_path}/{place}").open()


def test_a_ledger_that_has_been_taken_away_takes_no_intents_and_one_that_is_put_there_does(tmp_path: Path) -> None:
    """Its file can still be written, but nobody could ever read it again."""
    folder = tmp_path / "ledger"
    folder.mkdir()
    store = Store(f"sqlite:///{folder}/ledger.db")
    store.intend([act("a1")])
    shutil.rmtree(folder)
    with pytest.raises(LedgerError, match="unable to open database file"):
        store.intend([act("a2")])
    folder.mkdir()
    store.intend([act("a3")])
    assert [row["id"] for row in rows(store.url)] == ["a3"]
    store.close()


def test_a_ledger_that_has_been_replaced_is_written_where_it_is_now(url: str, tmp_path: Path) -> None:
    store = Store(url)
    store.intend([act("a1")])
    (tmp_path / "ledger.db").rename(tmp_path / "old.db")
    for rest in ("-wal", "-shm"):
        (tmp_path / f"ledger.db{rest}").rename(tmp_path / f"old.db{rest}")
    store.intend([act("a2")])
    assert [row["id"] for row in rows(url)] == ["a2"]
    store.close()


def test_a_ledger_that_cannot_be_used_is_not_kept_open(url: str, tmp_path: Path) -> None:
    store = Store(url)
    store.open()
    store.close()
    with sqlite3.connect(tmp_path / "ledger.db") as other:
        other.execute("UPDATE pgwatchdog_schema SET schema_version = 9")
    other.close()
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            with pytest.raises(LedgerError):
                store.open()
        assert [each for each in Path("/proc/self/fd").iterdir() if each.resolve().is_relative_to(tmp_path)] == []
    finally:
        gc.enable()


@contextmanager
def without_rights() -> Iterator[None]:
    """As somebody whom folders can refuse: root is refused nothing."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_keeps_this_user_from_writing_the_file_is_known_before_it_is_opened(public_folder: Path) -> None:
    file, url = public_folder / "ledger.db", f"sqlite:///{public_folder}/ledger.db"
    with without_rights():
        assert f"{public_folder} cannot be written by this user (uid {os.geteuid()})" in (unwritable(url) or "")
    assert list(public_folder.iterdir()) == []
    file.touch(mode=0o444)
    public_folder.chmod(0o777)
    with without_rights():
        assert f"{file} cannot be written by this user" in (unwritable(url) or "")
    file.chmod(0o666)
    with without_rights():
        assert unwritable(url) is None
    public_folder.chmod(0o700)
    with without_rights():
        assert f"{public_folder} cannot be written by this user" in (unwritable(url) or "")
    public_folder.chmod(0o755)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("missing/ledger.db", "missing does not exist: create this folder"),
        ("file/ledger.db", "file is no folder"),
        ("file/below/ledger.db", "below cannot be looked at"),
        ("folder", "folder is a folder: name a file in it"),
        ("folder/ledger.db", None),
        ("file", None),
    ],
)
def test_a_path_that_can_hold_no_ledger_is_named_and_nothing_is_created(
    path: str, problem: str | None, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    found = unwritable(f"sqlite:///{tmp_path}/{path}")
    assert found is None if problem is None else problem in (found or "")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_ledger_in_postgresql_has_no_file_to_look_at() -> None:
    assert unwritable("postgresql://somebody@127.0.0.1:1/ledger") is None


def test_a_folder_that_may_only_be_read_is_an_error(public_folder: Path) -> None:
    Store(f"sqlite:///{public_folder}/warm.db").open()  # whatever is imported late is there now
    public_folder.chmod(0o555)
    try:
        with without_rights(), pytest.raises(LedgerError, match="unable to open database file"):
            Store(f"sqlite:///{public_folder}/ledger.db").open()
    finally:
        public_folder.chmod(0o755)
    assert not (public_folder / "ledger.db").exists()


def test_a_file_that_may_only_be_read_is_an_error(public_folder: Path) -> None:
    url = f"sqlite:///{public_folder}/ledger.db"
    store = Store(url)
    store.intend([act("a1")])
    store.close()
    (public_folder / "ledger.db").chmod(0o444)
    public_folder.chmod(0o555)
    try:
        with without_rights(), pytest.raises(LedgerError, match=r"readonly|unable to open"):
            store.intend([act("a2")])
    finally:
        public_folder.chmod(0o755)
    assert [row["id"] for row in rows(url)] == ["a1"]


def test_a_full_database_takes_no_half_of_what_was_intended_and_works_again_when_there_is_room(url: str) -> None:
    store = Store(url)
    store.intend([act("a0")])
    assert store._engine is not None
    with store._engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(LedgerError, match="database or disk is full"):
        store.intend([act(f"b{number}") for number in range(500)])
    assert [row["id"] for row in rows(url)] == ["a0"]
    store.intend([act("a1")])  # the limit was that one connection's
    assert [row["id"] for row in rows(url)] == ["a0", "a1"]
    store.close()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own with little room."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("a file system of its own cannot be mounted here: only root may, and not in every sandbox")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(file: Path) -> None:
    """Take all the room that there is."""
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as out:
        while True:
            out.write(b"x" * 4096)


def test_a_full_disk_withholds_and_recovers(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        store = Store(f"sqlite:///{disk}/ledger.db")
        store.intend([act("a0")])
        ballast = disk / "ballast"
        fill(ballast)
        with pytest.raises(LedgerError, match=r"full|disk I/O error"):
            store.intend([act(f"b{number}") for number in range(200)])
        with pytest.raises(LedgerError):
            Store(f"sqlite:///{disk}/another.db").open()
        ballast.unlink()
        store.intend([act("a1")])
        assert [row["id"] for row in rows(store.url)] == ["a0", "a1"]
        store.close()


@contextmanager
def locked(file: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else who writes and does not finish."""
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield other
    finally:
        other.close()


def test_a_database_that_somebody_keeps_locked_is_an_error_after_a_short_wait(url: str, tmp_path: Path) -> None:
    store = Store(url)
    store.intend([act("a1")])
    with locked(tmp_path / "ledger.db"):
        begun = time.monotonic()
        with pytest.raises(LedgerError, match="database is locked"):
            store.intend([act("a2")])
        assert BUSY_SECONDS * 0.9 <= time.monotonic() - begun <= BUSY_SECONDS * 2
    store.intend([act("a3")])
    assert [row["id"] for row in rows(url)] == ["a1", "a3"]
    store.close()


def test_a_lock_that_is_let_go_in_time_is_no_error(url: str, tmp_path: Path) -> None:
    store = Store(url)
    store.intend([act("a1")])
    with locked(tmp_path / "ledger.db") as other:
        thread = threading.Thread(target=store.intend, args=([act("a2")],))
        thread.start()
        other.execute("COMMIT")
        thread.join()
    assert len(rows(url)) == 2
    store.close()


# URLs


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sqlite:////var/lib/pgwatchdog/ledger.db", None),
        ("postgresql://dog@host/ledger", None),
        ("postgres://dog:secret@host:5433/ledger?sslmode=verify-full", None),
        ("postgresql:///ledger", None),
        ("ledger.db", "is no URL: write sqlite:////absolute/path.db or postgresql://user@host/database"),
        ("", "is no URL: write sqlite:////absolute/path.db or postgresql://user@host/database"),
        (
            "postgresql://dog:secret@host:port/ledger",
            "is no URL: write sqlite:////absolute/path.db or postgresql://user@host/database",
        ),
        (
            "sqlite:///ledger.db",
            "needs an absolute path and four slashes: sqlite:////var/lib/pgwatchdog/ledger.db",
        ),
        (
            "postgresql://dog:s3@cret@host/ledger",
            "has an @ in its host or database: inside the password, write @ as %40 and / as %2F",
        ),
        (
            "postgresql://dog:s3@c/ret@host/ledger",
            "has an @ in its host or database: inside the password, write @ as %40 and / as %2F",
        ),
        ("sqlite://", "needs an absolute path and four slashes: sqlite:////var/lib/pgwatchdog/ledger.db"),
        ("sqlite:///:memory:", "needs an absolute path and four slashes: sqlite:////var/lib/pgwatchdog/ledger.db"),
        ("mysql://dog:secret@host/x", "mysql: is not supported; write sqlite:////absolute/path.db or postgresql://…"),
        (
            "postgresql+asyncpg://dog:secret@host/x",
            "postgresql+asyncpg: is not supported; write sqlite:////absolute/path.db or postgresql://…",
        ),
    ],
)
def test_a_url_is_good_or_a_sentence_says_what_to_write(url: str, problem: str | None) -> None:
    assert check_url(url) == problem


def test_a_url_is_shown_without_its_user_information_and_its_query() -> None:
    assert shown("postgresql://dog:s3cret@host:5433/ledger?sslmode=require") == "postgresql://host:5433/ledger"
    assert shown("postgresql://host/ledger?user=dog&password=s3cret") == "postgresql://host/ledger"
    assert shown("sqlite:////var/lib/ledger.db") == "sqlite:////var/lib/ledger.db"


def test_a_server_that_cannot_be_reached_is_an_error_without_the_password() -> None:
    store = Store("postgresql://dog:s3cret@127.0.0.1:1/ledger")
    with pytest.raises(LedgerError, match=r"postgresql://127\.0\.0\.1:1/ledger: connection") as caught:
        store.intend([act()])
    assert "s3cret" not in f"{caught.value}{caught.value!r}"


# The writer


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GatedStore]:
    one = gated(tmp_path)
    yield one
    assert one.gate is not None
    one.gate.set()


def hang(store: GatedStore) -> None:
    assert store.gate is not None
    assert store.arrived is not None
    store.arrived.clear()
    store.gate.clear()


def go_on(store: GatedStore) -> None:
    assert store.gate is not None
    store.gate.set()


async def failure(awaited: "asyncio.Future[None] | asyncio.Task[None]") -> str:
    try:
        await awaited
    except LedgerError as error:
        return str(error)
    return "none"


async def test_the_writer_puts_intents_answers_and_effects_on_record(url: str) -> None:
    writer = Writer(Store(url), 5)
    acts = [act(f"a{number}") for number in range(4)]
    await writer.intend(acts)
    done = [
        ActResult(act=acts[0], result=Result.SIGNALLED, took=seconds(0.1)),
        ActResult(act=acts[1], result=Result.PROTECTED, took=seconds(0.1), withheld=Withheld.WRITER),
        ActResult(act=acts[2], result=Result.NOT_PERMITTED, took=seconds(0.1), detail="must be a member of the role"),
    ]
    seen = [effect("a0", Outcome.MOVED_ON, at=NOW + seconds(1))]
    await writer.record(done, effects=seen, came_back=[("a0", NOW + seconds(2))])
    told = [(row["result"], row["detail"], row["outcome"]) for row in rows(url)]
    assert told == [
        ("signalled", None, "moved_on"),
        ("protected", "writer", None),
        ("not_permitted", "must be a member of the role", None),
        (None, None, None),
    ]
    recalled = await writer.recall("main", since=NOW, at=NOW + seconds(5))
    assert [each.id for each in recalled] == ["a0", "a1", "a2", "a3"]
    assert await writer.prune(NOW + seconds(1), keep=seconds(0)) == 4


async def test_calls_are_done_one_after_the_other_in_the_order_in_which_they_came(url: str) -> None:
    writer = Writer(Store(url), 5)
    acts = [act(f"a{number:02}") for number in range(20)]
    calls = [call for each in acts for call in (writer.intend([each]), _answer(writer, each.id))]
    await asyncio.gather(*calls)
    assert [(row["id"], row["outcome"]) for row in rows(url)] == [(each.id, "ended") for each in acts]


async def _answer(writer: Writer, name: str) -> None:
    await writer.record((), effects=[effect(name)], came_back=())


async def test_whatever_goes_wrong_in_the_store_is_a_ledger_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise RuntimeError("the moon is in the wrong house")

    writer = Writer(Store(url), 5)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "intend", break_down)
        with pytest.raises(LedgerError, match="ledger: RuntimeError: the moon is in the wrong house"):
            await writer.intend([act("a1")])
    await writer.intend([act("a2")])
    assert [row["id"] for row in rows(url)] == ["a2"]


async def test_a_ledger_that_must_not_be_used_is_told_from_one_that_cannot_be_used(url: str, tmp_path: Path) -> None:
    writer = Writer(Store(url), 5)
    await writer.intend([act("a1")])
    await asyncio.to_thread(writer.store.close)
    with sqlite3.connect(tmp_path / "ledger.db") as other:
        other.execute("UPDATE pgwatchdog_schema SET schema_version = 9")
    other.close()
    with pytest.raises(LedgerRefusedError, match="schema is version 9"):
        await writer.intend([act("a2")])
    with pytest.raises(LedgerRefusedError):
        await writer.recall("main", since=NOW, at=NOW)
    (tmp_path / "ledger.db").write_bytes(b"something else entirely" * 500)
    with pytest.raises(LedgerError) as caught:
        await writer.intend([act("a3")])
    assert type(caught.value) is LedgerError


async def test_a_call_that_hangs_fails_after_the_deadline_and_so_does_everybody_behind_it(store: GatedStore) -> None:
    writer = Writer(store, SOON)
    hang(store)
    begun = time.monotonic()
    calls = [
        asyncio.ensure_future(writer.intend([act("a1")])),
        asyncio.ensure_future(writer.intend([act("a2")])),
        asyncio.ensure_future(writer.record((), effects=[effect("a1")], came_back=())),
        asyncio.ensure_future(_recalled(writer)),
        asyncio.ensure_future(_pruned(writer)),
    ]
    said = [await failure(call) for call in calls]
    assert said == ["the ledger did not answer within 0.25 s"] * 5
    assert SOON * 0.9 <= time.monotonic() - begun <= SOON + 2


async def _recalled(writer: Writer) -> None:
    await writer.recall("main", since=NOW, at=NOW)


async def _pruned(writer: Writer) -> None:
    await writer.prune(NOW, keep=seconds(0))


async def test_an_intent_that_comes_too_late_is_marked_and_one_that_was_queued_is_not_written_at_all(
    store: GatedStore,
) -> None:
    writer = Writer(store, SOON)
    hang(store)
    calls = [asyncio.ensure_future(writer.intend([act(f"a{number}")])) for number in range(3)]
    assert await failure(calls[0]) != "none"
    assert await failure(calls[1]) != "none"
    assert await failure(calls[2]) != "none"
    go_on(store)
    await asyncio.to_thread(wait_for_row, store.url, "a0", result="not_tried")
    await writer.intend([act("b0")])  # comes after whatever was queued
    told = [(row["id"], row["result"], row["detail"]) for row in rows(store.url)]
    assert told == [("a0", "not_tried", "the ledger answered too late"), ("b0", None, None)]


async def test_an_intent_whose_caller_was_cancelled_is_marked_as_well(store: GatedStore) -> None:
    writer = Writer(store, 30)
    hang(store)
    call = asyncio.ensure_future(writer.intend([act("a0")]))
    assert store.arrived is not None
    await asyncio.to_thread(store.arrived.wait)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go_on(store)
    await asyncio.to_thread(wait_for_row, store.url, "a0", result="not_tried")


async def test_an_intent_whose_answer_comes_while_the_loop_is_busy_is_marked_as_well(url: str) -> None:
    store = Store(url)
    store.open()
    writer = Writer(store, SOON)
    call = asyncio.ensure_future(writer.intend([act("a0")]))
    await asyncio.sleep(0)
    wait_for_row(url, "a0", result=None)  # the ledger has answered in time
    time.sleep(2 * SOON)  # noqa: ASYNC251  # the loop is late
    assert await failure(call) != "none"
    await asyncio.to_thread(wait_for_row, url, "a0", result="not_tried")


async def test_an_answer_that_comes_too_late_is_written_all_the_same_and_again_without_harm(store: GatedStore) -> None:
    store.intend([act("a0")])
    writer = Writer(store, SOON)
    hang(store)
    with pytest.raises(LedgerError):
        await writer.record(
            [ActResult(act=act("a0"), result=Result.SIGNALLED, took=seconds(0))], effects=(), came_back=()
        )
    go_on(store)
    await writer.record([ActResult(act=act("a0"), result=Result.SIGNALLED, took=seconds(0))], effects=(), came_back=())
    assert [(row["id"], row["result"]) for row in rows(store.url)] == [("a0", "signalled")]


async def test_the_loop_goes_on_while_the_ledger_hangs(store: GatedStore) -> None:
    writer = Writer(store, SOON)
    hang(store)
    call = asyncio.ensure_future(writer.intend([act("a0")]))
    beats = 0
    while not call.done():
        await asyncio.sleep(0.01)
        beats += 1
    assert await failure(call) != "none"
    assert beats >= 10


async def test_it_recovers_by_itself_when_the_call_that_hung_comes_back(store: GatedStore) -> None:
    writer = Writer(store, SOON)
    for number in range(3):
        hang(store)
        with pytest.raises(LedgerError):
            await writer.intend([act(f"a{number}")])
        go_on(store)
        await asyncio.to_thread(wait_for_row, store.url, f"a{number}", result="not_tried")
        await writer.intend([act(f"b{number}")])
    assert [row["id"] for row in rows(store.url) if row["result"] is None] == ["b0", "b1", "b2"]


async def test_a_locked_database_fails_within_the_writers_deadline(url: str, tmp_path: Path) -> None:
    writer = Writer(Store(url), SOON)
    await writer.intend([act("a0")])
    with locked(tmp_path / "ledger.db"):
        begun = time.monotonic()
        with pytest.raises(LedgerError):
            await writer.intend([act("a1")])
        assert time.monotonic() - begun < BUSY_SECONDS
    await asyncio.to_thread(wait_for_row, url, "a1", result="not_tried")


def test_a_loop_that_has_ended_raises_nothing_in_the_thread_and_the_next_one_is_served(
    store: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    writer = Writer(store, 30)
    hang(store)

    async def begin_and_leave() -> None:
        call = asyncio.ensure_future(writer.intend([act("a0")]))
        assert store.arrived is not None
        await asyncio.to_thread(store.arrived.wait)
        call.cancel()

    asyncio.run(begin_and_leave())
    go_on(store)
    wait_for_row(store.url, "a0", result="not_tried")
    asyncio.run(writer.intend([act("a1")]))
    assert raised == []
    assert [row["id"] for row in rows(store.url)] == ["a0", "a1"]


def test_the_thread_does_not_hold_up_the_end_of_the_process(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from support.ledgers import act, gated\n"
        "from watchdog.errors import LedgerError\n"
        "from watchdog.ledger.writer import Writer\n"
        "store = gated(Path(sys.argv[1])); store.gate.clear()\n"
        "try: asyncio.run(Writer(store, 0.1).intend([act()]))\n"
        "except LedgerError: print('over')\n"
    )
    tests = Path(__file__).parent.parent
    ended = subprocess.run(
        [sys.executable, "-c", program, tmp_path, tests],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (ended.stdout, ended.returncode) == ("over\n", 0), ended.stderr


def test_answers_that_repeat_are_taken_once(url: str) -> None:
    store = Store(url)
    store.intend([act("a1")])
    answered(store, Result.SIGNALLED, "a1", "a1")
    store.answer([Answer("a1", Result.SIGNALLED, "")], effects=[effect("a1"), effect("a1")], came_back=())
    until(lambda: [(row["result"], row["outcome"]) for row in rows(url)] == [("signalled", "ended")])
    store.close()
