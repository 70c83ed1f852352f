from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from support.builders import backend, bench, book, rule
from test_series import look, tally

from watchdog.cli.exits import Exit
from watchdog.cli.render import markdown, table
from watchdog.cli.report import exit_code
from watchdog.core.look import Look, Reason, Unread
from watchdog.core.phrases import span
from watchdog.core.standing import EXPLAINED, Obstacle, Standing
from watchdog.web.page import Page

BENCH = bench(book(rule(copies=1, retry_gap=10)))
UNREAD = Unread(
    "archive", Reason.AUTHENTICATION, "password authentication failed (check user, password and pg_hba.conf)"
)


def busy() -> Look:
    return look(
        backend(pid=1, query=100, query_id=7),
        backend(pid=2, query=95, query_id=7),
        backend(pid=3, role="etl_app", name="scan:threads:2026-11", query=1930, xid=True),
        backend(pid=4, role="etl_app", name="scan:threads:2026-11", query=500),
        backend(
            pid=5, role="a_role_with_a_very_long_name", name="scan:a_job_with_a_name_of_some_length:a-window", query=1
        ),
        backend(pid=6, state="idle in transaction", query=2, xact=7200, wait=("Client", "ClientRead")),
        backend(pid=7, role="etl_app", query=800),
        with_bench=BENCH,
    )


def test_golden_the_table_reads_in_80_columns(golden: Callable[[str, str], None]) -> None:
    text = table([busy(), UNREAD], book=BENCH.book, color=False)
    assert max(map(len, text.splitlines())) <= 80
    golden("report.txt", text)


def test_golden_the_markdown_report(golden: Callable[[str, str], None]) -> None:
    golden("report.md.txt", markdown([busy(), UNREAD], book=BENCH.book))


def test_nothing_found_is_said_only_where_there_was_a_budget_and_everything_was_seen() -> None:
    quiet = look(with_bench=BENCH)
    assert "Nothing found." in table([quiet], book=BENCH.book)
    assert "Nothing found." not in table([quiet], book=book(roles={}))
    assert "Nothing found." not in table([UNREAD], book=BENCH.book)


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([look(with_bench=BENCH)], Exit.OK),
        ([look(backend(query=25), with_bench=BENCH)], Exit.OK),
        ([look(backend(query=100), with_bench=BENCH)], Exit.FINDINGS),
        ([look(backend(query=100), with_bench=BENCH), UNREAD], Exit.UNREAD),
    ],
)
def test_what_was_not_read_weighs_more_than_what_was_found(states: list[Look | Unread], code: Exit) -> None:
    assert exit_code(states) is code


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.2s"),
        (9.96, "10s"),
        (5, "5s"),
        (59, "59s"),
        (60, "1m"),
        (7200, "2h"),
        (1930, "32m 10s"),
        (90_000, "1d 01h"),
    ],
)
def test_spans_have_two_units_at_most(seconds: float, text: str) -> None:
    assert span(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        (Standing(1, ()), "Armed: what policy decides is done."),
        (
            Standing(1, (Obstacle.CLUSTER_MODE, Obstacle.NO_LEDGER)),
            "Dry run: nothing is signalled. the cluster's mode is dry-run; no ledger is configured",
        ),
        (
            Standing(1, (Obstacle.DISARM_FILE, Obstacle.NOT_LEADER)),
            "Not armed: nothing is signalled. the disarm file exists, or cannot be looked for; another pgwatchdog",
        ),
        (
            Standing(0, (), at_once=True),
            "Armed by this configuration. nobody holds the lease, so no pgwatchdog acts now",
        ),
    ],
)
def test_page_report_and_metrics_say_whether_it_is_armed_and_if_not_every_reason(
    standing: Standing, words: str
) -> None:
    seen = replace(look(with_bench=BENCH), standing=standing)
    reported = " ".join(table([seen], book=BENCH.book, arming=True).split())
    assert words in reported
    shown = Page().render([("main", seen)], judges=True)
    for reason in standing.obstacles:
        assert EXPLAINED[reason].replace("'", "&#39;") in shown
    counts = tally()
    counts.add(seen, now=0, unix_time=0)
    assert counts.series.gauges["enforcing"][()] == (not standing.obstacles)
    told = {reason for (reason,), holds in counts.series.gauges["disarmed"].items() if holds}
    assert told == set(standing.obstacles)


def test_every_obstacle_is_explained_to_people() -> None:
    assert set(EXPLAINED) == set(Obstacle)
