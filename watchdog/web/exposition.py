"""The exposition that Prometheus scrapes. A look renders its cluster's changed metrics; a scrape joins the text.

Most of the text does not change from one look to the next. So a scrape of a thousand clusters joins only the metrics
that have changed, and it yields to the event loop between two metrics.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector

from watchdog.core.acting.rules import Rule
from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.present.look import Look, Unread
from watchdog.web.blocks import Block, gzipped
from watchdog.web.cluster_metrics import ClusterMetrics
from watchdog.web.labels import Bounds
from watchdog.web.metric import Labels, Metric, Type
from watchdog.web.series import Series
from watchdog.web.table import CLUSTER_METRICS, PROCESS_METRICS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FRESH_FOR = 1.0
"""Seconds for which the joined text is served to further scrapes."""

MAX_SHARED = 4096
"""Upper bound of the number of pieces in the cache through which clusters share equal pieces."""

_ANY = "\0"
"""Placeholder for the server's name in a piece. It makes most pieces of different clusters equal, so that memory holds
each of them only once. The name is inserted when pieces are joined."""


@dataclass(slots=True, kw_only=True)
class Exposition:
    """A sink of states that keeps all metrics. `process_values` returns the daemon's own, by metric and labels.

    A piece is the text of one metric of one cluster. `_pieces` holds them by metric and by the escaped server name.
    """

    book: BudgetBook
    rules: tuple[Rule, ...]
    bounds: Bounds
    process_values: Callable[[], Mapping[Metric, Mapping[Labels, float]]]
    _clusters: dict[str, ClusterMetrics] = field(default_factory=dict)
    _pieces: dict[Metric, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    _blocks: dict[Metric, Block] = field(default_factory=dict)
    _joined: list[Block] = field(default_factory=list)
    _gzipped: bytes = b""
    _joined_at: float = float("-inf")
    _joining: asyncio.Lock = field(default_factory=asyncio.Lock)

    def publish(self, state: Look | Unread) -> None:
        """Update one cluster's series from its newest state, and render the metrics that changed."""
        metrics = self._clusters.get(state.server)
        if metrics is None:
            metrics = self._clusters[state.server] = ClusterMetrics(
                book=self.book, rules=self.rules, bounds=self.bounds
            )
        metrics.add(state, now=time.monotonic(), unix_time=time.time())
        self._render(state.server, metrics.series)

    def apply_config(
        self, book: BudgetBook, *, rules: tuple[Rule, ...], bounds: Bounds, servers: Iterable[str]
    ) -> None:
        """Apply a configuration: a new cluster has its counters from the start, an existing one keeps their values."""
        self.book, self.rules, self.bounds = book, rules, bounds
        before = self._clusters
        self._clusters = {
            server: before.get(server) or ClusterMetrics(book=book, rules=rules, bounds=bounds) for server in servers
        }
        own = [_escaped(server) for server in self._clusters]
        for metric, pieces in self._pieces.items():
            self._pieces[metric] = {server: pieces[server] for server in own if server in pieces}
        self._blocks.clear()
        for server, metrics in self._clusters.items():
            metrics.apply_config(book, rules=rules, bounds=bounds)
            self._render(server, metrics.series)

    async def text(self) -> bytes:
        """The whole exposition. Joining it yields to the event loop. The result is reused for `FRESH_FOR` seconds."""
        async with self._joining:
            await self._join()
            return b"".join(block.text for block in self._joined)

    async def gzipped(self) -> bytes:
        """The whole exposition as gzip, compressed in a thread."""
        async with self._joining:
            await self._join()
            if not self._gzipped:
                self._gzipped = await asyncio.to_thread(gzipped, self._joined)
            return self._gzipped

    def _render(self, server: str, series: Series) -> None:
        changed = list(series.changes())
        try:
            pieces = _samples(_family(metric, _ANY, series) for metric in changed)
        except BaseException:
            series.tell_again(changed)
            raise
        own = _escaped(server)
        for metric, piece in zip(changed, pieces, strict=True):
            self._pieces[metric][own] = _shared(piece)
            self._blocks.pop(metric, None)

    async def _join(self) -> None:
        if time.monotonic() - self._joined_at < FRESH_FOR:
            return
        joined = []
        for metric in CLUSTER_METRICS:
            block = self._blocks.get(metric)
            if block is None:
                pieces = [piece.replace(_ANY, own) for own, piece in self._pieces[metric].items()]
                block = self._blocks[metric] = Block("".join((_head(metric), *pieces)).encode())
                await asyncio.sleep(0)
            joined.append(block)
        own = [(_head(metric) + text).encode() for metric, text in _process_pieces(self.process_values())]
        self._joined = [*joined, Block(b"".join((*own, generate_latest(_Collected(_process_families())))))]
        self._gzipped = b""
        self._joined_at = time.monotonic()


class _Collected:
    """A registry with the one method that `generate_latest` calls."""

    def __init__(self, families: Iterable[Family]) -> None:
        self.families = list(families)

    def collect(self) -> Iterator[Family]:
        return iter(self.families)


def _family(metric: Metric, server: str, series: Series) -> Family:
    match metric.type:
        case Type.GAUGE:
            return _gauge(metric, series.gauges.get(metric, {}), first=(server,))
        case Type.COUNTER:
            family = CounterMetricFamily(metric.full_name, metric.help, labels=metric.labels)
            for labels, value in series.counters.get(metric, {}).items():
                family.add_metric((server, *labels), value)
            return family
        case Type.HISTOGRAM:
            histogram = HistogramMetricFamily(metric.full_name, metric.help, labels=metric.labels)
            for labels, each in series.histograms.get(metric, {}).items():
                histogram.add_metric((server, *labels), list(each.cumulative().items()), each.total)
            return histogram


def _gauge(metric: Metric, series: Mapping[Labels, float], *, first: Labels = ()) -> Family:
    family = GaugeMetricFamily(metric.full_name, metric.help, labels=metric.labels)
    for labels, value in series.items():
        family.add_metric((*first, *labels), value)
    return family


def _samples(families: Iterable[Family]) -> list[str]:
    """The sample lines of each family, rendered in one call.

    Only HELP and TYPE lines begin with `#`, because line feeds in label values are escaped.
    """
    _, *texts = f"\n{generate_latest(_Collected(families)).decode()}".split("\n# HELP ")
    return ["".join(f"{line}\n" for line in text.split("\n")[2:] if line) for text in texts]


@lru_cache(maxsize=MAX_SHARED)
def _shared(piece: str) -> str:
    """An equal piece from the cache, or this piece. `sys.intern` would keep it for ever on Python 3.12."""
    return piece


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _head(metric: Metric) -> str:
    return f"# HELP {metric.full_name} {metric.help}\n# TYPE {metric.full_name} {metric.type}\n"


def _process_pieces(values: Mapping[Metric, Mapping[Labels, float]]) -> Iterator[tuple[Metric, str]]:
    for metric in PROCESS_METRICS:
        if metric in values:
            metric.expect_labels(*values[metric])
            [lines] = _samples([_gauge(metric, values[metric])])
            yield metric, lines


def _process_families() -> Iterator[Family]:
    return iter(ProcessCollector(registry=None).collect())
