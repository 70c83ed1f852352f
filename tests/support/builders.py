"""Values of the core with defaults, so that a test states only what matters to it. Ages are seconds before `NOW`."""

from datetime import UTC, datetime, timedelta

from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.judging.jobs import BudgetSpec, JobRule, parse_pattern
from watchdog.core.judging.judge import JudgeSettings
from watchdog.core.observed.activity import Backend, Moment, Snapshot
from watchdog.core.observed.blocking import Blocking
from watchdog.core.observed.census import Census

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
BOOT = datetime(2026, 11, 1, tzinfo=UTC)


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def moment(age: float, *, now: datetime = NOW) -> Moment:
    return Moment(now - seconds(age), seconds(age))


def backend(  # noqa: PLR0913  # every column of a row may matter to some test
    *,
    pid: int = 4711,
    role: str = "web_app",
    database: str = "shop",
    name: str = "",
    state: str = "active",
    query: float | None = 1.0,
    xact: float | None = None,
    changed: float | None = None,
    wait: tuple[str, str] | None = None,
    xid: bool = False,
    query_id: int | None = None,
    started: float = 100_000.0,
    role_oid: int | None = 16_384,
    database_oid: int | None = 16_385,
    now: datetime = NOW,
) -> Backend:
    """A backend that runs a statement. The default of `xact` is the age of the statement."""
    transaction = query if xact is None else xact
    return Backend(
        pid=pid,
        started=now - seconds(started),
        role=role,
        database=database,
        application_name=name,
        state=state,
        wait_event_type=wait[0] if wait else None,
        wait_event=wait[1] if wait else None,
        query=None if query is None else moment(query, now=now),
        transaction=None if transaction is None else moment(transaction, now=now),
        changed=moment(query or 0.0 if changed is None else changed, now=now),
        has_xid=xid,
        query_id=query_id,
        role_oid=role_oid,
        database_oid=database_oid,
    )


def snapshot(*backends: Backend, at: datetime = NOW, boot: datetime = BOOT, sees_all: bool = True) -> Snapshot:
    return Snapshot(at=at, postmaster_start=boot, in_recovery=False, sees_all=sees_all, backends=backends)


def census(
    *, superusers: frozenset[str] = frozenset(), hidden: int = 0, hidden_roles: frozenset[str] = frozenset()
) -> Census:
    return Census(
        server_version=180006,
        sees_all=not hidden,
        behind_pooler=False,
        roles={},
        databases={},
        superusers=superusers,
        hidden=hidden,
        hidden_roles=hidden_roles,
        tracking_off=0,
        connections_used=3,
        connections_max=100,
        may_cancel_all=True,
    )


def rule(
    *,
    pattern: str = "scan:{job}:{window}",
    roles: frozenset[str] = frozenset(),
    copies: int | None = None,
    retry_gap: float | None = None,
    budgets: dict[str, float] | None = None,
) -> JobRule:
    return JobRule(
        pattern=parse_pattern(pattern),
        roles=roles,
        copies=copies,
        retry_gap=None if retry_gap is None else seconds(retry_gap),
        budgets={name: BudgetSpec(limit=seconds(limit)) for name, limit in (budgets or {}).items()},
    )


def book(
    *jobs: JobRule, roles: dict[str, float] | None = None, default: float | None = None, grace: float = 5.0
) -> BudgetBook:
    """A book of budgets. The default budgets are 30 s for `web_app` and 900 s for `etl_app`."""
    limits = {"web_app": 30.0, "etl_app": 900.0} if roles is None else roles
    return BudgetBook(
        grace=seconds(grace),
        default=None if default is None else seconds(default),
        roles={name: BudgetSpec(limit=seconds(limit)) for name, limit in limits.items()},
        jobs=jobs or (rule(),),
        provider_roles=frozenset({"rdsadmin"}),
    )


def holders_of(blocking: Blocking, waiter: int) -> frozenset[int]:
    """Every pid that `waiter` waits for, directly or indirectly. Pid 0 is a prepared transaction."""
    pids = {*blocking.edges, *(pid for blockers in blocking.edges.values() for pid in blockers)}
    return frozenset(pid for pid in pids if blocking.waits_for(waiter, pid))


def judge_settings(
    budgets: BudgetBook | None = None, *, interval: float = 5.0, pooled: frozenset[str] = frozenset()
) -> JudgeSettings:
    return JudgeSettings(book=book() if budgets is None else budgets, interval=seconds(interval), pooled=pooled)
