"""Policy: rules and their precedence, every reason why an act is withheld, limits, tries, and what a look remembers."""

from dataclasses import replace

import pytest
from support.acting import ARMED, DRY, FREE, Play, cancel_rule, commands_of, protecting, rule_name
from support.builders import NOW, backend, book, census, judge_settings, rule, seconds

from watchdog.core.acting.acts import Outcome, Result
from watchdog.core.acting.breakers import BreakerKey
from watchdog.core.acting.limits import Limits
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.rules import Action, Names, conditions
from watchdog.core.acting.status import ActingStatus, DisarmReason
from watchdog.core.acting.verdicts import Hand, Observed, UnderWay, Withheld, withheld_reason
from watchdog.core.judging.evidence import Evidence, Kind
from watchdog.core.observed.activity import Backend
from watchdog.core.observed.commands import Command, statement_key
from watchdog.core.observed.sockets import statement_run

FACTS = census(superusers=frozenset({"boss"}), hidden_roles=frozenset({"shy"}))
ROLES = judge_settings(book(roles={"web_app": 30, "boss": 30, "shy": 30, "rdsadmin": 30, "unknown": 30}))


def play(policy: Policy | None = None, **more: object) -> Play:
    one = Play(judge_settings=ROLES, census=FACTS, **more)  # type: ignore[arg-type]  # names of fields
    if policy is not None:
        one.policy = policy
    return one.warm()


def aged(pid: int, age: float, *, at: float = 0, **more: object) -> Backend:
    """A row whose statement began `age` seconds before NOW, seen `at` seconds after it."""
    return backend(pid=pid, query=age + at, started=100_000 + at, now=NOW + seconds(at), **more)  # type: ignore[arg-type]  # names of columns


# What is never touched


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (backend(query=100, role="boss"), Withheld.SUPERUSER),
        (backend(query=100, role="rdsadmin"), Withheld.PROVIDER),
        (backend(query=100, role="unknown"), Withheld.UNKNOWN_ROLE),
        (backend(query=100, role_oid=None), Withheld.UNKNOWN_ROLE),
        (backend(query=100, role="shy"), Withheld.HIDDEN),
        (backend(query=100, name="pg_dump"), Withheld.BACKUP),
        (backend(query=100, name="pgBackRest [backup]"), Withheld.BACKUP),
        (backend(query=100, name="barman_streaming_backup"), Withheld.BACKUP),
        (backend(query=100, name="pgcopydb[812] TABLE app.orders"), Withheld.BACKUP),
        (backend(query=100, name="pg_dump - 10.0.0.5:4321"), Withheld.BACKUP),
        (backend(query=100, wait=("IPC", "CheckpointDone")), Withheld.BACKUP),
        (backend(query=100, wait=("IPC", "SyncRep")), Withheld.SYNC_REP),
        (backend(query=100, xid=True), Withheld.WRITER),
        (backend(query=100, xact=50), Withheld.WRITER),
        (backend(name="scan:a:w1", query=1, xact=100), Withheld.CLIENT_TALKING),
        (
            backend(name="scan:a:w1", state="idle in transaction", query=1, xact=100, wait=("Client", "ClientRead")),
            Withheld.WAITS_FOR_CLIENT,
        ),
    ],
)
def test_a_protected_backend_is_left_alone_for_a_reason_of_its_own(row: Backend, reason: Withheld) -> None:
    step = play().look(row)
    verdict = step.verdict(row.pid)
    assert (withheld_reason(verdict), step.signalled) == (reason, [])


@pytest.mark.parametrize("word", ["VACUUM", "CREATE", "REINDEX", "ANALYZE", "ALTER", "REFRESH"])
def test_maintenance_is_told_by_the_first_word(word: str) -> None:
    row = backend(query=100)
    assert play().look(row, commands=commands_of(row, word=word)).withheld(row.pid) is Withheld.MAINTENANCE


def test_maintenance_is_told_by_the_progress_view_whatever_the_word() -> None:
    row = backend(query=100)
    seen = commands_of(row, word="SELECT", in_progress=True)
    assert play().look(row, commands=seen).withheld(row.pid) is Withheld.MAINTENANCE


