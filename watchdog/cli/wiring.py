"""The composition root: builds the objects of each command from settings. `assembly` does so for the daemon.

No package except `cli` may import all others. Packages that only some commands need are imported inside functions, so
that the other commands start faster.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from watchdog.core.acting.protected_names import PROVIDER_ROLES
from watchdog.core.acting.rules import Action
from watchdog.core.judging.budgets import DEFAULT_GRACE, BudgetBook
from watchdog.core.judging.judge import JudgeSettings
from watchdog.errors import UsageError
from watchdog.postgres.dsn import check_dsn, target_of
from watchdog.postgres.password import Password
from watchdog.postgres.source import PostgresSource
from watchdog.runtime.arming import Arming
from watchdog.runtime.cycle import Cycle
from watchdog.runtime.read_only_actor import ReadOnlyActor
from watchdog.runtime.timetable import interval_in_force
from watchdog.settings import load, schema
from watchdog.settings.tree import ClusterSettings, LabelSettings, Settings
from watchdog.sockets.kernel import KernelSockets

if TYPE_CHECKING:
    from watchdog.ledger.writer import Writer

COMMAND_LINE = "command line"
"""The source of settings that come from no configuration. Reports with these settings do not mention arming."""

IDLE_INTERVALS = 3
"""Number of silent intervals, plus one timeout, after which the server ends the session of a vanished pgwatchdog."""


def load_settings(config: Path | None, *, env: Mapping[str, str]) -> Settings:
    """Load the settings of a file, or of the environment alone.

    Raises:
        ConfigurationError: the configuration is not valid; it lists every problem with its place.

    """
    if config is None:
        return load.load_environment(env, check_dsn=check_dsn, check_url=_check_url)
    return load.load_file(config, env=env, check_dsn=check_dsn, check_url=_check_url)


def _check_url(url: str) -> str | None:
    from watchdog.ledger.url import check_url  # noqa: PLC0415  # without a ledger half a second would be wasted

    return check_url(url)


def unwritable_ledger(url: str) -> str | None:
    """Why the file of a ledger cannot be written by this user, or None."""
    from watchdog.ledger.url import unwritable  # noqa: PLC0415  # as above

    return unwritable(url)


def shown_url(url: str) -> str:
    """A ledger's URL with its password hidden."""
    from watchdog.ledger.url import shown  # noqa: PLC0415  # as above

    return shown(url)


def settings_for(
    dsns: Iterable[str], *, env: Mapping[str, str], budget: timedelta | None, grace: timedelta | None
) -> Settings:
    """Settings for connection strings from the command line: defaults, and one budget for every role.

    Raises:
        UsageError: one of the strings is no connection string.

    """
    load.check_unused(env)
    clusters: list[ClusterSettings] = []
    for dsn in dsns:
        problem = check_dsn(dsn)
        if problem is not None:
            raise UsageError(problem)
        clusters.append(
            ClusterSettings(
                name=_fresh_name(dsn, clusters),
                dsn=dsn,
                password_file=None,
                password_command=None,
                pooled_roles=frozenset(),
            )
        )
    book = BudgetBook(default=budget, provider_roles=PROVIDER_ROLES, grace=DEFAULT_GRACE if grace is None else grace)
    poll = schema.Poll()
    labels = schema.Labels()
    return Settings(
        source=COMMAND_LINE,
        interval=poll.interval,
        census_interval=poll.census_interval,
        timeout=poll.timeout,
        listen=schema.parse_listen(schema.Web().listen),
        lifecycle=False,
        clusters=tuple(clusters),
        book=book,
        labels=LabelSettings(
            roles=frozenset(),
            jobs=frozenset(),
            databases=frozenset(),
            max_roles=labels.max_roles,
            max_jobs=labels.max_jobs,
            max_databases=labels.max_databases,
        ),
        warnings=(),
    )


def cycles(settings: Settings, *, pause: timedelta = timedelta(0)) -> list[Cycle]:
    """One read-only cycle per cluster, not connected yet. `pause` is the time between two looks."""
    arming = arming_of(settings, dry_run=False)
    return [_looking(cluster, settings=settings, arming=arming, pause=pause) for cluster in settings.clusters]


def manual(settings: Settings, server: str) -> "tuple[Cycle, Writer]":
    """A cycle for one cluster, and the ledger, for an act that a person requests.

    Raises:
        UsageError: no such cluster is configured, or no ledger.

    """
    if settings.ledger_url is None:
        raise UsageError(f"{settings.source}: ledger.url is not set, and there is no act that is not on record")
    from watchdog.ledger.store import Store  # noqa: PLC0415  # as above
    from watchdog.ledger.writer import Writer  # noqa: PLC0415  # as above

    ledger = Writer(Store(settings.ledger_url), settings.timeout.total_seconds())
    return looking(settings, server), ledger


def looking(settings: Settings, server: str) -> Cycle:
    """A read-only cycle for one cluster.

    Raises:
        UsageError: no such cluster is configured.

    """
    found = next((each for each in cycles(settings) if each.server == server), None)
    if found is None:
        names = ", ".join(each.name for each in settings.clusters)
        raise UsageError(f"no cluster is called {server!r}; configured are {names}")
    return found


def arming_of(settings: Settings, *, dry_run: bool) -> Arming:
    """What arms and disarms by this configuration. `dry_run` is the option of the command line."""
    return Arming(
        policy_enforces=settings.enforces,
        has_rule=any(rule.action is Action.CANCEL for rule in settings.policy.rules),
        dry_run=dry_run,
        disarm_file=settings.disarm_file,
    )


def _looking(cluster: ClusterSettings, *, settings: Settings, arming: Arming, pause: timedelta) -> Cycle:
    source, judge_settings = source_of(cluster, settings=settings, pause=pause)
    actor = ReadOnlyActor(
        source=source,
        arming=arming,
        enforces=cluster.enforces,
        has_ledger=settings.ledger_url is not None,
        allow_untested=cluster.allow_untested,
    )
    return Cycle(
        server=cluster.name,
        source=source,
        judge_settings=judge_settings,
        actor=actor,
        policy=settings.policy,
        sockets=KernelSockets(),
    )


def source_of(
    cluster: ClusterSettings, *, settings: Settings, pause: timedelta
) -> tuple[PostgresSource, JudgeSettings]:
    """The source of one cluster, and the settings for judging it."""
    interval = interval_in_force(settings.interval, book=settings.book)
    silence = max(interval, pause)
    source = PostgresSource(
        dsn=cluster.dsn,
        password=Password(cluster.password_file, cluster.password_command),
        timeout=settings.timeout.total_seconds(),
        idle_limit=(IDLE_INTERVALS * silence).total_seconds() + settings.timeout.total_seconds(),
        env=os.environ,
        lease_database=cluster.lease_database,
    )
    return source, JudgeSettings(
        book=settings.book,
        interval=interval,
        configured=settings.interval,
        pooled=cluster.pooled_roles,
        pooled_networks=cluster.pooled_networks,
    )


def _fresh_name(dsn: str, taken: Iterable[ClusterSettings]) -> str:
    name = target_of(dsn)
    names = {each.name for each in taken}
    return next(each for each in (name, *(f"{name} #{i}" for i in range(2, 10_000))) if each not in names)


def with_listen(settings: Settings, listen: str | None) -> Settings:
    """The settings with `listen` as the address to listen on, unless that is None.

    Raises:
        UsageError: `listen` is no address.

    """
    if listen is None:
        return settings
    try:
        return replace(settings, listen=schema.parse_listen(listen))
    except ValueError as error:
        raise UsageError(f"--web.listen-address: {error}") from error
