"""The right to cancel: lacking it is told beforehand, losing it is found out once, membership in a role is enough."""

import re
from pathlib import Path

from support.acting import protecting
from support.gates import CANCELED, WAIT, Gates, acts_of, only_these_are_signalled
from support.servers import Connect, MakeRole, TestServer, start, until
from support.watching import actor_on, answer, history, look_until, orphaned, verdict_of

from watchdog.core.acting.acts import Result
from watchdog.core.acting.breakers import BreakerKey
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Withheld, withheld_reason


async def test_c34_without_the_right_every_act_is_withheld_from_the_start(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    """Rule: who may only report says so, and does not find it out by being refused."""
    gates, caller = Gates(connect(role="etl_app")), connect()
    pid = start(caller, f"SELECT {WAIT}", server)
    with actor_on(server, tmp_path, role="pgwatchdog") as cycle:
        looks = await only_these_are_signalled(cycle, {pid: Withheld.NOT_PERMITTED})
    assert all(DisarmReason.NOT_PERMITTED in look.disarmed for look in looks)
    gates.open()
    assert answer(caller) is None
    assert history(tmp_path) == []


async def test_membership_in_roles_that_nobody_logs_in_as_is_no_right(server: TestServer, tmp_path: Path) -> None:
    """pg_monitor and the roles it is a member of: whoever has their rights may watch everybody and cancel nobody."""
    with actor_on(server, tmp_path, role="pgwatchdog") as cycle:
        census = await cycle.take_census()
        look = await cycle.look(tick=True)
    assert census.may_cancel == frozenset()
    assert not census.may_cancel_any
    assert look.disarmed == (DisarmReason.NOT_PERMITTED,)


async def test_a_superuser_whom_the_configuration_does_not_protect_is_known_to_be_out_of_reach(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    """To be refused would open the breaker, and everybody else would be spared for as long."""
    gates, boss, victim = Gates(connect(role="etl_app")), connect(role="postgres"), connect()
    pid, control = start(boss, f"SELECT {WAIT}", server), start(victim, "SELECT pg_sleep(60)", server)
    budgets = {"postgres": 0.5, "web_app": 0.5}
    with actor_on(server, tmp_path, roles=budgets, policy=protecting(superusers=False)) as cycle:
        looks = await only_these_are_signalled(cycle, {pid: Withheld.NOT_PERMITTED, control: None})
    assert looks[-1].disarmed == ()
    gates.open()
    assert (answer(boss), answer(victim)) == (None, CANCELED)
    assert [act["pid"] for act in history(tmp_path)] == [control]


async def test_c34_a_right_that_is_taken_away_is_found_out_once_and_stops_acts_on_its_role(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    """Rule: a refusal is known by its SQLSTATE, is not tried again, and never makes the look fail."""
    gates = Gates(connect(role="etl_app"))
    first, second, third = connect(), connect(), connect()
    try:
        with actor_on(server, tmp_path) as cycle:
            one = start(first, "SELECT pg_sleep(60)", server)
            assert acts_of(await look_until(cycle, lambda look: look.results)) == [(one, Result.SIGNALLED)]
            server.run("REVOKE pg_signal_backend FROM canceller")
            two = start(second, f"SELECT {WAIT}", server)
            look = await look_until(cycle, lambda look: look.results)
            assert acts_of(look) == [(two, Result.NOT_PERMITTED)]
            assert look.results[0].lag is None

            three = start(third, f"SELECT {WAIT}", server)
            looks = await only_these_are_signalled(cycle, {two: Withheld.REFUSED, three: Withheld.BREAKER})
            assert {look.decisions.open_breakers for look in looks} == {(BreakerKey(role="web_app"),)}
            assert cycle.census_is_stale, "what is known of our rights is wrong, so it is read soon"
            assert DisarmReason.NOT_PERMITTED not in looks[-1].disarmed, "the census of before is still believed"

            await cycle.take_census()
            look = await cycle.look(tick=True)
            assert withheld_reason(verdict_of(look, three)) is Withheld.NOT_PERMITTED
            assert DisarmReason.NOT_PERMITTED in look.disarmed
    finally:
        server.run("GRANT pg_signal_backend TO canceller")
    gates.open()
    assert [answer(each) for each in (first, second, third)] == [CANCELED, None, None]
    assert [(act["pid"], act["result"], act["outcome"]) for act in history(tmp_path)] == [
        (one, "signalled", "between_statements"),
        (two, "not_permitted", None),
    ]
    assert re.match("permission denied|must be a member", history(tmp_path)[1]["detail"]), "the words differ by version"


async def test_a_refusal_of_one_does_not_hide_or_spare_the_next_of_the_same_look(
    server: TestServer, connect: Connect, make_role: MakeRole, tmp_path: Path
) -> None:
    """One statement each: the role has become a superuser's since the census."""
    role = make_role("climber", grants="pg_read_all_data")
    gates, risen, ordinary = Gates(connect(role="etl_app")), connect(role=role), connect()
    budgets = {"web_app": 0.5, role: 0.5}
    with actor_on(server, tmp_path, roles=budgets) as cycle:
        await cycle.look(tick=True)
        server.run(f"ALTER ROLE {role} SUPERUSER")
        pids = [start(risen, f"SELECT {WAIT}", server), start(ordinary, "SELECT pg_sleep(60)", server)]
        over = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY (%s) AND now() - query_start > '0.5 s'"
        until(lambda: server.value(over, pids) == 2, what="the end of both budgets")
        look = await cycle.look(tick=True)
    assert acts_of(look) == [(pids[0], Result.NOT_PERMITTED), (pids[1], Result.SIGNALLED)]
    gates.open()
    assert (answer(risen), answer(ordinary)) == (None, CANCELED)


async def test_c34_membership_in_the_targets_role_is_right_enough_for_that_role(
    server: TestServer, connect: Connect, make_role: MakeRole, tmp_path: Path
) -> None:
    """Rule: rights are asked for as the server will ask for them, not by the name of one role."""
    role = make_role("member", grants="pg_monitor, web_app")
    gates, mine, others = Gates(connect(role="etl_app")), connect(role="web_app"), connect(role="etl_app")
    victim, spared = start(mine, "SELECT pg_sleep(60)", server), start(others, f"SELECT {WAIT}", server)
    with actor_on(server, tmp_path, role=role, roles={"web_app": 0.5, "etl_app": 0.5}) as cycle:
        looks = await only_these_are_signalled(cycle, {victim: None, spared: Withheld.NOT_PERMITTED})
    assert looks[-1].disarmed == ()
    gates.open()
    assert (answer(mine), answer(others)) == (CANCELED, None)


async def test_c34_membership_that_is_not_inherited_is_no_right(
    server: TestServer, connect: Connect, make_role: MakeRole, tmp_path: Path
) -> None:
    """Rule: as the server asks: a role that would have to be set first does not count."""
    between = make_role("between", "NOINHERIT", grants="web_app, pg_signal_backend")
    role = make_role("member", grants=f"pg_monitor, {between}")
    gates, caller = Gates(connect(role="etl_app")), connect(role="web_app")
    pid = start(caller, f"SELECT {WAIT}", server)
    with actor_on(server, tmp_path, role=role) as cycle:
        looks = await only_these_are_signalled(cycle, {pid: Withheld.NOT_PERMITTED})
    assert orphaned(looks[-1], pid)
    gates.open()
    assert answer(caller) is None
    assert history(tmp_path) == []
