"""What goes wrong beside the cluster itself: locks, questions that time out, full disks, hanging files, reloads."""

import asyncio
import os
import signal
import socket
import subprocess
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from support.builders import backend, book, census, judge_settings, rule, snapshot
from support.processes import COMMAND, daemon_process, environment, get, samples
from support.proxy import proxy_to
from support.servers import Connect, TestServer, start, until
from support.watching import Recorder, daemon_on, found, look_until, orphaned, source_on, watcher

from watchdog.core.judging.judge import Memory, judge
from watchdog.core.observed.blocking import Blocking
from watchdog.core.observed.reasons import Reason
from watchdog.demo.guardian import Guardian
from watchdog.demo.server import free_port
from watchdog.errors import ReadError
from watchdog.postgres.password import Password
from watchdog.postgres.source import PostgresSource


async def test_a_census_that_fails_leaves_the_looks_alone_and_is_counted(server: TestServer, tmp_path: Path) -> None:
    recorder = Recorder()
    config = (
        "poll: {interval: 1s, census_interval: 1s, timeout: 2s}\n"
        f'clusters: [{{name: main, dsn: "{server.dsn()}"}}]\nbudgets: {{default: 15min}}\n'
    )
    async with daemon_on(tmp_path, config, sinks=(recorder,)):
        await recorder.until(lambda seen: seen.looks())
        with server.admin() as admin:
            admin.execute("BEGIN")
            admin.execute("LOCK TABLE pg_catalog.pg_authid IN ACCESS EXCLUSIVE MODE")
            known = len(recorder.looks())
            await recorder.until(lambda seen: len(seen.looks()) > known + 3 and seen.looks()[-1].census_failures > 1)
            admin.execute("ROLLBACK")
    assert recorder.unread() == []


async def test_a_question_about_blocking_that_fails_leaves_it_unknown_and_the_findings_stand(
    server: TestServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: PostgresSource, waiters: object) -> Blocking | None:
        raise ReadError(Reason.TIMEOUT, f"too slow for {waiters}")

    monkeypatch.setattr(PostgresSource, "blocking", refuse)
    holder = connect()
    holder.execute("SELECT pg_advisory_lock(1)")
    pid = start(holder, "SELECT pg_sleep(60)", server)
    start(connect(role="etl_app"), "SELECT pg_advisory_lock(1)", server)
    with watcher(server, roles={"web_app": 0.2}, grace=0.0) as cycle:
        look = await look_until(cycle, lambda look: orphaned(look, pid))
    assert [each.blocks for each in look.judgement.findings] == [None]


