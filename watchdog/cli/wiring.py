"""The composition root: builds the objects of each command from settings. `assembly` does so for the daemon.

No package except `cli` may import all others. Packages that only some commands need are imported inside functions, so
that the other commands start faster.
"""

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from watchdog.core.acting.rules import Action
from watchdog.core.judging.judge import JudgeSettings
from watchdog.errors import UsageError
from watchdog.postgres.password import Password
from watchdog.postgres.source import PostgresSource
from watchdog.runtime.arming import Arming
from watchdog.runtime.cycle import Cycle
from watchdog.runtime.read_only_actor import ReadOnlyActor
from watchdog.runtime.timetable import interval_in_force
from watchdog.settings.tree import ClusterSettings, Settings
from watchdog.sockets.kernel import KernelSockets

if TYPE_CHECKING:
    from watchdog.ledger.writer import Writer

IDLE_INTERVALS = 3
"""Number of silent intervals, plus one timeout, after which the server ends the session of a vanished pgwatchdog."""


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
