"""The steps of the ledger's schema, in order. A step is only ever appended, and one that has landed never changes.

What a step creates is written out here. It does not use the live tables (`tables`), which follow the newest schema.

A step is additive if versions without it can go on reading and writing the ledger: it adds a table, an index, or a
column that is nullable or has a default. It drops and renames nothing, and no existing value changes its meaning.
Every other step is incompatible.

The one row of `pgwatchdog_schema` counts the steps that were taken: `schema_version` the incompatible ones,
`additive_steps` the additive ones (NULL is 0). The two together are the place in `STEPS`.

- A version that finds a greater `schema_version` than it knows refuses the ledger (`LedgerRefusedError`).
- A version that finds more `additive_steps` than it knows uses the ledger. So no statement may depend on the columns
  that a table has: every SELECT and every INSERT names its columns.

The first version that landed reads `schema_version` alone and refuses a value above 1.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    DateTime,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    text,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the schema. It runs inside the transaction of the whole migration."""

    apply: Callable[[Connection], None]
    additive: bool


def _create_acts(connection: Connection) -> None:
    _ACTS_1.create(connection)


def _add_action(connection: Connection) -> None:
    # All acts of before were cancels, and so is every act that a version without this column adds. A constant default
    # fills the existing rows without rewriting them, so the time this takes does not depend on how many there are.
    connection.execute(text("ALTER TABLE pgwatchdog_acts ADD COLUMN action TEXT DEFAULT 'cancel'"))


_ACTS_1 = Table(
    "pgwatchdog_acts",
    MetaData(),
    Column("id", String(32), primary_key=True),
    Column("server", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("hand", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("backend_start", DateTime(timezone=True), nullable=False),
    Column("run_start", DateTime(timezone=True), nullable=False),
    Column("statement_start", DateTime(timezone=True)),
    Column("transaction_start", DateTime(timezone=True)),
    Column("clock", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("database", Text, nullable=False),
    Column("job", Text),
    Column("window", Text),
    Column("state", Text, nullable=False),
    Column("running_seconds", Float, nullable=False),
    Column("budget", Text),
    Column("budget_seconds", Float),
    Column("blocks", Integer),
    Column("intended_at", DateTime(timezone=True), nullable=False),
    Column("result", Text),
    Column("detail", Text),
    Column("outcome", Text),
    Column("outcome_at", DateTime(timezone=True)),
    Column("regret", Boolean),
    Column("came_back_at", DateTime(timezone=True)),
    Index("pgwatchdog_acts_by_server", "server", "intended_at"),
)

STEPS: tuple[Step, ...] = (
    Step(_create_acts, additive=False),
    Step(_add_action, additive=True),
)
