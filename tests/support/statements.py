"""Every SQL statement of the daemon, and checks of the columns and rows that a server returns for it."""

import pkgutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter

from watchdog import postgres
from watchdog.core.acting.acts import CancelTarget
from watchdog.core.observed.activity import Clock
from watchdog.core.observed.services import MARKING_SCHEMAS, MARKING_SETTINGS
from watchdog.core.observed.stored_settings import OTHERS, UNITS
from watchdog.postgres import sql
from watchdog.postgres.backends import PATTERNS
from watchdog.postgres.cancel import guard_parameters
from watchdog.postgres.lease import LOCK
from watchdog.postgres.session import Parameters, Session
from watchdog.postgres.statements import Statement

AnyStatement = Statement[Any]  # each statement has its own type of row


def declared() -> list[AnyStatement]:
    """Every statement that a module of `watchdog.postgres` declares, by name."""
    names = [each.name for each in pkgutil.iter_modules(postgres.__path__, "watchdog.postgres.")]
    values = [value for name in names for value in vars(import_module(name)).values()]
    found = {id(value): value for value in values if isinstance(value, Statement)}  # once, although modules import it
    return sorted(found.values(), key=lambda each: each.name)


async def received(session: Session, statement: AnyStatement, *, pids: Sequence[int]) -> tuple[str, ...]:
    """The names of the columns that the server returns."""
    text = sql.statement(statement.name, version=session.server_version)
    cursor = await session.connection.execute(text, _parameters(statement, pids=pids))
    return tuple(column.name for column in cursor.description or ())


async def checked_rows(session: Session, statement: AnyStatement, *, pids: Sequence[int]) -> int:
    """Read the rows as the daemon does and check the type of every value. Returns the number of rows."""
    rows = await session.rows(statement, _parameters(statement, pids=pids))
    TypeAdapter(list[statement.row]).validate_python(rows, strict=True)  # type: ignore[name-defined]  # known at run time
    return len(rows)


def _parameters(statement: AnyStatement, *, pids: Sequence[int]) -> Parameters:
    parameters: dict[str, Parameters] = {
        "activity": {"sparse": False, "own_role": 0},
        "backends": {**PATTERNS, "pids": list(pids), "read": [True] * len(pids)},
        "blocking": {"pids": list(pids), "outside": False},
        "cancel": guard_parameters(_NOBODY, manual=True),
        "census_settings": ([*UNITS, *OTHERS],),
        "facts_parameters": (list(MARKING_SETTINGS),),
        "facts_server": (list(MARKING_SCHEMAS),),
        "lease": LOCK,
        "lease_holder": LOCK,
        "lease_members": {"roles": [10]},
        "lease_release": LOCK,
        "own_timeout": ("2700",),
        "session_settings": ("60000", "60000"),
    }
    return parameters.get(statement.name, ())


_NOBODY = CancelTarget(
    pid=0,
    backend_start=datetime(2000, 1, 1, tzinfo=UTC),
    statement=None,
    transaction=datetime(2000, 1, 1, tzinfo=UTC),
    state="active",
    role_oid=0,
    role="nobody",
    database_oid=0,
    database="nowhere",
    application_name="",
    clock=Clock.STATEMENT,
    least_age=timedelta(0),
    writers=False,
)
