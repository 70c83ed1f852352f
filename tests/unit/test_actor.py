"""One actor on a cluster in memory: what it needs before it signals, and what takes that away."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.acting import FREE, cancel_rule
from support.builders import BOOT, NOW, backend, book, judge_settings, seconds
from support.memory_ledger import MemoryLedger
from support.memory_source import MemoryServer, MemorySource

from watchdog.core.acting.acts import Act, CancelTarget, Outcome, Result
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.protections import Protect
from watchdog.core.acting.status import DisarmReason, KeyHolder
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.observed.commands import BackendLookup
from watchdog.core.observed.reasons import Reason
from watchdog.core.observed.statement_failures import StatementFailure
from watchdog.core.present.look import Look
from watchdog.errors import LedgerError, LedgerRefusedError, ReadError
from watchdog.runtime import arming as arming_module
from watchdog.runtime.actor import CLAIM_EVERY, TRY_CLAIM_EVERY, Actor
from watchdog.runtime.arming import Arming, DisarmFile, FileAnswer
from watchdog.runtime.cycle import Cycle
from watchdog.runtime.outbox import Outbox

INTERVAL = 5.0


@dataclass
class Stage:
    """One pgwatchdog on a server in memory; a look is `INTERVAL` seconds after the one before."""

    server: MemoryServer = field(default_factory=MemoryServer)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    arming: Arming = field(default_factory=lambda: Arming(policy_enforces=True))
    pid: int = 1
    cycle: Cycle = field(init=False)

    def __post_init__(self) -> None:
        source = MemorySource(self.server, self.pid)
        self.actor = Actor(
            source=source,
            arming=self.arming,
            outbox=Outbox(server="main", ledger=self.ledger),
            enforces=True,
        )
        self.cycle = Cycle(
            server="main",
            source=source,
            judge_settings=judge_settings(book(roles={"web_app": 1}, grace=0.0), interval=INTERVAL),
            actor=self.actor,
            policy=Policy((cancel_rule(),), FREE),
            elapsed=lambda: self.server.at.timestamp(),  # noqa: PLW0108  # `at` changes
        )

    async def look(self) -> Look:
        self.server.pass_time(INTERVAL)
        return await self.cycle.look(tick=True)

    async def warm(self) -> "Stage":
        """Look until nothing warms up any more."""
        while DisarmReason.WARMING_UP in (await self.look()).disarmed:
            pass
        return self


def answers(look: Look) -> list[tuple[Result, Withheld | None]]:
    return [(each.result, each.withheld) for each in look.results]


async def test_an_orphan_is_signalled_once_with_its_intent_before_and_its_outcome_after() -> None:
    stage = await Stage().warm()
    pid = stage.server.run()
    acted, after = await stage.look(), await stage.look()
    assert (answers(acted), stage.server.signalled) == ([(Result.SIGNALLED, None)], [pid])
    assert [each.outcome for each in after.effects] == [Outcome.BETWEEN_STATEMENTS]
    [row] = stage.ledger.rows.values()
    assert (row["result"], row["outcome"], row["action"], row["rule"]) == (
        "signalled",
        "between_statements",
        "cancel",
        "orphans",
    )


async def test_a_ledger_that_takes_no_intent_withholds_the_signal() -> None:
    stage = await Stage().warm()
    stage.server.run()
    stage.ledger.failure = LedgerError("full")
    look, after = await stage.look(), await stage.look()
    assert (answers(look), stage.server.signalled) == ([(Result.NOT_TRIED, Withheld.NO_LEDGER)], [])
    assert after.disarmed == (DisarmReason.LEDGER_FAILED,)


async def test_a_ledger_that_failed_is_tried_again_beside_the_looks() -> None:
    stage = await Stage().warm()
    stage.server.run()
    stage.ledger.failure = LedgerError("full")
    await stage.look()
    beside = asyncio.create_task(stage.cycle.run_beside())
    stage.ledger.failure = None
    async with asyncio.timeout(10):
        while not (look := await stage.look()).results:  # noqa: ASYNC110  # the probe runs between two looks
            await asyncio.sleep(0)
    beside.cancel()
    assert answers(look) == [(Result.SIGNALLED, None)]


async def test_what_the_ledger_did_not_take_is_written_in_its_order_once_it_can_be() -> None:
    stage = await Stage().warm()
    stage.server.run()
    await stage.look()
    stage.ledger.failure = LedgerError("full")
    effects = (await stage.look()).effects
    assert [each.outcome for each in effects] == [Outcome.BETWEEN_STATEMENTS]
    assert stage.ledger.outcomes() == [None]
    stage.ledger.failure = None
    await stage.actor.record([], effects=effects, retries=(), at=NOW)
    assert stage.ledger.outcomes() == [None], "a ledger that failed is left to the probe"
    stage.actor.outbox.want_probe()
    beside = asyncio.create_task(stage.cycle.run_beside())
    async with asyncio.timeout(10):
        while stage.ledger.outcomes() == [None]:  # noqa: ASYNC110  # the ledger in memory tells no event
            await asyncio.sleep(0)
    beside.cancel()
    assert stage.ledger.outcomes() == ["between_statements"]


async def test_a_ledger_that_refuses_this_version_makes_room_for_another_leader() -> None:
    server = MemoryServer()
    first = await Stage(server=server).warm()
    assert first.actor.lease.leads
    server.run()
    first.ledger.failure = LedgerRefusedError("its schema is newer")
    await first.look()
    refused = await first.look()
    assert (refused.lease.leads, DisarmReason.LEDGER_FAILED in refused.disarmed) == (False, True)
    other = Stage(server=server, pid=2)
    assert (await other.look()).lease.leads
    follows = await first.look()
    assert follows.lease.holder == KeyHolder(pid=2, role=None)
    assert not follows.lease.leads, "and it does not take the lease back"


async def test_a_ledger_that_only_fails_keeps_the_lease() -> None:
    stage = await Stage().warm()
    stage.server.run()
    stage.ledger.failure = LedgerError("full")
    await stage.look()
    assert (await stage.look()).lease.leads


async def test_a_follower_decides_and_does_nothing() -> None:
    server = MemoryServer()
    await Stage(server=server).warm()
    follower = Stage(server=server, pid=2)
    server.run()
    looks = [await follower.look() for _ in range(4)]
    assert [answers(each) for each in looks] == [[]] * 4
    assert server.signalled == []
    assert set(looks[-1].disarmed) == {DisarmReason.NOT_LEADER}


async def test_a_lost_session_is_another_actor_that_warms_up() -> None:
    stage = await Stage().warm()
    before = (await stage.look()).status.actor
    stage.cycle.close()
    stage.server.run()
    look = await stage.look()
    assert (look.status.actor > before, look.results, look.disarmed) == (True, (), (DisarmReason.WARMING_UP,))


async def test_other_rules_make_a_new_actor_and_the_same_ones_do_not() -> None:
    stage = await Stage().warm()
    before = (await stage.look()).status.actor
    stage.cycle.apply_config(Stage(server=stage.server, ledger=stage.ledger).cycle)
    assert (await stage.look()).status.actor == before
    changed = Stage(server=stage.server, ledger=stage.ledger).cycle
    changed.policy = Policy((cancel_rule(name="others"),), FREE)
    stage.cycle.apply_config(changed)
    assert (await stage.look()).status.actor == before + 1
    shorter = Stage(server=stage.server, ledger=stage.ledger).cycle
    shorter.policy = changed.policy
    shorter.judge_settings = judge_settings(book(roles={"web_app": 0.5}, grace=0.0), interval=INTERVAL)
    stage.cycle.apply_config(shorter)
    assert (await stage.look()).status.actor == before + 2, "a budget decides as well"


async def test_another_ledger_makes_a_new_actor_that_reads_it() -> None:
    stage = await Stage().warm()
    before = (await stage.look()).status.actor
    stage.cycle.apply_config(Stage(server=stage.server, ledger=MemoryLedger()).cycle)
    assert (await stage.look()).status.actor == before + 1


async def test_a_disarm_file_stops_the_very_next_act_and_its_end_is_a_new_start(tmp_path: Path) -> None:
    file = tmp_path / "disarm"
    stage = await Stage(arming=Arming(policy_enforces=True, disarm_file=file)).warm()
    before = (await stage.look()).status.actor
    file.touch()
    stage.server.run()
    disarmed = await stage.look()
    assert (disarmed.disarmed, disarmed.results) == ((DisarmReason.DISARM_FILE,), ())
    file.unlink()
    after = await stage.look()
    assert (after.status.actor, after.disarmed) == (before + 1, (DisarmReason.WARMING_UP,))
    assert stage.server.signalled == []


async def test_asking_what_disarms_changes_nothing() -> None:
    arming = Arming(policy_enforces=True, reload_failed=True)
    asked = [arming.disarm_reasons(cluster_enforces=True, by_file=by_file) for by_file in (True, False, False)]
    assert asked[0] == (DisarmReason.DISARM_FILE, DisarmReason.RELOAD_FAILED)
    assert (asked[1], asked[2], arming.epoch) == ((DisarmReason.RELOAD_FAILED,), (DisarmReason.RELOAD_FAILED,), 0)
    arming.take_note(FileAnswer.PRESENT)
    arming.reload_failed = False
    arming.take_note(FileAnswer.LATE)
    assert arming.epoch == 0, "a late answer says nothing about the file"
    arming.take_note(FileAnswer.ABSENT)
    assert arming.epoch == 1


@pytest.fixture
def hanging_mount(monkeypatch: pytest.MonkeyPatch) -> "Mount":
    mount = Mount()
    monkeypatch.setattr(arming_module, "_may_be_there", mount.may_be_there)
    return mount


class Mount:
    """A file system that answers only while it is `let_go`, as a dead network mount does."""

    def __init__(self) -> None:
        self.answering = threading.Event()
        self.asked = 0

    def may_be_there(self, path: Path) -> bool:
        del path
        self.asked += 1
        self.answering.wait(30)
        return False


async def test_a_mount_that_hangs_disarms_and_holds_up_neither_the_loop_nor_the_next_question(
    hanging_mount: Mount, tmp_path: Path
) -> None:
    file = DisarmFile()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    assert await file.disarms(tmp_path / "disarm") is True, "late means disarmed"
    assert 0.15 < loop.time() - begun < 5 * 0.2
    begun = loop.time()
    assert await file.disarms(tmp_path / "disarm") is True
    assert loop.time() - begun < 0.15, "no second thread waits behind the first"
    assert hanging_mount.asked == 1
    hanging_mount.answering.set()
    async with asyncio.timeout(10):
        while await file.disarms(tmp_path / "disarm"):  # noqa: ASYNC110  # the thread tells no event
            await asyncio.sleep(0.01)
    assert hanging_mount.asked > 1, "each answer is a fresh one"


async def test_a_mount_that_begins_to_hang_stops_one_cluster_alone_and_signals_nothing(
    hanging_mount: Mount, tmp_path: Path
) -> None:
    stage = Stage(arming=Arming(policy_enforces=True, disarm_file=tmp_path / "disarm"))
    hanging_mount.answering.set()
    await stage.warm()
    stage.server.run()
    hanging_mount.answering.clear()
    look = await stage.look()
    assert (look.disarmed, look.results) == ((DisarmReason.DISARM_FILE,), ())
    assert stage.server.signalled == []
    hanging_mount.answering.set()


async def test_a_writer_that_wrote_after_it_was_judged_is_left_alone_and_keeps_its_word() -> None:
    stage = await Stage().warm()
    row = backend(pid=7, query=100, xid=True, now=stage.server.at)
    stage.server.run(row)
    look = await stage.look()
    assert [each.reason for each in look.decisions.news if hasattr(each, "reason")] == [Withheld.WRITER]
    assert stage.server.signalled == []
    assert row.started > BOOT - seconds(1)


async def test_after_a_reload_no_act_of_the_old_rules_is_signalled() -> None:
    stage = await Stage().warm()
    stage.server.run()

    @dataclass(slots=True)
    class ReloadedDuring(MemoryLedger):
        async def intend(self, acts: Sequence[Act]) -> None:
            await MemoryLedger.intend(self, acts)
            policy = Policy((cancel_rule(),), FREE, Protect(roles=("*",)))
            other = Stage(server=stage.server, ledger=self).cycle
            other.policy = policy
            stage.cycle.apply_config(other)

    stage.actor.outbox.ledger = ReloadedDuring(rows=stage.ledger.rows)
    await stage.look()
    assert stage.server.signalled == []


async def test_a_removed_rule_signals_nothing_after_the_reload() -> None:
    stage = await Stage().warm()
    stage.server.run()

    @dataclass(slots=True)
    class ReloadedDuring(MemoryLedger):
        async def intend(self, acts: Sequence[Act]) -> None:
            await MemoryLedger.intend(self, acts)
            other = Stage(server=stage.server, ledger=self).cycle
            other.policy = Policy((cancel_rule(name="another"),), FREE)
            stage.cycle.apply_config(other)

    stage.actor.outbox.ledger = ReloadedDuring(rows=stage.ledger.rows)
    await stage.look()
    assert stage.server.signalled == []


async def test_a_first_word_that_failed_once_does_not_disarm_for_as_long_as_a_known_run_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = await Stage().warm()
    stage.cycle.policy = Policy((cancel_rule(after=12),), FREE)  # not due at once, so its word is known before
    fails, real = False, MemorySource.backends

    async def backends(self: MemorySource, *, commands: Sequence[int] = (), alive: Sequence[int] = ()) -> BackendLookup:
        if not commands and not alive:  # as PostgresSource: no statement is sent
            return BackendLookup()
        self.statement_failures = {"backends": StatementFailure(1, "no answer" if fails else None)}
        if fails:
            raise ReadError(Reason.TIMEOUT, "no answer")
        return await real(self, commands=commands, alive=alive)

    monkeypatch.setattr(MemorySource, "backends", backends)
    orphan = stage.server.run(age=1.0)
    await stage.look()
    other = stage.server.run(age=1.0)
    fails = True
    await stage.look()
    fails = False
    stage.server.leave(other)
    looks = [await stage.look() for _ in range(20)]
    assert (looks[-1].disarmed, stage.server.signalled) == ((), [orphan])


async def test_a_statement_that_failed_once_does_not_disarm_an_idle_cluster_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = await Stage().warm()
    source = stage.cycle.source
    assert isinstance(source, MemorySource)
    source.statement_failures = {"backends": StatementFailure(1, "no answer")}
    real = MemorySource.backends

    async def backends(self: MemorySource, *, commands: Sequence[int] = (), alive: Sequence[int] = ()) -> BackendLookup:
        if commands or alive:
            self.statement_failures = {"backends": StatementFailure(1)}
        return await real(self, commands=commands, alive=alive)

    monkeypatch.setattr(MemorySource, "backends", backends)
    looks = [await stage.look() for _ in range(20)]
    assert looks[-1].disarmed == ()


async def test_a_look_for_the_disarm_file_that_hangs_for_one_cluster_leaves_the_others_armed(tmp_path: Path) -> None:
    arming = Arming(policy_enforces=True, disarm_file=tmp_path / "absent")
    one, other = Stage(arming=arming), Stage(arming=arming)
    one.actor._disarm_file._call._returned = threading.Event()  # its thread hangs
    looks = [(await one.look(), await other.look())[1] for _ in range(12)]
    assert DisarmReason.WARMING_UP not in looks[-1].disarmed


async def test_one_late_answer_about_the_disarm_file_does_not_make_every_cluster_begin_anew(tmp_path: Path) -> None:
    arming = Arming(policy_enforces=True, disarm_file=tmp_path / "absent")
    one, other = Stage(arming=arming), await Stage(arming=arming).warm()
    number = other.actor.leadership.generation
    one.actor._disarm_file._call._returned = threading.Event()  # one look that is late
    await one.look()
    one.actor._disarm_file = DisarmFile()
    await other.look()
    assert other.actor.leadership.generation == number


@pytest.mark.parametrize("cancels", [1, 5])
async def test_an_act_that_has_begun_when_it_is_stopped_gets_its_answer_on_record(
    cancels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await Stage().warm()
    stage.server.run()
    reached, go_on = asyncio.Event(), asyncio.Event()
    real = MemorySource.cancel

    async def slowly(source: MemorySource, target: CancelTarget, *, act: str) -> tuple[Result, Withheld | None, str]:
        reached.set()
        await go_on.wait()
        return await real(source, target, act=act)

    monkeypatch.setattr(MemorySource, "cancel", slowly)
    look = asyncio.create_task(stage.look())
    await reached.wait()
    for _ in range(cancels):
        look.cancel()
        await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await look
    [act] = await stage.ledger.recall("main", since=NOW, at=stage.server.at)
    assert act.result is Result.SIGNALLED


async def test_an_act_that_hangs_holds_up_a_stop_for_its_deadline_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await Stage().warm()
    stage.server.run()
    stage.cycle.deadline = 0.2
    reached = asyncio.Event()

    async def never(_: MemorySource, __: CancelTarget, *, act: str) -> tuple[Result, Withheld | None, str]:
        del act
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(MemorySource, "cancel", never)
    look = asyncio.create_task(stage.look())
    await reached.wait()
    begun = time.monotonic()
    look.cancel()
    with pytest.raises(asyncio.CancelledError):
        await look
    assert time.monotonic() - begun < 0.2 * 5


async def test_after_a_restart_of_the_server_the_outcome_of_what_was_open_is_unknown() -> None:
    stage = await Stage().warm()
    stage.server.ignores_cancels = True
    pid = stage.server.run()
    await stage.look()
    stage.server.boot += timedelta(hours=1)
    stage.server.leave(pid)
    look = await stage.look()
    assert [each.outcome for each in look.effects] == [Outcome.UNKNOWN]
    assert stage.cycle.policy_memory.acts == {}


async def test_the_end_of_a_run_whose_answer_was_lost_is_no_success_of_the_act() -> None:
    stage = await Stage().warm()
    stage.server.ignores_cancels = True
    pid = stage.server.run()
    await stage.look()
    for each in stage.ledger.rows.values():
        each |= {"result": None, "outcome": None}
    other = Stage(server=stage.server, ledger=stage.ledger, pid=2)
    stage.cycle.close()
    stage.server.lease_holder = None
    stage.server.leave(pid)
    look = await other.look()
    assert [each.outcome for each in look.effects] == [Outcome.UNKNOWN]


# One name, two servers


async def test_of_two_living_servers_under_one_name_in_one_ledger_the_later_is_not_acted_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Breakers, rests and attempts are remembered by name. Each server's pgwatchdog holds its own lease."""
    now = [1000.0]
    monkeypatch.setattr("watchdog.runtime.actor.time", SimpleNamespace(monotonic=lambda: now[0]))
    first = await Stage().warm()
    copy = MemoryServer(boot=BOOT + timedelta(days=1))
    later = Stage(server=copy, ledger=first.ledger)
    later.actor.outbox.claimant = "another process"
    first.server.run()
    copy.run()
    for _ in range(4):
        looks = await later.look()
    assert (looks.disarmed, copy.signalled) == ((DisarmReason.NAME_TAKEN,), [])
    assert (await first.look()).results
    first.ledger.names.clear()  # the first has not claimed it for a while
    assert DisarmReason.NAME_TAKEN in (await later.look()).disarmed
    now[0] += TRY_CLAIM_EVERY
    await later.warm()
    assert copy.signalled or (await later.look()).results
    now[0] += CLAIM_EVERY
    assert (await first.look()).disarmed == (DisarmReason.NAME_TAKEN,), "now the other one has it"


