"""Acts for a ledger, a second connection to its database, and the tests that a store must pass on every database."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, insert, inspect, select
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool

from support.acting import cancel_rule
from support.builders import NOW, backend, book, census, judge_settings, rule, seconds, snapshot
from support.servers import until
from watchdog.core.acting.acts import Act, ObservedEffect, Outcome, Result
from watchdog.core.acting.recall import Recorded
from watchdog.core.acting.verdicts import Hand
from watchdog.core.judging.copies import CopyKey
from watchdog.core.judging.evidence import Evidence
from watchdog.core.judging.judge import Memory, judge
from watchdog.core.observed.activity import Backend, Clock, Run
from watchdog.errors import LedgerError
from watchdog.ledger.history import Wanted
from watchdog.ledger.store import Answer, Store
from watchdog.ledger.tables import ACTS

KEYED = rule(roles=frozenset({"etl_app"}), budgets={"*": 30})

Rows = list[dict[str, Any]]  # the rows have the types of the database


def act(
    id: str = "a1",  # noqa: A002  # the column's name
    *,
    row: Backend | None = None,
    at: datetime = NOW,
    server: str = "main",
    hand: Hand = Hand.SIGNAL,
    attempt: int = 1,
) -> Act:
    """An act on a row that is far above its budget. The row is judged by the product's judge."""
    row = backend(query=100, now=at) if row is None else row
    seen = snapshot(row, at=at)
    judgement, _ = judge(seen, settings=judge_settings(book(KEYED)), census=census(), memory=Memory(), tick=True)
    [finding] = judgement.findings
    return Act(id=id, server=server, finding=finding, rule=cancel_rule(), hand=hand, attempt=attempt, at=at)


def effect(
    id: str,  # noqa: A002  # the column's name
    outcome: Outcome = Outcome.ENDED,
    *,
    at: datetime = NOW,
    regret: bool = False,
) -> ObservedEffect:
    """The effect of an act as a look observed it."""
    return ObservedEffect(
        id=id, run=Run(4711, NOW, NOW), rule="orphans", hand=Hand.SIGNAL, outcome=outcome, at=at, regret=regret
    )


def answered(store: Store, result: Result, *ids: str) -> None:
    """Write the same result for several acts."""
    store.answer([Answer(each, result, "") for each in ids], effects=(), came_back=())


@contextlib.contextmanager
def second(url: str) -> Iterator[Connection]:
    """Another connection to a ledger's database than the store's."""
    drivers = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
    parsed = make_url(url)
    engine = create_engine(parsed.set(drivername=drivers[parsed.drivername]), poolclass=NullPool)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def rows(url: str) -> Rows:
    """All acts as another connection sees them, in the order of their ids."""
    with second(url) as connection:
        return [dict(row) for row in connection.execute(select(ACTS).order_by(ACTS.c.id)).mappings()]


def columns(url: str) -> set[str]:
    """The names of the columns of the table of acts."""
    with second(url) as connection:
        return {each["name"] for each in inspect(connection).get_columns(ACTS.name)}


@dataclass(slots=True)
class GatedStore(Store):
    """A store whose calls wait at a gate, as if a disk or a server hangs. Without a gate they do not wait."""

    gate: threading.Event | None = None
    arrived: threading.Event | None = None

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        if self.gate is not None and self.arrived is not None:
            self.arrived.set()
            self.gate.wait()
        with super(GatedStore, self)._transaction() as connection:
            yield connection


def gated(folder: Path) -> GatedStore:
    """A store with an open gate. `gate.clear()` makes its calls hang."""
    store = GatedStore(f"sqlite:///{folder}/ledger.db")
    store.open()
    store.gate, store.arrived = threading.Event(), threading.Event()
    store.gate.set()
    return store


