"""The steps of the ledger's schema, in order. New steps are appended. A step that has been merged is never changed.

Each step spells out the tables that it creates. It does not use the module `tables`, because that module follows the
newest schema.

A step is additive if versions without it can go on reading and writing the ledger: it adds a table, an index, or a
column that is nullable or has a default. It drops and renames nothing, and no existing value changes its meaning.
Every other step is incompatible.

The table `pgwatchdog_schema` has one row, which counts the steps taken. `schema_version` counts the incompatible steps
and `additive_steps` the additive steps (NULL is 0). Their sum is the number of entries of `STEPS` that were taken.

- A version that finds a greater `schema_version` than it knows refuses the ledger (`LedgerRefusedError`).
- A version that finds more `additive_steps` than it knows uses the ledger. So no statement may depend on which columns
  a table has: every SELECT and every INSERT names its columns.

The first version that was merged reads only `schema_version` and refuses a value above 1.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
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
    # All earlier acts were cancels. Versions without this column add only cancels too. A constant default fills the
    # existing rows without rewriting them, so the duration of this step does not depend on the number of rows.
    connection.execute(text("ALTER TABLE pgwatchdog_acts ADD COLUMN action TEXT DEFAULT 'cancel'"))


def _add_identity(connection: Connection) -> None:
    _NAMES_3.create(connection)
    connection.execute(text("ALTER TABLE pgwatchdog_acts ADD COLUMN system_identifier BIGINT"))
    kind = "TIMESTAMP WITH TIME ZONE" if connection.dialect.name == "postgresql" else "DATETIME"
    connection.execute(text(f"ALTER TABLE pgwatchdog_acts ADD COLUMN postmaster_start {kind}"))


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

_NAMES_3 = Table(
    "pgwatchdog_names",
    MetaData(),
    Column("server", Text, primary_key=True),
    Column("claimant", Text, nullable=False),
    Column("system_identifier", BigInteger),
    Column("postmaster_start", DateTime(timezone=True)),
    Column("seen_at", DateTime(timezone=True), nullable=False),
)

STEPS: tuple[Step, ...] = (
    Step(_create_acts, additive=False),
    Step(_add_action, additive=True),
    Step(_add_identity, additive=True),
)
