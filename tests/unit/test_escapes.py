"""Names from outside cannot steer a terminal or forge a line: the log, the reports, history, explain and the page."""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.acting import commands_of
from support.builders import backend, book, census, judge_settings, rule
from support.ledgers import act
from support.processes import command
from test_series import look

from watchdog.cli.explain import written
from watchdog.cli.render import as_json, markdown, table
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.protections import ProtectionContext
from watchdog.core.observed.reasons import Reason
from watchdog.core.present.escapes import printable
from watchdog.core.present.explain import explain
from watchdog.core.present.look import Look, Unread
from watchdog.ledger.store import Store
from watchdog.logs import Event, Format, Level, configure_logs, get_logger
from watchdog.web.page import Page

HOSTILE = "a\x1b[31m\r\n\x00\x07\x7f\x85\x9b\u202e\u2028b"
ESCAPED = r"a\x1b[31m\r\n\x00\x07\x7f\x85\x9b\u202e\u2028b"
SETTINGS = judge_settings(book(rule(copies=1, retry_gap=10), roles={HOSTILE: 30}))


def steering(text: str) -> set[str]:
    """The characters of a text that are no plain text, without the line feeds between its lines."""
    return {each for each in text if unicodedata.category(each) in {"Cc", "Cf", "Zl", "Zp", "Cs"}} - {"\n"}


def hostile() -> Look:
    return look(
        backend(pid=1, role=HOSTILE, name="scan:jo\x1bb:win\u202edow", query=100),
        backend(pid=2, role=HOSTILE, name=HOSTILE, query=100),
        judged_by=SETTINGS,
    )


@pytest.fixture(params=list(Format))
def form(request: pytest.FixtureRequest) -> Iterator[Format]:
    """A format of the log, in force for one test."""
    configure_logs(form=request.param, level=Level.INFO)
    yield request.param
    configure_logs(form=Format.LOGFMT, level=Level.INFO)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("web_app", "web_app"),
        ("Jürgen's Größe 名前", "Jürgen's Größe 名前"),
        (r"corp\web", r"corp\web"),
        ("\x1b[31m", r"\x1b[31m"),
        ("a\rb", r"a\rb"),
        ("a\nb", r"a\nb"),
        ("a\x00b", r"a\x00b"),
        ("a\x9bb", r"a\x9bb"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2028b", r"a\u2028b"),
        ("a\ud800b", r"a\ud800b"),
        (HOSTILE, ESCAPED),
    ],
)
def test_what_is_not_printable_is_an_escape_and_all_else_stays(name: str, shown: str) -> None:
    assert printable(name) == shown


def test_a_log_line_is_one_line_without_control_characters(form: Format, capsys: pytest.CaptureFixture[str]) -> None:
    get_logger().info(Event.VERDICT, role=HOSTILE, job="plain", problems=[HOSTILE])
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert steering(line) == set()
    if form is Format.JSON:
        assert (json.loads(line)["role"], json.loads(line)["job"]) == (HOSTILE, "plain")
    else:
        assert f" role={ESCAPED} job=plain " in line


def test_a_log_line_has_no_field_without_a_value(form: Format, capsys: pytest.CaptureFixture[str]) -> None:
    get_logger().info(Event.VERDICT, role="", hint=None, passed_over=[], count=0, armed=False, seen=True)
    line = capsys.readouterr().err
    if form is Format.JSON:
        assert set(json.loads(line)) == {"timestamp", "level", "event", "count", "armed", "seen"}
    else:
        assert re.sub(r"timestamp=\S+ ", "", line) == "level=info event=verdict count=0 armed=false seen=true\n"


def test_a_traceback_in_the_log_is_one_line(form: Format, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        int(HOSTILE)
    except ValueError:
        get_logger().exception(Event.INTERNAL_ERROR, server="main")
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "ValueError" in line
    assert steering(line) == set()
    assert line.startswith("{") is (form is Format.JSON)


def test_the_reports_show_hostile_names_as_escapes() -> None:
    seen = hostile()
    unread = Unread("archive", Reason.AUTHENTICATION, HOSTILE)
    for text in (table([seen, unread], book=SETTINGS.book), markdown([seen, unread], book=SETTINGS.book)):
        assert steering(text) == set()
        assert r"\x1b[31m\r\n" in text.replace("\n", "")
        assert r"win\u202edow" in text
    assert steering(as_json([seen, unread], book=SETTINGS.book, lines=True)) == set()


def test_a_report_without_a_budget_shows_hostile_applications_as_escapes() -> None:
    seen = look(backend(name=HOSTILE, role=HOSTILE), judged_by=judge_settings(book(roles={})))
    text = table([seen], book=book(roles={}))
    assert steering(text) == set()
    assert r"\x1b[31m" in text


def test_the_page_shows_hostile_names_as_escapes_and_still_escapes_html() -> None:
    seen = hostile()
    shown = Page().render([("<main>\x1b", replace(seen, server="<main>\x1b"))], judges=True)
    assert steering(shown) == set()
    assert "a\\x1b[31m\\r\\n" in shown
    assert r"&lt;main&gt;\x1b" in shown


def test_an_explanation_shows_hostile_names_as_escapes() -> None:
    seen = hostile()
    context = ProtectionContext(census(), Policy().protect, commands_of())
    lines = explain(seen, pid=2, book=SETTINGS.book, policy=Policy(), context=context)
    assert lines is not None
    text = "".join(map(written, lines))
    assert steering(text) == set()
    assert ESCAPED in text


@pytest.mark.parametrize("form", ["table", "json"])
def test_history_shows_hostile_names_as_escapes(tmp_path: Path, form: str) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    store = Store(url)
    one = act(row=backend(role="etl_app", name="scan:jo\x1bb:win\u202edow", query=100))
    judged = replace(one.finding, backend=replace(one.finding.backend, role=HOSTILE))
    store.intend([replace(one, finding=judged)])
    store.close()
    config = tmp_path / "pgwatchdog.yaml"
    config.write_text(f"clusters: [{{name: a, dsn: host=db1}}]\nledger: {{url: '{url}'}}\n")
    done = command("history", "-c", str(config), "--format", form)
    assert done.returncode == 0, done.stderr
    assert steering(done.stdout) == set()
    assert "1b[31m" in done.stdout
