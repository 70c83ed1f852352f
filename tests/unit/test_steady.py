"""The server's clock is stepped: that is noticed, proves nothing about a caller, and moves no limit."""

from dataclasses import replace

import pytest
from support.acting import FREE, Play, cancel_rule
from support.builders import NOW, backend, book, judge_settings, seconds

from watchdog.core.acting.acts import Outcome
from watchdog.core.acting.limits import Limits
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.judging.evidence import Evidence
from watchdog.core.observed.activity import Backend
from watchdog.core.observed.sockets import statement_run
from watchdog.core.observed.steady import Reading, SteadyTime, steady_time

HOUR = 3600.0
BOTH = replace(cancel_rule(), evidence=frozenset({Evidence.OVER_BUDGET, Evidence.CLIENT_GONE}))


def reading(at: float, *, asked: float, came: float, placed: float | None = None) -> Reading:
    return Reading(at=NOW + seconds(at), asked=asked, came=came, placed=asked if placed is None else placed)


@pytest.mark.parametrize(
    ("now", "step"),
    [
        (reading(5, asked=105, came=105.1), None),
        (reading(5.9, asked=105, came=105.1), None),
        (reading(8, asked=105, came=108), None),  # a slow answer is no step
        (reading(3605, asked=105, came=105.1), 3600),
        (reading(-3595, asked=105, came=105.1), -3600),
        (reading(7, asked=105, came=105.1), 2),
        (reading(3.2, asked=105, came=105.1), -2),
        (reading(64, asked=160, came=160.1), None),  # four seconds in a minute
    ],
)
def test_a_step_is_a_difference_of_more_than_a_second_and_a_tenth_of_the_time_between(
    now: Reading, step: float | None
) -> None:
    first = reading(0, asked=100, came=100.1)
    told = steady_time(now, first=first, before=first)
    assert told.at == NOW + seconds(now.asked - 100)
    assert (None if told.step is None else round(told.step.total_seconds())) == step


def test_without_a_step_the_steady_time_is_the_servers() -> None:
    first = reading(0, asked=100, came=100.1, placed=100.05)
    now = reading(5, asked=105, came=105.3, placed=105.05)
    assert steady_time(now, first=first, before=first) == SteadyTime(now.at)


def row(pid: int, age: float, *, at: float, stepped: float = HOUR) -> Backend:
    """A row that began `age` seconds before the step; its ages are those of the server's clock after it."""
    return backend(pid=pid, query=age + stepped, started=100_000 + stepped + at, now=NOW + seconds(at + stepped))


def play(limits: Limits = FREE) -> Play:
    return Play(Policy((BOTH,), limits), judge_settings=judge_settings(book(roles={"web_app": 60.0}))).warm()


def test_d06_a_run_that_began_before_the_step_is_acted_on_when_we_have_watched_it_for_budget_and_grace() -> None:
    """Rule: an age that grew by an hour within a second proves nothing about a caller."""
    one = play()
    one.look(*(row(pid, 2, at=0, stepped=0) for pid in range(7)))
    stepped = one.look(*(row(pid, 3, at=1) for pid in range(7)), at=1 + HOUR, step=HOUR)
    assert {stepped.withheld(pid) for pid in range(7)} == {Withheld.CLOCK_STEPPED}
    assert one.look(row(0, 66.9, at=64.9), at=64.9 + HOUR).withheld(0) is Withheld.CLOCK_STEPPED
    assert one.look(row(0, 68, at=66), at=66 + HOUR).signalled == [0], "65 s after the step"


def test_a_run_that_begins_after_the_step_and_one_whose_client_is_gone_are_acted_on_as_usual() -> None:
    one = play()
    gone = row(1, 3, at=1)
    run = statement_run(gone)
    assert run is not None
    one.look(row(1, 2, at=0, stepped=0))
    assert one.look(gone, at=1 + HOUR, step=HOUR, gone=frozenset({run})).signalled == [1]
    later = backend(pid=2, query=70, started=100_000 + HOUR + 80, now=NOW + seconds(80 + HOUR))
    assert one.look(later, at=80 + HOUR).signalled == [2]


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_d06_a_step_fills_no_bucket_and_ends_no_pause_and_freezes_neither(step: float) -> None:
    def at_once(pid: int, at: float) -> Backend:
        return backend(pid=pid, query=100, started=100_000 + at + step, now=NOW + seconds(at + step))

    one = play(replace(FREE, per_minute=1))
    assert one.look(at_once(1, 0), at=0, step=0.0).signalled == [1]
    one.look(at=1 + step, step=step)
    assert one.look(at_once(2, 2), at=2 + step).withheld(2) is Withheld.LIMIT
    assert one.look(at_once(2, 62), at=62 + step).signalled == [2], "a minute later there is a token again"


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_d06_a_step_ends_no_pause_after_an_attempt(step: float) -> None:
    one = play()
    victim = backend(pid=1, query=100)
    assert one.look(victim).signalled == [1]
    assert one.look(victim, at=1 + step, step=step).effects == []
    told = one.look(victim, at=5 + step)
    assert [each.outcome for each in told.effects] == [Outcome.STILL_THERE]


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_d06_a_step_neither_closes_a_breaker_nor_freezes_it(step: float) -> None:
    one = play(replace(FREE, tries=1, stop_after_failures=1))
    one.look(backend(pid=1, query=100))
    assert [each.outcome for each in one.look(backend(pid=1, query=100), at=5).effects] == [Outcome.INEFFECTIVE]
    one.look(at=6 + step, step=step)
    assert one.look(backend(pid=2, query=100), at=7 + step).withheld(2) is Withheld.BREAKER
    assert one.look(backend(pid=2, query=100), at=606 + step).signalled == [2]
