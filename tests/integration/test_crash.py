"""Killed at any moment: what the server did is on record, nothing is done twice, and what is unknown is called so."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.crashing import (
    NOT_SIGNALLED,
    POINTS,
    Lane,
    Performed,
    integrity,
    lane,
    performed,
    statements_logged,
)
from support.servers import TestServer, make_server, until

from watchdog.demo.guardian import Guardian

KILLS = int(os.environ.get("PGWATCHDOG_TEST_KILLS", "20"))
LANES = 4
LEAVING_OPEN = ("after_intent", "before_signal", "after_signal", "before_outcome")
TRIES = 3
SECONDS_A_KILL = 20
"""Far more than one kill takes, also on a machine with other things to do."""


@pytest.fixture(scope="module")
def arena(guardian: Guardian) -> Iterator[TestServer]:
    """A server of its own: its log is the truth, and nobody else's acts are in it."""
    server = make_server(guardian=guardian)
    server.create_database("ledger", "OWNER canceller")
    yield server
    server.embedded.stop()


@dataclass(frozen=True, slots=True)
class Truth:
    """A lane's record beside what the server and the callers say."""

    lane: Lane
    said: Performed

    def check(self) -> None:
        acts = {str(row["id"]): row for row in self.lane.acts()}
        mine = {act: number for act, number in self.said.sent.items() if act in acts}
        assert max(mine.values(), default=0) <= 1, "one act, one signal"
        signalled = {act for act, row in acts.items() if row["result"] == "signalled"}
        assert signalled <= mine.keys(), "what is said to be signalled was sent"
        withheld = {act for act, row in acts.items() if row["result"] == "not_tried"}
        assert not withheld & mine.keys(), "what is said not to be tried was not sent"
        possible = Counter(int(row["pid"]) for act, row in acts.items() if act in mine)
        for pid, number in self.lane.callers.cancelled.items():
            assert number <= possible[pid], f"{number} cancels of {pid}, {possible[pid]} acts on record"
        tried = Counter((row["pid"], row["run_start"]) for row in acts.values() if row["result"] not in NOT_SIGNALLED)
        assert max(tried.values(), default=0) <= TRIES
        assert max((row["attempt"] for row in acts.values()), default=0) <= TRIES
        assert integrity(self.lane.url) == "ok"


def run_through(one: Lane, points: list[str], *, seed: int) -> dict[str, int]:
    """Kill the lane's daemon at each point in turn; at the end one that lives. How many acts each kill left open."""
    rng = random.Random(seed)
    left: set[str] = set()
    opened: Counter[str] = Counter()
    for point in points:
        before = {str(row["id"]) for row in one.acts()} if one.starts else set()
        if point == "random":
            with one.daemon() as daemon:
                daemon.wait_for("cluster_read")
                time.sleep(rng.uniform(0.0, 3.5))  # the moment is what is tried out
        else:
            with one.daemon(point, count=rng.choice([1, 1, 2])) as daemon:
                assert daemon.wait() == -signal.SIGKILL, daemon.end_of_log
            assert not left & one.open_acts(), "the start after a kill closes what it left open"
            left.clear()
        fresh = {act for act in one.open_acts() if act not in before}
        opened[point] += len(fresh)
        left |= fresh
    with one.daemon() as daemon:
        until(lambda: not left & one.open_acts(), what="an outcome of everything that was left open")
        daemon.wait_for("listening")
        daemon.send(signal.SIGTERM)
        assert daemon.wait() == 0, daemon.end_of_log
    assert not [line for line in _logs(one) if '"internal_error"' in line]
    return dict(opened)


def _logs(one: Lane) -> list[str]:
    return [line for file in one.folder.glob("daemon-*.log") for line in file.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(120 + KILLS * SECONDS_A_KILL)
def test_a_daemon_that_is_killed_again_and_again_has_on_record_all_that_the_server_did(
    arena: TestServer, guardian: Guardian, tmp_path: Path
) -> None:
    points = [(*POINTS, "random", "random")[number % 8] for number in range(KILLS)]
    shuffled = random.Random(KILLS).sample(points, KILLS)
    with ExitStack() as stack:
        since = stack.enter_context(statements_logged(arena))
        urls = [None] * (LANES - 1) + [
            f"postgresql://canceller:{arena.embedded.password}@127.0.0.1:{arena.embedded.port}/ledger"
        ]
        lanes = [
            stack.enter_context(lane(arena, guardian, folder=tmp_path / f"lane{n}", name=f"lane{n}", url=url))
            for n, url in enumerate(urls)
        ]
        with ThreadPoolExecutor(LANES) as pool:
            running = [pool.submit(run_through, one, shuffled[n::LANES], seed=n) for n, one in enumerate(lanes)]
            opened = sum((Counter(each.result()) for each in running), Counter[str]())
        said = performed(arena, since=since)
        for one in lanes:
            Truth(one, said).check()
        acts = {str(row["id"]): row for one in lanes for row in one.acts()}
        assert said.sent.keys() <= acts.keys(), "every act that reached the server has its intent on record"
        victims = {int(row["pid"]) for row in acts.values()}
        assert said.cancelled.keys() <= victims, "nobody was cancelled who is not on record"
        unsent = {act for act, row in acts.items() if act not in said.sent}
        unanswered = {act for act, row in acts.items() if act in said.sent and row["result"] is None}
        print(f"{KILLS} kills, {len(acts)} acts, {len(unsent)} never sent, {len(unanswered)} sent without an answer")
        assert min(opened[point] for point in LEAVING_OPEN) > 0, "these points leave acts open"
        assert unsent, "some were killed between intent and signal"
        assert unanswered, "some were killed between signal and answer"
        assert sum(said.cancelled.values()) >= KILLS / 2, "there was something to be killed in"
