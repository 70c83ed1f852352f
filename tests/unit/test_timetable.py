import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import NOW, book, rule, seconds

from watchdog.core.observed.reasons import Reason
from watchdog.runtime.timetable import (
    Appointment,
    Readings,
    following_tick,
    interval_in_force,
    next_look,
    pause_after,
)


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


def planned(recent: list[float], *, crossings: list[timedelta]) -> Appointment:
    """The look after `recent`, each of which came in at once; the next tick is at 15."""
    return next_look(recent=recent, placed_at=recent[-1], next_tick=15, crossings=crossings)


def test_without_a_crossing_the_next_look_is_the_tick() -> None:
    assert planned([10], crossings=[]) == Appointment(15, tick=True)


def test_a_crossing_before_the_tick_has_a_look_of_its_own() -> None:
    assert planned([10], crossings=waits(2)) == Appointment(12, tick=False)


def test_a_crossing_after_the_tick_waits_for_the_look_that_sees_it_again() -> None:
    assert planned([10], crossings=waits(7)) == Appointment(15, tick=True)


def test_crossings_within_40_ms_share_a_look() -> None:
    assert planned([10], crossings=waits(2, 2.03, 2.04, 2.2)).at == pytest.approx(12.04)


def test_there_are_at_most_ten_looks_in_any_second() -> None:
    recent = [10 + i / 100 for i in range(10)]
    assert planned(recent, crossings=waits(0.05)).at == pytest.approx(11)
    assert planned(recent[1:], crossings=waits(0.05)).at == pytest.approx(10.14)
    assert planned([10], crossings=waits(0.0)).at == pytest.approx(10.01)


def test_crossings_count_from_when_the_clock_was_read_not_from_when_the_answer_came() -> None:
    assert next_look(recent=[10.5], placed_at=10.1, next_tick=15, crossings=waits(2)).at == pytest.approx(12.1)


def placed(ways: list[tuple[float, float]], *, skew: float = 1000.0, step_after: int | None = None) -> list[float]:
    """Where readings that need so long to get there and back are placed, past the true moment; one every 5 s."""
    readings, found = Readings(), []
    for number, (there, back) in enumerate(ways):
        asked_at = 5.0 * number
        moved = 60.0 if step_after is not None and number > step_after else 0.0
        at = NOW + seconds(skew + moved + asked_at + there)
        moment = readings.place(at, asked_at=asked_at, read_at=asked_at + there + back)
        found.append(moment - (asked_at + there))
    return found


def test_a_reading_is_placed_behind_the_asking_by_what_it_took_longer_than_the_quickest() -> None:
    errors = placed([(0.002, 0.003), (0.001, 0.003), (0.004, 0.003), (0.001, 0.2)])
    assert errors == pytest.approx([-0.002, -0.001, -0.001, -0.001], abs=1e-5)


@given(st.lists(st.tuples(st.floats(0, 0.1), st.floats(0, 0.1)), min_size=2, max_size=30))
def test_asking_again_at_the_crossing_comes_no_earlier_than_it_as_long_as_the_way_is_no_quicker_than_before(
    ways: list[tuple[float, float]],
) -> None:
    quickest = [min(there for there, _ in ways[max(0, n - 9) : n + 1]) for n in range(len(ways))]
    assert all(
        -way - 1e-5 <= error <= back + 1e-5 for error, way, (_, back) in zip(placed(ways), quickest, ways, strict=True)
    )


def test_a_clock_that_is_set_moves_nothing_beyond_the_answer_and_is_forgotten_within_ten_looks() -> None:
    ways = [(0.001, 0.003)] * 30
    assert max(map(abs, placed(ways, step_after=5))) < 0.0035
    assert placed(ways, step_after=5)[16:] == pytest.approx([-0.001] * 14, abs=1e-5)


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
