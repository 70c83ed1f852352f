"""The text that Prometheus scrapes: each cluster rendered once per look, the pieces joined once per second."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector

from watchdog.core.budgets import BudgetBook
from watchdog.core.look import Look, Unread
from watchdog.core.rules import Rule
from watchdog.web.labels import Bounds
from watchdog.web.series import Labels, Series
from watchdog.web.table import CLUSTER_METRICS, PROCESS_METRICS, Metric, Type
from watchdog.web.tally import Tally

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FRESH_FOR = 1.0
"""Seconds for which one joined text serves every scrape."""

SLICE = 200
"""Pieces that are joined before the event loop gets its turn."""

Pieces = Mapping[str, str]
"""Sample lines by metric name."""


@dataclass(slots=True)
class Exposition:
    """A sink that keeps the metrics. `process_values` gives the daemon's own, by metric name and labels."""

    book: BudgetBook
    rules: tuple[Rule, ...]
    bounds: Bounds
    process_values: Callable[[], Mapping[str, Mapping[Labels, float]]]
    _tallies: dict[str, Tally] = field(default_factory=dict)
    _pieces: dict[str, Pieces] = field(default_factory=dict)
    _joined: bytes = b""
    _joined_at: float = float("-inf")
    _joining: asyncio.Lock = field(default_factory=asyncio.Lock)

    def publish(self, state: Look | Unread) -> None:
        """Take one cluster's newest state in and render it."""
        tally = self._tallies.get(state.server)
        if tally is None:
            tally = self._tallies[state.server] = Tally(self.book, self.rules, self.bounds)
        tally.add(state, now=time.monotonic(), unix_time=time.time())
        self._pieces[state.server] = _render(_families(state.server, tally.series))

    def settle(self, book: BudgetBook, *, rules: tuple[Rule, ...], bounds: Bounds, servers: Iterable[str]) -> None:
        """Take on a configuration: every cluster has its counters from the start, and keeps them on a reload."""
        self.book, self.rules, self.bounds = book, rules, bounds
        before = self._tallies
        self._tallies = {server: before.get(server) or Tally(book, rules, bounds) for server in servers}
        for tally in self._tallies.values():
            tally.settle(book, rules=rules, bounds=bounds)
        self._pieces = {
            server: self._pieces.get(server) or _render(_families(server, tally.series))
            for server, tally in self._tallies.items()
        }

    async def text(self) -> bytes:
        """The whole exposition. Yields to the loop while it joins, and serves one result for a second."""
        async with self._joining:
            if time.monotonic() - self._joined_at >= FRESH_FOR:
                self._joined = await self._join()
                self._joined_at = time.monotonic()
        return self._joined

    async def _join(self) -> bytes:
        parts: list[str] = []
        for metric in CLUSTER_METRICS:
            parts.append(_head(metric))
            for count, pieces in enumerate(list(self._pieces.values())):
                parts.append(pieces.get(metric.name, ""))
                if count % SLICE == SLICE - 1:
                    await asyncio.sleep(0)
        own = "".join(_head(m) + text for m, text in _process_pieces(self.process_values()))
        return "".join(parts).encode() + own.encode() + generate_latest(_Collected(_process_families()))


class _Collected:
    """The one method that the library's renderer asks a registry for."""

    def __init__(self, families: Iterable[Family]) -> None:
        self.families = list(families)

    def collect(self) -> Iterator[Family]:
        return iter(self.families)


def _families(server: str, series: Series) -> Iterator[tuple[Metric, Family]]:
    for metric in CLUSTER_METRICS:
        match metric.type:
            case Type.GAUGE:
                yield metric, _gauge(metric, series.gauges.get(metric.name, {}), first=(server,))
            case Type.COUNTER:
                family = CounterMetricFamily(metric.full_name, metric.help, labels=metric.labels)
                for labels, value in series.counters.get(metric.name, {}).items():
                    family.add_metric((server, *labels), value)
                yield metric, family
            case Type.HISTOGRAM:
                histogram = HistogramMetricFamily(metric.full_name, metric.help, labels=metric.labels)
                for labels, each in series.histograms.get(metric.name, {}).items():
                    histogram.add_metric((server, *labels), list(each.cumulative().items()), each.total)
                yield metric, histogram


def _gauge(metric: Metric, series: Mapping[Labels, float], *, first: Labels = ()) -> Family:
    family = GaugeMetricFamily(metric.full_name, metric.help, labels=metric.labels)
    for labels, value in series.items():
        family.add_metric((*first, *labels), value)
    return family


def _render(families: Iterable[tuple[Metric, Family]]) -> Pieces:
    return {metric.name: _samples(family) for metric, family in families if family.samples}


def _samples(family: Family) -> str:
    text = generate_latest(_Collected([family])).decode()
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def _head(metric: Metric) -> str:
    return f"# HELP {metric.full_name} {metric.help}\n# TYPE {metric.full_name} {metric.type}\n"


def _process_pieces(values: Mapping[str, Mapping[Labels, float]]) -> Iterator[tuple[Metric, str]]:
    for metric in PROCESS_METRICS:
        if metric.name in values:
            yield metric, _samples(_gauge(metric, values[metric.name]))


def _process_families() -> Iterator[Family]:
    return iter(ProcessCollector(registry=None).collect())
