"""The demo, as a newcomer meets it: its table, and that nothing is left behind however it ends."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from support.demos import LAST_LINE, SECOND_ROUND, Row, demo, public_directory, read_until, rounds, table, when
from support.processes import command, get, get_json, samples
from support.servers import until

from watchdog.core.chain.chain import Chain, Layer
from watchdog.core.chain.ladder import play as climbed
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


@dataclass(frozen=True, slots=True)
class Play:
    """A demo that has played both rounds, the folder that it works in, and what it has printed."""

    process: "subprocess.Popen[str]"
    folder: Path
    text: str


@pytest.fixture(scope="module")
def plays() -> Iterator[tuple[Play, Play]]:
    """A demo that ends by itself and one that stays up, played side by side because a play is mostly waiting."""
    # The demos end before the pool, so that its threads have nothing more to read.
    with (
        ThreadPoolExecutor(2) as pool,
        public_directory() as one,
        public_directory() as other,
        demo(one) as ending,
        demo(other, "--keep") as staying,
    ):
        read = pool.map(read_until, (ending, staying), (LAST_LINE, "pgwatchdog history -c"))
        text, text_of_staying = read
        yield Play(ending, one, text), Play(staying, other, text_of_staying)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("plays")
def test_the_demo_tells_every_story_in_both_rounds_and_leaves_nothing_behind(plays: tuple[Play, Play]) -> None:
    play, _ = plays
    assert play.process.wait(timeout=30) == 0
    text = play.text
    rows = table(text)
    assert sorted(rows) == list("ABCDEFGHIJK")
    assert len(rows["E"]) == 3
    for row in (*rows["A"], *rows["D"], *rows["E"]):
        assert_ended_when_armed(row)
    ladder = Chain((Layer(name="caller", attempts=3, timeout=timedelta(seconds=4)),), timedelta(seconds=18))
    for_nobody = sum(row.dry_run or 0.0 for row in rows["E"])
    assert for_nobody == pytest.approx(climbed(ladder).for_nobody.total_seconds(), rel=0.1), "as `chain` predicts"
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
    until(lambda: not descendants(play.folder), timeout=30, what="the end of every process")
    assert list(play.folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_demo_that_is_interrupted_or_killed_leaves_nothing_behind() -> None:
    assert_each_ends_without_a_trace(
        signal.SIGINT, signal.SIGTERM, signal.SIGKILL, after=("client killed, server as it comes",)
    )


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_demo_that_is_interrupted_or_killed_in_its_armed_round_leaves_nothing_behind() -> None:
    assert_each_ends_without_a_trace(signal.SIGINT, signal.SIGKILL, after=(SECOND_ROUND, "cancelled ("))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("plays")
def test_armed_it_ends_every_orphan_soon_and_touches_nobody_else_and_stays_up_in_dry_run(
    plays: tuple[Play, Play],
) -> None:
    _, play = plays
    text = play.text
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
    assert_the_ledger_knows_orphans_alone(play.folder)
    shown = command("history", "-c", text.rpartition("pgwatchdog history -c ")[2].strip(), "--format", "json")
    assert shown.returncode == 0
    assert len(shown.stdout.splitlines()) in {6, 7}
    assert_it_reports_only(re.findall(r"http://127\.0\.0\.1:\d+/", text)[-1])
    begun = time.monotonic()
    play.process.send_signal(signal.SIGINT)
    assert play.process.wait(timeout=30) == 130
    assert time.monotonic() - begun < 30
    until(lambda: not descendants(play.folder), timeout=30, what="the end of every process")


def assert_ended_when_armed(row: Row) -> None:
    assert row.dry_run is not None
    assert row.armed is not None
    assert row.armed < 8
    assert row.armed < row.dry_run
    named, cancelled = (float(re.findall(r"at (\d+\.\d) s", cell)[0]) for cell in (row.orphan, row.done))
    assert row.done.startswith("cancelled at")
    assert abs(named - cancelled) < 8, "a key whose work came back rests for a second before it is taken again"
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


def assert_each_ends_without_a_trace(*numbers: signal.Signals, after: tuple[str, ...]) -> None:
    """Play a demo for each signal, side by side, and send the signal once it has printed the lines `after`."""
    failures = []
    # The demos end before the pool, as in `plays`.
    with ThreadPoolExecutor(len(numbers)) as pool, ExitStack() as stack:
        ending = {}
        for number in numbers:
            folder = stack.enter_context(public_directory())
            process = stack.enter_context(demo(folder))
            ending[number] = pool.submit(assert_ends_without_a_trace, process, folder, number, after=after)
        for number, each in ending.items():
            error = each.exception()
            if isinstance(error, Exception):
                error.add_note(f"this demo was ended by {number.name}")
                failures.append(error)
    if failures:
        raise ExceptionGroup("not every demo has ended as it should", failures)


def assert_ends_without_a_trace(
    process: "subprocess.Popen[str]", folder: Path, number: signal.Signals, *, after: tuple[str, ...]
) -> None:
    for line in after:
        read_until(process, line)
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
