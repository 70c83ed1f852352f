"""When a spike becomes permanent: (R + 1)·rho, and the published simulation."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chains import AS_DEPLOYED, READ_TIMEOUT, SCHEDULER_RETRIES, minutes

from watchdog.cli.drawing import spike_text
from watchdog.core.chain.chain import ZERO, Chain, Layer
from watchdog.core.chain.loop import Course, Loop, Remedy, Spike, loop_of, simulate, spike_of

HALF_HOUR = minutes(30)
EIGHT_HOURS = timedelta(hours=8)


def served(course: Course, half_hour: int) -> int:
    return course.served_between(half_hour * HALF_HOUR, (half_hour + 1) * HALF_HOUR)


def test_orphans_and_retries_never_recover_and_pile_up_past_140() -> None:
    course = simulate(Spike(), Remedy.NONE)
    assert not course.recovered
    assert course.in_flight[-1] > 140
    assert [served(course, number) for number in range(16)] == [3, 3, *[0] * 14]


def test_cancelling_on_give_up_bounds_the_pile_and_does_not_end_the_loop() -> None:
    course = simulate(Spike(), Remedy.CANCEL)
    spike = Spike()
    assert spike.patience is not None
    assert set(course.in_flight[24:]) == {6} == {spike.patience / spike.period * (spike.retries + 1)}  # Little's law
    assert not course.recovered
    assert course.served_between(timedelta(hours=1), EIGHT_HOURS) == 0


def test_without_retries_full_throughput_is_back_in_the_next_half_hour() -> None:
    course = simulate(Spike(), Remedy.NO_RETRIES)
    assert course.recovered
    assert [served(course, number) for number in range(1, 6)] == [3, 0, 3, 3, 3]
    assert course.in_flight[-1] == 0


def test_a_retry_budget_lets_one_retry_through_and_recovers() -> None:
    course = simulate(Spike(), Remedy.RETRY_BUDGET)
    assert (course.retries, course.recovered) == (1, True)
    assert {served(course, number) for number in range(4, 16)} == {3}


@pytest.mark.parametrize("percent", range(35, 95, 5))
def test_who_recovers_over_the_sweep_of_utilisation(percent: int) -> None:
    """The work stays at 5 min and the period makes the utilisation; recovery is asked for within the eight hours."""
    spike = replace(Spike(), period=Spike().work / (percent / 100))
    recovered = {remedy for remedy in Remedy if simulate(spike, remedy).recovered}
    budget = {Remedy.RETRY_BUDGET} if percent < 90 else set()
    assert recovered == {Remedy.NO_RETRIES} | budget


def test_a_budget_of_a_tenth_caps_the_load_so_that_even_at_0_9_it_only_takes_longer() -> None:
    """(1 + 0.1)·0.9 is 0.99: below 1, so that the loop ends, but a day and a half later."""
    spike = replace(Spike(), period=Spike().work / 0.9, lasting=timedelta(hours=48))
    course = simulate(spike, Remedy.RETRY_BUDGET)
    assert course.recovered
    assert timedelta(hours=24) < course.given_up[-1] < timedelta(hours=36)


def test_below_a_load_of_1_the_spike_passes_under_every_remedy() -> None:
    spike = replace(Spike(), period=minutes(25))
    assert all(simulate(spike, remedy).recovered for remedy in Remedy)


def test_without_a_trigger_nothing_goes_wrong_at_a_load_of_2() -> None:
    course = simulate(replace(Spike(), extra=0), Remedy.NONE)
    assert (course.given_up, course.retries, course.recovered) == ((), 0, True)
    assert len(course.served) == 48


def test_callers_without_a_timeout_never_give_up() -> None:
    assert simulate(replace(Spike(), patience=None), Remedy.NONE).given_up == ()


@pytest.mark.parametrize(
    ("copies", "utilisation", "feeds"), [(4, 0.25, False), (4, 0.26, True), (1, 1.0, False), (1, 1.1, True)]
)
def test_with_three_retries_anything_above_a_quarter_is_vulnerable(
    copies: int,
    utilisation: float,
    feeds: bool,  # noqa: FBT001  # a column of the table
) -> None:
    assert Loop(copies, utilisation).feeds_itself is feeds


def test_a_chain_s_retries_are_those_that_time_lets_through() -> None:
    for chain, copies in ((AS_DEPLOYED, 1), (READ_TIMEOUT, 2), (SCHEDULER_RETRIES, 14)):
        loop = loop_of(replace(chain, period=minutes(65)))
        assert loop is not None
        assert (loop.copies, loop.load) == (copies, copies * 0.5)
    assert loop_of(AS_DEPLOYED) is None


def test_a_chain_s_own_spike_has_its_period_its_work_and_its_callers_patience() -> None:
    app = Layer(name="app", attempts=4, timeout=minutes(15))
    chain = Chain((app,), minutes(5), period=minutes(10))
    assert spike_of(chain) == Spike()
    bounded = spike_of(replace(chain, statement_timeout=minutes(14)))
    assert bounded is not None
    assert bounded.patience == minutes(14)
    assert spike_of(replace(chain, period=None)) is None
    forever = spike_of(replace(chain, layers=(Layer(name="app", attempts=4),)))
    assert forever is not None
    assert (forever.patience, forever.retries) == (None, 0)


def test_the_plot_says_who_recovers_and_where_no_remedy_can_help() -> None:
    spike = Spike()
    text = spike_text(spike, [simulate(spike, remedy) for remedy in Remedy])
    assert "orphans, retries  not recovered after 8h" in text
    assert "orphans, no retries  recovers: nobody gives up after 1h 35m" in text
    assert "no remedy changes that" not in text
    assert max(len(line) for line in text.splitlines()) <= 100
    hopeless = replace(spike, work=minutes(20), period=minutes(40))
    assert "no remedy changes that" in spike_text(hopeless, [simulate(hopeless, Remedy.NONE)])


SPIKES = st.builds(
    Spike,
    period=st.integers(4, 30).map(minutes),
    work=st.integers(1, 20).map(minutes),
    patience=st.integers(1, 40).map(minutes),
    retries=st.integers(0, 4),
    extra=st.integers(0, 5),
)


@given(SPIKES, st.sampled_from(Remedy))
def test_no_simulation_makes_more_work_than_the_resource_or_more_retries_than_allowed(
    spike: Spike, remedy: Remedy
) -> None:
    course = simulate(spike, remedy)
    runs = -(-spike.lasting // spike.period) + spike.extra
    assert len(course.served) * spike.work <= spike.lasting
    assert course.retries <= runs * spike.retries
    assert len(course.in_flight) == 49
    assert sorted(course.served) == list(course.served)
    assert all(ZERO <= moment <= spike.lasting for moment in (*course.served, *course.given_up))
    if remedy is Remedy.NO_RETRIES:
        assert course.retries == 0
    if remedy is Remedy.CANCEL and spike.patience is not None:
        assert max(course.in_flight) <= runs
