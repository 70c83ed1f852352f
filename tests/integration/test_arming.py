"""What arms anew: a reload, a restart, the end of what disarmed. Each counts as a new start."""

from pathlib import Path

import pytest
from support.gates import CANCELED
from support.replicas import STEP, exported_of, orphan, over_budget
from support.servers import Connect, TestServer
from support.watching import actor_on, answer, history, look_until, verdict_of

from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import UnderWay, Withheld
from watchdog.postgres.source import PostgresSource
from watchdog.runtime.arming import Arming, DisarmFile, FileAnswer

Answer = tuple[Result, Withheld | None, str]


async def test_a_disarm_file_that_came_and_went_within_one_look_leaves_the_rest_of_the_look_disarmed(
    server: TestServer, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "disarm"
    real_cancel, real_look = PostgresSource.cancel, DisarmFile.look

    async def cancel(source: PostgresSource, target: CancelTarget, *, act: str) -> Answer:
        done = await real_cancel(source, target, act=act)
        file.touch()
        return done

    async def look_at(disarm_file: DisarmFile, path: Path | None) -> FileAnswer:
        found = await real_look(disarm_file, path)
        file.unlink(missing_ok=True)
        return found

    callers = connect(), connect(), connect()
    with actor_on(server, tmp_path, interval=STEP, arming=Arming(policy_enforces=True, disarm_file=file)) as cycle:
        await look_until(cycle, lambda look: not look.disarmed)
        for pid in [orphan(each, server) for each in callers]:
            over_budget(server, pid, seconds=0.55)
        monkeypatch.setattr(PostgresSource, "cancel", cancel)
        monkeypatch.setattr(DisarmFile, "look", look_at)
        look = await cycle.look(tick=True)
        monkeypatch.undo()
        after = await cycle.look(tick=True)
    assert [(each.result, each.withheld) for each in look.results] == [
        (Result.SIGNALLED, None),
        (Result.NOT_TRIED, Withheld.NOT_ARMED),
        (Result.NOT_TRIED, Withheld.NOT_ARMED),
    ]
    assert (after.results, after.disarmed) == ((), (DisarmReason.WARMING_UP,))
    assert after.status.actor > look.status.actor


async def test_arming_by_a_reload_counts_as_a_new_start(server: TestServer, tmp_path: Path) -> None:
    arming = Arming(policy_enforces=False)
    with actor_on(server, tmp_path, interval=STEP, arming=arming) as cycle:
        before = await look_until(cycle, lambda look: DisarmReason.WARMING_UP not in look.disarmed)
        arming.apply_config(Arming(policy_enforces=True))
        after = await cycle.look(tick=True)
        again = await look_until(cycle, lambda look: not look.disarmed)
    assert before.disarmed == (DisarmReason.POLICY_MODE,)
    assert after.status.actor > before.status.actor
    assert after.disarmed == (DisarmReason.WARMING_UP,)
    assert (await exported_of(after)).enforcing is False
    assert again.status.actor == after.status.actor


async def test_what_was_rehearsed_is_cancelled_once_a_reload_arms(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    caller, arming = connect(), Arming(policy_enforces=False)
    pid = orphan(caller, server)
    with actor_on(server, tmp_path, interval=STEP, arming=arming) as cycle:
        rehearsed = await look_until(cycle, lambda look: look.results)
        assert isinstance(verdict_of(await cycle.look(tick=True), pid), UnderWay), "it is rehearsed once"
        arming.apply_config(Arming(policy_enforces=True))
        armed = await look_until(cycle, lambda look: look.results, timeout=10)
    assert [each.result for each in (*rehearsed.results, *armed.results)] == [Result.REHEARSED, Result.SIGNALLED]
    assert answer(caller) == CANCELED
    assert [row["hand"] for row in history(tmp_path)] == ["rehearse", "signal"]


async def test_what_was_rehearsed_is_cancelled_by_a_daemon_that_is_restarted_armed(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    caller = connect()
    orphan(caller, server)
    with actor_on(server, tmp_path, interval=STEP, arming=Arming(policy_enforces=False)) as dry:
        rehearsed = await look_until(dry, lambda look: look.results)
    with actor_on(server, tmp_path, interval=STEP) as cycle:
        armed = await look_until(cycle, lambda look: look.results, timeout=10)
    assert [each.result for each in (*rehearsed.results, *armed.results)] == [Result.REHEARSED, Result.SIGNALLED]
    assert answer(caller) == CANCELED
    assert [row["hand"] for row in history(tmp_path)] == ["rehearse", "signal"]
