"""The tests of a ledger's schema for every database: older states are migrated, older versions go on working."""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import Connection, DateTime, bindparam, inspect, text, update

from support.builders import NOW, seconds
from support.ledgers import act, answered, columns, effect, rows, second
from watchdog.core.acting.acts import Result
from watchdog.errors import LedgerError, LedgerRefusedError
from watchdog.ledger.history import Wanted
from watchdog.ledger.rows import row_of
from watchdog.ledger.steps import STEPS, Step
from watchdog.ledger.store import Store
from watchdog.ledger.tables import ACTS, NAMES, SCHEMA

COUNTED = (1, 2)
"""The numbers of incompatible and additive steps of this version. The first stays 1: the first version refuses 2."""

FIRST_DDL = """
CREATE TABLE pgwatchdog_schema (schema_version INTEGER NOT NULL);
CREATE TABLE pgwatchdog_acts (
    id VARCHAR(32) NOT NULL,
    server TEXT NOT NULL,
    rule TEXT NOT NULL,
    hand TEXT NOT NULL,
    kind TEXT NOT NULL,
    evidence TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    backend_start {instant} NOT NULL,
    run_start {instant} NOT NULL,
    statement_start {instant},
    transaction_start {instant},
    clock TEXT NOT NULL,
    role TEXT NOT NULL,
    database TEXT NOT NULL,
    job TEXT,
    "window" TEXT,
    state TEXT NOT NULL,
    running_seconds FLOAT NOT NULL,
    budget TEXT,
    budget_seconds FLOAT,
    blocks INTEGER,
    intended_at {instant} NOT NULL,
    result TEXT,
    detail TEXT,
    outcome TEXT,
    outcome_at {instant},
    regret BOOLEAN,
    came_back_at {instant},
    PRIMARY KEY (id)
);
CREATE INDEX pgwatchdog_acts_by_server ON pgwatchdog_acts (server, intended_at);
INSERT INTO pgwatchdog_schema (schema_version) VALUES (1)
"""
"""The DDL of the first version's schema."""

INSTANT = {"sqlite": "DATETIME", "postgresql": "TIMESTAMP WITH TIME ZONE"}

# The first version's statements as SQLAlchemy rendered them.
FIRST_VERSION = "SELECT pgwatchdog_schema.schema_version \nFROM pgwatchdog_schema"
FIRST_INSERT = """
INSERT INTO pgwatchdog_acts (id, server, rule, hand, kind, evidence, attempt, pid, backend_start, run_start,
statement_start, transaction_start, clock, role, database, job, "window", state, running_seconds, budget,
budget_seconds, blocks, intended_at) VALUES (:id, :server, :rule, :hand, :kind, :evidence, :attempt, :pid,
:backend_start, :run_start, :statement_start, :transaction_start, :clock, :role, :database, :job, :window, :state,
:running_seconds, :budget, :budget_seconds, :blocks, :intended_at)
"""
FIRST_ANSWER = "UPDATE pgwatchdog_acts SET result=:result, detail=:detail WHERE pgwatchdog_acts.id = :name"
FIRST_SELECT = """
SELECT pgwatchdog_acts.id, pgwatchdog_acts.server, pgwatchdog_acts.rule, pgwatchdog_acts.hand, pgwatchdog_acts.kind,
pgwatchdog_acts.evidence, pgwatchdog_acts.attempt, pgwatchdog_acts.pid, pgwatchdog_acts.backend_start,
pgwatchdog_acts.run_start, pgwatchdog_acts.statement_start, pgwatchdog_acts.transaction_start, pgwatchdog_acts.clock,
pgwatchdog_acts.role, pgwatchdog_acts.database, pgwatchdog_acts.job, pgwatchdog_acts."window", pgwatchdog_acts.state,
pgwatchdog_acts.running_seconds, pgwatchdog_acts.budget, pgwatchdog_acts.budget_seconds, pgwatchdog_acts.blocks,
pgwatchdog_acts.intended_at, pgwatchdog_acts.result, pgwatchdog_acts.detail, pgwatchdog_acts.outcome,
pgwatchdog_acts.outcome_at, pgwatchdog_acts.regret, pgwatchdog_acts.came_back_at
FROM pgwatchdog_acts WHERE pgwatchdog_acts.server = :server ORDER BY pgwatchdog_acts.id
"""

