"""A server that is newer than every version that the tests run on: read, said to be untested, acted on only if told."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.gates import CANCELED, only_these_are_signalled
from support.matrix import IMITATED
from support.processes import command, get, samples
from support.servers import TestServer, make_server, start
from support.watching import Recorder, actor_on, answer, daemon_on, look_until, orphaned, source_on, verdict_of

from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Withheld, withheld_reason
from watchdog.core.observed.versions import MAX_TESTED
from watchdog.core.present.look import Look
from watchdog.demo.guardian import Guardian
from watchdog.runtime.actor import Actor
from watchdog.runtime.cycle import Cycle


@pytest.fixture(scope="module")
def nineteen(guardian: Guardian) -> Iterator[TestServer]:
    server = make_server(guardian=guardian, major=IMITATED)
    yield server
    server.embedded.stop()


@pytest.fixture
def caller(nineteen: TestServer) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    connection = psycopg.connect(nineteen.dsn("web_app"), autocommit=True)
    yield connection
    connection.close()
    nineteen.end_sessions()


Caller = psycopg.Connection[tuple[object, ...]]


async def test_the_first_words_are_read_on_19_and_an_orphan_is_cancelled_where_that_is_allowed(
    nineteen: TestServer, caller: Caller, tmp_path: Path
) -> None:
    assert nineteen.major == IMITATED > MAX_TESTED
    holder, analyzer = (psycopg.connect(nineteen.dsn(each), autocommit=True) for each in ("postgres", "web_app"))
    try:
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE")
        orphan = start(caller, "SELECT pg_sleep(60)", nineteen)
        maintenance = start(analyzer, "ANALYZE accounts", nineteen)
        with actor_on(nineteen, tmp_path) as cycle:
            looks = await only_these_are_signalled(cycle, {orphan: None, maintenance: Withheld.MAINTENANCE})
        assert answer(caller) == CANCELED
    finally:
        holder.close()
        analyzer.close()
    assert {name: each.count for name, each in looks[-1].statement_failures.items() if each.count} == {}


async def test_without_being_told_an_armed_daemon_only_watches_a_server_it_was_not_tested_with(
    nineteen: TestServer, caller: Caller, tmp_path: Path
) -> None:
    pid = start(caller, "SELECT pg_sleep(60)", nineteen)

    def decided(look: Look) -> bool:
        return orphaned(look, pid) and DisarmReason.WARMING_UP not in look.disarmed

    with actor_on(nineteen, tmp_path, allow_untested=False) as cycle:
        looks = [await look_until(cycle, decided), await cycle.look(tick=True)]
        told = await _made_to_allow(cycle)
    for look in looks:
        assert (look.disarmed, look.results) == ((DisarmReason.UNTESTED_VERSION,), ())
        assert withheld_reason(verdict_of(look, pid)) is Withheld.NOT_ARMED
    assert told.status.actor > looks[-1].status.actor, "to be told so is a new start"
    assert told.disarmed == (DisarmReason.WARMING_UP,)


async def _made_to_allow(cycle: Cycle) -> Look:
    """The next look after a reload that allows it."""
    actor = cycle.actor
    assert isinstance(actor, Actor)
    other = Actor(source=cycle.source, arming=actor.arming, outbox=actor.outbox, enforces=True, allow_untested=True)
    actor.apply_config(other, rules_changed=False)
    return await cycle.look(tick=True)


async def test_that_it_is_untested_stands_in_metrics_page_report_doctor_and_log(
    nineteen: TestServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder()
    config = f'clusters: [{{name: main, dsn: "{nineteen.dsn()}"}}]\nbudgets: {{default: 60s}}\n'
    async with daemon_on(tmp_path, config, sinks=(recorder,)) as (_, address):
        await recorder.until(lambda seen: seen.looks())
        text, page, found = [
            (await asyncio.to_thread(get, f"{address}{path}")).text for path in ("metrics", "", "api/v1/findings")
        ]
    assert samples(text)['pgwatchdog_server_untested{server="main"}'] == 1
    assert samples(text)['pgwatchdog_disarmed{reason="untested_version",server="main"}'] == 1
    sentence = f"PostgreSQL 19 is untested: this pgwatchdog was tested with 14 to {MAX_TESTED}."
    assert sentence in page
    assert json.loads(found)["clusters"][0]["untested"] is True
    assert "event=server_untested" in capsys.readouterr().err
    report = await asyncio.to_thread(command, "report", nineteen.dsn(), "--budget", "60s", "--format", "markdown")
    assert sentence in report.stdout
    doctor = await asyncio.to_thread(command, "doctor", nineteen.dsn(), "--budget", "60s", "--format", "json")
    [check] = [each for each in json.loads(doctor.stdout)["clusters"][0]["checks"] if each["name"] == "version"]
    assert (check["status"], "19" in check["saw"]) == ("warning", True)


async def test_a_session_on_19_takes_the_newest_text_of_each_statement(nineteen: TestServer) -> None:
    with source_on(nineteen) as source:
        census = await source.census()
        asked = await source.backends(alive=[1])
    assert census.version == "19.0"
    assert asked.alive == frozenset()
