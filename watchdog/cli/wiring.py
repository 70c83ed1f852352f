"""The composition root: from settings to object graphs. The only module that sees every room."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from watchdog.cli.daemon import Daemon
from watchdog.core.budgets import DEFAULT_GRACE, BudgetBook
from watchdog.core.judge import Bench
from watchdog.core.policy import OVER_BUDGET_RULE
from watchdog.core.protected import PROVIDER_ROLES
from watchdog.errors import UsageError
from watchdog.postgres.dsn import check_dsn, target_of
from watchdog.postgres.password import Password
from watchdog.postgres.source import PostgresSource
from watchdog.runtime.board import Board
from watchdog.runtime.cycle import Cycle
from watchdog.runtime.fleet import Fleet
from watchdog.runtime.journal import Journal
from watchdog.runtime.ports import Sink
from watchdog.runtime.timetable import interval_in_force
from watchdog.runtime.watch import Watch
from watchdog.settings import load, schema
from watchdog.settings.tree import ClusterSettings, LabelSettings, Settings
from watchdog.web.exposition import Exposition
from watchdog.web.labels import Bound, Bounds
from watchdog.web.own import OwnState

RULES = (OVER_BUDGET_RULE,)
IDLE_INTERVALS = 3
"""Intervals of silence after which the server may end our session: a vanished watchdog leaves nothing behind."""


def load_settings(config: Path | None, *, env: Mapping[str, str]) -> Settings:
    """The settings of a file, or of the environment alone.

    Raises:
        ConfigurationError: every problem, each with its place.

    """
    if config is None:
        return load.load_environment(env, check_dsn=check_dsn)
    return load.load_file(config, env=env, check_dsn=check_dsn)


def settings_for(
    dsns: Iterable[str], *, env: Mapping[str, str], budget: timedelta | None, grace: timedelta | None
) -> Settings:
    """Settings for connection strings from the command line: defaults, and one budget for every role.

    Raises:
        UsageError: a string that is no connection string.

    """
    load.check_unused(env)
    clusters: list[ClusterSettings] = []
    for dsn in dsns:
        problem = check_dsn(dsn)
        if problem is not None:
            raise UsageError(problem)
        clusters.append(ClusterSettings(_fresh_name(dsn, clusters), dsn, None, None, frozenset()))
    book = BudgetBook(default=budget, provider_roles=PROVIDER_ROLES, grace=DEFAULT_GRACE if grace is None else grace)
    poll = schema.Poll()
    labels = schema.Labels()
    return Settings(
        source="command line",
        interval=poll.interval,
        census_interval=poll.census_interval,
        timeout=poll.timeout,
        listen=schema.parse_listen(schema.Web().listen),
        lifecycle=False,
        clusters=tuple(clusters),
        book=book,
        labels=LabelSettings(
            frozenset(), frozenset(), frozenset(), labels.max_roles, labels.max_jobs, labels.max_databases
        ),
        warnings=(),
    )


def cycles(settings: Settings, *, pause: timedelta = timedelta(0)) -> list[Cycle]:
    """One cycle per cluster, none of them connected yet; `pause` is how long its sessions will be silent."""
    return [_cycle(cluster, settings=settings, pause=pause) for cluster in settings.clusters]


def daemon(settings: Settings, *, reload: Callable[[], Settings] | None, sinks: Iterable[Sink] = ()) -> Daemon:
    """The daemon over all clusters of `settings`; `sinks` are told of every look as well."""
    own = OwnState(len(settings.clusters))
    exposition = Exposition(settings.book, RULES, _bounds(settings.labels), own.values)
    board = Board([Journal(), exposition, *sinks])

    def watches(current: Settings) -> list[Watch]:
        return [_watch(cycle, settings=current, board=board) for cycle in cycles(current)]

    def settle(current: Settings) -> None:
        servers = [cluster.name for cluster in current.clusters]
        board.list_servers(servers)
        exposition.settle(current.book, rules=RULES, bounds=_bounds(current.labels), servers=servers)

    return Daemon(settings, settle, watches, board, Fleet(), exposition, own, reload)


def _cycle(cluster: ClusterSettings, *, settings: Settings, pause: timedelta) -> Cycle:
    interval = interval_in_force(settings.interval, book=settings.book)
    silence = max(interval, pause)
    source = PostgresSource(
        dsn=cluster.dsn,
        password=Password(cluster.password_file, cluster.password_command),
        timeout=settings.timeout.total_seconds(),
        idle_limit=(IDLE_INTERVALS * silence).total_seconds() + settings.timeout.total_seconds(),
        env=os.environ,
    )
    return Cycle(cluster.name, source, Bench(settings.book, interval, cluster.pooled_roles), RULES)


def _watch(cycle: Cycle, *, settings: Settings, board: Board) -> Watch:
    return Watch(
        cycle,
        board,
        interval=cycle.bench.interval.total_seconds(),
        census_interval=settings.census_interval.total_seconds(),
        deadline=settings.timeout.total_seconds(),
    )


def _bounds(labels: LabelSettings) -> Bounds:
    return Bounds(
        roles=Bound(labels.roles, labels.max_roles),
        jobs=Bound(labels.jobs, labels.max_jobs),
        databases=Bound(labels.databases, labels.max_databases),
    )


def _fresh_name(dsn: str, taken: Iterable[ClusterSettings]) -> str:
    name = target_of(dsn)
    names = {each.name for each in taken}
    return next(each for each in (name, *(f"{name} #{i}" for i in range(2, 10_000))) if each not in names)


def with_listen(settings: Settings, listen: str | None) -> Settings:
    """The settings with another address to listen on, if one is given.

    Raises:
        UsageError: no address.

    """
    if listen is None:
        return settings
    try:
        return replace(settings, listen=schema.parse_listen(listen))
    except ValueError as error:
        raise UsageError(f"--web.listen-address: {error}") from error