def test_a_command_that_cannot_be_read_protects() -> None:
    row = backend(query=100)
    for seen in ({}, commands_of(row, word=None)):
        assert play().look(row, commands=seen).withheld(row.pid) is Withheld.COMMAND_UNREADABLE


def test_a_fast_path_call_has_no_text_of_its_own_and_needs_none() -> None:
    row = backend(query=1000, changed=100, state="fastpath function call")
    assert statement_key(row) is None
    assert play().look(row, commands={}).signalled == [row.pid]


def test_who_waits_for_replication_of_its_own_accord_waits_for_no_client() -> None:
    """WAIT FOR LSN of PostgreSQL 19: its wait events are of class Client, and a cancel ends it at once."""
    row = backend(query=100, wait=("Client", "WaitForWalReplay"))
    assert play().look(row, commands=commands_of(row, word="WAIT")).signalled == [row.pid]


def test_the_first_word_of_another_statement_says_nothing() -> None:
    row = backend(query=100)
    other = {(row.pid, row.started, NOW): Command(frozenset({"SELECT"}))}
    assert play().look(row, commands=other).withheld(row.pid) is Withheld.COMMAND_UNREADABLE


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({"superusers": False}, backend(query=100, role="boss")),
        ({"backups": False}, backend(query=100, name="pg_dump")),
        ({"maintenance": False}, backend(query=100)),
        ({"talking": False}, backend(name="scan:a:w1", query=1, xact=100)),
    ],
)
def test_a_protection_can_be_taken_away_by_name(changes: dict[str, bool], row: Backend) -> None:
    step = play(protecting(**changes)).look(row, commands=commands_of(row, word="VACUUM" if len(changes) else None))
    expected = None if "maintenance" in changes else Withheld.MAINTENANCE
    assert step.withheld(row.pid) is expected, "only that one protection is gone"


def test_further_roles_and_applications_can_be_protected() -> None:
    policy = protecting(roles=("web_*",), applications=("ledger-*",))
    assert play(policy).look(backend(query=100)).withheld(4711) is Withheld.PROTECTED_ROLE
    policy = protecting(applications=("ledger-*",))
    assert play(policy).look(backend(query=100, name="ledger-7")).withheld(4711) is Withheld.PROTECTED_APPLICATION


def test_an_application_that_only_begins_like_a_backup_tool_is_not_one() -> None:
    assert play().look(backend(query=100, name="pg_dumper")).withheld(4711) is None
    assert play().look(backend(query=100, name="psql")).withheld(4711) is None


def test_writers_are_taken_where_a_rule_allows_it() -> None:
    policy = Policy((cancel_rule(writers=True),), FREE)
    assert play(policy).look(backend(query=100, xid=True)).signalled == [4711]


def test_a_role_whose_queries_we_may_not_cancel_is_not_tried() -> None:
    one = Play(
        judge_settings=ROLES, census=replace(FACTS, may_cancel_all=False, may_cancel=frozenset({"other"}))
    ).warm()
    assert one.look(backend(query=100)).withheld(4711) is Withheld.NOT_PERMITTED
    one.census = replace(one.census, may_cancel=frozenset({"web_app"}))
    assert one.look(backend(query=100)).signalled == [4711]
    rehearsing = Play(judge_settings=ROLES, census=replace(FACTS, may_cancel_all=False), status=DRY).warm()
    assert rehearsing.look(backend(query=100)).withheld(4711) is None, "a dry run needs no right to signal"


# Rules


def test_findings_without_a_rule_are_shown_only() -> None:
    verdict = play().look(backend(query=25)).verdict(4711, kind=Kind.NEARING)
    assert isinstance(verdict, Observed)
    assert verdict.rule is None


def test_the_first_rule_that_speaks_decides_and_the_others_are_recorded() -> None:
    first = cancel_rule(name="first", only=Names(roles=("etl_*",)))
    second = cancel_rule(name="second", only=Names(databases=("shop",)))
    third, fourth = cancel_rule(name="third"), cancel_rule(name="fourth", only=Names(jobs=("*",)))
    verdict = play(Policy((first, second, third, fourth), FREE)).look(backend(query=100)).verdict(4711)
    assert (rule_name(verdict), verdict.passed_over) == ("second", ("third",))


