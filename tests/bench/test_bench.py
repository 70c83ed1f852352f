"""The small version of `make bench`: every benchmark runs, and what holds on any machine holds at five times it."""

import math

import pytest

from bench import client_death, fleet, overshoot, poll_cost, throughput
from bench.report import Goal, Section, Spread, page
from watchdog.demo.guardian import Guardian

TIMES = 5
"""A promise about time is tested at so many times its value."""


@pytest.mark.slow
async def test_a_run_is_cancelled_soon_after_its_crossing_and_sooner_than_a_poller_does(guardian: Guardian) -> None:
    found = await overshoot.measure(overshoot.SHORT, guardian=guardian)
    trials = found.loads[overshoot.IDLE]
    assert set(trials.missed.values()) == {0}
    assert {len(each) for each in trials.heard.values()} == {overshoot.SHORT.trials}
    ours, poller = (Spread.of(trials.heard[kind]).at(0.5) for kind in (overshoot.OURS, overshoot.POLLER))
    assert min(trials.ended[overshoot.OURS]) >= 0, "no run is cancelled before its crossing"
    assert ours * 1000 <= TIMES * overshoot.GOALS[overshoot.IDLE]
    assert ours < poller


@pytest.mark.slow
async def test_a_client_s_death_is_found_long_before_the_next_poll(guardian: Guardian) -> None:
    found = await client_death.measure(client_death.SHORT, guardian=guardian)
    assert len(found.found.values) == len(found.checked.values) == client_death.SHORT.kills
    assert min(found.found.values) > 0
    assert found.found.at(0.5) * 1000 <= TIMES * client_death.GOAL


async def test_a_poll_costs_the_server_something_and_no_more_than_an_exporter(guardian: Guardian) -> None:
    found = await poll_cost.measure(poll_cost.SHORT, guardian=guardian)
    assert [(cost.connections, cost.running) for cost in found.costs] == [(60, 5), (60, 20)]
    for cost in found.costs:
        assert 0 < cost.poll < TIMES * cost.view
        assert cost.scrape is None or cost.poll < cost.scrape


@pytest.mark.slow
async def test_a_small_fleet_is_polled_and_scraped_at_once(guardian: Guardian) -> None:
    size = fleet.SHORT
    found = await fleet.measure(size, guardian=guardian)
    for reading in (*found.without, *found.with_scrapes):
        assert reading.looks >= size.clusters * size.seconds / size.interval / 2
        assert reading.failures == 0
        assert 0 < reading.cpu < reading.seconds
        assert reading.memory < TIMES * 200
        assert Spread.of(reading.lags).at(0.5) * 1000 <= TIMES * 10
    assert min(scrape.samples for scrape in found.scrapes) > 50 * size.clusters
    assert Spread.of(scrape.seconds for scrape in found.scrapes).at(0.5) * 1000 <= TIMES * 100


@pytest.mark.slow
async def test_pgbench_runs_in_pairs_and_a_daemon_does_not_halve_it(guardian: Guardian) -> None:
    found = await throughput.measure(throughput.SHORT, guardian=guardian)
    assert len(found.pairs) == throughput.SHORT.rounds
    assert all(watched > alone / 2 > 0 for alone, watched in found.pairs)
    assert found.interval > 0


def test_the_interval_is_student_s() -> None:
    assert math.isclose(throughput.t_95(1), 12.706)
    assert math.isclose(throughput.t_95(19), 2.093, rel_tol=0.01)
    assert math.isclose(throughput.t_95(200), 1.972, rel_tol=0.01)


def test_the_page_says_which_goals_are_missed_and_what_was_not_measured() -> None:
    goals = (Goal("fast", 20, 19.9, " ms"), Goal("small", 200, 200.4, " MB"))
    text = page("Machine: some.", [Section("One", "How.", "| a |\n", goals)], failed=[("another", "TimeoutError")])
    assert "| fast | ≤ 20 ms | 19.9 ms | yes |" in text
    assert "| small | ≤ 200 MB | 200.4 MB | **no** |" in text
    assert "**Not measured: another.** It ended with TimeoutError." in text
    assert "## One" in text
