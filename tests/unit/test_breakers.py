"""What stops acting on some, and what does not stop it for the others: breakers, misses, and who takes the share."""

from dataclasses import replace

from support.acting import FREE, Play, cancel_rule
from support.builders import NOW, backend, book, census, judge_settings, seconds

from watchdog.core.acting.acts import Act, Outcome, Result
from watchdog.core.acting.breakers import (
    CLUSTER,
    FORGET_AFTER,
    Breaker,
    BreakerKey,
    Breakers,
    after_failure,
    pruned,
)
from watchdog.core.acting.limits import Limits
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.observed.activity import Backend

ROLES = ("red", "green", "blue", "white")
SETTINGS = judge_settings(book(roles=dict.fromkeys(ROLES, 30.0)))


def play(limits: Limits = FREE, **more: object) -> Play:
    return Play(Policy((cancel_rule(),), limits), judge_settings=SETTINGS, **more).warm()  # type: ignore[arg-type]  # names of fields


def row(pid: int, role: str, *, at: float = 0, age: float = 100, **more: object) -> Backend:
    return backend(pid=pid, role=role, query=age + at, started=100_000 + at, now=NOW + seconds(at), **more)  # type: ignore[arg-type]  # names of columns


WRITES = ("Client", "ClientWrite")

# Breakers


def stubborn(one: Play, *roles: str, begin: float) -> float:
    """For each role three runs that no cancel ends, one after the other. Returns when the last was seen to go on."""
    at = begin
    for n, role in enumerate(roles):
        for k in range(3):
            pid = 100 * (n + 1) + k + int(begin)
            one.look(row(pid, role, at=at), at=at)
            at += 5
            [effect] = one.look(row(pid, role, at=at), at=at).effects
            assert effect.outcome is Outcome.INEFFECTIVE
            at += 1
    return at


def test_stubborn_runs_of_one_role_stop_acts_on_that_role_alone() -> None:
    one = play(replace(FREE, tries=1))
    at = stubborn(one, "red", begin=0)
    step = one.look(row(1, "red", at=at), row(2, "green", at=at), at=at)
    assert (step.withheld(1), step.signalled) == (Withheld.BREAKER, [2])
    assert step.decisions.open_breakers == (BreakerKey("orphans", "red"),)
    assert not step.decisions.stopped
    later = at + 600
    assert one.look(row(1, "red", at=later), at=later).signalled == [1]
    assert one.policy_memory.breakers == {}


def test_another_rule_has_a_breaker_of_its_own() -> None:
    one = Play(Policy((cancel_rule(), cancel_rule(name="others")), replace(FREE, tries=1)), judge_settings=SETTINGS)
    at = stubborn(one.warm(), "red", begin=0)
    step = one.look(row(1, "red", at=at), at=at)
    assert (step.withheld(1), step.verdict(1).passed_over) == (Withheld.BREAKER, ("others",))
    one.policy = replace(one.policy, rules=one.policy.rules[1:])
    assert one.look(row(1, "red", at=at + 1), at=at + 1).signalled == [1]


def test_open_breakers_of_three_roles_stop_the_cluster() -> None:
    one = play(replace(FREE, tries=1))
    at = stubborn(one, "red", "green", begin=0)
    assert one.look(row(1, "white", at=at), at=at).signalled == [1]
    at = stubborn(one, "blue", begin=at + 1)
    step = one.look(row(2, "white", at=at), at=at)
    assert (step.withheld(2), step.decisions.stopped) == (Withheld.BREAKER, True)
    assert CLUSTER in step.decisions.open_breakers


def test_failures_that_a_success_has_followed_do_not_count_and_are_forgotten_in_the_end() -> None:
    one = play(replace(FREE, tries=1))
    for pid, stays in ((1, True), (2, True), (3, False), (4, True)):
        at = 10.0 * pid
        one.look(row(pid, "red", at=at), at=at)
        one.look(*([row(pid, "red", at=at + 5)] if stays else []), at=at + 5)
    assert one.policy_memory.breakers[BreakerKey("orphans", "red")].failures == 1
    one.look(at=100_000)
    assert one.policy_memory.breakers == {}


def test_a_failure_that_is_seen_while_the_breaker_is_open_counts_when_it_has_closed() -> None:
    """Of four acts under way the fourth is seen to be ineffective after the third has opened the breaker."""
    limits = Limits(stop_after_failures=2, stop_for=seconds(100))
    breakers: Breakers = {}
    for at in (0, 1, 2):
        breakers = after_failure(breakers, rule="orphans", role="red", limits=limits, at=NOW + seconds(at))
    closed = pruned(breakers, limits=limits, at=NOW + seconds(101.5))
    assert closed == {BreakerKey("orphans", "red"): Breaker(failures=1, failed_at=NOW + seconds(2))}
    again = after_failure(closed, rule="orphans", role="red", limits=limits, at=NOW + seconds(102))
    assert again[BreakerKey("orphans", "red")].opened_at == NOW + seconds(102)
    assert pruned(closed, limits=limits, at=NOW + FORGET_AFTER + seconds(3)) == {}


