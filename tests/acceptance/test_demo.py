"""The demo, as a newcomer meets it: its table, and that nothing is left behind however it ends."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.demos import LAST_LINE, SECOND_ROUND, Row, demo, read_until, rounds, table, when
from support.processes import command, get, get_json, samples
from support.servers import until

from watchdog.ledger.history import Wanted
from watchdog.ledger.store import Store

pytestmark = pytest.mark.acceptance

INNOCENT = "FGHIJ"
INNOCENT_CALLERS = ("scan:digest:2026-11", "pool", "listener", "basket", "statistics")
"""Those of them that stay to the end."""

ON_RECORD = r"On record: [67] acts in the armed round \(A, (B, )?C, D, E, E, E\); [67] of these queries ended\."
"""B is over a tenth of a second after its caller's death: sometimes the watchdog is as quick."""

ORPHANS = ("checkout", "gateway", "scan:threads:2026-11")


def descendants(folder: Path) -> list[int]:
    """Every process that has something to do with `folder`: the server, and callers of it."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and int(each.name) != os.getpid():
            try:
                line = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                home = (each / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line or f"TMPDIR={folder}" in home:
                found.append(int(each.name))
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_demo_tells_every_story_in_both_rounds_and_leaves_nothing_behind(public_folder: Path) -> None:
    with demo(public_folder) as process:
        text = read_until(process, LAST_LINE)
        assert process.wait(timeout=30) == 0
    rows = table(text)
    assert sorted(rows) == list("ABCDEFGHIJK")
    assert len(rows["E"]) == 3
    for row in (*rows["A"], *rows["D"], *rows["E"]):
        assert_ended_when_armed(row)
    for name, evidence in (("A", "client gone"), ("D", "over budget"), ("E", "client gone")):
        assert all(evidence in row.evidence for row in rows[name])
    [killed] = rows["A"]
    assert float(killed.orphan.split()[1]) < 6, "its socket tells before its budget is over"
    for name in INNOCENT:
        [row] = rows[name]
        assert (row.orphan, row.evidence, row.done) == ("nearing" if name == "F" else "no", "-", "-")
    assert_ended_by_the_server_alone(rows)
    assert_left_alone_as_a_writer(rows["K"], text)
    assert_as_summed_up(text)
    until(lambda: not descendants(public_folder), timeout=30, what="the end of every process")
    assert list(public_folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_a_demo_that_is_interrupted_or_killed_leaves_nothing_behind(
    public_folder: Path, number: signal.Signals
) -> None:
    with demo(public_folder) as process:
        read_until(process, "client killed, server as it comes")
        assert_ends_without_a_trace(process, public_folder, number)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name)
def test_a_demo_that_is_interrupted_or_killed_in_its_armed_round_leaves_nothing_behind(
    public_folder: Path, number: signal.Signals
) -> None:
    with demo(public_folder) as process:
        read_until(process, SECOND_ROUND)
        read_until(process, "cancelled (")
        assert_ends_without_a_trace(process, public_folder, number)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_armed_it_ends_every_orphan_soon_and_touches_nobody_else_and_stays_up_in_dry_run(public_folder: Path) -> None:
    with demo(public_folder, "--keep") as process:
        text = read_until(process, "pgwatchdog history -c")
        dry_run, armed = rounds(text)
        for application in ORPHANS:
            named, ended = (when(armed, application, news) for news in ("orphan", "the work has ended"))
            assert len(named) == len(ended)
            assert all(-1 < over - at < 4 for at, over in zip(named, ended, strict=True)), application
        for application in INNOCENT_CALLERS:
            assert when(dry_run, application, "the caller has had what it wanted"), application
            assert when(armed, application, "the caller has had what it wanted"), application
        assert "has failed" not in text
        assert "would be cancelled" not in armed
        assert re.search(ON_RECORD, text)
        assert_the_ledger_knows_orphans_alone(public_folder)
        shown = command("history", "-c", text.rpartition("pgwatchdog history -c ")[2].strip(), "--format", "json")
        assert shown.returncode == 0
        assert len(shown.stdout.splitlines()) in {6, 7}
        assert_it_reports_only(re.findall(r"http://127\.0\.0\.1:\d+/", text)[-1])
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert time.monotonic() - begun < 30
    until(lambda: not descendants(public_folder), timeout=30, what="the end of every process")


def assert_ended_when_armed(row: Row) -> None:
    assert row.dry_run is not None
    assert row.armed is not None
    assert row.armed < 8
    assert row.armed < row.dry_run
    named, cancelled = (float(re.findall(r"at (\d+\.\d) s", cell)[0]) for cell in (row.orphan, row.done))
    assert row.done.startswith("cancelled at")
    assert abs(named - cancelled) < 4, "a key whose work came back rests for a second before it is taken again"
    assert row.log == "nothing; armed: canceling statement due to user request"


def assert_ended_by_the_server_alone(rows: dict[str, list[Row]]) -> None:
    [checked], [limited] = rows["B"], rows["C"]
    assert "connection to client lost" in checked.log
    assert limited.log.startswith("canceling statement due to statement timeout")
    assert float(limited.done.removeprefix("cancelled at ").split()[0]) < 5, "armed, it is ended before its timeout"
    for seconds in (checked.dry_run, checked.armed, limited.dry_run, limited.armed):
        assert seconds is not None
        assert seconds < 5


def assert_left_alone_as_a_writer(rows: list[Row], text: str) -> None:
    [row] = rows
    assert (row.done, row.log) == ("left alone: writer", "nothing")
    assert "client gone" in row.evidence
    for seconds in (row.dry_run, row.armed):
        assert seconds is not None
        assert seconds > 8
    for live in rounds(text):
        assert when(live, "receipts", "left alone: writer")


def assert_as_summed_up(text: str) -> None:
    wasted = [int(each) for each in re.findall(r"[78] orphans, (\d+) s of work for nobody", text)]
    after = [float(each) for each in re.findall(r"the last orphan was gone (\d+\.\d) s after the last caller", text)]
    assert wasted[1] < wasted[0] * 0.75
    assert after[1] < 8 < after[0]
    assert "superseded" in text
    assert re.search(ON_RECORD, text)
    assert re.search(r"Left alone: K \(writer\)\. Not touched: (B, )?F, G, H, I, J\.", text)


def assert_ends_without_a_trace(process: "subprocess.Popen[str]", folder: Path, number: signal.Signals) -> None:
    assert len(descendants(folder)) > 5
    process.send_signal(number)
    code = process.wait(timeout=40)
    assert code == (-9 if number is signal.SIGKILL else 130)
    until(lambda: not descendants(folder), timeout=50, what="the end of every process")
    until(lambda: not list(folder.iterdir()), timeout=30, what="the removal of its folder")


def assert_the_ledger_knows_orphans_alone(folder: Path) -> None:
    """Six acts or seven, by role and job; whose sessions of web_app these were, the demo itself says by their pids."""
    [ledger] = folder.glob("*/ledger.db")
    store = Store(f"sqlite:///{ledger}")
    acts = store.history(Wanted())
    store.close()
    about = sorted((act["role"], act["job"] or "") for act in acts)
    assert about[:3] == [("etl_app", "threads")] * 3
    assert about[3:] in ([("web_app", "")] * 3, [("web_app", "")] * 4)
    assert {(act["hand"], act["kind"], act["result"]) for act in acts} == {("signal", "orphan", "signalled")}
    assert {act["outcome"] for act in acts} <= {"ended", "between_statements"}
    for act in acts:
        assert "client_gone" in act["evidence"] or act["running_seconds"] >= act["budget_seconds"] + 1


def assert_it_reports_only(address: str) -> None:
    until(lambda: get_json(f"{address}api/v1/findings")["clusters"][0]["read"], what="the first look")
    metrics = samples(get(f"{address}metrics").text)
    assert metrics['pgwatchdog_can_cancel{server="demo"}'] == 1
    assert metrics['pgwatchdog_enforcing{server="demo"}'] == 0