def test_a_rule_that_only_observes_keeps_later_ones_from_acting() -> None:
    rules = (cancel_rule(name="watch", action=Action.OBSERVE), cancel_rule(name="act"))
    step = play(Policy(rules, FREE)).look(backend(query=100))
    assert (rule_name(step.verdict(4711)), step.verdict(4711).passed_over, step.signalled) == ("watch", ("act",), [])


def test_ignore_beats_match() -> None:
    policy = Policy((cancel_rule(ignore=Names(applications=("checkout*",))),), FREE)
    assert play(policy).look(backend(query=100, name="checkout-7")).verdict(4711).rule is None
    assert play(policy).look(backend(query=100, name="search")).signalled == [4711]


@pytest.mark.parametrize(
    ("only", "speaks"),
    [
        (Names(roles=("web_*",)), True),
        (Names(roles=("WEB_*",)), False),
        (Names(roles=("etl_app", "web_app")), True),
        (Names(roles=("web_app",), databases=("other",)), False),
        (Names(databases=("sh?p",)), True),
        (Names(jobs=("*",)), False),
        (Names(applications=("*",)), False),
    ],
)
def test_all_conditions_must_hold_and_no_glob_fits_what_is_not_there(*, only: Names, speaks: bool) -> None:
    step = play(Policy((cancel_rule(only=only),), FREE)).look(backend(query=100))
    assert (step.verdict(4711).rule is not None) is speaks


def test_each_condition_is_told_with_its_answer() -> None:
    one = cancel_rule(only=Names(roles=("etl_*",), databases=("shop",)), ignore=Names(jobs=("x",)))
    [finding] = play().look(backend(query=100)).judgement.findings
    told = [(each.name, each.holds) for each in conditions(one, finding)]
    assert told == [("finding", True), ("evidence", True), ("roles", False), ("databases", True), ("ignore jobs", True)]


def test_patience_counts_from_the_moment_it_became_an_orphan_and_asks_for_a_look_when_it_ends() -> None:
    policy = Policy((cancel_rule(after=10),), FREE)
    one = play(policy)
    step = one.look(aged(1, 40))
    assert (step.withheld(1), step.decisions.waits) == (Withheld.PATIENCE, (seconds(5),))
    assert one.look(aged(1, 40, at=5), at=5).signalled == [1]


def test_patience_with_a_duplicate_counts_from_when_it_was_first_seen_as_one() -> None:
    one, rows = duplicates(after=10)
    assert one.look(*rows(0), at=0).withheld(1, kind=Kind.DUPLICATE) is Withheld.PATIENCE
    assert one.look(*rows(4.9), at=4.9).withheld(1, kind=Kind.DUPLICATE) is Withheld.PATIENCE
    assert one.look(*rows(5), at=5).signalled == [1], "it was seen as one at -5"


# Duplicates


def duplicates(*, after: float = 0, bound: bool = True, ages: tuple[float, ...] = (60, 20)) -> tuple[Play, "Rows"]:
    """A play in which the oldest of two copies has been superseded at the second look."""
    job = rule(copies=1, retry_gap=10, roles=frozenset({"etl_app"} if bound else ()))
    policy = Policy((cancel_rule(name="copies", kind=Kind.DUPLICATE, evidence=Evidence.SUPERSEDED, after=after),), FREE)
    one = Play(policy, judge_settings=judge_settings(book(job)))
    one.warm()
    rows = Rows(ages)
    one.look(*rows(-5), at=-5)
    return one, rows


class Rows:
    """The copies of one window, as old as they are at a moment."""

    def __init__(self, ages: tuple[float, ...]) -> None:
        self.ages = ages

    def __call__(self, at: float) -> list[Backend]:
        return [
            aged(pid, age, at=at, role="etl_app", name="scan:threads:w1") for pid, age in enumerate(self.ages, start=1)
        ]


def test_a_superseded_copy_of_a_bound_job_is_taken_and_the_newest_is_kept() -> None:
    one, rows = duplicates()
    assert one.look(*rows(0), at=0).signalled == [1]


def test_another_sessions_name_costs_nobody_its_life_unless_the_job_is_bound_to_the_role() -> None:
    one, rows = duplicates(bound=False)
    assert one.look(*rows(0), at=0).withheld(1, kind=Kind.DUPLICATE) is Withheld.UNBOUND_JOB


