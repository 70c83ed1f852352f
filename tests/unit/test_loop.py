"""When a spike becomes permanent: (R + 1)·rho, and the published simulation."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chains import AS_DEPLOYED, READ_TIMEOUT, SCHEDULER_RETRIES, minutes

from watchdog.cli.chain import json_of, text_of
from watchdog.cli.drawing import spike_text
from watchdog.core.chain.chain import ZERO, Chain, Layer
from watchdog.core.chain.layers import KNOWN
from watchdog.core.chain.loop import MAX_EVENTS, Course, Loop, Remedy, Spike, loop_of, simulate, spike_of
from watchdog.settings.chain import MAX_LAYERS, ChainSection, chain_of

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
    assert len(course.started) == runs + course.retries
    assert sorted(course.served) == list(course.served)
    assert all(ZERO <= moment <= spike.lasting for moment in (*course.served, *course.given_up))
    if remedy is Remedy.NO_RETRIES:
        assert course.retries == 0
    if remedy is Remedy.CANCEL and spike.patience is not None:
        assert course.most <= runs


def test_the_most_in_flight_counts_copies_that_run_only_between_the_samples() -> None:
    """Each of the 5 runs at 1:00 makes two attempts of 1 min, so no copy is left at the end of the period."""
    spike = replace(Spike(), patience=minutes(1), retries=1)
    course = simulate(spike, Remedy.CANCEL)
    assert (set(course.in_flight), course.most) == ({0}, 5)
    assert course.peaks == (1, 1, 1, 1, 1, 1, 5, *[1] * 41)


def test_a_copy_that_starts_when_another_ends_does_not_overlap_it() -> None:
    course = simulate(replace(Spike(), work=minutes(10), extra=0, patience=None), Remedy.NONE)
    assert (course.most, course.at_end, len(course.served)) == (1, 1, 47)


def test_without_an_answer_and_without_a_caller_that_gives_up_nothing_is_said_of_a_recovery() -> None:
    spike = replace(Spike(), work=timedelta(days=1), patience=timedelta(days=1))
    course = simulate(spike, Remedy.NONE)
    assert (course.recovered, course.most, course.at_end) == (None, 52, 52)
    assert "no run completed within 8h, and nobody gave up; none answered" in spike_text(spike, [course])


def test_a_simulation_that_reaches_the_bound_of_events_stops_and_says_when() -> None:
    layers = [{"name": "outer", "attempts": 1000}, {"name": "inner", "attempts": 10, "timeout": "1ms"}]
    chain = chain_of(ChainSection.model_validate({"work": "1d", "period": "10min", "layers": layers}))
    spike = spike_of(chain)
    assert spike is not None
    course = simulate(spike, Remedy.NONE)
    assert course.stopped is not None
    assert len(course.started) - course.retries + len(course.ended) + len(course.given_up) == MAX_EVENTS
    assert (course.recovered, course.at_end, len(course.in_flight), len(course.peaks)) == (None, None, 7, 7)
    assert course.most == len(course.started) == course.in_flight[-1] + course.peaks[-1] - course.peaks[-2]
    text = spike_text(spike, [course])
    assert re.search(rf"  [▁-█]{{7}} {{41}}  +{course.most} +-$", text, re.MULTILINE)
    assert f"unknown after 1h of 8h: stopped at {MAX_EVENTS} events; none answered in time" in text


LENGTHS = st.builds("{}{}".format, st.integers(1, 3650), st.sampled_from(["ms", "s", "min", "h", "d"]))
EXTREMES = st.sampled_from(["1ms", "1.5ms", "3650d", "1min", "5min", "10min"])
DURATIONS = LENGTHS | EXTREMES
ATTEMPTS = st.sampled_from([{}, {"attempts": 1}, {"attempts": 2}, {"attempts": 3}, {"retries": 0}, {"retries": 2}])
KINDS = st.none() | st.sampled_from(sorted(KNOWN))
REST = st.fixed_dictionaries(
    {},
    optional={
        "timeout": DURATIONS,
        "lifetime": DURATIONS,
        "pause": DURATIONS | st.just("0s"),
        "backoff": st.floats(1, 100),
        "hands_down": st.booleans(),
        "asynchronous": st.booleans(),
    },
)
LAYER_SECTIONS = st.builds(lambda kind, attempts, rest: {"kind": kind} | attempts | rest, KINDS, ATTEMPTS, REST)
LAYERS = st.lists(LAYER_SECTIONS, min_size=1, max_size=3).map(
    lambda layers: [{"name": f"layer {place}"} | each for place, each in enumerate(layers)]
)
SECTIONS = st.fixed_dictionaries(
    {"work": DURATIONS, "period": DURATIONS, "layers": LAYERS}, optional={"statement_timeout": DURATIONS}
)


def refused(constant: str) -> float:
    raise AssertionError(f"{constant} is not JSON")


def counted(course: Course) -> int:
    """The largest number in flight, from the starts and the ends alone. At the same time an end comes first."""
    steps = sorted([*((start, 1) for start in course.started), *((end, -1) for end in course.ended)])
    return max(accumulate(step for _, step in steps))


@given(SECTIONS)
@settings(deadline=None, max_examples=60)
def test_every_chain_that_the_configuration_accepts_can_be_simulated_drawn_and_written(
    section: dict[str, object],
) -> None:
    chain = chain_of(ChainSection.model_validate(section))
    spike = spike_of(chain)
    assert spike is not None
    assert "MOST" in text_of(chain, spike)
    written = json.loads(json_of(chain, spike), parse_constant=refused)["simulation"]
    for remedy in Remedy:
        course, record = simulate(spike, remedy), written[remedy.name.lower()]
        assert record["most_at_once"] == course.most == counted(course) >= max(course.in_flight)
        assert len(record["in_flight"]) == 49
        assert len(course.started) - course.retries == 52 or course.stopped is not None
        assert len(course.started) - len(course.ended) >= 0


def test_a_chain_of_the_most_layers_can_be_simulated_drawn_and_written() -> None:
    layers = [{"name": f"layer {place}", "timeout": "1ms"} for place in range(MAX_LAYERS)]
    chain = chain_of(ChainSection.model_validate({"work": "1ms", "period": "1ms", "layers": layers}))
    assert "MOST" in text_of(chain, spike_of(chain))
    assert json.loads(json_of(chain, spike_of(chain)), parse_constant=refused)["copies_started"] == 1