async def test_a_name_is_not_claimed_in_dry_run_or_by_a_follower() -> None:
    stage = Stage()
    stage.actor.enforces = False
    await stage.warm()
    assert stage.ledger.names == {}
    leads = await Stage(server=stage.server, ledger=stage.ledger, pid=2).look()
    assert not leads.lease.leads
    assert stage.ledger.names == {}


async def test_a_claim_that_the_ledger_does_not_take_is_a_failure_of_the_ledger() -> None:
    stage = await Stage().warm()
    stage.actor._claims_again = 0.0
    stage.ledger.failure = LedgerError("full")
    assert (await stage.look()).disarmed == (DisarmReason.LEDGER_FAILED,)


async def test_an_act_is_on_record_with_the_server_on_which_it_was_and_is_closed_by_another_one() -> None:
    stage = Stage()
    stage.server.census = replace(stage.server.census, system_identifier=7)
    await stage.warm()
    stage.server.ignores_cancels = True
    stage.server.run()
    await stage.look()
    [row] = stage.ledger.rows.values()
    assert (row["system_identifier"], row["postmaster_start"]) == (7, stage.server.boot)
    stage.cycle.census = replace(stage.server.census, system_identifier=8)  # another cluster behind the same address
    assert [each.outcome for each in (await stage.look()).effects] == [Outcome.UNKNOWN]


async def test_what_the_ledger_tells_of_this_server_is_kept_when_another_one_was_there_before() -> None:
    """An address may lead to another server and back: the acts on this one are known again from the ledger."""
    stage = Stage()
    stage.server.census = replace(stage.server.census, system_identifier=7)
    await stage.warm()
    stage.server.ignores_cancels = True
    pid = stage.server.run()
    while not (await stage.look()).results:
        pass
    home, row = stage.server.boot, stage.server.running.pop(pid)
    stage.server.boot = home + timedelta(days=1)
    assert [each.outcome for each in (await stage.look()).effects] == [Outcome.UNKNOWN]
    assert stage.cycle.policy_memory.acts == {}
    stage.server.boot, stage.server.running[pid] = home, row
    stage.actor.leadership.generation += 1  # the session was lost on the way
    await stage.look()
    assert len(stage.cycle.policy_memory.acts) == 1