def test_the_last_copy_within_its_budget_is_never_taken_for_a_duplicate() -> None:
    one, rows = duplicates(ages=(880, 2000))
    one.judge_settings = replace(one.judge_settings, book=book(one.judge_settings.book.jobs[0], roles={"etl_app": 900}))
    step = one.look(*rows(0), at=0)
    older, younger = 2, 1
    assert [each.finding.backend.pid for each in step.decisions.verdicts if each.finding.kind is Kind.DUPLICATE] == [2]
    assert step.withheld(older, kind=Kind.DUPLICATE) is not Withheld.LAST_COPY, "it is past its own budget"
    assert younger not in step.signalled


def test_of_copies_within_budget_one_is_always_left() -> None:
    one, rows = duplicates(ages=(100, 80, 60, 40))
    step = one.look(*rows(0), at=0)
    assert step.signalled == [1, 2, 3]
    again = one.look(*rows(0.1)[3:], at=0.1)
    assert again.signalled == []


def test_a_run_with_two_findings_is_signalled_once() -> None:
    one, rows = duplicates(ages=(2000, 20))
    one.policy = Policy((*one.policy.rules, cancel_rule(name="late")), FREE)
    step = one.look(*rows(0), at=0)
    assert step.signalled == [1]
    assert {each.finding.kind for each in step.decisions.verdicts} == {Kind.ORPHAN, Kind.DUPLICATE}


# Limits


def limited(**changes: object) -> Play:
    limits = replace(FREE, **changes)  # type: ignore[arg-type]  # names of fields
    return play(Policy((cancel_rule(),), limits))


def test_a_new_actor_watches_for_two_intervals_with_an_empty_bucket() -> None:
    one = Play(Policy((cancel_rule(),), Limits(pause=seconds(0))), judge_settings=ROLES)
    assert one.look(aged(1, 100), at=0).withheld(1) is Withheld.WARMING_UP
    step = one.look(aged(1, 100, at=9.9), at=9.9)
    assert (step.withheld(1), step.decisions.waits) == (Withheld.WARMING_UP, (seconds(0.1),))
    assert one.look(aged(1, 100, at=10), at=10).signalled == [1]
    assert one.look(aged(2, 100, at=11), at=11).withheld(2) is Withheld.LIMIT


def test_the_bucket_lets_so_many_through_in_a_minute_and_no_more() -> None:
    one = limited(per_minute=6)
    signalled = [pid for at in range(0, 300, 1) for pid in one.look(aged(1000 + at, 100, at=at), at=at).signalled]
    assert len(signalled) == 6 + 5 * 6 - 1


def test_a_pause_follows_each_act_and_asks_for_a_look_when_it_ends() -> None:
    one = limited(pause=seconds(1))
    step = one.look(aged(1, 100), aged(2, 90))
    assert (step.signalled, step.withheld(2), step.decisions.waits) == ([1], Withheld.PAUSE, (seconds(1),))
    assert one.look(aged(2, 90, at=0.4), at=0.4).withheld(2) is Withheld.PAUSE
    assert one.look(aged(2, 90, at=1), at=1).signalled == [2]


def test_a_share_of_the_running_backends_at_once_at_least_one() -> None:
    rows = [aged(pid, 200 - pid) for pid in range(1, 9)]
    step = limited(share=0.25).look(*rows)
    assert (step.signalled, step.withheld(3)) == ([1, 2], Withheld.SHARE)
    assert limited(share=0.01).look(*rows).signalled == [1]


def test_each_rule_has_a_bucket_of_its_own() -> None:
    rules = (cancel_rule(name="web", only=Names(roles=("web_app",))), cancel_rule(name="rest"))
    one = play(Policy(rules, replace(FREE, per_minute=1)))
    step = one.look(aged(1, 100), aged(2, 100), aged(3, 100, role="etl_app"))
    assert step.withheld(2) is Withheld.LIMIT
    assert rule_name(step.verdict(1)) == "web"


# Tries and effects