async def test_a_refused_statement_keeps_the_session(server: TestServer) -> None:
    with source_on(server) as source:
        await source.census()
        sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgwatchdog'"
        before = server.value(sessions)
        with server.admin() as admin:
            admin.execute("BEGIN")
            admin.execute("LOCK TABLE pg_catalog.pg_authid IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(ReadError):
                await source.census()
            admin.execute("ROLLBACK")
        assert source.is_open
        await source.census()
        assert server.value(sessions) == before


async def test_we_take_leave_and_are_not_counted_as_abandoned(server: TestServer) -> None:
    abandoned = "SELECT sum(sessions_abandoned) FROM pg_stat_database"
    ended = "SELECT sum(sessions) FROM pg_stat_database"
    before, sessions = server.value(abandoned), server.value(ended)
    for _ in range(3):
        with source_on(server) as source:
            await source.census()
            await source.snapshot()
    until(lambda: int(str(server.value(ended))) >= int(str(sessions)) + 3, what="the statistics")
    until(lambda: server.value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgwatchdog'") == 0)
    assert server.value(abandoned) == before


async def test_a_copy_that_waits_for_its_client_now_and_then_is_detected_once(
    server: TestServer, connect: Connect
) -> None:
    loader = connect()
    pid = start(loader, "COPY accounts FROM STDIN", server)
    loader.pgconn.get_result()  # the server's word that it takes data
    wait = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
    detected = news = 0
    with watcher(server, roles={"web_app": 0.2}, grace=0.0) as cycle:
        for _ in range(6):
            until(lambda: server.value(wait, pid) == "ClientRead")
            look = await cycle.look(tick=True)
            detected += len(look.judgement.detected)
            news += len(look.decisions.news)
            assert look.judgement.finished == []
            loader.pgconn.put_copy_data(b"x" * 8)  # never a whole row
            loader.pgconn.flush()
            await asyncio.sleep(0.05)
    assert detected <= 1
    assert news <= 1
    assert found(look, pid) == ["holding"]


async def test_losing_and_regaining_the_right_to_see_counts_no_run_twice(server: TestServer, connect: Connect) -> None:
    pid = start(connect(), "SELECT pg_sleep(60)", server)
    with watcher(server, roles={"web_app": 0.2}, grace=0.0) as cycle:
        await look_until(cycle, lambda look: orphaned(look, pid))
        server.run("REVOKE pg_monitor FROM pgwatchdog")
        try:
            hidden = [await cycle.look(tick=True) for _ in range(3)]
        finally:
            server.run("GRANT pg_monitor TO pgwatchdog")
        again = await cycle.look(tick=True)
    assert [look.judgement.finished for look in hidden] == [[]] * 3
    assert found(again, pid) == ["orphan"]
    assert (again.judgement.detected, again.decisions.news) == ([], ())


async def test_a_role_that_was_dropped_asks_for_one_census_and_not_for_one_after_the_other(
    server: TestServer,
) -> None:
    server.run(f"CREATE ROLE leaver LOGIN PASSWORD '{server.embedded.password}'")
    dropped = PostgresSource(
        dsn=server.dsn("leaver"), password=Password(), timeout=3.0, idle_limit=60.0, env=os.environ
    )
    session = await dropped._open()
    with source_on(server) as source:
        await source.census()
        await session.connection.set_autocommit(False)
        await session.connection.execute("SELECT 1")
        server.run("DROP ROLE leaver")
        await source.census()
        await source.snapshot()
        await source.census()
        await source.snapshot()
        assert not source.census_is_stale
    dropped.close()


async def test_a_hanging_password_file_costs_one_thread_however_often_it_is_read(
    server: TestServer, tmp_path: Path
) -> None:
    pipe = tmp_path / "password"
    os.mkfifo(pipe)
    before = threading.active_count()
    with source_on(server.embedded.dsn(role="pgwatchdog"), password=Password(file=pipe), timeout=0.2) as source:
        for _ in range(5):
            with pytest.raises(ReadError, match="was not read within"):
                await source.census()
    assert threading.active_count() <= before + 1
    with pipe.open("w"):
        pass  # lets the thread go


async def test_a_password_command_with_children_ends_at_its_deadline(server: TestServer) -> None:
    command = Password(command=("sh", "-c", "sleep 60 | cat"), command_timeout=0.5)
    begun = time.monotonic()
    with (
        source_on(server.embedded.dsn(role="pgwatchdog"), password=command) as source,
        pytest.raises(ReadError, match="no end within"),
    ):
        await source.census()
    assert time.monotonic() - begun < 5


async def test_a_missing_or_empty_password_is_a_matter_of_authentication(server: TestServer, tmp_path: Path) -> None:
    empty = tmp_path / "password"
    empty.write_text("")
    for password in (Password(), Password(file=empty)):
        with (
            source_on(server.embedded.dsn(role="pgwatchdog"), password=password, env={}) as source,
            pytest.raises(ReadError) as caught,
        ):
            await source.census()
        assert caught.value.reason is Reason.AUTHENTICATION


async def test_a_reload_keeps_the_open_session_where_the_cluster_is_reached_as_before(
    server: TestServer, tmp_path: Path
) -> None:
    recorder = Recorder()
    config = f'poll: {{interval: 1s}}\nclusters: [{{name: main, dsn: "{server.dsn()}"}}]\n'
    async with daemon_on(tmp_path, config, sinks=(recorder,)) as (daemon, _):
        await recorder.until(lambda seen: seen.looks())
        ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgwatchdog'"
        before = server.value(ours)
        (tmp_path / "pgwatchdog.yaml").write_text(config + "budgets: {default: 1s, grace: 0s}\n")
        assert daemon.try_reload() == []
        known = len(recorder.looks())
        await recorder.until(lambda seen: len(seen.looks()) > known + 1)
        assert server.value(ours) == before
    assert recorder.unread() == []


def test_a_daemon_whose_log_cannot_be_written_goes_on(server: TestServer, tmp_path: Path, guardian: Guardian) -> None:
    config = f'poll: {{interval: 1s}}\nclusters: [{{name: main, dsn: "{server.dsn()}"}}]\nbudgets: {{default: 1s}}\n'
    file = tmp_path / "full.yaml"
    file.write_text(config)
    port = free_port()
    arguments = [*COMMAND, "run", "-c", str(file), "--web.listen-address", f"127.0.0.1:{port}"]
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(arguments, stderr=full, stdout=subprocess.DEVNULL, env=environment())
    guardian.mind_process(process.pid)
    try:
        ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgwatchdog'"
        until(lambda: server.value(ours), what="a look")
        assert process.poll() is None
        until(lambda: _lost(port), what="the count of lost lines")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.wait()


def _lost(port: int) -> float:
    return samples(get(f"http://127.0.0.1:{port}/metrics").text)["pgwatchdog_log_lines_lost_total"]


def test_sigint_ends_the_daemon_with_130(server: TestServer, tmp_path: Path, guardian: Guardian) -> None:
    config = f'clusters: [{{name: main, dsn: "{server.dsn()}"}}]\n'
    with daemon_process(tmp_path, guardian=guardian, config=config) as daemon:
        daemon.process.send_signal(signal.SIGINT)
        assert daemon.process.wait(timeout=10) == 130


async def test_a_hundred_copies_in_one_dense_queue_are_judged_without_stopping_the_loop() -> None:
    rows = [
        backend(pid=p, role="etl_app", name="scan:q:w1", query=2000 - p, wait=("Lock", "advisory") if p else None)
        for p in range(200)
    ]
    edges = Blocking({p: frozenset(range(p)) for p in range(1, 200)})
    memory = Memory()
    settings = judge_settings(book(rule(copies=1, retry_gap=0.5)))
    begun = time.thread_time()  # what it takes of the loop, whatever else the machine does
    for _ in range(2):
        _, memory = judge(snapshot(*rows), settings=settings, census=census(), memory=memory, tick=True, blocking=edges)
    assert time.thread_time() - begun < 5 * 0.1


async def test_a_name_that_hangs_does_not_hide_the_host_that_answers(
    server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def lookup(host: str, *rest: object, **more: object) -> object:
        if host == "hanging.invalid":
            time.sleep(1.5)
        return real(host, *rest, **more)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    dsn = server.dsn().replace("host=127.0.0.1", "host=localhost,hanging.invalid")
    for order in (dsn, dsn.replace("localhost,hanging.invalid", "hanging.invalid,localhost")):
        with source_on(order, timeout=2.0) as source:
            await source.census()


async def test_look_durations_are_of_the_statement_alone(server: TestServer) -> None:
    async with proxy_to(server.embedded.port) as proxy:
        with watcher(f"{server.dsn()} port={proxy.port}") as cycle:
            look = await cycle.look(tick=True)
    assert timedelta(0) < look.took < timedelta(seconds=1)
