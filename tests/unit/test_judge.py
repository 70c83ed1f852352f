"""The judge as a whole: what it must never do, whatever a server shows."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from support.acting import ONCE, commands_of
from support.builders import NOW, backend, book, census, judge_settings, rule, seconds, snapshot

from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.policy import Policy, decide
from watchdog.core.acting.protections import PROTECTIONS, Protect, ProtectionContext
from watchdog.core.acting.rules import EVERY_ORPHAN_RULE
from watchdog.core.acting.verdicts import withheld_reason
from watchdog.core.judging.evidence import Kind
from watchdog.core.judging.judge import Judgement, Memory, judge
from watchdog.core.observed.activity import Backend

NAMES = st.sampled_from(["", "psql", "scan:a:w1", "scan:a:w2", "scan:cut", "x" * 63, "pg_dump", "scan:a?b:w1"])
AGES = st.floats(min_value=0, max_value=5000, allow_nan=False)
WAITS = st.sampled_from(
    [None, ("Client", "ClientRead"), ("Client", "ClientWrite"), ("Lock", "tuple"), ("IPC", "SyncRep")]
)
STATES = st.sampled_from(
    ["active", "idle", "idle in transaction", "idle in transaction (aborted)", "fastpath function call", "disabled", ""]
)


@st.composite
def rows(draw: st.DrawFn) -> list[Backend]:
    pids = draw(st.lists(st.integers(1, 50), unique=True, max_size=12))
    return [
        backend(
            pid=pid,
            role=draw(st.sampled_from(["web_app", "etl_app", "unknown", "rdsadmin", "boss"])),
            database=draw(st.sampled_from(["shop", "unknown"])),
            name=draw(NAMES),
            state=draw(STATES),
            query=draw(st.none() | AGES),
            xact=draw(st.none() | AGES),
            changed=draw(AGES),
            wait=draw(WAITS),
            xid=draw(st.booleans()),
            query_id=draw(st.none() | st.integers(1, 3)),
        )
        for pid in pids
    ]


JOBS = rule(copies=1, retry_gap=10, budgets={"a": 60})


def judged(found: list[Backend], *, limit: float = 30, memory: Memory | None = None) -> tuple[Judgement, Memory]:
    settings = judge_settings(book(JOBS, roles={"web_app": limit, "etl_app": limit * 30}, default=limit * 2))
    return judge(snapshot(*found), settings=settings, census=census(), memory=memory or Memory(), tick=True)


def summary(judgement: Judgement) -> set[tuple[int, str, tuple[str, ...]]]:
    return {(each.backend.pid, each.kind, tuple(each.evidence)) for each in judgement.findings}


@given(rows(), st.randoms())
def test_the_order_of_rows_changes_nothing(found: list[Backend], random: object) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # the strategy's own type
    assert summary(judged(found)[0]) == summary(judged(shuffled)[0])


@given(rows(), st.floats(min_value=1, max_value=500), st.floats(min_value=0, max_value=500))
def test_a_larger_budget_never_adds_an_orphan(found: list[Backend], limit: float, more: float) -> None:
    def orphans(budget: float) -> set[int]:
        judgement, _ = judged(found, limit=budget)
        return {each.backend.pid for each in judgement.findings if each.kind is Kind.ORPHAN}

    assert orphans(limit + more) <= orphans(limit)


@given(rows())
def test_a_snapshot_judged_twice_from_the_same_memory_is_judged_the_same(found: list[Backend]) -> None:
    _, memory = judged(found)
    assert judged(found, memory=memory) == judged(found, memory=memory)


@given(rows())
def test_no_age_is_negative_and_no_provider_role_is_judged_by_default(found: list[Backend]) -> None:
    judgement, _ = judged(found)
    assert all(each.running >= timedelta(0) for each in judgement.findings)
    assert all(wait > timedelta(0) for wait in judgement.crossings)
    unkeyed = [each for each in judgement.findings if each.key is None]
    assert "rdsadmin" not in {each.backend.role for each in unkeyed}


@given(rows())
def test_nothing_protected_is_ever_proposed_for_action(found: list[Backend]) -> None:
    facts = census(superusers=frozenset({"boss"}), hidden_roles=frozenset({"unknown"}))
    context = ProtectionContext(facts, Protect(), commands_of(*found))
    judgement = judged(found)[0]
    decisions, _ = decide(
        judgement,
        at=NOW,
        policy=Policy(),
        status=ONCE,
        context=context,
        memory=PolicyMemory(),
        interval=seconds(5),
    )
    for verdict in decisions.verdicts:
        if verdict.rule is not None and withheld_reason(verdict) is None:
            assert not any(each.holds(verdict.finding, EVERY_ORPHAN_RULE, context) for each in PROTECTIONS)


def test_memory_does_not_grow_with_the_number_of_runs_that_have_ended() -> None:
    memory = Memory()
    settings = judge_settings(book(JOBS))
    sizes = []
    for i in range(2000):
        at = NOW + seconds(5 * i)
        seen = snapshot(
            *(backend(pid=10 * i + k, role="etl_app", name=f"scan:a:w{i}-{k}", query=1000, now=at) for k in range(4)),
            at=at,
        )
        _, memory = judge(seen, settings=settings, census=census(), memory=memory, tick=True)
        accounts = memory.accounts
        sizes.append(
            len(memory.copies)
            + len(memory.orphans)
            + len(memory.progress)
            + len(accounts.sessions)
            + len(accounts.windows)
        )
    hour = 2 * 4 * 3600 // 5
    assert max(sizes) <= hour + 3 * 4
    assert sizes[-1] == sizes[-500]


def test_an_orphan_is_detected_once_and_again_after_the_server_has_restarted() -> None:
    first, memory = judged([backend(query=100)])
    again, memory = judged([backend(query=100)], memory=memory)
    assert [len(each.detected) for each in (first, again)] == [1, 0]
    settings = judge_settings(book(JOBS))
    restarted = snapshot(backend(query=100), boot=NOW)
    judgement, _ = judge(restarted, settings=settings, census=census(), memory=memory, tick=True)
    assert len(judgement.detected) == 1


def test_a_finished_run_is_reported_once_with_the_share_that_it_had_used() -> None:
    _, memory = judged([backend(query=15)])
    gone, memory = judged([], memory=memory)
    assert [(each.budget, each.used) for each in gone.finished] == [("role:web_app", 0.5)]
    assert judged([], memory=memory)[0].finished == []


def test_a_statement_that_has_ended_inside_a_transaction_is_finished_exactly() -> None:
    _, memory = judged([backend(query=6, xact=6)])
    ended = backend(state="idle in transaction", query=6, xact=6, changed=3, wait=("Client", "ClientRead"))
    judgement, _ = judged([ended], memory=memory)
    assert [each.used for each in judgement.finished] == [0.2], "the look before had seen it further than its end"


def test_blind_spots_are_counted() -> None:
    settings = judge_settings(book(JOBS, roles={"web_app": 30}))
    login = backend(pid=4, role="unknown", state="starting", query=None, xact=99, role_oid=None)
    seen = snapshot(backend(pid=1, role="somebody"), backend(pid=2, name="scan:cut"), backend(pid=3, query=None), login)
    judgement, _ = judge(seen, settings=settings, census=census(hidden=4), memory=Memory(), tick=True)
    assert judgement.unjudged == {
        "insufficient_privilege": 4,
        "tracking_off": 0,
        "unusable_key": 1,
        "no_budget": 1,
        "no_start": 1,
        "logging_in": 1,
    }


def test_work_under_a_new_name_begins_with_its_own_first_statement() -> None:
    """One transaction, two jobs: nothing of the first one's age carries over to the second."""
    settings = judge_settings(book(rule(roles=frozenset({"etl_app"}), budgets={"j": 900})))

    def look(name: str, *, query: float, xact: float, memory: Memory) -> tuple[Judgement, Memory]:
        row = backend(role="etl_app", name=name, query=query, xact=xact, now=NOW)
        return judge(snapshot(row), settings=settings, census=census(), memory=memory, tick=True)

    _, memory = look("scan:j:w1", query=1, xact=900, memory=Memory())
    renamed, memory = look("scan:j:w2", query=3, xact=900, memory=memory)
    assert [(case.age, case.key and case.key.window) for case in renamed.cases] == [(seconds(3), "w2")]
    later, _ = look("scan:j:w2", query=1, xact=900, memory=memory)
    assert later.cases[0].run == renamed.cases[0].run, "it stays the same run while statements come"


def test_a_statement_that_renames_its_own_session_keeps_its_own_clock() -> None:
    """`SELECT set_config('application_name', …)` inside a long statement is no new statement."""
    settings = judge_settings(book(rule(roles=frozenset({"etl_app"}), budgets={"j": 900})))
    first = snapshot(backend(role="etl_app", name="etl", query=110, now=NOW))
    _, memory = judge(first, settings=settings, census=census(), memory=Memory(), tick=True)
    later = snapshot(backend(role="etl_app", name="scan:j:w1", query=110, now=NOW))
    judgement, _ = judge(later, settings=settings, census=census(), memory=memory, tick=True)
    assert [(case.age, case.key is not None) for case in judgement.cases] == [(seconds(110), True)]
