"""Copies, duplicates and what proves a retry."""

from collections.abc import Sequence
from dataclasses import replace

from support.builders import backend, book, census, judge_settings, rule, snapshot

from watchdog.core.judging.evidence import Evidence, Kind
from watchdog.core.judging.jobs import JobRule
from watchdog.core.judging.judge import Judgement, Memory, judge
from watchdog.core.observed.activity import Backend, ClientEndpoint
from watchdog.core.observed.blocking import Blocking

ONE_COPY = rule(copies=1, retry_gap=30)
LOCK = ("Lock", "tuple")


def copy(pid: int, age: float, **columns: object) -> Backend:
    defaults: dict[str, object] = {"role": "etl_app", "name": "scan:orders:2026-01"}
    return backend(pid=pid, query=age, **{**defaults, **columns})  # type: ignore[arg-type]  # a row's columns


def judged(*rows: Backend, jobs: JobRule = ONE_COPY, twice: bool = True, blocking: Blocking | None = None) -> Judgement:
    """The second of two looks at the same rows, or the first."""
    memory = Memory()
    settings = judge_settings(book(jobs))
    for _ in range(2 if twice else 1):
        judgement, memory = judge(
            snapshot(*rows), settings=settings, census=census(), memory=memory, tick=True, blocking=blocking
        )
    return judgement


def duplicates(judgement: Judgement) -> Sequence[tuple[int, tuple[Evidence, ...]]]:
    return [(each.backend.pid, each.evidence) for each in judgement.findings if each.kind is Kind.DUPLICATE]


def test_windows_databases_and_roles_never_merge() -> None:
    judgement = judged(
        copy(1, 400),
        copy(2, 310),
        copy(3, 300, name="scan:orders:2026-02"),
        copy(4, 300, database="other"),
        copy(5, 300, role="web_app"),
    )
    assert sorted(len(group) for group in judgement.copies.values()) == [1, 1, 1, 2]
    assert [each.kind for each in judgement.findings if each.backend.pid != 5] == [Kind.DUPLICATE]


def test_the_older_copies_beyond_the_number_are_the_duplicates() -> None:
    assert [pid for pid, _ in duplicates(judged(copy(1, 400), copy(2, 310), copy(3, 200)))] == [1, 2]
    assert [pid for pid, _ in duplicates(judged(copy(1, 400), copy(2, 310), jobs=rule(copies=2, retry_gap=30)))] == []


def test_without_a_configured_number_copies_are_shown_and_never_judged() -> None:
    judgement = judged(copy(1, 400), copy(2, 310), jobs=rule())
    assert duplicates(judgement) == []
    assert [len(group) for group in judgement.copies.values()] == [2]


def test_a_younger_copy_supersedes_the_older_only_when_it_has_stood_in_two_looks() -> None:
    assert duplicates(judged(copy(1, 400), copy(2, 310), twice=False)) == [(1, ())]
    assert duplicates(judged(copy(1, 400), copy(2, 310))) == [(1, (Evidence.SUPERSEDED,))]


def test_a_copy_started_within_the_retry_gap_is_an_overlap_not_a_retry() -> None:
    assert duplicates(judged(copy(1, 400), copy(2, 371))) == [(1, ())]
    assert duplicates(judged(copy(1, 400), copy(2, 370))) == [(1, (Evidence.SUPERSEDED,))]


def test_a_retry_that_waits_for_the_older_copy_does_not_supersede_it() -> None:
    rows = copy(1, 400), copy(2, 310, wait=LOCK)
    assert duplicates(judged(*rows)) == [(1, ())]
    assert duplicates(judged(*rows, blocking=Blocking({2: frozenset({1})}))) == [(1, ())]
    assert duplicates(judged(*rows, blocking=Blocking({2: frozenset({9}), 9: frozenset({1})}))) == [(1, ())]
    assert duplicates(judged(*rows, blocking=Blocking({2: frozenset({9})}))) == [(1, (Evidence.SUPERSEDED,))]


