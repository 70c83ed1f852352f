"""The tables of the ledger as this version reads and writes them. `steps` creates them."""

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)


class Instant(TypeDecorator[datetime]):
    """A timestamp in UTC. SQLite stores no time zone, so UTC is added to the values that are read."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert the value to UTC before it is stored."""
        del dialect
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the stored value in UTC."""
        del dialect
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


METADATA = MetaData()

SCHEMA = Table(
    "pgwatchdog_schema",
    METADATA,
    Column("schema_version", Integer, nullable=False),
    Column("additive_steps", Integer),
)
"""The table has one row: the number of incompatible and of additive steps that were taken."""

ACTS = Table(
    "pgwatchdog_acts",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("server", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("hand", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("backend_start", Instant, nullable=False),
    Column("run_start", Instant, nullable=False),
    Column("statement_start", Instant),
    Column("transaction_start", Instant),
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
    Column("intended_at", Instant, nullable=False),
    Column("result", Text),
    Column("detail", Text),
    Column("outcome", Text),
    Column("outcome_at", Instant),
    Column("regret", Boolean),
    Column("came_back_at", Instant),
    Column("action", Text),
    Column("system_identifier", BigInteger),
    Column("postmaster_start", Instant),
)
"""The table has one row per act. `action` is the action of the verdict (NULL means cancel). `result` is what the
guarded statement returned. `outcome` is what a later look observed. Times are in UTC, by the clock of the watched
server. `system_identifier` and `postmaster_start` say which server that was (NULL means not known). No column holds
the text of a query."""

NAMES = Table(
    "pgwatchdog_names",
    METADATA,
    Column("server", Text, primary_key=True),
    Column("claimant", Text, nullable=False),
    Column("system_identifier", BigInteger),
    Column("postmaster_start", Instant),
    Column("seen_at", Instant, nullable=False),
)
"""The table has one row for each configured name that an armed pgwatchdog uses: which server it stands for, who says
so, and when that was last said, by the clock of the ledger."""