class StoreContract:
    """The tests of a store. A subclass defines the fixture `url` of an empty database."""

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        one = Store(url)
        yield one
        one.close()

    def test_an_intent_is_there_for_everybody_once_it_has_been_taken(self, store: Store, url: str) -> None:
        row = backend(
            pid=77, role="etl_app", database="shop", name="scan:threads:w1", query=60, xact=100, query_id=5, xid=True
        )
        one = act("a1", row=row, attempt=2)
        store.intend([one])
        [kept] = rows(url)
        assert kept == {
            "id": "a1",
            "server": "main",
            "rule": "orphans",
            "hand": "signal",
            "kind": "orphan",
            "evidence": "over_budget",
            "attempt": 2,
            "pid": 77,
            "backend_start": row.started,
            "run_start": NOW - seconds(100),
            "statement_start": NOW - seconds(60),
            "transaction_start": NOW - seconds(100),
            "clock": "run",
            "role": "etl_app",
            "database": "shop",
            "job": "threads",
            "window": "w1",
            "state": "active",
            "running_seconds": 100.0,
            "budget": "job:*",
            "budget_seconds": 30.0,
            "blocks": None,
            "intended_at": NOW,
            "result": None,
            "detail": None,
            "outcome": None,
            "outcome_at": None,
            "regret": None,
            "came_back_at": None,
            "action": "cancel",
            "system_identifier": None,
            "postmaster_start": None,
        }

    def test_no_column_holds_a_querys_text(self, store: Store, url: str) -> None:
        store.open()
        assert not [name for name in columns(url) if "query" in name or "text" in name or "sql" in name]

    def test_intents_are_taken_all_or_none(self, store: Store, url: str) -> None:
        store.intend([act("a1")])
        with pytest.raises(LedgerError):
            store.intend([act("a2"), act("a1"), act("a3")])
        assert [row["id"] for row in rows(url)] == ["a1"]
        store.intend([act("a2"), act("a3")])
        assert [row["id"] for row in rows(url)] == ["a1", "a2", "a3"], "it goes on after a failure"

    def test_answers_outcomes_and_returns_are_put_beside_the_intent(self, store: Store, url: str) -> None:
        store.intend([act("a1"), act("a2"), act("a3")])
        later = NOW + seconds(5)
        answers = [Answer("a1", Result.SIGNALLED, ""), Answer("a2", Result.NOT_PERMITTED, "must be a member")]
        store.answer(answers, effects=(), came_back=())
        store.answer((), effects=[effect("a1", at=later, regret=True)], came_back=[("a1", later + seconds(1))])
        told = [(each["result"], each["detail"], each["outcome"], each["outcome_at"]) for each in rows(url)]
        assert told == [
            ("signalled", None, "ended", later),
            ("not_permitted", "must be a member", None, None),
            (None, None, None, None),
        ]
        assert [(each["regret"], each["came_back_at"]) for each in rows(url)] == [
            (True, later + seconds(1)),
            (None, None),
            (None, None),
        ]

    def test_an_answer_to_an_act_that_is_not_there_adds_nothing(self, store: Store, url: str) -> None:
        store.intend([act("a1")])
        store.answer([Answer("zz", Result.SIGNALLED, "")], effects=[effect("yy")], came_back=[("xx", NOW)])
        assert [(row["id"], row["result"], row["outcome"]) for row in rows(url)] == [("a1", None, None)]

    def test_times_come_back_in_utc_to_the_microsecond(self, store: Store) -> None:
        at = datetime(2026, 10, 25, 1, 30, 0, 123_457, tzinfo=UTC)  # an hour that some zones have twice
        elsewhere = at.astimezone(timezone(timedelta(hours=5, minutes=45)))
        store.intend([act("a1", at=elsewhere), act("a2", at=at.replace(microsecond=0))])
        store.answer((), effects=[effect("a1", at=elsewhere)], came_back=[("a1", elsewhere)])
        first, whole = store.history(Wanted())
        assert (first["id"], whole["id"]) == ("a1", "a2")
        for column in ("intended_at", "outcome_at", "came_back_at"):
            assert (first[column], first[column].utcoffset()) == (at, timedelta(0)), column
        assert first["run_start"] == at - seconds(100)
        assert whole["intended_at"] == at.replace(microsecond=0)

    def test_recall_tells_an_act_as_it_was(self, store: Store) -> None:
        row = backend(pid=77, role="etl_app", name="scan:threads:w1", query=60, xact=100)
        store.intend([act("a1", row=row, attempt=3)])
        store.answer([Answer("a1", Result.SIGNALLED, "")], effects=[effect("a1", at=NOW + seconds(1))], came_back=())
        store.answer((), effects=(), came_back=[("a1", NOW + seconds(2))])
        [told] = store.recall("main", since=NOW, at=NOW + seconds(60))
        assert told == Recorded(
            id="a1",
            rule="orphans",
            hand=Hand.SIGNAL,
            run=Run(77, row.started, NOW - seconds(100)),
            statement=NOW - seconds(60),
            transaction=NOW - seconds(100),
            clock=Clock.RUN,
            role="etl_app",
            key=CopyKey("shop", "etl_app", "threads", "w1"),
            client_gone=False,
            attempt=3,
            at=NOW,
            result=Result.SIGNALLED,
            outcome=Outcome.ENDED,
            outcome_at=NOW + seconds(1),
            came_back_at=NOW + seconds(2),
        )

    def test_recall_knows_whose_client_was_gone(self, store: Store) -> None:
        gone = act("a1")
        finding = gone.finding
        both = (Evidence.OVER_BUDGET, Evidence.CLIENT_GONE)
        store.intend([replace(gone, finding=replace(finding, evidence=both)), act("a2")])
        told = store.recall("main", since=NOW, at=NOW)
        assert [(each.id, each.client_gone) for each in told] == [("a1", True), ("a2", False)]

    def test_recall_gives_one_servers_acts_oldest_first_and_none_before_since(self, store: Store) -> None:
        ages = {"a1": 300, "a2": 200, "a3": 100, "a4": 50}
        store.intend([act(name, at=NOW - seconds(ages[name])) for name in ("a3", "a1", "a4", "a2")])
        store.intend([act("b1", server="other")])
        told = store.recall("main", since=NOW - seconds(200), at=NOW)
        assert [each.id for each in told] == ["a2", "a3", "a4"]
        assert [each.id for each in store.recall("other", since=NOW, at=NOW)] == ["b1"]
        assert store.recall("nobody", since=NOW - seconds(1000), at=NOW) == []

    def test_recall_closes_what_was_left_open_as_unknown_and_nothing_else(self, store: Store, url: str) -> None:
        open_ones = {"intended": None, "signalled": Result.SIGNALLED, "timed_out": Result.TIMED_OUT}
        others = {str(each): each for each in Result if each not in {Result.SIGNALLED, Result.TIMED_OUT}}
        everything = open_ones | others | {"ended": Result.SIGNALLED}
        store.intend([act(name) for name in everything])
        store.intend([act("elsewhere", server="other"), act("ancient", at=NOW - timedelta(days=20))])
        for name, result in everything.items():
            if result is not None:
                answered(store, result, name)
        store.answer((), effects=[effect("ended", at=NOW + seconds(1))], came_back=())
        at = NOW + seconds(60)
        told = {each.id: each.outcome for each in store.recall("main", since=NOW, at=at)}
        assert told == dict.fromkeys(everything) | {"ended": Outcome.ENDED}, "it tells what was, not what it wrote"
        closed = {row["id"] for row in rows(url) if (row["outcome"], row["outcome_at"]) == ("unknown", at)}
        assert closed == {*open_ones, "ancient"}
        still_open = {row["id"] for row in rows(url) if row["outcome"] is None}
        assert still_open == {*others, "elsewhere"}, "a rehearsed run has not ended yet"
        again = {each.id: each.outcome for each in store.recall("main", since=NOW, at=at + seconds(60))}
        assert {name for name, outcome in again.items() if outcome is Outcome.UNKNOWN} == set(open_ones)
        assert {row["outcome_at"] for row in rows(url) if row["outcome"] == "unknown"} == {at}, "closed once"

    def test_the_true_outcome_may_still_follow_an_unknown_one(self, store: Store, url: str) -> None:
        store.intend([act("a1")])
        store.recall("main", since=NOW, at=NOW)
        store.answer((), effects=[effect("a1", Outcome.STILL_THERE, at=NOW + seconds(9))], came_back=())
        assert [(row["outcome"], row["outcome_at"]) for row in rows(url)] == [("still_there", NOW + seconds(9))]

    def test_history_gives_what_is_wanted_newest_first(self, store: Store) -> None:
        keyed = backend(role="etl_app", name="scan:threads:w1", query=100)
        store.intend([act(f"a{n}", at=NOW + seconds(n), server="main" if n % 2 else "other") for n in range(6)])
        store.intend([act("b1", row=keyed, at=NOW), act("b2", at=NOW - seconds(60), hand=Hand.REHEARSE)])
        store.answer([Answer("a3", Result.MOVED_ON, "")], effects=[effect("a1")], came_back=())

        def told(**wanted: Any) -> list[str]:  # fields of `Wanted`
            return [row["id"] for row in store.history(Wanted(**wanted))]

        assert told() == ["a5", "a4", "a3", "a2", "a1", "b1", "a0", "b2"]
        assert told(server="other") == ["a4", "a2", "a0"]
        assert told(server="main", limit=2) == ["a5", "a3"]
        assert told(since=NOW + seconds(4)) == ["a5", "a4"]
        assert told(role="etl_app") == told(job="threads") == ["b1"]
        assert told(hand="rehearse") == ["b2"]
        assert told(result="moved_on") == ["a3"]
        assert told(outcome="ended") == ["a1"]
        assert told(rule="orphans", server="main", since=NOW, limit=1) == ["a5"]
        assert told(rule="' OR 1=1 --") == []

    def test_prune_drops_what_is_older_and_says_how_much(self, store: Store, url: str) -> None:
        store.intend([act(f"a{n}", at=NOW - timedelta(days=n)) for n in range(5)])
        assert store.prune(NOW, keep=timedelta(days=2)) == 2
        assert [row["id"] for row in rows(url)] == ["a0", "a1", "a2"], "what is exactly as old stays"
        assert store.prune(NOW, keep=timedelta(days=2)) == 0

    def test_a_clock_that_is_ahead_prunes_nothing_that_is_younger_than_the_newest_act_allows(
        self, store: Store, url: str
    ) -> None:
        store.intend([act(f"a{n}", at=NOW - timedelta(days=n)) for n in range(5)])
        assert store.prune(NOW + timedelta(days=1000), keep=timedelta(days=3)) == 2, "from a day after the newest"
        assert [row["id"] for row in rows(url)] == ["a0", "a1", "a2"]

    def test_a_store_that_only_reads_writes_nothing(self, store: Store, url: str) -> None:
        store.intend([act("a1")])
        reader = Store(url, read_only=True)
        assert [row["id"] for row in reader.history(Wanted())] == ["a1"]
        with pytest.raises(LedgerError):
            reader.intend([act("a2")])
        store.close()
        reader.close()
        assert [row["id"] for row in reader.history(Wanted())] == ["a1"], "also when nobody writes"
        reader.close()

    def test_a_closed_store_opens_again_by_itself(self, store: Store, url: str) -> None:
        store.intend([act("a1")])
        store.close()
        store.close()
        store.intend([act("a2")])
        assert len(rows(url)) == 2

    def test_acts_of_a_word_that_this_version_does_not_know_are_an_error_not_a_guess(self, store: Store) -> None:
        store.intend([act("a1")])
        with second(store.url) as connection:
            connection.execute(ACTS.update().values(result="teleported"))
        with pytest.raises((LedgerError, ValueError), match="teleported"):
            store.recall("main", since=NOW, at=NOW)

    def test_rows_written_by_hand_are_recalled_by_the_same_rules(self, store: Store, url: str) -> None:
        store.intend([act("a1")])
        [row] = rows(url)
        with second(url) as connection:
            connection.execute(insert(ACTS).values({**row, "id": "a0", "job": None, "result": "rehearsed"}))
        told = store.recall("main", since=NOW, at=NOW)
        assert [(each.id, each.result, each.key) for each in told] == [
            ("a0", Result.REHEARSED, None),
            ("a1", None, None),
        ]


def wait_for_row(url: str, name: str, *, result: str | None) -> None:
    """Wait until an act is in the ledger with this result."""
    until(lambda: [row["result"] for row in rows(url) if row["id"] == name] == [result], what=f"{name} as {result}")
