import random
from datetime import timedelta

import pytest
from support.builders import book, rule, seconds

from watchdog.core.look import Reason
from watchdog.runtime.timetable import Appointment, following_tick, interval_in_force, next_look, pause_after


@pytest.mark.parametrize(
    ("configured", "smallest", "expected"), [(5, 30, 5), (5, 2, 2), (5, 0.2, 1), (60, 30, 30), (1, 30, 1)]
)
def test_the_interval_is_never_longer_than_the_smallest_budget_nor_shorter_than_a_second(
    configured: float, smallest: float, expected: float
) -> None:
    budgets = book(rule(), roles={"web_app": smallest}, grace=0)
    assert interval_in_force(seconds(configured), book=budgets) == seconds(expected)


def test_without_budgets_the_configured_interval_stands() -> None:
    assert interval_in_force(seconds(7), book=book(roles={})) == seconds(7)


def waits(*values: float) -> list[timedelta]:
    return [seconds(value) for value in values]


def test_without_a_crossing_the_next_look_is_the_tick() -> None:
    assert next_look(recent=[10], next_tick=15, crossings=[]) == Appointment(15, tick=True)


def test_a_crossing_before_the_tick_has_a_look_of_its_own() -> None:
    assert next_look(recent=[10], next_tick=15, crossings=waits(2)) == Appointment(12, tick=False)


def test_a_crossing_after_the_tick_waits_for_the_look_that_sees_it_again() -> None:
    assert next_look(recent=[10], next_tick=15, crossings=waits(7)) == Appointment(15, tick=True)


def test_crossings_within_40_ms_share_a_look() -> None:
    assert next_look(recent=[10], next_tick=15, crossings=waits(2, 2.03, 2.04, 2.2)).at == pytest.approx(12.04)


def test_there_are_at_most_ten_looks_in_any_second() -> None:
    recent = [10 + i / 100 for i in range(10)]
    assert next_look(recent=recent, next_tick=15, crossings=waits(0.05)).at == pytest.approx(11)
    assert next_look(recent=recent[1:], next_tick=15, crossings=waits(0.05)).at == pytest.approx(10.14)
    assert next_look(recent=[10], next_tick=15, crossings=waits(0.0)).at == pytest.approx(10.01)


def test_missed_ticks_are_left_out() -> None:
    assert following_tick(10, interval=5, now=10.2) == 15
    assert following_tick(10, interval=5, now=31) == 35


def test_pauses_grow_under_full_jitter_and_have_a_ceiling() -> None:
    rng = random.Random(1)
    pauses = {
        n: [pause_after(Reason.UNREACHABLE, failures=n, interval=5, rng=rng) for _ in range(500)] for n in (1, 2, 3, 50)
    }
    assert max(pauses[1]) <= 5 < max(pauses[2]) <= 10 < max(pauses[3]) <= 20
    assert 25 < max(pauses[50]) <= 30
    assert min(pauses[50]) < 3, "jitter is full: some come back at once, so that they do not march in step"


def test_a_refused_password_is_tried_again_slowly() -> None:
    rng = random.Random(1)
    assert min(pause_after(Reason.AUTHENTICATION, failures=1, interval=1, rng=rng) for _ in range(100)) >= 30
