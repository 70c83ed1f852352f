"""Each row of the judge by time: state, clock and ages to a kind of finding."""

import pytest
from support.builders import NOW, backend, book, census, judge_settings, rule, seconds, snapshot

from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.judging.cases import cases_of
from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.judging.jobs import BudgetSpec
from watchdog.core.judging.judge import JudgeSettings, Memory, judge
from watchdog.core.judging.overdue import judge_overdue, until_crossing
from watchdog.core.observed.activity import Backend, Snapshot

CLIENT_READ = ("Client", "ClientRead")


def found(row: Backend, *, budgets: BudgetBook | None = None, interval: float = 5.0) -> Finding | None:
    setting = judge_settings(budgets, interval=interval)
    cases, _ = cases_of(snapshot(row), book=setting.book, pooled=setting.pooled, patience=setting.patience, namings={})
    return judge_overdue(cases[0], nearing=setting.book.nearing) if cases else None


def kind(row: Backend, *, budgets: BudgetBook | None = None) -> Kind | None:
    finding = found(row, budgets=budgets)
    return None if finding is None else finding.kind


@pytest.mark.parametrize(
    ("age", "expected"),
    [(1, None), (23.9, None), (24, Kind.NEARING), (30, Kind.NEARING), (34.9, Kind.NEARING), (35, Kind.ORPHAN)],
)
def test_a_statement_is_nearing_from_its_share_of_the_budget_and_an_orphan_after_the_grace(
    age: float, expected: Kind | None
) -> None:
    assert kind(backend(query=age)) is expected


def test_an_orphan_names_its_evidence_its_budget_and_how_far_it_is_past_the_end() -> None:
    finding = found(backend(query=50))
    assert finding is not None
    assert finding.evidence == (Evidence.OVER_BUDGET,)
    assert finding.overrun == seconds(20)
    assert finding.budget is not None
    assert finding.budget.source == "role:web_app"


def test_many_short_calls_in_one_transaction_inside_its_limits_are_nothing() -> None:
    assert kind(backend(query=0.1, xact=20)) is None
    assert kind(backend(state="idle in transaction", query=0.1, xact=20, wait=CLIENT_READ)) is None


def test_an_unkeyed_long_transaction_of_short_statements_is_holding_never_an_orphan() -> None:
    for state, wait in (("active", None), ("idle in transaction", CLIENT_READ)):
        finding = found(backend(state=state, query=0.1, xact=1200, wait=wait))
        assert finding is not None
        assert finding.kind is Kind.HOLDING
        assert finding.running == seconds(1200)
        assert finding.evidence == ()


def test_one_long_statement_inside_its_budget_does_not_hold_however_short_the_limit_for_holding() -> None:
    budgets = BudgetBook(roles={"web_app": BudgetSpec(limit=seconds(900), holding=seconds(60))})
    assert kind(backend(query=300, xact=300.1), budgets=budgets) is None
    assert kind(backend(query=1, xact=300), budgets=budgets) is Kind.HOLDING


def test_a_transaction_waiting_for_its_client_holds() -> None:
    assert kind(backend(state="idle in transaction", query=600, xact=600, wait=CLIENT_READ)) is Kind.HOLDING
    assert kind(backend(state="active", query=600, xact=600, wait=CLIENT_READ)) is Kind.HOLDING


def test_holding_has_a_limit_of_its_own_with_the_grace_on_top() -> None:
    budgets = BudgetBook(grace=seconds(5), roles={"web_app": BudgetSpec(limit=seconds(30), holding=seconds(60))})
    row = {"state": "idle in transaction", "query": 40.0, "wait": CLIENT_READ}
    assert kind(backend(xact=64.9, **row), budgets=budgets) is None  # type: ignore[arg-type]  # a row's columns
    assert kind(backend(xact=65, **row), budgets=budgets) is Kind.HOLDING  # type: ignore[arg-type]


