"""A look's decisions and the words that they need, without a server: its answers are played."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest
from support.acting import ARMED, cancel_rule, commands_of
from support.builders import NOW, backend, book, census, judge_settings, seconds, snapshot

from watchdog.core.acting.limits import Bucket, Limits
from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.steps import FollowedLook
from watchdog.core.acting.verdicts import Decisions
from watchdog.core.judging.judge import Memory, judge
from watchdog.core.observed.commands import BackendLookup, Commands
from watchdog.core.observed.reasons import Reason
from watchdog.errors import ReadError
from watchdog.runtime.cycle import Cycle
from watchdog.runtime.ports import Acting, Source

JUDGE_SETTINGS = judge_settings(book(roles={"web_app": 30}))
ONE_AT_A_TIME = Policy((cancel_rule(),), Limits(per_minute=600, share=0.34))
ROWS = tuple(backend(pid=pid, query=100 + pid, started=100_000) for pid in (1, 2, 3))


@dataclass
class Asked:
    """A source that is only asked for sessions. What it does not know it does not answer; None refuses everything."""

    known: Commands | None
    pids: list[int] = field(default_factory=list)

    async def backends(self, *, commands: Sequence[int] = (), alive: Sequence[int] = ()) -> BackendLookup:
        assert not alive
        self.pids += commands
        if self.known is None:
            raise ReadError(Reason.STATEMENT, "no")
        return BackendLookup(commands={key: word for key, word in self.known.items() if key[0] in commands})


async def decided(source: Asked, *, remembered: Commands, read: Commands) -> Decisions:
    """What is decided of three orphans: words `remembered` of earlier looks, and those `read` in this one."""
    judgement, _ = judge(snapshot(*ROWS), settings=JUDGE_SETTINGS, census=census(), memory=Memory(), tick=True)
    cycle = Cycle(
        server="main",
        source=cast("Source", source),
        judge_settings=JUDGE_SETTINGS,
        actor=cast("Acting", None),
        policy=ONE_AT_A_TIME,
    )
    cycle.commands = {**remembered, **read}
    followed = FollowedLook(
        snapshot=snapshot(*ROWS),
        judgement=judgement,
        census=census(),
        policy=ONE_AT_A_TIME,
        interval=JUDGE_SETTINGS.interval,
        at=NOW,
        memory=PolicyMemory(actor=ARMED.actor, since=NOW - seconds(1000), buckets={"orphans": Bucket(10.0, NOW)}),
    )
    return (await cycle._decided(followed, status=ARMED, asked=BackendLookup(commands=read))).decisions


def due(decisions: Decisions) -> list[int]:
    return [each.finding.backend.pid for each in decisions.due]


async def test_words_of_this_look_are_not_asked_for_again() -> None:
    source = Asked(known={})
    assert len(due(await decided(source, remembered={}, read=commands_of(*ROWS)))) == 1
    assert source.pids == []


async def test_words_of_earlier_looks_are_read_again_before_what_they_allow_is_done() -> None:
    source = Asked(known=commands_of(*ROWS))
    found = due(await decided(source, remembered=commands_of(*ROWS), read={}))
    assert len(found) == 1
    assert source.pids == found


@pytest.mark.parametrize("gone", [1, 2])
async def test_what_takes_the_place_of_one_that_is_gone_is_read_again_as_well(gone: int) -> None:
    in_turn = sorted(ROWS, key=lambda row: -row.pid)  # the oldest first
    there = in_turn[gone:]
    source = Asked(known=commands_of(*there))
    found = due(await decided(source, remembered=commands_of(*ROWS), read={}))
    assert found == [there[0].pid]
    assert source.pids == [row.pid for row in in_turn[: gone + 1]]


async def test_maintenance_that_has_begun_since_protects_also_what_comes_in_its_place() -> None:
    source = Asked(known=commands_of(*ROWS, in_progress=True))
    assert due(await decided(source, remembered=commands_of(*ROWS), read={})) == []
    assert sorted(source.pids) == [1, 2, 3]


async def test_where_words_cannot_be_read_again_nothing_is_done_on_old_ones() -> None:
    source = Asked(known=None)
    assert due(await decided(source, remembered=commands_of(*ROWS), read={})) == []
    assert sorted(source.pids) == [1, 2, 3], "each is asked for once"