def test_a_refusal_stops_its_role_and_no_other_until_the_right_has_come_back() -> None:
    def refused(act: Act) -> Result:
        return Result.NOT_PERMITTED if act.finding.backend.role == "red" else Result.SIGNALLED

    one = play(answers=refused)
    one.look(row(1, "red"))
    step = one.look(row(1, "red", at=1), row(2, "red", at=1), row(3, "green", at=1), at=1)
    assert (step.withheld(2), step.signalled) == (Withheld.BREAKER, [3])
    one.answers = lambda _: Result.SIGNALLED
    one.census = replace(census(), may_cancel_all=False, may_cancel=frozenset({"green"}))
    assert one.look(row(1, "red", at=2), row(2, "red", at=2), at=2).withheld(2) is Withheld.NOT_PERMITTED
    one.census = census()
    step = one.look(row(1, "red", at=3), row(2, "red", at=3), at=3)
    assert (step.withheld(1), step.signalled) == (Withheld.REFUSED, [2]), "the refused run itself is not tried again"


def test_a_stubborn_run_leaves_the_share_at_its_first_pause() -> None:
    one = play(replace(FREE, share=0.01))
    assert one.look(row(1, "red"), row(2, "green", age=50)).signalled == [1]
    held = one.look(row(1, "red", at=4), row(2, "green", at=4, age=50), at=4)
    assert (held.signalled, held.withheld(2)) == ([], Withheld.SHARE)
    at = 5
    again = one.look(row(1, "red", at=at), row(2, "green", at=at, age=50), at=at)
    assert again.signalled == [1], "the second attempt is due"
    after = one.look(row(1, "red", at=6), row(2, "green", at=6, age=50), at=6)
    assert after.signalled == [2]


# Misses


def test_a_run_that_changes_its_name_all_the_time_starves_nobody() -> None:
    """With default limits, and one token in ten seconds: everybody else is cancelled within a minute."""

    def moves(act: Act) -> Result:
        return Result.MOVED_ON if act.finding.backend.pid == 1 else Result.SIGNALLED

    one = play(Limits(), answers=moves)
    taken: dict[int, float] = {}
    tried = []
    for at in range(60):
        others = [pid for pid in (2, 3, 4) if taken.get(pid, at) >= at]
        rows = [row(1, "red", at=at, age=500, name=f"x{at}"), *(row(pid, "green", at=at) for pid in others)]
        for pid in one.look(*rows, at=at).signalled:
            if pid == 1:
                tried.append(at)
            else:
                taken.setdefault(pid, at)
    assert sorted(taken) == [2, 3, 4]
    assert tried == [0, 5, 15, 35], "pauses of one, two and four intervals"
    last = one.look(row(1, "red", at=60, age=500), at=60)
    assert last.withheld(1) is Withheld.KEEPS_CHANGING
    other = one.look(row(1, "red", at=200, age=-70), at=200)
    assert other.signalled == [1], "another statement of this session is tried"


def test_an_attempt_that_signalled_nobody_costs_no_token() -> None:
    one = play(replace(FREE, per_minute=1), answers=lambda _: Result.MOVED_ON)
    one.look(row(1, "red"))
    one.answers = lambda _: Result.SIGNALLED
    assert one.look(row(2, "green", at=1), at=1).signalled == [2]
    assert one.look(row(3, "green", at=2), at=2).withheld(3) is Withheld.LIMIT


def test_the_misses_of_a_session_are_forgotten_when_it_is_gone() -> None:
    one = play(answers=lambda _: Result.MOVED_ON)
    one.look(row(1, "red"))
    assert one.policy_memory.misses
    one.look(at=1)
    assert one.policy_memory.misses == {}


# Clients that do not read


def test_a_session_whose_client_does_not_read_is_tried_once_and_opens_no_breaker() -> None:
    one = play(replace(FREE, stop_after_failures=1))
    told = []
    for at in range(60):
        told += [each.outcome for each in one.look(row(1, "red", at=at, wait=WRITES), at=at).effects]
    assert ([each.act.attempt for each in one.acts], told) == ([1], [Outcome.WAITS_FOR_CLIENT])
    assert one.look(row(1, "red", at=60, wait=WRITES), at=60).withheld(1) is Withheld.WAITS_FOR_CLIENT
    assert one.policy_memory.breakers == {}
    [effect] = one.look(at=61).effects
    assert effect.outcome is Outcome.ENDED, "it has bitten when the client read on"


def test_a_run_that_ends_after_it_was_called_ineffective_has_ended_late() -> None:
    one = play(replace(FREE, tries=1))
    one.look(row(1, "red"))
    assert [each.outcome for each in one.look(row(1, "red", at=5), at=5).effects] == [Outcome.INEFFECTIVE]
    assert [each.outcome for each in one.look(at=6).effects] == [Outcome.ENDED_LATE]
    assert one.policy_memory.breakers[BreakerKey("orphans", "red")].failures == 1
