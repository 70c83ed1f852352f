from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from support.builders import backend, book, judge_settings, rule
from test_series import cluster_metrics, look

from watchdog.cli.exits import Exit
from watchdog.cli.render import markdown, table
from watchdog.cli.report import exit_code
from watchdog.core.acting.status import EXPLAINED, ActingStatus, DisarmReason
from watchdog.core.observed.reasons import Reason
from watchdog.core.observed.sockets import SocketVisibility
from watchdog.core.observed.statement_failures import StatementFailure
from watchdog.core.present.look import Look, Unread
from watchdog.core.present.phrases import span
from watchdog.web.families import acting
from watchdog.web.page import Page

JUDGE_SETTINGS = judge_settings(book(rule(copies=1, retry_gap=10)))
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
        judged_by=JUDGE_SETTINGS,
    )


def test_golden_the_table_reads_in_80_columns(golden: Callable[[str, str], None]) -> None:
    text = table([busy(), UNREAD], book=JUDGE_SETTINGS.book, color=False)
    assert max(map(len, text.splitlines())) <= 80
    golden("report.txt", text)


def test_golden_the_markdown_report(golden: Callable[[str, str], None]) -> None:
    golden("report.md.txt", markdown([busy(), UNREAD], book=JUDGE_SETTINGS.book))


def test_nothing_found_is_said_only_where_there_was_a_budget_and_everything_was_seen() -> None:
    quiet = look(judged_by=JUDGE_SETTINGS)
    assert "Nothing found." in table([quiet], book=JUDGE_SETTINGS.book)
    assert "Nothing found." not in table([quiet], book=book(roles={}))
    assert "Nothing found." not in table([UNREAD], book=JUDGE_SETTINGS.book)


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([look(judged_by=JUDGE_SETTINGS)], Exit.OK),
        ([look(backend(query=25), judged_by=JUDGE_SETTINGS)], Exit.OK),
        ([look(backend(query=100), judged_by=JUDGE_SETTINGS)], Exit.FINDINGS),
        ([look(backend(query=100), judged_by=JUDGE_SETTINGS), UNREAD], Exit.UNREAD),
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
    ("status", "words"),
    [
        (ActingStatus(1, ()), "Armed: what policy decides is done."),
        (
            ActingStatus(1, (DisarmReason.CLUSTER_MODE, DisarmReason.NO_LEDGER)),
            "Dry run: nothing is signalled. the cluster's mode is dry-run; no ledger is configured",
        ),
        (
            ActingStatus(1, (DisarmReason.DISARM_FILE, DisarmReason.NOT_LEADER)),
            "Not armed: nothing is signalled. the disarm file exists, or cannot be looked for; another pgwatchdog",
        ),
        (
            ActingStatus(0, (), at_once=True),
            "Armed by this configuration. nobody holds the lease, so no pgwatchdog acts now",
        ),
    ],
)
def test_page_report_and_metrics_say_whether_it_is_armed_and_if_not_every_reason(
    status: ActingStatus, words: str
) -> None:
    seen = replace(look(judged_by=JUDGE_SETTINGS), status=status)
    reported = " ".join(table([seen], book=JUDGE_SETTINGS.book, arming=True).split())
    assert words in reported
    shown = Page().render([("main", seen)], judges=True)
    for reason in status.disarm_reasons:
        assert EXPLAINED[reason].replace("'", "&#39;") in shown
    counts = cluster_metrics()
    counts.add(seen, now=0, unix_time=0)
    assert counts.series.gauges[acting.ENFORCING][()] == (not status.disarm_reasons)
    told = {reason for (reason,), holds in counts.series.gauges[acting.DISARMED].items() if holds}
    assert told == set(status.disarm_reasons)


def test_every_obstacle_is_explained_to_people() -> None:
    assert set(EXPLAINED) == set(DisarmReason)


def test_what_could_have_been_looked_for_and_failed_ends_with_3() -> None:
    everything = replace(look(), socket_visibility=SocketVisibility.SEEN)
    kernel = replace(everything, socket_visibility=SocketVisibility.FAILED)
    offers_none = replace(everything, socket_visibility=SocketVisibility.UNAVAILABLE)
    assert exit_code([offers_none]) is Exit.OK, "a system without them does not hide findings"
    elsewhere = replace(everything, socket_visibility=SocketVisibility.ELSEWHERE)
    blocking = replace(everything, statement_failures={"blocking": StatementFailure(1, "no")})
    codes = {name: exit_code([look]) for name, look in _named(everything, kernel, elsewhere, blocking)}
    assert codes == {"everything": Exit.OK, "kernel": Exit.UNREAD, "elsewhere": Exit.OK, "blocking": Exit.UNREAD}
    strict = {name: exit_code([look], strict=True) for name, look in _named(everything, kernel, elsewhere, blocking)}
    assert strict == {**dict.fromkeys(codes, Exit.UNREAD), "everything": Exit.OK}


def _named(*looks: Look) -> list[tuple[str, Look]]:
    return list(zip(("everything", "kernel", "elsewhere", "blocking"), looks, strict=True))
