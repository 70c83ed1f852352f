"""Migrates a ledger to the newest schema inside an open transaction. The module `steps` states the rules."""

from collections.abc import Sequence

from sqlalchemy import Connection, func, inspect, select, text, update

from watchdog.errors import LedgerRefusedError
from watchdog.ledger.steps import Step
from watchdog.ledger.tables import SCHEMA


def migrate(connection: Connection, steps: Sequence[Step]) -> None:
    """Apply the steps that the ledger does not have yet. On SQLite the transaction must begin with BEGIN IMMEDIATE.

    Raises:
        LedgerRefusedError: a newer version of pgwatchdog has changed the schema incompatibly.

    """
    if connection.dialect.name == "postgresql":  # because several replicas may start at the same time
        connection.execute(text("SELECT pg_advisory_xact_lock(1885828964, 2)"))
    incompatible = _count(steps, additive=False)
    found = _schema_version(connection)
    if found > incompatible:
        raise LedgerRefusedError(
            f"ledger: its schema is version {found}, newer than this pgwatchdog's {incompatible}; "
            "use a newer pgwatchdog or another ledger"
        )
    missing = steps[found + _additive_steps(connection) :]
    for step in missing:
        step.apply(connection)
    if missing:  # without this condition the count of a newer version's additive steps would be reset
        taken = {"schema_version": incompatible, "additive_steps": _count(steps, additive=True)}
        connection.execute(update(SCHEMA).values(taken))


def _count(steps: Sequence[Step], *, additive: bool) -> int:
    return sum(step.additive == additive for step in steps)


def _schema_version(connection: Connection) -> int:
    """The number of incompatible steps taken. If the table is missing, it is created as in the first version."""
    if not inspect(connection).has_table(SCHEMA.name):
        connection.execute(text("CREATE TABLE pgwatchdog_schema (schema_version INTEGER NOT NULL)"))
        connection.execute(text("INSERT INTO pgwatchdog_schema (schema_version) VALUES (0)"))
    taken: int = connection.execute(select(SCHEMA.c.schema_version)).scalar_one()
    return taken


def _additive_steps(connection: Connection) -> int:
    """The number of additive steps taken. The column is added if it is missing, because the first version had none."""
    if "additive_steps" not in {column["name"] for column in inspect(connection).get_columns(SCHEMA.name)}:
        connection.execute(text("ALTER TABLE pgwatchdog_schema ADD COLUMN additive_steps INTEGER DEFAULT 0"))
    taken: int = connection.execute(select(func.coalesce(SCHEMA.c.additive_steps, 0))).scalar_one()
    return taken
