from support.builders import backend, book, census, holders_of, judge_settings, snapshot

from watchdog.core.judging.judge import Memory, judge
from watchdog.core.judging.neighbours import wants_blocking
from watchdog.core.observed.activity import Backend
from watchdog.core.observed.blocking import Blocking, waiters

LOCK = ("Lock", "transactionid")


def test_a_queue_behind_one_row_is_followed_to_its_holder() -> None:
    queue = {pid: frozenset({pid - 1}) for pid in range(2, 201)}
    blocking = Blocking(queue)
    assert holders_of(blocking, 200) == frozenset(range(1, 200))
    assert blocking.blocked(1) == 199
    assert blocking.waits_for(200, 1)
    assert not blocking.waits_for(1, 200)


def test_a_deadlock_and_a_prepared_transaction_end_the_search() -> None:
    assert holders_of(Blocking({1: frozenset({2}), 2: frozenset({1})}), 1) == {2}
    assert holders_of(Blocking({1: frozenset({0})}), 1) == {0}


def test_blocking_is_asked_only_when_a_finding_and_a_waiter_stand_together() -> None:
    orphan, waiter = backend(pid=1, query=100), backend(pid=2, query=1, wait=LOCK)
    assert asks(orphan, waiter)
    assert not asks(orphan)
    assert not asks(waiter)
    assert not asks(backend(pid=1, query=25), waiter), "nearing is a warning, not a finding to ask for"


def asks(*rows: Backend) -> bool:
    judgement, _ = judge(snapshot(*rows), settings=judge_settings(), census=census(), memory=Memory(), tick=True)
    return wants_blocking(judgement.findings, snapshot=snapshot(*rows))


def test_what_was_not_asked_is_unknown_and_not_0() -> None:
    orphan = snapshot(backend(pid=1, query=100))
    judgement, _ = judge(orphan, settings=judge_settings(), census=census(), memory=Memory(), tick=True)
    assert judgement.findings[0].blocks is None
    assert judgement.blocked_by_orphans is None


def test_blocked_sessions_are_counted_once_each() -> None:
    rows = snapshot(backend(pid=1, query=100), backend(pid=2, query=90), *(backend(pid=p, wait=LOCK) for p in (11, 12)))
    edges = Blocking({11: frozenset({1, 2}), 12: frozenset({11})})
    judgement, _ = judge(rows, settings=judge_settings(), census=census(), memory=Memory(), tick=True, blocking=edges)
    assert [each.blocks for each in judgement.findings] == [2, 2]
    assert judgement.blocked_by_orphans == 2
    assert waiters(rows) == [11, 12]


def test_alike_counts_orphans_of_one_database_role_and_query() -> None:
    pile = [backend(pid=p, query=100, query_id=7) for p in (1, 2, 3)]
    others = [
        backend(pid=4, query=100, query_id=8),
        backend(pid=5, query=100, query_id=None),
        backend(pid=6, query=1, query_id=7),
        backend(pid=7, query=1000, query_id=7, role="etl_app"),
    ]
    judgement, _ = judge(
        snapshot(*pile, *others), settings=judge_settings(book()), census=census(), memory=Memory(), tick=True
    )
    assert {each.backend.pid: each.alike for each in judgement.findings} == {7: 1, 1: 3, 2: 3, 3: 3, 4: 1, 5: None}


def test_d09_behind_a_process_that_does_not_say_whom_it_waits_for_the_number_is_unknown() -> None:
    replay = Blocking({11: frozenset({9}), 12: frozenset({9}), 13: frozenset({1}), 9: frozenset()}, frozenset({9}))
    assert replay.blocked(1) is None
    assert replay.blocked() == 0, "nobody waits for nobody"
    assert replay.blocked(9, 1) == 3
    known = Blocking({11: frozenset({9}), 12: frozenset({11}), 9: frozenset({1})})
    assert known.blocked(1) == 3
    assert known.blocked(2) == 0
