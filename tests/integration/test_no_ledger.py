"""No ledger, no acts: whatever happens to it, looks go on, acts are withheld and come back by themselves."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection
from support.gates import CANCELED
from support.imitation import ENFORCE
from support.ledgers import rows
from support.processes import get, samples
from support.servers import Connect, TestServer, start
from support.watching import Recorder, actor_on, answer, daemon_on, found, look_until

from watchdog.core.acting.acts import Outcome, Result
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Withheld, withheld_reason
from watchdog.core.present.look import Look
from watchdog.ledger.store import Store


def config(server: TestServer, ledger: Path) -> str:
    return (
        "poll: {interval: 1s, census_interval: 2s, timeout: 1s}\n"
        f'clusters: [{{name: main, dsn: "{server.dsn("canceller")}", {ENFORCE}}}]\n'
        "budgets: {grace: 0s, roles: {web_app: 1s}}\n"
        "policy:\n"
        "  mode: enforce\n"
        '  rules: [{name: orphans, finding: orphan, evidence: [over_budget], roles: ["*"], action: cancel}]\n'
        "  limits: {per_minute: 600, share: 1, pause: 0s}\n"
        f'ledger: {{url: "sqlite:///{ledger}/ledger.db"}}\n'
    )


def failed(look: Look) -> bool:
    return DisarmReason.LEDGER_FAILED in look.disarmed


def armed(look: Look) -> bool:
    return not look.disarmed


def withheld(look: Look, pid: int) -> Withheld | None:
    """Why nothing is done about an orphan, by policy or by what was met on the way; None if it is no orphan."""
    if "orphan" not in found(look, pid):
        return None
    stopped = [each.withheld for each in look.results if each.act.finding.backend.pid == pid]
    [verdict] = [each for each in look.decisions.verdicts if each.finding.backend.pid == pid]
    return stopped[0] if stopped else withheld_reason(verdict)


def signalled(look: Look) -> list[int]:
    return [each.act.finding.backend.pid for each in look.results if each.result is Result.SIGNALLED]


async def until_last(recorder: Recorder, condition: Any, *, fresh: int = 0) -> Look:  # a condition on a look
    """Wait until it holds for the newest of at least `fresh` further looks."""
    before = len(recorder.looks())
    await recorder.until(
        lambda seen: len(seen.looks()) >= max(1, before + fresh) and condition(seen.looks()[-1]), timeout=60
    )
    return recorder.looks()[-1]


@contextmanager
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every call to a ledger hangs, as on a disk that does not answer."""
    gate = threading.Event()
    transaction = Store._transaction

    @contextmanager
    def wait(store: Store) -> Iterator[Connection]:
        gate.wait()
        with transaction(store) as connection:
            yield connection

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_transaction", wait)
        try:
            yield
        finally:
            gate.set()


