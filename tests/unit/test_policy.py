"""Each protection is a row with a reason; a run is counted once whatever is said of it."""

import pytest
from support.builders import backend, bench, book, census, snapshot

from watchdog.core.activity import Backend
from watchdog.core.judge import Memory, judge
from watchdog.core.policy import OVER_BUDGET_RULE, Action, Decisions, Hand, PolicyMemory, Verdict, decide


def decided(*rows: Backend, memory: PolicyMemory | None = None) -> tuple[Decisions, PolicyMemory]:
    facts = census(superusers=frozenset({"boss"}), hidden_roles=frozenset({"shy"}))
    settings = bench(book(roles={"web_app": 30, "boss": 30, "shy": 30, "rdsadmin": 30}))
    judgement, _ = judge(snapshot(*rows), bench=settings, census=facts, memory=Memory(), tick=True)
    return decide(
        judgement.findings,
        rules=(OVER_BUDGET_RULE,),
        census=facts,
        memory=memory or PolicyMemory(),
        present=frozenset(case.run for case in judgement.cases),
    )


def only(*rows: Backend) -> Verdict:
    [verdict] = decided(*rows)[0].verdicts
    return verdict


def test_an_orphan_over_its_budget_is_rehearsed() -> None:
    verdict = only(backend(query=100))
    assert (verdict.hand, verdict.action, verdict.rule, verdict.withheld) == (
        Hand.REHEARSE,
        Action.CANCEL,
        "over-budget",
        None,
    )


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (backend(query=100, role="boss"), "superuser"),
        (backend(query=100, role="rdsadmin"), "provider"),
        (backend(query=100, role="shy"), "hidden"),
        (backend(query=100, name="pg_dump"), "backup"),
        (backend(query=100, name="pgBackRest [backup]"), "backup"),
        (backend(query=100, wait=("IPC", "SyncRep")), "sync_rep"),
        (backend(query=100, xid=True), "writer"),
        (backend(query=100, xact=50), "writer"),
        (backend(name="scan:a:w1", query=1, xact=100), "client_talking"),
        (
            backend(name="scan:a:w1", state="idle in transaction", query=1, xact=100, wait=("Client", "ClientRead")),
            "waits_for_client",
        ),
    ],
)
def test_a_protected_backend_is_left_alone_for_a_reason_of_its_own(row: Backend, reason: str) -> None:
    verdict = only(row)
    assert (verdict.hand, verdict.withheld) == (Hand.NONE, reason)


def test_an_application_that_only_begins_like_a_backup_tool_is_not_one() -> None:
    assert only(backend(query=100, name="pg_dumper")).withheld is None
    assert only(backend(query=100, name="psql")).withheld is None


def test_findings_without_a_rule_are_shown_only() -> None:
    verdict = only(backend(query=25))
    assert (verdict.hand, verdict.action, verdict.rule) == (Hand.NONE, Action.OBSERVE, None)


def test_each_run_is_news_once() -> None:
    first, memory = decided(backend(pid=1, query=100))
    again, memory = decided(backend(pid=1, query=100), backend(pid=2, query=100), memory=memory)
    assert [len(each.news) for each in (first, again)] == [1, 1]
    assert again.news[0].finding.backend.pid == 2


def test_a_new_reason_is_news() -> None:
    _, memory = decided(backend(pid=1, query=100))
    later, _ = decided(backend(pid=1, query=100, xid=True), memory=memory)
    assert [each.withheld for each in later.news] == ["writer"]