FIRST_IDS = ("a1", "a2")
"""The ids of the acts in a ledger of the first version."""


def counted(url: str) -> tuple[int, int]:
    """The numbers of incompatible and additive steps as another connection sees them."""
    with second(url) as connection:
        [(incompatible, additive)] = connection.execute(
            text("SELECT schema_version, additive_steps FROM pgwatchdog_schema")
        ).all()
    return int(incompatible), int(additive)


def _add_note(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE pgwatchdog_acts ADD COLUMN note TEXT"))


def _fail_half_way(connection: Connection) -> None:
    _add_note(connection)
    connection.execute(text("SELECT no_such_column FROM pgwatchdog_acts"))


ADD_NOTE = Step(_add_note, additive=True)
"""A step of a later version."""

FAIL_HALF_WAY = Step(_fail_half_way, additive=True)
"""A step that fails after it has changed the schema."""


def migrated(url: str, *later: Step) -> None:
    """Migrate a ledger to this version's schema, or to that of a version with further steps."""
    store = Store(url, (*STEPS, *later))
    store.open()
    store.close()


def nothing(url: str) -> None:
    """Leave the database empty."""
    del url


def first(url: str) -> None:
    """Create a ledger of the first version with two acts."""
    with second(url) as connection:
        for statement in FIRST_DDL.format(instant=INSTANT[connection.dialect.name]).split(";"):
            connection.execute(text(statement))
        first_intends(connection, *FIRST_IDS)
        connection.execute(text(FIRST_ANSWER), {"result": "signalled", "detail": None, "name": "a1"})


def first_intends(connection: Connection, *ids: str) -> None:
    """Write intents as the first version does."""
    intents = [_first_row(each) for each in ids]
    instants = {key for each in intents for key, value in each.items() if isinstance(value, datetime)}
    typed = [bindparam(key, type_=DateTime(timezone=True)) for key in instants]
    connection.execute(text(FIRST_INSERT).bindparams(*typed), intents)


def _first_row(name: str) -> Mapping[str, object]:
    later = {"action", "system_identifier", "postmaster_start"}
    return {key: value for key, value in row_of(act(name)).items() if key not in later}


def with_actions(url: str) -> None:
    """Create a ledger of the version that knew actions and not which server an act was on."""
    first(url)
    store = Store(url, STEPS[:2])
    store.open()
    store.close()


STATES: tuple[Callable[[str], None], ...] = (nothing, first, with_actions)
"""Creates every state that an older ledger can be in: no ledger, and one for each older schema that was merged."""


def shape(url: str) -> dict[str, Any]:  # the values come from SQLAlchemy's inspector
    """The columns with types, nullability and defaults, the keys and indexes of all tables, and the counted steps."""
    told: dict[str, Any] = {"counted": counted(url)}
    with second(url) as connection:
        inspector = inspect(connection)
        for table in (SCHEMA.name, ACTS.name, NAMES.name):
            told[table] = [
                (each["name"], each["type"].compile(connection.dialect), each["nullable"], each["default"])
                for each in inspector.get_columns(table)
            ]
            told[f"{table}: indexes"] = inspector.get_indexes(table)
            told[f"{table}: key"] = inspector.get_pk_constraint(table)["constrained_columns"]
    return told


def dropped(url: str) -> None:
    """Drop the tables of a ledger."""
    with second(url) as connection:
        for table in (SCHEMA.name, ACTS.name, NAMES.name):
            connection.execute(text(f"DROP TABLE {table}"))


class SchemaContract:
    """The tests of the schema. A subclass defines the fixture `url` of an empty database."""

    def test_every_older_state_leads_to_the_same_schema(self, url: str) -> None:
        shapes = []
        for state in STATES:
            state(url)
            migrated(url)
            shapes.append(shape(url))
            dropped(url)
        assert all(each == shapes[0] for each in shapes)
        assert shapes[0]["counted"] == COUNTED
        for table in (SCHEMA, ACTS, NAMES):
            found = [(name, nullable) for name, _, nullable, _ in shapes[0][table.name]]
            assert found == [(column.name, column.nullable) for column in table.c], "what this version reads and writes"
        assert [each["column_names"] for each in shapes[0]["pgwatchdog_acts: indexes"]] == [["server", "intended_at"]]

    def test_the_acts_of_the_first_version_are_kept_and_are_cancels(self, url: str) -> None:
        first(url)
        migrated(url)
        assert rows(url) == [
            dict.fromkeys(ACTS.c.keys()) | row_of(act("a1")) | {"result": "signalled"},
            dict.fromkeys(ACTS.c.keys()) | row_of(act("a2")),
        ]
        assert [row["action"] for row in rows(url)] == ["cancel", "cancel"]

    def test_the_first_version_goes_on_working_beside_this_one(self, url: str) -> None:
        first(url)
        store = Store(url)
        store.intend([act("b1")])
        with second(url) as connection:
            assert connection.execute(text(FIRST_VERSION)).scalar_one() == 1, "it refuses anything above"
            first_intends(connection, "a3")
            connection.execute(text(FIRST_ANSWER), {"result": "signalled", "detail": None, "name": "b1"})
            told = connection.execute(text(FIRST_SELECT), {"server": "main"}).all()
        assert [row[0] for row in told] == ["a1", "a2", "a3", "b1"]
        assert {len(row) for row in told} == {29}
        recalled = store.recall("main", since=NOW, at=NOW)
        store.close()
        assert [(each.id, each.result) for each in recalled] == [
            ("a1", Result.SIGNALLED),
            ("a2", None),
            ("a3", None),
            ("b1", Result.SIGNALLED),
        ]
        assert {row["action"] for row in rows(url)} == {"cancel"}

    def test_an_act_without_an_action_is_recalled_as_a_cancel_is(self, url: str) -> None:
        store = Store(url)
        store.intend([act("a1")])
        told = store.recall("main", since=NOW - seconds(1), at=NOW)
        with second(url) as connection:
            connection.execute(update(ACTS).values(action=None, outcome=None, outcome_at=None))
        assert store.recall("main", since=NOW - seconds(1), at=NOW) == told
        assert [row["action"] for row in store.history(Wanted())] == [None]
        store.close()

    @pytest.mark.parametrize(("additive", "counts"), [(True, (1, 3)), (False, (2, 2))])
    def test_a_new_step_keeps_the_acts_of_the_version_before(
        self, url: str, *, additive: bool, counts: tuple[int, int]
    ) -> None:
        store = Store(url)
        store.intend([act("a1"), act("a2")])
        store.close()
        before = rows(url)
        step = Step(_add_note, additive=additive)
        newer = Store(url, (*STEPS, step))
        newer.open()
        assert (counted(url), "note" in columns(url)) == (counts, True)
        assert rows(url) == before
        newer.intend([act("a3")])
        newer.close()
        migrated(url, step)
        assert [row["id"] for row in rows(url)] == ["a1", "a2", "a3"], "no step is taken twice"

    def test_a_step_that_fails_changes_nothing(self, url: str) -> None:
        store = Store(url)
        store.intend([act("a1")])
        store.close()
        with pytest.raises(LedgerError):
            Store(url, (*STEPS, FAIL_HALF_WAY)).open()
        assert (counted(url), "note" in columns(url)) == (COUNTED, False)
        assert [row["id"] for row in rows(url)] == ["a1"]
        store.intend([act("a2")])
        store.close()
        assert len(rows(url)) == 2

    def test_a_step_that_fails_leaves_a_ledger_of_the_first_version_to_it(self, url: str) -> None:
        first(url)
        before = self._first_shape(url)
        with pytest.raises(LedgerError):
            Store(url, (*STEPS, FAIL_HALF_WAY)).open()
        assert self._first_shape(url) == before

    @staticmethod
    def _first_shape(url: str) -> list[list[str]]:
        with second(url) as connection:
            inspector = inspect(connection)
            return [[each["name"] for each in inspector.get_columns(table.name)] for table in (SCHEMA, ACTS)]

    def test_more_additive_steps_than_are_known_are_no_hindrance(self, url: str) -> None:
        migrated(url, ADD_NOTE)
        store = Store(url)
        store.intend([act("a1"), act("a2", at=NOW - seconds(60))])
        answered(store, Result.SIGNALLED, "a1")
        store.answer((), effects=[effect("a1")], came_back=[("a1", NOW)])
        assert [each.id for each in store.recall("main", since=NOW - seconds(60), at=NOW)] == ["a2", "a1"]
        assert [list(row) for row in store.history(Wanted(limit=1))] == [ACTS.c.keys()]
        assert store.prune(NOW, keep=seconds(0)) == 1
        store.close()
        assert counted(url) == (1, 3), "it is not counted back"
        migrated(url, ADD_NOTE)
        assert [row["id"] for row in rows(url)] == ["a1"]

    def test_no_count_of_additive_steps_means_none(self, url: str) -> None:
        first(url)
        with second(url) as connection:
            connection.execute(text("ALTER TABLE pgwatchdog_schema ADD COLUMN additive_steps INTEGER"))
        migrated(url)
        assert (counted(url), "action" in columns(url)) == (COUNTED, True)

    def test_an_incompatible_step_shuts_out_the_versions_before_it(self, url: str) -> None:
        migrated(url, Step(_add_note, additive=False), Step(lambda _: None, additive=True))
        assert counted(url) == (2, 3)
        with pytest.raises(
            LedgerRefusedError, match=r"schema is version 2, newer than this pgwatchdog's 1; use a newer"
        ):
            Store(url).open()

    def test_a_newer_schema_is_refused_with_a_word_and_left_alone(self, url: str) -> None:
        store = Store(url)
        store.intend([act("a1")])
        store.close()
        with second(url) as connection:
            connection.execute(text("UPDATE pgwatchdog_schema SET schema_version = 9"))
        before = rows(url)
        for call in (lambda: store.intend([act("a2")]), lambda: store.recall("main", since=NOW, at=NOW), store.open):
            with pytest.raises(
                LedgerRefusedError, match=r"schema is version 9, newer than this pgwatchdog's 1; use a newer"
            ):
                call()
        assert (rows(url), counted(url)) == (before, (9, 2))

    @pytest.mark.parametrize("state", STATES)
    def test_several_that_start_at_once_take_each_step_once(self, url: str, state: Callable[[str], None]) -> None:
        state(url)
        stores = [Store(url, (*STEPS, ADD_NOTE)) for _ in range(4)]
        gate = threading.Barrier(len(stores))
        failures: list[BaseException] = []

        def begin(store: Store, name: str) -> None:
            gate.wait()
            try:
                store.intend([act(name)])
            except LedgerError as error:
                failures.append(error)
            store.close()

        threads = [threading.Thread(target=begin, args=(each, f"b{n}")) for n, each in enumerate(stores)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert counted(url) == (1, 3)
        assert [row["id"] for row in rows(url) if row["id"] not in FIRST_IDS] == ["b0", "b1", "b2", "b3"]

    def test_a_foreign_table_of_our_name_is_an_error_and_stays_as_it_is(self, url: str) -> None:
        with second(url) as connection:
            connection.execute(text("CREATE TABLE pgwatchdog_acts (something TEXT)"))
            connection.execute(text("INSERT INTO pgwatchdog_acts VALUES ('of somebody else')"))
        with pytest.raises(LedgerError, match="already exists"):
            Store(url).intend([act("a1")])
        with second(url) as connection:
            assert connection.execute(text("SELECT * FROM pgwatchdog_acts")).all() == [("of somebody else",)]
            assert not inspect(connection).has_table(SCHEMA.name)