async def test_without_a_folder_for_the_ledger_nothing_is_done_until_there_is_one(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    recorder, ledger = Recorder(), tmp_path / "ledger"
    caller = connect()
    async with daemon_on(tmp_path, config(server, ledger), sinks=(recorder,)) as (_, address):
        pid = start(caller, "SELECT pg_sleep(600)", server)
        look = await until_last(recorder, lambda look: withheld(look, pid) is Withheld.NO_LEDGER, fresh=5)
        assert failed(look)
        exposed = samples((await asyncio.to_thread(get, f"{address}metrics")).text)
        assert exposed['pgwatchdog_disarmed{reason="ledger_failed",server="main"}'] == 1
        assert exposed['pgwatchdog_cancels_withheld_total{reason="no_ledger",rule="orphans",server="main"}'] >= 1
        assert exposed['pgwatchdog_enforcing{server="main"}'] == 0
        assert exposed['pgwatchdog_up{server="main"}'] == 1
        assert not any(signalled(each) for each in recorder.looks())
        ledger.mkdir()
        await recorder.until(lambda seen: any(pid in signalled(look) for look in seen.looks()), timeout=60)
        await recorder.until(lambda seen: any(look.effects for look in seen.looks()))
    assert answer(caller) == CANCELED
    [act] = rows(f"sqlite:///{ledger}/ledger.db")
    assert (act["pid"], act["result"], act["outcome"]) == (pid, "signalled", "between_statements")
    assert recorder.unread() == []


async def test_a_ledger_that_is_taken_away_from_an_armed_daemon_withholds_until_there_is_a_place_again(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    recorder, ledger = Recorder(), tmp_path / "ledger"
    ledger.mkdir()
    caller = connect()
    async with daemon_on(tmp_path, config(server, ledger), sinks=(recorder,)):
        await until_last(recorder, armed)
        shutil.rmtree(ledger)
        pid = start(caller, "SELECT pg_sleep(600)", server)
        await until_last(recorder, lambda look: withheld(look, pid) is Withheld.NO_LEDGER and failed(look))
        assert not any(signalled(look) for look in recorder.looks())
        ledger.mkdir()
        await recorder.until(lambda seen: any(pid in signalled(look) for look in seen.looks()), timeout=60)
    assert answer(caller) == CANCELED
    assert [row["pid"] for row in rows(f"sqlite:///{ledger}/ledger.db") if row["result"] == "signalled"] == [pid]


async def test_an_effect_is_told_once_also_when_the_session_was_opened_anew_meanwhile(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    start(connect(), "SELECT pg_sleep(60)", server)
    with actor_on(server, tmp_path) as cycle:
        await look_until(cycle, lambda look: look.results)
        cycle.source.close()  # another actor begins with the next session, and reads the ledger
        effects = [each for _ in range(4) for each in (await cycle.look(tick=True)).effects]
    assert [each.outcome for each in effects] == [Outcome.BETWEEN_STATEMENTS]
    assert [row["outcome"] for row in rows(f"sqlite:///{tmp_path}/ledger.db")] == ["between_statements"]


@pytest.mark.slow
async def test_looks_keep_their_pace_while_the_ledger_hangs_from_the_start(
    server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its deadline is three intervals: a look that waited for it would be late by two of them, each time."""
    recorder, text = Recorder(), config(server, tmp_path).replace("timeout: 1s", "timeout: 3s")
    with hanging(monkeypatch):
        async with daemon_on(tmp_path, text, sinks=(recorder,)):
            await recorder.until(lambda seen: len(seen.looks()) >= 7, timeout=60)
            at = [look.snapshot.at for look in recorder.looks()]
            assert recorder.unread() == []
    assert (at[6] - at[1]).total_seconds() < 2 * 5, "a look each second; only the first waits for the ledger"


@pytest.mark.slow
async def test_a_ledger_that_somebody_keeps_locked_withholds_and_takes_what_it_missed_when_it_is_back(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    recorder = Recorder()
    first, second = connect(), connect()
    file = tmp_path / "ledger.db"
    async with daemon_on(tmp_path, config(server, tmp_path), sinks=(recorder,)):
        await until_last(recorder, armed)
        one = start(first, "SELECT pg_sleep(600)", server)
        await recorder.until(lambda seen: any(one in signalled(look) for look in seen.looks()))
        lock = sqlite3.connect(file, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        two = start(second, "SELECT pg_sleep(600)", server)
        look = await until_last(recorder, lambda look: withheld(look, two) is Withheld.NO_LEDGER and failed(look))
        looked = len(recorder.looks())
        await until_last(recorder, failed, fresh=3)
        assert not any(two in signalled(look) for look in recorder.looks())
        effects = [each for look in recorder.looks()[: looked + 3] for each in look.effects]
        assert [each.outcome for each in effects] == [Outcome.BETWEEN_STATEMENTS], "what came of it is still seen"
        lock.close()
        await recorder.until(lambda seen: any(two in signalled(look) for look in seen.looks()), timeout=60)
        await recorder.until(lambda seen: sum(len(look.effects) for look in seen.looks()) >= 2)
        look = await until_last(recorder, armed, fresh=1)
    assert (answer(first), answer(second)) == (CANCELED, CANCELED)
    done = [row for row in rows(f"sqlite:///{file}") if row["result"] == "signalled"]
    assert [(row["pid"], row["outcome"]) for row in sorted(done, key=lambda row: row["intended_at"])] == [
        (one, "between_statements"),
        (two, "between_statements"),
    ]
    assert look.server == "main"


@pytest.mark.slow
async def test_a_ledger_that_hangs_withholds_and_looks_go_on(
    server: TestServer, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    caller = connect()
    async with daemon_on(tmp_path, config(server, tmp_path), sinks=(recorder,)) as (_, address):
        await until_last(recorder, armed)
        with hanging(monkeypatch):
            pid = start(caller, "SELECT pg_sleep(600)", server)
            await until_last(recorder, lambda look: withheld(look, pid) is Withheld.NO_LEDGER and failed(look))
            await until_last(recorder, failed, fresh=3)
            exposed = samples((await asyncio.to_thread(get, f"{address}metrics")).text)
            assert exposed['pgwatchdog_disarmed{reason="ledger_failed",server="main"}'] == 1
            assert (
                exposed[
                    'pgwatchdog_orphans{datname="postgres",evidence="over_budget",job_key="",server="main",usename="web_app"}'
                ]
                == 1
            )
            assert not any(signalled(look) for look in recorder.looks())
        await recorder.until(lambda seen: any(pid in signalled(look) for look in seen.looks()), timeout=60)
        await recorder.until(lambda seen: any(look.effects for look in seen.looks()))
        await until_last(recorder, armed, fresh=1)
    assert answer(caller) == CANCELED
    assert recorder.unread() == []
    acts = rows(f"sqlite:///{tmp_path}/ledger.db")
    done = [row for row in acts if row["result"] == "signalled"]
    assert [(row["pid"], row["outcome"]) for row in done] == [(pid, "between_statements")]
    late = [row for row in acts if row["result"] != "signalled"]
    assert {row["result"] for row in late} <= {"not_tried"}, "what came too late was not done, and says so"


@pytest.mark.slow
async def test_a_newer_ledger_is_a_reason_not_to_act_and_stays_as_it_is(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    store = Store(f"sqlite:///{tmp_path}/ledger.db")
    store.open()
    store.close()
    with sqlite3.connect(tmp_path / "ledger.db") as other:
        other.execute("UPDATE pgwatchdog_schema SET schema_version = 9")
    other.close()
    recorder = Recorder()
    caller = connect()
    async with daemon_on(tmp_path, config(server, tmp_path), sinks=(recorder,)):
        pid = start(caller, "SELECT pg_sleep(600)", server)
        await until_last(recorder, lambda look: withheld(look, pid) is Withheld.NO_LEDGER, fresh=4)
        assert not any(signalled(look) for look in recorder.looks())
    with sqlite3.connect(tmp_path / "ledger.db") as other:
        assert other.execute("SELECT schema_version FROM pgwatchdog_schema").fetchall() == [(9,)]
    other.close()


async def test_a_file_that_is_no_ledger_is_a_reason_not_to_act(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    (tmp_path / "ledger.db").write_bytes(b"something else entirely" * 500)
    recorder = Recorder()
    async with daemon_on(tmp_path, config(server, tmp_path), sinks=(recorder,)):
        pid = start(connect(), "SELECT pg_sleep(600)", server)
        look = await until_last(recorder, lambda look: withheld(look, pid) is Withheld.NO_LEDGER, fresh=4)
        assert failed(look)
        assert not any(signalled(each) for each in recorder.looks())
        shutil.move(tmp_path / "ledger.db", tmp_path / "mistake")
        await recorder.until(lambda seen: any(pid in signalled(look) for look in seen.looks()), timeout=60)
    assert (tmp_path / "mistake").read_bytes() == b"something else entirely" * 500
