"""Stored settings: precedence, spellings, and inversions against budgets."""

from datetime import timedelta

import pytest
from support.builders import book, rule, seconds

from watchdog.core.judging.timeout_inversions import smallest_budget, stored_timeouts, worst_timeout
from watchdog.core.observed.stored_settings import MILLISECOND, SECOND, Effective, Stored, StoredSettings, parse_span

NAME = "statement_timeout"


def settings(*stored: tuple[str | None, str | None, str], server: str | None = "0") -> StoredSettings:
    return StoredSettings(tuple(Stored(db, role, NAME, text) for db, role, text in stored), {NAME: server})


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("30", 30),
        ("30s", 30_000),
        ("5min", 300_000),
        ("1.5h", 5_400_000),
        (" 2 min ", 120_000),
        ("1d", 86_400_000),
        ("500us", 0.5),
        ("0", 0),
        ("-1", -1),
        ("1e3", 1000),
        (".5s", 500),
        ("2m", None),
        ("5 minutes", None),
        ("", None),
    ],
)
def test_a_settings_text_is_read_as_the_server_reads_it(text: str, milliseconds: float | None) -> None:
    expected = None if milliseconds is None else timedelta(milliseconds=milliseconds)
    assert parse_span(text, unit=MILLISECOND) == expected


def test_a_bare_number_is_in_the_settings_own_unit() -> None:
    assert parse_span("30", unit=SECOND) == seconds(30)


def test_role_in_database_beats_role_beats_database_beats_every_role_beats_server() -> None:
    levels = [("shop", "web_app", "1s"), (None, "web_app", "2s"), ("shop", None, "3s"), (None, None, "4s")]
    names = ["role in database", "role", "database", "every role", "server"]
    for i, name in enumerate(names):
        one = settings(*levels[i:], server="5000")
        assert one.effective(NAME, role="web_app", database="shop").where == name
    one = settings(*levels)
    assert one.effective(NAME, role="web_app", database="other") == Effective("2s", "role")
    assert one.effective(NAME, role="other", database="shop") == Effective("3s", "database")
    assert one.effective(NAME, role=None, database=None) == Effective("4s", "every role")


def test_what_our_own_session_hides_is_not_known() -> None:
    one = settings(server=None)
    assert one.effective(NAME, role="web_app", database=None).span(NAME) is None
    [timeout] = stored_timeouts(one, book=book(roles={"web_app": 30}), roles=["web_app"])
    assert (timeout.value, timeout.inverted, timeout.lives_on) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "inverted", "lives_on"),
    [("0", True, None), ("29s", False, 0), ("30s", False, 0), ("30001", True, 0.001), ("5min", True, 270)],
)
def test_off_or_above_the_budget_is_an_inversion_with_what_it_lets_live_on(
    *, text: str, inverted: bool, lives_on: float | None
) -> None:
    [timeout] = stored_timeouts(
        settings((None, "web_app", text)), book=book(roles={"web_app": 30}), roles=["web_app", "without_budget"]
    )
    expected = None if lives_on is None else seconds(lives_on)
    assert (timeout.inverted, timeout.lives_on, timeout.where) == (inverted, expected, "role")


def test_each_database_with_a_setting_of_its_own_is_looked_at_and_off_is_the_worst() -> None:
    one = settings((None, "web_app", "20s"), ("shop", "web_app", "50s"), ("archive", None, "0"), ("x", "other", "1s"))
    found = stored_timeouts(one, book=book(roles={"web_app": 30}), roles=["web_app"])
    assert [(each.database, each.value, each.inverted) for each in found] == [
        (None, seconds(20), False),
        ("archive", seconds(20), False),
        ("shop", seconds(50), True),
    ]
    assert worst_timeout(found) == found[2]
    off = settings((None, "web_app", "50s"), ("shop", "web_app", "0"))
    worst = worst_timeout(stored_timeouts(off, book=book(roles={"web_app": 30}), roles=["web_app"]))
    assert worst is not None
    assert (worst.database, worst.value) == ("shop", timedelta(0))


def test_the_smallest_budget_counts_jobs_that_are_bound_to_the_role() -> None:
    jobs = rule(roles=frozenset({"etl_app"}), budgets={"threads": 60, "*": 900})
    assert smallest_budget(book(jobs, roles={"etl_app": 600}), "etl_app") == seconds(60)
    assert smallest_budget(book(jobs, roles={"web_app": 600}), "web_app") == seconds(600)
    assert smallest_budget(book(jobs, roles={}), "web_app") is None
