"""Builds the daemon: the watcher of each cluster, the ledger, the newest states and their sinks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from watchdog.cli.daemon import Daemon
from watchdog.cli.wiring import arming_of, source_of
from watchdog.runtime.actor import Actor
from watchdog.runtime.arming import Arming
from watchdog.runtime.cluster_watcher import ClusterWatcher
from watchdog.runtime.cycle import Cycle
from watchdog.runtime.latest_states import LatestStates
from watchdog.runtime.log_sink import LogSink
from watchdog.runtime.outbox import Outbox
from watchdog.runtime.ports import Sink
from watchdog.runtime.supervisor import Supervisor
from watchdog.settings.tree import ClusterSettings, LabelSettings, Settings
from watchdog.sockets.kernel import KernelSockets
from watchdog.web.exposition import Exposition
from watchdog.web.labels import Bound, Bounds
from watchdog.web.own import OwnState

if TYPE_CHECKING:
    from watchdog.ledger.writer import Writer


def daemon(
    settings: Settings,
    *,
    reload: Callable[[], Settings] | None,
    sinks: Iterable[Sink] = (),
    dry_run: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Daemon:
    """Build the daemon for all clusters of `settings`.

    `sinks` are further receivers of every state. `say` is called with one line of JSON for each act. `dry_run` is the
    option of the command line.
    """
    own = OwnState(clusters=len(settings.clusters))
    exposition = Exposition(
        book=settings.book, rules=settings.policy.rules, bounds=_bounds(settings.labels), process_values=own.values
    )
    log_sink = LogSink(say)
    latest = LatestStates([log_sink, exposition, *sinks])
    arming = arming_of(settings, dry_run=dry_run)
    ledgers = _Ledgers()
    sockets = KernelSockets()

    def watchers(current: Settings) -> list[ClusterWatcher]:
        ledger = ledgers.of(current)
        return [
            _watcher(
                _acting(cluster, settings=current, arming=arming, ledger=ledger, sockets=sockets),
                settings=current,
                latest=latest,
            )
            for cluster in current.clusters
        ]

    def apply_config(current: Settings) -> None:
        arming.apply_config(arming_of(current, dry_run=dry_run))
        servers = [cluster.name for cluster in current.clusters]
        latest.list_servers(servers)
        exposition.apply_config(
            current.book, rules=current.policy.rules, bounds=_bounds(current.labels), servers=servers
        )

    return Daemon(
        settings=settings,
        apply_config=apply_config,
        watchers=watchers,
        latest=latest,
        supervisor=Supervisor(),
        exposition=exposition,
        own=own,
        reload=reload,
        arming=arming,
        prune=ledgers.prune,
        close_log=log_sink.close,
    )


@dataclass(slots=True)
class _Ledgers:
    """The one ledger of a daemon. A reload keeps it unless its URL has changed."""

    writer: "Writer | None" = None
    keep: timedelta = timedelta(0)

    def of(self, settings: Settings) -> "Writer | None":
        self.keep = settings.ledger_keep
        if settings.ledger_url is None:
            self.writer = None
        elif self.writer is None or self.writer.store.url != settings.ledger_url:
            from watchdog.ledger.store import Store  # noqa: PLC0415  # without a ledger 14 MB of memory would be wasted
            from watchdog.ledger.writer import Writer  # noqa: PLC0415  # as above

            self.writer = Writer(Store(settings.ledger_url), settings.timeout.total_seconds())
        return self.writer

    async def prune(self) -> None:
        if self.writer is not None:
            await self.writer.prune(datetime.now(UTC), keep=self.keep)


def _acting(
    cluster: ClusterSettings, *, settings: Settings, arming: Arming, ledger: "Writer | None", sockets: KernelSockets
) -> Cycle:
    source, judge_settings = source_of(cluster, settings=settings, pause=timedelta(0))
    outbox = Outbox(server=cluster.name, ledger=ledger)
    return Cycle(
        server=cluster.name,
        source=source,
        judge_settings=judge_settings,
        actor=Actor(
            source=source,
            arming=arming,
            outbox=outbox,
            enforces=cluster.enforces,
            allow_untested=cluster.allow_untested,
        ),
        policy=settings.policy,
        sockets=sockets,
        deadline=settings.timeout.total_seconds(),
    )


def _watcher(cycle: Cycle, *, settings: Settings, latest: LatestStates) -> ClusterWatcher:
    return ClusterWatcher(
        cycle=cycle,
        sink=latest,
        interval=cycle.judge_settings.interval.total_seconds(),
        census_interval=settings.census_interval.total_seconds(),
        deadline=settings.timeout.total_seconds(),
    )


def _bounds(labels: LabelSettings) -> Bounds:
    return Bounds(
        roles=Bound(labels.roles, labels.max_roles),
        jobs=Bound(labels.jobs, labels.max_jobs),
        databases=Bound(labels.databases, labels.max_databases),
    )
