"""The caller chain: the published rows, what each property of a layer does, and inversions."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chains import (
    AS_DEPLOYED,
    HANDED_DOWN,
    PRESETS,
    QUERY,
    READ_TIMEOUT,
    SCHEDULER_RETRIES,
    minutes,
)

from watchdog.cli.drawing import chain_text
from watchdog.core.chain.chain import ZERO, Chain, Layer
from watchdog.core.chain.chain_inversions import changed, inversions, under
from watchdog.core.chain.ladder import Ladder, Result, play
from watchdog.core.chain.layers import KNOWN
from watchdog.core.chain.loop import loop_of

DOCS = Path(__file__).parents[2] / "docs" / "chain.md"


def mended(chain: Chain) -> Chain:
    """The chain with every number changed that its inversions name."""
    for each in inversions(chain):
        chain = changed(chain, each)
    return chain


def seconds(amount: float) -> timedelta:
    return timedelta(seconds=amount)


def one(layer: Layer, *, work: float = 25, statement_timeout: float | None = None) -> Chain:
    return Chain((layer,), seconds(work), None if statement_timeout is None else seconds(statement_timeout))


def starts(chain: Chain) -> list[float]:
    return [copy.start.total_seconds() for copy in play(chain).copies]


def row(ladder: Ladder) -> tuple[int, int, float, float, str]:
    return (
        len(ladder.copies),
        ladder.at_once,
        ladder.for_nobody / minutes(1),
        ladder.database / minutes(1),
        str(ladder.result),
    )


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (AS_DEPLOYED, (1, 1, 17.5, 32.5, "fails")),
        (READ_TIMEOUT, (2, 2, 50, 65, "fails")),
        (SCHEDULER_RETRIES, (14, 6, 350, 455, "fails")),
        (HANDED_DOWN, (3, 1, 0, 42, "fails, cheaply")),
    ],
    ids=list(PRESETS),
)
def test_the_published_incident_and_its_remedies(chain: Chain, expected: tuple[int, int, float, float, str]) -> None:
    assert row(play(chain)) == expected


def test_the_documentation_has_the_same_rows() -> None:
    found = re.findall(
        r"^\|[^|]+\| (\d+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([^|]+) \|$", DOCS.read_text(), re.MULTILINE
    )
    told = [(int(a), int(b), float(c), float(d), e) for a, b, c, d, e in found]
    assert told == [row(play(chain)) for chain in PRESETS.values()]


def test_an_app_that_waits_ten_seconds_three_times_for_a_query_of_25() -> None:
    ladder = play(one(Layer(name="app", attempts=3, timeout=seconds(10))))
    assert [copy.start.total_seconds() for copy in ladder.copies] == [0, 10, 20]
    assert ladder.database == seconds(75)
    # Nobody gets any of the 75 s; in the terms of the table 45 of them came after the caller had left.
    assert (ladder.for_nobody, ladder.result) == (seconds(45), Result.FAILS)


def test_attempts_multiply_across_layers() -> None:
    layers = tuple(Layer(name=name, attempts=KNOWN[name].attempts) for name in ("boto3-legacy", "lambda-async"))
    assert Chain((Layer(name="workflow", attempts=7), *layers), QUERY).product == 105


def test_a_copy_is_for_nobody_from_when_the_first_layer_above_stops_waiting() -> None:
    first, second = play(READ_TIMEOUT).copies
    assert (first.wanted_until, first.for_nobody) == (minutes(14), minutes(18.5))
    assert (second.wanted_until, second.for_nobody) == (minutes(15), minutes(31.5))


def test_what_answers_in_time_succeeds_and_a_tie_comes_too_late() -> None:
    assert play(one(Layer(name="app", timeout=seconds(26)))).result is Result.SUCCEEDS
    assert play(one(Layer(name="app", timeout=seconds(25)))).result is Result.FAILS_CHEAPLY
    assert play(one(Layer(name="app"), statement_timeout=25)).result is Result.FAILS_CHEAPLY
    assert play(one(Layer(name="app"))).result is Result.SUCCEEDS


def test_a_failure_is_tried_again_after_a_pause_that_grows() -> None:
    app = Layer(name="app", attempts=4, pause=seconds(1), backoff=2)
    assert starts(one(app, statement_timeout=10)) == [0, 11, 23, 37]


def test_no_attempt_begins_after_the_end_of_its_layer() -> None:
    assert starts(one(Layer(name="app", attempts=9, timeout=seconds(10), lifetime=seconds(30)))) == [0, 10, 20]


def test_a_layer_runs_on_after_its_caller_left_and_what_it_starts_then_is_all_for_nobody() -> None:
    chain = Chain(
        (Layer(name="gateway", timeout=seconds(3)), Layer(name="service", attempts=3, timeout=seconds(10))), seconds(25)
    )
    ladder = play(chain)
    assert starts(chain) == [0, 10, 20]
    assert [copy.for_nobody for copy in ladder.copies] == [seconds(22), seconds(25), seconds(25)]


def test_a_gateway_that_tries_three_times_over_a_service_that_does_makes_nine() -> None:
    chain = Chain(
        (Layer(name="gateway", attempts=3, timeout=seconds(3)), Layer(name="service", attempts=3, timeout=seconds(10))),
        seconds(30),
    )
    assert len(play(chain).copies) == chain.product == 9


def test_a_deadline_that_is_handed_down_ends_what_runs_below() -> None:
    gateway = Layer(name="gateway", attempts=3, timeout=seconds(3), hands_down=True)
    half = Chain((gateway, Layer(name="service", attempts=3, timeout=seconds(10))), seconds(25))
    whole = Chain((gateway, Layer(name="service", attempts=3, timeout=seconds(10), hands_down=True)), seconds(25))
    assert (starts(half), play(half).for_nobody) == ([0, 3, 6], seconds(66))
    assert (starts(whole), play(whole).for_nobody, play(whole).database) == ([0, 3, 6], ZERO, seconds(9))


def test_nobody_above_an_asynchronous_layer_waits_or_tries_again() -> None:
    queue = Layer(name="queue", attempts=3, pause=seconds(60), backoff=2, asynchronous=True)
    function = Layer(name="function", lifetime=seconds(20))
    chain = Chain((Layer(name="app", attempts=5, timeout=seconds(1)), queue, function), seconds(25))
    assert starts(chain) == [0, 80, 220]
    assert play(chain).for_nobody == seconds(15)
    assert play(replace(chain, work=seconds(5))).result is Result.SUCCEEDS
    assert [each.parent for each in inversions(chain)] == ["function"]


def test_each_inversion_names_the_pair_both_numbers_and_what_to_change() -> None:
    told = [(each.parent, each.child, each.wait, each.total, each.where, each.was, each.to) for each in
            inversions(SCHEDULER_RETRIES)]  # fmt: skip
    assert told == [
        ("wrapper", "worker", minutes(14), minutes(15), "chain.layers[2].lifetime", minutes(15), seconds(835)),
        ("wrapper", "its 5 attempts", minutes(15), seconds(4175), "chain.layers[1].attempts", 5, 1),
        ("worker", "the query", seconds(835), None, "chain.statement_timeout", None, seconds(830)),
    ]


@pytest.mark.parametrize(
    ("service", "key", "to"),
    [
        (Layer(name="service", attempts=3, timeout=seconds(10)), "timeout", seconds(0.95)),
        (Layer(name="service", attempts=3, timeout=seconds(1)), "attempts", 2),
        (Layer(name="service", attempts=3, timeout=seconds(10), lifetime=seconds(20)), "lifetime", seconds(2.85)),
        (Layer(name="service"), "timeout", seconds(2.85)),
        (Layer(name="service", attempts=3, timeout=seconds(10), pause=seconds(5)), "attempts", 1),
    ],
)
def test_which_number_of_a_child_changes(service: Layer, key: str, to: timedelta | int) -> None:
    first = inversions(Chain((Layer(name="gateway", timeout=seconds(3)), service), seconds(25)))[0]
    assert (first.child, first.key, first.to) == ("service", key, to)


def test_the_deadline_handed_down_is_not_inverted_nor_is_a_chain_that_waits_for_ever() -> None:
    assert inversions(HANDED_DOWN) == []
    assert inversions(Chain((Layer(name="app", attempts=5),), QUERY)) == []
    assert inversions(one(Layer(name="app", timeout=seconds(30)), statement_timeout=29)) == []
    whole = Layer(name="gateway", attempts=3, timeout=seconds(3), lifetime=seconds(5), hands_down=True)
    assert inversions(one(whole)) == []


def test_a_limit_as_long_as_the_wait_is_inverted_and_so_is_none() -> None:
    app = Layer(name="app", timeout=seconds(30))
    assert [each.to for each in inversions(one(app, statement_timeout=30))] == [seconds(28.5)]
    assert [each.total for each in inversions(one(app, work=1))] == [None]


def test_retries_in_the_last_minute_are_inverted_where_someone_below_does_not_end_with_them() -> None:
    wrapper = Layer(name="wrapper", attempts=2, timeout=minutes(14), lifetime=minutes(15), hands_down=True)
    worker = Layer(name="worker")
    [crowded, query] = inversions(Chain((wrapper, worker), QUERY))
    assert (crowded.within, crowded.to, query.where) == (True, 1, "chain.statement_timeout")
    assert inversions(Chain((wrapper, replace(worker, hands_down=True)), QUERY)) == []


def test_a_number_under_another_is_under_it_however_small() -> None:
    assert (under(minutes(14)), under(seconds(10))) == (seconds(835), seconds(9.5))
    assert ZERO < under(timedelta(milliseconds=1)) < timedelta(milliseconds=1)


def test_the_known_layers_count_attempts_not_retries() -> None:
    assert {name: known.attempts for name, known in KNOWN.items()} == {
        "boto3-legacy": 5,
        "boto3-standard": 3,
        "step-functions": 4,
        "lambda-async": 3,
        "kubernetes-job": 7,
        "celery-retry": 4,
    }
    assert [name for name, known in KNOWN.items() if known.asynchronous] == ["lambda-async"]
    queue = KNOWN["lambda-async"]
    pauses = Layer(name="queue", attempts=queue.attempts, pause=queue.pause, backoff=queue.backoff).pauses()
    assert list(pauses) == [minutes(1), minutes(2)]


@pytest.mark.parametrize("name", ["scheduler retries", "handed down"])
def test_golden_the_ladder_as_it_is_drawn(
    name: str, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    chain = replace(PRESETS[name], period=minutes(120))
    text = chain_text(chain, play(chain), found=inversions(chain), loop=loop_of(chain))
    assert max(len(line) for line in text.splitlines()) <= 100
    golden(f"chain-{name.replace(' ', '-')}.txt", text)


def test_a_long_ladder_is_cut_and_each_copy_has_a_cell() -> None:
    chain = one(Layer(name="app", attempts=60, timeout=seconds(0.1)), work=1000)
    text = chain_text(chain, play(chain), found=[], loop=None)
    assert "… and 20 more" in text
    assert text.count("░") > 40


SPANS = st.integers(1, 40).map(seconds)
LAYERS = st.builds(
    Layer,
    name=st.just("layer"),
    attempts=st.integers(1, 4),
    timeout=st.none() | SPANS,
    lifetime=st.none() | SPANS,
    pause=st.integers(0, 5).map(seconds),
    backoff=st.sampled_from([1.0, 1.5, 2.0]),
    hands_down=st.booleans(),
    asynchronous=st.sampled_from([False, False, False, True]),
)
CHAINS = st.builds(
    Chain,
    layers=st.lists(LAYERS, min_size=1, max_size=3).map(tuple),
    work=SPANS,
    statement_timeout=st.none() | SPANS,
)


@given(CHAINS)
def test_time_only_trims_the_product_of_the_attempts(chain: Chain) -> None:
    ladder = play(chain)
    assert 1 <= ladder.at_once <= len(ladder.copies) <= chain.product
    assert ladder.for_nobody <= ladder.database <= len(ladder.copies) * chain.work


@given(CHAINS)
def test_where_every_layer_hands_its_deadline_down_nothing_is_for_nobody(chain: Chain) -> None:
    handing = replace(chain, layers=tuple(replace(each, hands_down=True) for each in chain.layers))
    assert play(handing).for_nobody == ZERO
    assert inversions(handing) == []


@given(CHAINS)
def test_an_attempt_more_of_the_outermost_layer_never_makes_fewer_copies(chain: Chain) -> None:
    place = chain.first_waiting
    outermost = replace(chain.layers[place], attempts=chain.layers[place].attempts + 1)
    layers = (*chain.layers[:place], outermost, *chain.layers[place + 1 :])
    fewer, more = play(chain), play(replace(chain, layers=layers))
    assert len(fewer.copies) <= len(more.copies)
    assert fewer.database <= more.database
    assert fewer.for_nobody <= more.for_nobody


def test_an_attempt_more_further_in_can_make_fewer_because_it_fails_later() -> None:
    outer, inner = Layer(name="outer", attempts=2, lifetime=seconds(4)), Layer(name="inner", lifetime=seconds(4))
    chain = Chain((outer, inner), seconds(3), statement_timeout=seconds(3))
    more = replace(chain, layers=(outer, replace(inner, attempts=2, pause=seconds(1))))
    assert (len(play(chain).copies), len(play(more).copies)) == (2, 1)


@given(CHAINS, SPANS)
def test_without_an_inversion_nothing_is_for_nobody_whatever_the_query_takes(chain: Chain, work: timedelta) -> None:
    whole = mended(chain)
    assert inversions(whole) == []
    assert play(replace(whole, work=work)).for_nobody == ZERO


@given(CHAINS)
def test_a_query_that_takes_longer_brings_no_fewer_copies(chain: Chain) -> None:
    assert len(play(chain).copies) <= len(play(replace(chain, work=2 * chain.work)).copies)
