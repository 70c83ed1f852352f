"""Everything that takes the power to act away, before the very next act, and what gives it back."""

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from support.gates import CANCELED
from support.replicas import INTERVAL, STEP, Exported, armed, exported_of, orphan, over_budget, replicas
from support.servers import Connect, TestServer, until
from support.watching import actor_on, answer, history, look_until, verdict_of

from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Withheld, withheld_reason
from watchdog.core.present.look import Look
from watchdog.demo.guardian import Guardian
from watchdog.postgres.source import PostgresSource
from watchdog.runtime.arming import Arming, DisarmFile

Answer = tuple[Result, Withheld | None, str]


def is_active(server: TestServer, pid: int) -> bool:
    return server.value("SELECT state FROM pg_stat_activity WHERE pid = %s", pid) == "active"


def armed_now(look: Look) -> bool:
    return not look.disarmed


async def test_a_disarm_file_that_appears_between_two_acts_stops_the_second(
    server: TestServer, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "disarm"
    real = PostgresSource.cancel
    aims: list[int] = []

    async def cancel(self: PostgresSource, target: CancelTarget, *, act: str) -> Answer:
        aims.append(target.pid)
        done = await real(self, target, act=act)
        file.touch()
        return done

    monkeypatch.setattr(PostgresSource, "cancel", cancel)
    arming = Arming(policy_enforces=True, disarm_file=file)
    with actor_on(server, tmp_path, interval=STEP, arming=arming) as cycle:
        await look_until(cycle, armed_now)
        callers = {orphan(each, server): each for each in (connect(), connect())}
        for pid in callers:
            over_budget(server, pid, seconds=0.5)
        look = await cycle.look(tick=True)
        after = await cycle.look(tick=True)
    first, second = look.results
    assert [(each.result, each.withheld) for each in look.results] == [
        (Result.SIGNALLED, None),
        (Result.NOT_TRIED, Withheld.NOT_ARMED),
    ]
    hit, spared = (each.act.finding.backend.pid for each in (first, second))
    assert aims == [hit]
    assert answer(callers[hit]) == CANCELED
    assert is_active(server, spared)
    assert (after.results, after.disarmed) == ((), (DisarmReason.DISARM_FILE,))
    assert withheld_reason(verdict_of(after, spared)) is Withheld.NOT_ARMED
    assert {row["pid"]: row["result"] for row in history(tmp_path)} == {hit: "signalled", spared: "not_tried"}
    told, then = await exported_of(look), await exported_of(after)
    assert told.count("cancel_attempts_total", rule="orphans") == 1
    assert told.count("cancels_withheld_total", rule="orphans", reason="not_armed") == 1
    assert (then.enforcing, then.disarmed, then.leads) == (False, {"disarm_file"}, 1)


async def test_the_removal_of_the_disarm_file_counts_as_a_new_start(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    caller, file = connect(), tmp_path / "disarm"
    arming = Arming(policy_enforces=True, disarm_file=file)
    with actor_on(server, tmp_path, interval=STEP, arming=arming) as cycle:
        before = await look_until(cycle, armed_now)
        file.touch()
        pid = orphan(caller, server)
        over_budget(server, pid, seconds=0.5)
        disarmed = await cycle.look(tick=True)
        file.unlink()
        anew = await cycle.look(tick=True)
        acts = await look_until(cycle, lambda look: look.results)
    assert (disarmed.disarmed, disarmed.results) == ((DisarmReason.DISARM_FILE,), ())
    assert withheld_reason(verdict_of(disarmed, pid)) is Withheld.NOT_ARMED
    assert anew.status.actor > before.status.actor
    assert withheld_reason(verdict_of(anew, pid)) is Withheld.WARMING_UP
    exported = await exported_of(anew)
    assert (exported.enforcing, exported.disarmed) == (False, {"warming_up"})
    assert acts.snapshot.at - anew.snapshot.at >= timedelta(seconds=2 * STEP)
    exported = await exported_of(acts)
    assert (exported.enforcing, exported.disarmed) == (True, set())
    assert answer(caller) == CANCELED


def loop(folder: Path) -> Path:
    """A folder that is a link to itself."""
    folder.symlink_to(folder)
    return folder


def no_folder(folder: Path) -> Path:
    """A file where the folder should be."""
    folder.touch()
    return folder


@pytest.mark.parametrize("spoil", [loop, no_folder])
async def test_a_disarm_file_that_cannot_be_looked_for_disarms(
    server: TestServer, connect: Connect, tmp_path: Path, spoil: Callable[[Path], Path]
) -> None:
    file = spoil(tmp_path / "run") / "disarm"
    pid = orphan(connect(), server)
    over_budget(server, pid, seconds=0.5)
    with actor_on(server, tmp_path, interval=STEP, arming=Arming(policy_enforces=True, disarm_file=file)) as cycle:
        look = await look_until(cycle, lambda look: DisarmReason.WARMING_UP not in look.disarmed)
    assert (look.disarmed, look.results) == ((DisarmReason.DISARM_FILE,), ())
    assert withheld_reason(verdict_of(look, pid)) is Withheld.NOT_ARMED
    assert (await exported_of(look)).disarmed == {"disarm_file"}


async def test_a_disarm_file_in_a_folder_that_our_user_may_not_enter_disarms(public_folder: Path) -> None:
    closed = public_folder / "run"
    closed.mkdir(mode=0o000)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65_534)  # root may enter everything
        found = await DisarmFile().disarms(closed / "disarm")
    finally:
        os.seteuid(user)
        closed.chmod(0o700)
    assert found is True
    assert await DisarmFile().disarms(closed / "disarm") is False


@pytest.mark.parametrize(
    ("arming", "enforces", "reason"),
    [
        (Arming(policy_enforces=False), True, "policy_mode"),
        (Arming(policy_enforces=True), False, "cluster_mode"),
        (Arming(policy_enforces=True, dry_run=True), True, "flag"),
    ],
    ids=["policy", "cluster", "flag"],
)
async def test_without_both_keys_an_orphan_is_rehearsed_and_the_missing_one_is_exported(
    server: TestServer, connect: Connect, tmp_path: Path, *, arming: Arming, enforces: bool, reason: str
) -> None:
    pid = orphan(connect(), server)
    with actor_on(server, tmp_path, interval=STEP, arming=arming, enforces=enforces) as cycle:
        look = await look_until(cycle, lambda look: look.results)
    assert [(each.act.finding.backend.pid, each.result) for each in look.results] == [(pid, Result.REHEARSED)]
    exported = await exported_of(look)
    assert (exported.enforcing, exported.disarmed, exported.leads) == (False, {reason}, 1)
    assert exported.count("dry_run_cancels_total", rule="orphans") == 1
    assert is_active(server, pid)


def test_the_flag_makes_an_armed_file_rehearse(
    server: TestServer, connect: Connect, tmp_path: Path, guardian: Guardian
) -> None:
    pid = orphan(connect(), server)
    config = armed(server.dsn("canceller"), tmp_path / "ledger.db")
    with replicas(tmp_path, config, guardian=guardian, arguments=("--dry-run",)) as [daemon]:
        until(daemon.acts, what="the rehearsal")
        until(lambda: daemon.exported().disarmed == {"flag"}, what="the end of the warm-up")
        exported = daemon.exported()
    [act] = daemon.acts()
    assert (act["pid"], act["hand"], act["result"]) == (pid, "rehearse", "rehearsed")
    assert daemon.events("listening")[0]["mode"] == "dry-run"
    assert (exported.enforcing, exported.leads) == (False, 1)
    assert is_active(server, pid)


@pytest.mark.slow
def test_sigusr1_disarms_until_the_next_start_and_no_reload_changes_that(
    server: TestServer, connect: Connect, tmp_path: Path, guardian: Guardian
) -> None:
    config = armed(server.dsn("canceller"), tmp_path / "ledger.db")
    pid = orphan(connect(), server)
    with replicas(tmp_path, config, guardian=guardian) as [daemon]:
        daemon.process.send_signal(signal.SIGUSR1)
        until(lambda: disarmed_by(daemon.exported(), "signal"), what="the end of the warm-up")
        daemon.reload(config.replace("etl_app: 1min", "etl_app: 2min"))
        until(lambda: daemon.events("reloaded"), what="the reload")
        daemon.looks_on()
        until(lambda: disarmed_by(daemon.exported(), "signal"), what="the warm-up of the actor with other budgets")
        exported = daemon.exported()
        assert daemon.acts() == []
        assert is_active(server, pid)
    with replicas(tmp_path / "0", config, guardian=guardian) as [restarted]:
        until(lambda: restarted.exported().leads, what="the first look after the start")
        assert "signal" not in restarted.exported().disarmed
    assert [each["by"] for each in daemon.events("disarmed") if "by" in each] == ["SIGUSR1"]
    assert {each["withheld"] for each in daemon.events("verdict")} == {"not_armed"}
    assert disarmed_by(exported, "signal")


def disarmed_by(exported: Exported, reason: str) -> bool:
    """True where this one reason is in the way and the lease is kept all the same."""
    return (exported.enforcing, exported.leads, exported.disarmed) == (False, 1, {reason})


def test_a_bad_reload_disarms_until_a_good_one_which_counts_as_a_new_start(
    server: TestServer, connect: Connect, tmp_path: Path, guardian: Guardian
) -> None:
    config = armed(server.dsn("canceller"), tmp_path / "ledger.db")
    caller = connect()
    pid = orphan(caller, server)
    with replicas(tmp_path, config, guardian=guardian) as [daemon]:
        daemon.reload(f"nonsense: 1\n{config}")
        until(lambda: disarmed_by(daemon.exported(), "reload_failed"), what="the end of the warm-up")
        refused_acts = daemon.acts()
        assert is_active(server, pid)
        reloaded = time.monotonic()
        daemon.reload(config)
        until(lambda: daemon.exported().disarmed == {"warming_up"}, what="the warm-up of a new start")
        assert answer(caller) == CANCELED
        waited = time.monotonic() - reloaded
        until(lambda: daemon.exported().enforcing, what="the power to act")
    assert "nonsense: unknown key" in daemon.events("reload_failed")[0]["problems"][0]
    assert refused_acts == []
    assert {each.get("withheld") for each in daemon.events("verdict")} == {"not_armed", None}, "both are only passing"
    assert waited > 2 * INTERVAL - 0.5
    assert [each["pid"] for each in daemon.acts()] == [pid]