def test_an_act_is_followed_by_its_effect() -> None:
    session = frozenset({(1, NOW - seconds(100_000))})
    one = play()
    one.look(aged(1, 100))
    assert one.look(aged(1, 100, at=0.02), at=0.02).effects == [], "a signal takes a moment"
    [effect] = one.look(at=1).effects
    assert (effect.outcome, effect.id) == (Outcome.ENDED, "act1")
    one = play()
    one.look(aged(1, 100))
    [effect] = one.look(at=1, alive=session).effects
    assert effect.outcome is Outcome.BETWEEN_STATEMENTS


def test_a_run_that_is_still_there_is_tried_again_after_growing_pauses_and_then_ineffective() -> None:
    one = play()
    told = [(at, effect.outcome) for at in range(60) for effect in one.look(aged(1, 100, at=at), at=at).effects]
    assert [each.act.attempt for each in one.acts] == [1, 2, 3]
    tried_at = [(each.act.at - NOW).total_seconds() for each in one.acts]
    assert tried_at == [0, 5, 15], "pauses of one, two and four intervals of 5 s"
    assert told == [(5, Outcome.STILL_THERE), (15, Outcome.STILL_THERE), (35, Outcome.INEFFECTIVE)]
    assert one.look(aged(1, 100, at=61), at=61).withheld(1) is Withheld.INEFFECTIVE


def test_a_statement_lost_in_a_transaction_that_goes_on_is_never_tried_again_for_it() -> None:
    one = play()
    one.look(backend(pid=1, query=100))
    goes_on = backend(
        pid=1, started=100_001, state="idle in transaction", query=101, xact=101, changed=0.5, now=NOW + seconds(1)
    )
    [effect] = one.look(goes_on, at=1).effects
    assert effect.outcome is Outcome.TRANSACTION_GOES_ON
    later = backend(pid=1, started=100_101, query=100, xact=201, now=NOW + seconds(101))
    assert one.look(later, at=101).withheld(1) is Withheld.TRANSACTION_TRIED
    other = backend(pid=1, started=100_301, query=100, xact=100, now=NOW + seconds(301))
    assert one.look(other, at=301).signalled == [1]


def test_a_session_that_runs_something_else_has_moved_on() -> None:
    one = play()
    one.look(aged(1, 100))
    [effect] = one.look(backend(pid=1, started=100_001, query=0.5, now=NOW + seconds(1)), at=1).effects
    assert effect.outcome is Outcome.MOVED_ON


def test_a_refused_act_is_not_tried_again_and_stops_acts_on_its_role_for_a_while() -> None:
    one = play(answers=lambda _: Result.NOT_PERMITTED)
    one.look(aged(1, 100))
    step = one.look(aged(1, 100, at=60), aged(2, 100, at=60), at=60)
    assert (step.withheld(1), step.withheld(2)) == (Withheld.REFUSED, Withheld.BREAKER)
    assert step.decisions.open_breakers == (BreakerKey(role="web_app"),)
    after = one.look(aged(1, 100, at=601), aged(2, 100, at=601), at=601)
    assert (after.withheld(1), after.signalled) == (Withheld.REFUSED, [2])


def test_ineffective_acts_in_a_row_open_the_breaker() -> None:
    one = limited(tries=1, stop_after_failures=3)
    for pid in (1, 2, 3):
        one.look(aged(pid, 100, at=10 * pid), at=10 * pid)
        [effect] = one.look(aged(pid, 100, at=10 * pid + 5), at=10 * pid + 5).effects
        assert effect.outcome is Outcome.INEFFECTIVE
    assert one.look(aged(4, 100, at=36), at=36).withheld(4) is Withheld.BREAKER


def test_an_act_with_an_effect_in_between_closes_the_count() -> None:
    one = limited(tries=1, stop_after_failures=2)
    for pid, stays in ((1, True), (2, False), (3, True)):
        one.look(aged(pid, 100, at=10 * pid), at=10 * pid)
        one.look(*([aged(pid, 100, at=10 * pid + 5)] if stays else []), at=10 * pid + 5)
    assert one.look(aged(4, 100, at=36), at=36).signalled == [4]


@pytest.mark.parametrize("result", [Result.GONE, Result.MOVED_ON, Result.PROTECTED, Result.NOT_TRIED])
def test_what_the_guard_refused_is_no_failure_of_ours(result: Result) -> None:
    one = play(answers=lambda _: result)
    one.look(aged(1, 100))
    assert one.policy_memory.acts == {}
    assert one.policy_memory.breakers == {}


