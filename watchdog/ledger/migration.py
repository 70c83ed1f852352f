"""Bringing a ledger to the newest schema, in the transaction that is open. `steps` has the rules."""

from collections.abc import Sequence

from sqlalchemy import Connection, func, inspect, select, text, update

from watchdog.errors import LedgerRefusedError
from watchdog.ledger.steps import Step
from watchdog.ledger.tables import SCHEMA


def migrate(connection: Connection, steps: Sequence[Step]) -> None:
    """Take the steps that the ledger has not taken. On SQLite the transaction has begun with BEGIN IMMEDIATE.

    Raises:
        LedgerRefusedError: a newer version has changed the schema incompatibly.

    """
    if connection.dialect.name == "postgresql":  # several replicas may start at once
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
    if missing:  # otherwise a newer version may have counted additive steps that are not known here
        taken = {"schema_version": incompatible, "additive_steps": _count(steps, additive=True)}
        connection.execute(update(SCHEMA).values(taken))


def _count(steps: Sequence[Step], *, additive: bool) -> int:
    return sum(step.additive == additive for step in steps)


def _schema_version(connection: Connection) -> int:
    """The incompatible steps that were taken; the table that counts them is created as the first version had it."""
    if not inspect(connection).has_table(SCHEMA.name):
        connection.execute(text("CREATE TABLE pgwatchdog_schema (schema_version INTEGER NOT NULL)"))
        connection.execute(text("INSERT INTO pgwatchdog_schema (schema_version) VALUES (0)"))
    taken: int = connection.execute(select(SCHEMA.c.schema_version)).scalar_one()
    return taken


def _additive_steps(connection: Connection) -> int:
    """The additive steps that were taken; the first version had no column for them."""
    if "additive_steps" not in {column["name"] for column in inspect(connection).get_columns(SCHEMA.name)}:
        connection.execute(text("ALTER TABLE pgwatchdog_schema ADD COLUMN additive_steps INTEGER DEFAULT 0"))
    taken: int = connection.execute(select(func.coalesce(SCHEMA.c.additive_steps, 0))).scalar_one()
    return taken
