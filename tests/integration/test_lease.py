"""The lease over several daemons and real faults: one acts, and who falls silent loses it by the server's clock.

Figures are seconds. A daemon's session may be silent for `IDLE_LIMIT` of them.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pytest
from structlog.testing import capture_logs
from support.gates import CANCELED
from support.processes import get, samples
from support.proxy import proxy_to
from support.replicas import (
    IDLE_LIMIT,
    INTERVAL,
    SLACK,
    TIMEOUT,
    Exported,
    apart_or_skipped,
    armed,
    freeze,
    holder_pid,
    holders,
    leader_of,
    orphan,
    replicas,
    seconds_until_led_by_another,
)
from support.servers import PATIENCE, Connect, TestServer, make_server, until
from support.watching import Later, Recorder, actor_on, answer, daemon_on, history, look_until

from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import withheld_reason
from watchdog.core.present.look import Look
from watchdog.demo.guardian import Guardian
from watchdog.postgres.password import Password
from watchdog.postgres.source import PostgresSource

IDLE_SESSION_TIMEOUT = "terminating connection due to idle-session timeout"


async def scraped(address: str) -> Exported:
    return Exported(samples((await asyncio.to_thread(get, f"{address}metrics")).text))


def leading(recorder: Recorder) -> list[Look]:
    return [look for look in recorder.looks() if look.lease.leads]


def signalled(recorder: Recorder) -> list[int]:
    return [done.act.finding.backend.pid for look in recorder.looks() for done in look.results]


@pytest.mark.slow
def test_of_two_daemons_one_acts_and_the_other_takes_over_within_an_interval_when_it_is_killed(
    server: TestServer, connect: Connect, tmp_path: Path, guardian: Guardian
) -> None:
    caller, later = connect(), connect()
    config = armed(server.dsn("canceller"), tmp_path / "ledger.db")
    with replicas(tmp_path, config, config, guardian=guardian) as daemons:
        pid = orphan(caller, server)
        first, second = leader_of(daemons)
        assert answer(caller) == CANCELED
        until(lambda: first.events("outcome"), what="the look after the act")
        second.looks_on()
        led, follows = first.exported(), second.exported()
        [holder] = holders(server)
        acts, follower_acts = first.acts(), second.acts()

        first.process.kill()
        took = seconds_until_led_by_another(server, holder)
        taken_over = time.monotonic()
        orphan(later, server)
        assert answer(later) == CANCELED
        waited = time.monotonic() - taken_over
        until(lambda: second.events("outcome"), what="the look after the act")
        until(lambda: second.exported().enforcing, what="the other one's power to act")
        assert [each["pid"] for each in second.acts()] == [later.info.backend_pid]
        leads_now = second.exported()

    assert [(each["pid"], each["hand"], each["result"]) for each in acts] == [(pid, "signal", "signalled")]
    assert follower_acts == []
    assert [row["pid"] for row in history(tmp_path)] == [pid, later.info.backend_pid], "one ledger, each act once"
    assert (led.leads, led.enforcing, led.disarmed) == (1, True, set())
    assert (follows.leads, follows.enforcing, follows.disarmed - {"warming_up"}) == (0, False, {"not_leader"})
    assert led.count("cancel_attempts_total", rule="orphans") == 1
    assert follows.count("cancel_attempts_total", rule="orphans") == 0
    for each in (led, follows):
        detected = each.count("orphans_detected_total", usename="web_app", job_key="", evidence="over_budget")
        assert (each.count("up"), detected) == (1, 1)
    assert took < SLACK * INTERVAL
    assert waited > 2 * INTERVAL - 0.5, "a takeover makes a new actor, which only watches at first"
    assert (leads_now.leads, leads_now.enforcing) == (1, True)


@pytest.mark.slow
def test_a_frozen_leader_is_replaced_and_does_nothing_when_it_comes_round_but_follow(
    server: TestServer, connect: Connect, tmp_path: Path, guardian: Guardian
) -> None:
    caller, again = connect(), connect()
    configs = [armed(server.dsn("canceller"), tmp_path / f"{i}.db") for i in range(2)]
    with replicas(tmp_path, *configs, guardian=guardian) as daemons:
        first, second = leader_of(daemons)
        [holder] = holders(server)
        freeze(first.process)
        orphan(caller, server)
        took = seconds_until_led_by_another(server, holder)
        assert f"[{holder}] FATAL:  {IDLE_SESSION_TIMEOUT}" in server.embedded.log.read_text()
        assert answer(caller) == CANCELED
        known = len(first.events("disarmed"))
        orphan(again, server)  # it is there when the first one comes round

        first.process.send_signal(signal.SIGCONT)
        until(lambda: first.events("disarmed")[known:], what="the first one's word that it does not lead")
        assert answer(again) == CANCELED
        until(lambda: len(second.events("outcome")) == 2, what="the look after the second act")
        first.looks_on()
        assert [each["pid"] for each in second.acts()] == [caller.info.backend_pid, again.info.backend_pid]
        assert first.acts() == []
        assert [each["reason"] for each in first.events("cluster_unread")] == ["connection_lost"]
        assert IDLE_SESSION_TIMEOUT in first.events("cluster_unread")[0]["detail"]
        follows, leads = first.exported(), second.exported()
    assert took < IDLE_LIMIT + SLACK * INTERVAL
    assert (follows.count("up"), follows.leads, follows.disarmed - {"warming_up"}) == (1, 0, {"not_leader"})
    assert (leads.leads, leads.enforcing) == (1, True)


@pytest.mark.slow
async def test_a_leader_whose_link_swallows_everything_loses_the_lease_and_two_never_lead_at_once(
    server: TestServer, tmp_path: Path
) -> None:
    seen, others = Recorder(), Recorder()
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    ledger = tmp_path / "ledger.db"
    async with proxy_to(server.embedded.port) as proxy:
        behind = armed(f"{server.dsn('canceller')} port={proxy.port}", ledger)
        async with daemon_on(tmp_path / "first", behind, sinks=(seen,)) as (_, address):
            await seen.until(leading)
            direct = armed(server.dsn("canceller"), ledger)
            async with daemon_on(tmp_path / "second", direct, sinks=(others,)):
                await others.until(lambda them: them.looks())
                known = len(seen.looks())
                await seen.until(lambda us: len(us.looks()) > known)  # between two looks nothing is under way
                [holder] = holders(server)
                proxy.stall()
                begun = time.monotonic()
                await others.until(leading)
                took = time.monotonic() - begun
                cut_off = await scraped(address)
                led = len(seen.looks())
                proxy.flow()
                proxy.drop()
                await seen.until(lambda us: len(us.looks()) > led + 1)
                async with asyncio.timeout(PATIENCE):  # one text serves every scrape within a second
                    while (back := await scraped(address)).leads is None:  # noqa: ASYNC110  # a scrape tells no event
                        await asyncio.sleep(0.1)
    [last], [begins] = leading(seen)[-1:], leading(others)[:1]
    assert took < IDLE_LIMIT + SLACK * INTERVAL
    assert begins.snapshot.at - last.snapshot.at > timedelta(seconds=IDLE_LIMIT - 0.5)
    assert begins.lease.just_acquired
    assert f"[{holder}] FATAL:  {IDLE_SESSION_TIMEOUT}" in server.embedded.log.read_text()
    assert not any(look.lease.leads for look in seen.looks() if look.snapshot.at > begins.snapshot.at)
    assert (cut_off.leads, cut_off.disarmed) == (None, {"unread"}), "who cannot look does not say that it leads"
    assert (back.leads, back.disarmed) == (0, {"not_leader"})


@pytest.mark.slow
async def test_a_leader_whose_host_vanishes_without_a_word_loses_the_lease_by_the_servers_clock(
    tmp_path: Path, guardian: Guardian, missing: Callable[[str], NoReturn]
) -> None:
    with ExitStack() as stack:
        subnet = f"10.213.{os.getpid() % 250}"
        inside, link = apart_or_skipped(stack, guardian=guardian, missing=missing, subnet=subnet)
        try:
            _filter(inside, f"-A OUTPUT -o {link} -j ACCEPT")
        except subprocess.CalledProcessError as error:
            # A sandbox that forbids it is no tool that is missing.
            pytest.skip(f"no network of its own can be made here: {error.stderr!r}")
        server = make_server(guardian=guardian, settings={"listen_addresses": f"127.0.0.1,{subnet}.1"})
        stack.callback(server.embedded.stop)
        _admit(server, f"{subnet}.0/30")
        far = armed(f"{server.dsn('canceller')} host={subnet}.1", tmp_path / "far.db")
        [first] = stack.enter_context(replicas(tmp_path, far, guardian=guardian, prefixes=(inside,)))
        until(lambda: first.exported().leads, what="the far one's lead")
        [holder] = holders(server)
        with actor_on(server, tmp_path, interval=INTERVAL) as near:
            kept_out = await near.look(tick=True)
            _filter(inside, f"-I OUTPUT -o {link} -j DROP")
            _filter(inside, f"-I INPUT -i {link} -j DROP")
            begun = time.monotonic()
            await look_until(near, lambda look: look.lease.leads)
            took = time.monotonic() - begun
            cut_off = first.exported()
            assert holder not in holders(server)
        assert f"[{holder}] FATAL:  {IDLE_SESSION_TIMEOUT}" in server.embedded.log.read_text()
    assert (kept_out.lease.leads, holder_pid(kept_out)) == (False, holder)
    assert (cut_off.leads, cut_off.disarmed) == (None, {"unread"})
    assert IDLE_LIMIT - INTERVAL - 0.5 < took < IDLE_LIMIT + SLACK * INTERVAL


def _filter(inside: tuple[str, ...], rule: str) -> None:
    subprocess.run([*inside, "iptables", *rule.split()], check=True, capture_output=True, timeout=20)


def _admit(server: TestServer, network: str) -> None:
    """Let clients of another network log in with their passwords."""
    loaded = server.value("SELECT pg_conf_load_time()")
    with (server.embedded.directory / "data" / "pg_hba.conf").open("a") as rules:
        rules.write(f"host all all {network} scram-sha-256\n")
    server.run("SELECT pg_reload_conf()")
    until(lambda: server.value("SELECT pg_conf_load_time()") != loaded, what="the reloaded rules")


@pytest.mark.slow
async def test_a_session_of_ours_that_nobody_uses_any_more_cannot_lock_us_out(
    server: TestServer, tmp_path: Path
) -> None:
    abandoned = PostgresSource(
        dsn=server.dsn("canceller"), password=Password(), timeout=TIMEOUT, idle_limit=IDLE_LIMIT, env={}
    )
    recorder = Recorder()
    try:
        assert (await abandoned.lease()).just_acquired
        begun = time.monotonic()
        async with daemon_on(tmp_path, armed(server.dsn("canceller"), tmp_path / "l.db"), sinks=(recorder,)):
            await recorder.until(lambda seen: seen.looks())
            await recorder.until(leading)
            took = time.monotonic() - begun
    finally:
        abandoned.close()
    shut_out, leads = recorder.looks()[0], leading(recorder)[0]
    assert "not_leader" in shut_out.disarmed
    assert leads.snapshot.at - shut_out.snapshot.at > 2 * leads.interval, "it did hold the lease for a while"
    assert IDLE_LIMIT - 0.5 < took < IDLE_LIMIT + SLACK * INTERVAL


async def test_in_dry_run_two_daemons_have_one_lease_and_count_a_run_once(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    pid = orphan(connect(), server)
    recorders = Recorder(), Recorder()
    for name in ("0", "1"):
        (tmp_path / name).mkdir()
    config = armed(server.dsn("canceller"), None, policy="dry-run", cluster="mode: dry-run")
    async with (
        daemon_on(tmp_path / "0", config, sinks=(recorders[0],)) as (_, one),
        daemon_on(tmp_path / "1", config, sinks=(recorders[1],)) as (_, two),
    ):
        for each in recorders:
            await each.until(lambda seen: seen.looks())
        assert len(holders(server)) == 1
        for each in recorders:
            await each.until(lambda seen: seen.looks()[-1].judgement.findings)
        first, second = sorted(recorders, key=lambda each: not leading(each))
        await first.until(signalled)
        for each in recorders:  # a joined exposition serves scrapes for a second, which these two take
            await each.until(Later(looks=len(each.looks()) + 1))
        exported = [await scraped(one), await scraped(two)]
        assert server.value("SELECT state FROM pg_stat_activity WHERE pid = %s", pid) == "active"
    assert sorted(each.count("dry_run_cancels_total", rule="orphans") for each in exported) == [0, 1]
    assert (signalled(first), signalled(second)) == ([pid], [])
    [verdict] = second.looks()[-1].decisions.verdicts
    assert withheld_reason(verdict) == "not_leader"
    assert sorted(each.leads or 0 for each in exported) == [0, 1]


async def test_somebody_elses_lock_keeps_us_from_leading_is_named_and_gives_way_within_an_interval(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    squatter, caller = connect(role="etl_app", name="migrations"), connect()
    squatter.execute("SELECT pg_advisory_lock(1885828964, 1)")
    pid = squatter.info.backend_pid
    orphan(caller, server)
    recorder = Recorder()
    config = armed(server.dsn("canceller"), tmp_path / "ledger.db")
    with capture_logs() as lines:
        async with daemon_on(tmp_path, config, sinks=(recorder,)) as (_, address):
            await recorder.until(lambda seen: seen.looks() and seen.looks()[-1].disarmed == (DisarmReason.LEASE_TAKEN,))
            kept_out = await scraped(address)
            squatter.close()
            begun = time.monotonic()
            await recorder.until(leading)
            took = time.monotonic() - begun
            await recorder.until(signalled)
            led = len(recorder.looks())
            await recorder.until(lambda seen: len(seen.looks()) > led)
            leads = await scraped(address)
    [told] = [line for line in lines if line["event"] == "disarmed"]
    assert (told["reasons"], told["holder"]) == ("lease_taken", f"etl_app, pid {pid}")
    assert next(line["withheld"] for line in lines if line["event"] == "verdict") == "not_leader"
    assert (kept_out.leads, kept_out.disarmed) == (0, {"lease_taken"})
    assert kept_out.count("lease_holder", usename="etl_app") == 1
    assert took < SLACK * INTERVAL
    assert answer(caller) == CANCELED
    assert (leads.leads, leads.count("lease_holder", usename="etl_app")) == (1, 0)