def test_work_that_comes_back_at_once_under_its_key_rests() -> None:
    job = rule(budgets={"*": 30})
    one = Play(Policy((cancel_rule(),), FREE), judge_settings=judge_settings(book(job)))
    one.warm()
    one.look(aged(1, 100, role="etl_app", name="scan:a:w1"))
    assert one.look(at=1).effects[0].outcome is Outcome.ENDED
    step = one.look(aged(2, -2, at=4, role="etl_app", name="scan:a:w1"), at=4)
    assert [(each.key.job, each.act) for each in step.retries] == [("a", "act1")]
    step = one.look(aged(2, -2, at=100, role="etl_app", name="scan:a:w1"), at=100)
    assert (step.withheld(2), step.retries) == (Withheld.RESTING, [])
    assert one.look(aged(2, -2, at=610, role="etl_app", name="scan:a:w1"), at=610).signalled == [2]


def test_a_key_rests_only_for_runs_whose_caller_may_still_wait() -> None:
    """A ladder of four killed clients under one key, with default limits: each is cancelled, and the loop is said."""
    anybody = frozenset({Evidence.OVER_BUDGET, Evidence.CLIENT_GONE})
    one = Play(Policy((replace(cancel_rule(), evidence=anybody),)), judge_settings=judge_settings(book(rule())))
    one.warm()
    said, taken = [], []
    for n in range(4):
        at = 6.0 * n
        row = aged(n + 1, -at + 1, at=at, role="etl_app", name="scan:a:w1")
        run = statement_run(row)
        assert run is not None
        step = one.look(row, at=at, gone=frozenset({run}))
        said += [each.key for each in step.retries]
        taken += step.signalled
        one.look(at=at + 3)
    assert (taken, len(said)) == ([1, 2, 3, 4], 3)
    late = aged(9, 900, at=30, role="etl_app", name="scan:a:w1")
    assert one.look(late, at=30).withheld(9) is Withheld.RESTING, "its caller may still wait, and would try again"


def test_another_window_or_a_later_start_is_no_retry() -> None:
    job = rule(budgets={"*": 30})
    one = Play(Policy((cancel_rule(),), FREE), judge_settings=judge_settings(book(job)))
    one.warm()
    one.look(aged(1, 100, role="etl_app", name="scan:a:w1"))
    one.look(at=1)
    assert one.look(aged(2, -2, at=4, role="etl_app", name="scan:a:w2"), at=4).retries == []
    assert one.look(at=45).retries == []
    assert one.look(aged(3, -50, at=55, role="etl_app", name="scan:a:w1"), at=55).retries == []


# Acting status


@pytest.mark.parametrize(
    ("disarm_reason", "reason"),
    [
        (DisarmReason.DISARM_FILE, Withheld.NOT_ARMED),
        (DisarmReason.SIGNAL, Withheld.NOT_ARMED),
        (DisarmReason.RELOAD_FAILED, Withheld.NOT_ARMED),
        (DisarmReason.NO_LEDGER, Withheld.NO_LEDGER),
        (DisarmReason.LEDGER_FAILED, Withheld.NO_LEDGER),
        (DisarmReason.NOT_LEADER, Withheld.NOT_LEADER),
        (DisarmReason.LEASE_TAKEN, Withheld.NOT_LEADER),
        (DisarmReason.OTHER_DATABASE, Withheld.NOT_LEADER),
        (DisarmReason.BEHIND_POOLER, Withheld.NOT_LEADER),
        (DisarmReason.NOT_PERMITTED, Withheld.NOT_PERMITTED),
        (DisarmReason.INCOMPLETE, Withheld.HIDDEN),
    ],
)
def test_what_stands_in_the_way_withholds_with_its_reason(disarm_reason: DisarmReason, reason: Withheld) -> None:
    one = play()
    one.status = ActingStatus(actor=1, disarm_reasons=(disarm_reason,))
    step = one.look(backend(query=100))
    assert (step.withheld(4711), step.signalled) == (reason, [])


