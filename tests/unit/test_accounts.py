"""Seconds of work, copies and windows begun: nothing counted twice, nothing invented."""

from datetime import timedelta

from support.builders import BOOT, NOW, backend, book, census, judge_settings, seconds, snapshot

from watchdog.core.judging.accounts import CounterIncrements
from watchdog.core.judging.judge import Memory, judge


class Days:
    """Looks one after the other at a cluster, `step` seconds apart."""

    def __init__(self, *, interval: float = 5.0) -> None:
        self.at = NOW
        self.memory = Memory()
        self.judge_settings = judge_settings(book(roles={"web_app": 30, "etl_app": 900}), interval=interval)

    def look(
        self, *rows: dict[str, object], after: float = 5.0, tick: bool = True, boot: float = 0.0
    ) -> CounterIncrements:
        self.at += seconds(after)
        connected = {"started": 100_000 + (self.at - NOW).total_seconds()}
        backends = [backend(now=self.at, **{"query": 1.0, **connected, **row}) for row in rows]  # type: ignore[arg-type]  # columns
        seen = snapshot(*backends, at=self.at, boot=BOOT + seconds(boot))
        judgement, self.memory = judge(
            seen, settings=self.judge_settings, census=census(), memory=self.memory, tick=tick
        )
        return judgement.increments


def web(increments: CounterIncrements) -> tuple[float, float]:
    worker = ("web_app", "")
    zero = timedelta(0)
    return increments.running.get(worker, zero).total_seconds(), increments.orphaned.get(worker, zero).total_seconds()


def test_the_first_tick_has_nothing_to_add() -> None:
    assert web(Days().look({})) == (0, 0)


def test_a_tick_adds_running_rows_times_the_time_since_the_tick_before() -> None:
    days = Days()
    days.look()
    assert web(days.look({"pid": 1}, {"pid": 2})) == (10, 0)


def test_a_look_at_a_crossing_adds_nothing_because_it_happens_where_an_orphan_is() -> None:
    days = Days()
    days.look()
    assert web(days.look({"query": 40}, after=2, tick=False)) == (0, 0)
    assert web(days.look({"query": 43}, after=3)) == (5, 5)


def test_only_work_past_the_end_of_the_budget_is_for_nobody() -> None:
    days = Days()
    days.look()
    assert web(days.look({"pid": 1, "query": 32}, {"pid": 2, "query": 29})) == (10, 5)


def test_the_samples_add_up_to_the_truth_over_many_runs() -> None:
    """Runs of 40 s under a budget of 30 s, begun at every phase of the tick: a quarter is for nobody."""
    running = orphaned = 0.0
    for phase in range(50):
        days = Days()
        days.look()
        for tick in range(20):
            age = tick * 5 + phase / 10
            row: dict[str, object] = {"query": age}
            seconds_of = web(days.look(*([row] if age <= 40 else [])))
            running, orphaned = running + seconds_of[0], orphaned + seconds_of[1]
    assert abs(running / 50 - 40) < 0.5
    assert abs(orphaned / 50 - 10) < 0.5


def test_a_gap_adds_two_intervals_at_most() -> None:
    days = Days()
    days.look()
    assert web(days.look({"query": 1000}, after=600)) == (10, 10)


def test_a_restarted_server_begins_anew() -> None:
    days = Days()
    days.look()
    assert web(days.look({"pid": 1}, boot=60)) == (0, 0)


def test_one_worker_with_many_statements_is_one_copy_also_across_idle_looks() -> None:
    days = Days()
    days.look()
    key: dict[str, object] = {"pid": 9, "name": "scan:a:w1", "role": "etl_app"}
    started = [days.look(*([key] if i % 3 else [])) for i in range(200)]
    assert sum(each.copies_started.get("a", 0) for each in started) == 1
    assert sum(each.windows_started.get("a", 0) for each in started) == 1


def test_a_retry_is_a_second_copy_of_the_same_window() -> None:
    days = Days()
    days.look()
    first: dict[str, object] = {"pid": 1, "name": "scan:a:w1", "role": "etl_app"}
    days.look(first)
    retry = days.look(first, {**first, "pid": 2})
    assert (retry.copies_started, retry.windows_started) == ({"a": 1}, {})


def test_a_reused_pid_and_a_renamed_session_begin_to_carry_a_key() -> None:
    days = Days()
    days.look()
    key: dict[str, object] = {"pid": 1, "name": "scan:a:w1", "role": "etl_app", "started": 100.0}
    days.look(key)
    assert days.look({**key, "started": 3.0}).copies_started == {"a": 1}
    assert days.look({**key, "started": 8.0, "name": "scan:a:w2"}).copies_started == {"a": 1}


def test_what_ran_before_the_first_look_is_taken_stock_of_and_not_counted_as_begun() -> None:
    days = Days()
    key: dict[str, object] = {"pid": 1, "name": "scan:a:w1", "role": "etl_app"}
    assert days.look(key).copies_started == {}
    assert days.look({**key, "pid": 2}).copies_started == {"a": 1}


def test_what_was_not_seen_for_an_hour_is_forgotten() -> None:
    days = Days()
    days.look()
    days.look({"pid": 1, "name": "scan:a:w1", "role": "etl_app"})
    days.look(after=3700)
    assert days.memory.accounts.sessions == {}
    assert days.memory.accounts.windows == {}