def test_two_allowed_copies_need_two_younger_ones_to_be_superseded() -> None:
    jobs = rule(copies=2, retry_gap=30)
    assert duplicates(judged(copy(1, 400), copy(2, 310), copy(3, 200), jobs=jobs)) == [(1, (Evidence.SUPERSEDED,))]


def test_superseded_strengthens_an_orphan_and_never_makes_one() -> None:
    inside = judged(copy(1, 400), copy(2, 310))
    assert Kind.ORPHAN not in {each.kind for each in inside.findings}
    past = judged(copy(1, 1000), copy(2, 310))
    [orphan] = [each for each in past.findings if each.kind is Kind.ORPHAN]
    assert orphan.evidence == (Evidence.OVER_BUDGET, Evidence.SUPERSEDED)
    assert orphan.strongest is Evidence.OVER_BUDGET


def test_a_retry_that_was_proved_stays_proved_after_the_younger_copy_has_ended() -> None:
    memory = Memory()
    settings = judge_settings(book(ONE_COPY))
    for rows in ((copy(1, 1000), copy(2, 310)), (copy(1, 1000), copy(2, 310)), (copy(1, 1000),)):
        judgement, memory = judge(snapshot(*rows), settings=settings, census=census(), memory=memory, tick=True)
    assert [each.evidence for each in judgement.findings] == [(Evidence.OVER_BUDGET, Evidence.SUPERSEDED)]


def test_sessions_that_only_keep_the_name_are_no_copies() -> None:
    idle = copy(2, 310, state="idle in transaction", wait=("Client", "ClientRead"))
    assert [len(group) for group in judged(copy(1, 400), idle).copies.values()] == [1]


def test_a_cut_name_is_never_a_copy() -> None:
    name = "scan:" + "x" * 58
    judgement = judged(copy(1, 400, name=name), copy(2, 310, name=name))
    assert judgement.copies == {}
    assert judgement.unjudged["unusable_key"] == 2


LOOPBACK, REMOTE = ClientEndpoint("127.0.0.1", 4000), ClientEndpoint("10.0.0.7", 4000)


def test_d04_a_run_that_waits_for_an_extension_is_not_superseded_then_or_later() -> None:
    """Rule: where a retry cannot be told from a backend that works for the older copy, nothing is proved."""
    waits = [copy(1, 400, wait=("Extension", "PostgresFdwGetResult")), copy(2, 310)]
    assert duplicates(judged(*waits)) == [(1, ())]
    memory, settings = Memory(), judge_settings(book(ONE_COPY))
    for rows in (waits, [copy(1, 400), copy(2, 310)], [copy(1, 400), copy(2, 310)]):
        judgement, memory = judge(
            snapshot(*rows), settings=settings, census=census(), memory=memory, tick=True, blocking=None
        )
    assert duplicates(judgement) == [(1, ())], "it may have it work again"


def test_d04_a_copy_whose_client_may_be_the_server_proves_nothing_about_one_from_elsewhere() -> None:
    def between(older: ClientEndpoint | None, younger: ClientEndpoint | None) -> bool:
        rows = [replace(copy(1, 400), client=older), replace(copy(2, 310), client=younger)]
        return duplicates(judged(*rows)) == [(1, (Evidence.SUPERSEDED,))]

    assert between(REMOTE, REMOTE)
    assert between(LOOPBACK, LOOPBACK)
    assert not between(REMOTE, LOOPBACK)
    assert not between(REMOTE, None), "a Unix socket"


def test_d09_a_retry_that_waits_behind_a_process_that_is_no_client_does_not_supersede() -> None:
    """Rule: a chain of waiters that leaves the rows of the poll has not ended."""
    rows = (copy(1, 400), copy(2, 310, wait=LOCK))
    behind_apply = Blocking({2: frozenset({9}), 9: frozenset({1})})
    behind_replay = Blocking({2: frozenset({9}), 9: frozenset()}, opaque=frozenset({9}))
    for blocking in (behind_apply, behind_replay):
        assert duplicates(judged(*rows, blocking=blocking)) == [(1, ())]