def test_in_dry_run_only_another_watchdog_or_a_failing_ledger_withholds() -> None:
    for disarm_reason in DisarmReason:
        status = ActingStatus(actor=1, disarm_reasons=(DisarmReason.CLUSTER_MODE, disarm_reason))
        stops = disarm_reason in {DisarmReason.NOT_LEADER, DisarmReason.LEASE_UNREAD, DisarmReason.LEDGER_FAILED}
        assert (status.withheld is not None) is stops, disarm_reason


@pytest.mark.parametrize("change", ["takeover", "rules"])
def test_a_new_actor_begins_with_an_empty_bucket_again(change: str) -> None:
    one = play()
    one.status = replace(ARMED, actor=2)
    assert one.look(backend(query=100)).withheld(4711) is Withheld.WARMING_UP, change


# Dry run


def test_dry_run_and_enforcement_make_the_same_decisions_on_the_same_workload() -> None:
    """Forty runs, some protected, come and go over five minutes; in both worlds each of them ends at the same time."""
    limits = Limits(per_minute=10, pause=seconds(1), share=0.5)
    policy = Policy(
        (cancel_rule(name="web", only=Names(roles=("web_app",)), after=3), cancel_rule(name="rest")), limits
    )
    worlds = [Play(policy, status=status, judge_settings=ROLES, census=FACTS) for status in (DRY, ARMED)]
    told: list[list[tuple[float, int, str | None]]] = [[], []]
    over: list[set[int]] = [set(), set()]
    for at in range(300):
        rows = [
            aged(pid, 40 - 7 * pid, at=at, role="boss" if pid % 7 == 0 else "web_app", xid=pid % 5 == 0)
            for pid in range(1, 41)
            if 7 * pid - 40 < at
        ]
        for one, seen, ended in zip(worlds, told, over, strict=True):
            step = one.look(*(row for row in rows if row.pid not in ended), at=at)
            seen += [(at, pid, rule_name(step.verdict(pid))) for pid in step.signalled]
            ended.update(step.signalled)  # here by the cancel, there by itself
    assert len(told[0]) > 20
    assert told[0] == told[1]


def test_a_rehearsed_run_counts_once_and_ends_as_a_regret() -> None:
    one = play(status=DRY)
    assert one.look(aged(1, 100)).signalled == [1]
    for at in (5, 10, 100, 1000):
        step = one.look(aged(1, 100, at=at), at=at)
        verdict = step.verdict(1)
        assert isinstance(verdict, UnderWay)
        assert (step.signalled, verdict.hand) == ([], Hand.REHEARSE)
    [effect] = one.look(at=1001).effects
    assert (effect.outcome, effect.regret) == (Outcome.ENDED_BY_ITSELF, True)


def test_a_rehearsal_spends_limits_as_a_signal_does() -> None:
    for status in (DRY, ARMED):
        one = limited(per_minute=2)
        one.status = status
        step = one.look(*(aged(pid, 100) for pid in range(1, 6)))
        assert (len(step.signalled), step.withheld(5)) == (2, Withheld.LIMIT)


# News, memory


def test_each_run_is_news_once() -> None:
    one = play()
    first = one.look(aged(1, 100))
    again = one.look(aged(1, 100, at=1), aged(2, 100, at=1), at=1)
    assert [len(each.decisions.news) for each in (first, again)] == [1, 1]
    assert again.decisions.news[0].finding.backend.pid == 2


def test_a_new_reason_is_news() -> None:
    one = play(status=DRY)
    one.look(aged(1, 100))
    later = one.look(aged(1, 100, at=1, xid=True), at=1)
    assert [withheld_reason(each) for each in later.decisions.news] == [Withheld.WRITER]


def test_nothing_is_remembered_of_runs_that_are_over() -> None:
    one = play()
    for at in range(0, 2000, 5):
        one.look(*(aged(10 * at + k, 100, at=at, name=f"scan:j{k}:w{at}") for k in range(3)), at=at)
    one.look(at=2000)
    one.look(at=4000)
    memory = one.policy_memory
    assert (memory.said, memory.acts, memory.shut, memory.found) == (frozenset(), {}, frozenset(), {})
    assert (memory.cancelled, memory.resting) == ({}, {})


def test_a_look_in_part_shows_no_effect() -> None:
    one = play()
    one.look(aged(1, 100))
    assert one.look(at=30, sees_all=False).effects == []
    assert [each.outcome for each in one.look(at=31).effects] == [Outcome.ENDED]