def test_a_keyed_fetch_loop_past_its_budget_is_an_orphan_whatever_its_state_at_the_look() -> None:
    for state, wait in (("active", None), ("idle in transaction", CLIENT_READ)):
        finding = found(
            backend(role="etl_app", name="scan:cur:w1", state=state, query=0.5, xact=1200, wait=wait), interval=5
        )
        assert finding is not None
        assert finding.kind is Kind.ORPHAN
        assert finding.talking


def test_a_keyed_run_that_has_fallen_silent_for_an_interval_holds() -> None:
    row = backend(role="etl_app", name="scan:cur:w1", state="idle in transaction", query=6, xact=1200, wait=CLIENT_READ)
    assert kind(row) is Kind.HOLDING


def test_a_keyed_single_statement_is_not_taken_for_talk() -> None:
    finding = found(backend(role="etl_app", name="scan:one:w1", query=1000, xact=1000.001))
    assert finding is not None
    assert not finding.talking


def test_a_leaked_transaction_that_a_pool_reuses_is_not_over_budget_at_birth() -> None:
    assert kind(backend(query=0.2, xact=25)) is None


def test_rows_without_a_budget_make_no_finding() -> None:
    assert kind(backend(role="somebody", query=100_000)) is None


def test_the_wait_until_a_crossing_is_known_for_runs_that_are_not_over_it() -> None:
    def wait(row: Backend) -> float | None:
        cases, _ = cases_of(snapshot(row), book=book(), pooled=frozenset(), patience=seconds(5), namings={})
        left = until_crossing(cases[0])
        return None if left is None else left.total_seconds()

    assert wait(backend(query=10)) == 25
    assert wait(backend(query=36)) is None
    assert wait(backend(state="idle in transaction", query=10, wait=CLIENT_READ)) is None
    assert wait(backend(role="somebody", query=10)) is None


def test_a_name_from_a_pooled_role_is_not_read() -> None:
    row = backend(role="gateway", name="scan:stale:w1", query=10)
    budgets = book(rule(budgets={"*": 5}), roles={"gateway": 900})
    cases, _ = cases_of(snapshot(row), book=budgets, pooled=frozenset({"gateway"}), patience=seconds(5), namings={})
    assert cases[0].key is None
    assert judge_overdue(cases[0], nearing=0.8) is None


def test_a_running_row_without_a_start_is_counted_as_unreadable() -> None:
    empty = Snapshot(at=NOW, postmaster_start=NOW, in_recovery=False, sees_all=True, backends=(backend(query=None),))
    cases, unreadable = cases_of(empty, book=book(), pooled=frozenset(), patience=seconds(5), namings={})
    assert (cases, unreadable) == ([], 1)


def test_a_deadline_that_is_older_than_its_statement_is_none() -> None:
    """A pooled connection keeps the name that was set once: a later command proves that somebody waits for it."""
    dated = book(rule(pattern="scan:{job}:{window}:{deadline}"), roles={"etl_app": 900})

    def of(*, deadline: float, statement: float, transaction: float) -> tuple[bool, object]:
        name = f"scan:a:w1:{(NOW - seconds(deadline)).timestamp():.3f}"
        row = backend(role="etl_app", name=name, query=statement, xact=transaction)
        [case], _ = cases_of(snapshot(row), book=dated, pooled=frozenset(), patience=seconds(5), namings={})
        return case.deadline_passed, case.until_deadline

    assert of(deadline=10, statement=60, transaction=60) == (True, seconds(-8))
    assert of(deadline=10, statement=9, transaction=9) == (False, None)
    assert of(deadline=10, statement=1, transaction=60) == (False, None), "a FETCH came after it"


def test_a_small_budget_of_somebody_else_changes_nobodys_protection() -> None:
    row = backend(role="etl_app", name="scan:a:w1", query=3, xact=1200)
    alone = JudgeSettings(book=book(), interval=seconds(5))
    beside = JudgeSettings(book=book(roles={"etl_app": 900, "nobody": 0.5}), interval=seconds(1), configured=seconds(5))
    assert [each.patience for each in (alone, beside)] == [seconds(5), seconds(5)]
    for settings in (alone, beside):
        judged, _ = judge(snapshot(row), settings=settings, census=census(), memory=Memory(), tick=True)
        assert [case.talking for case in judged.cases] == [True]
