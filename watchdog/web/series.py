"""The series of one cluster: counters and histograms, which are kept, and gauges, which each look sets again.

The module does not know what the metrics mean. A metric of the wrong type, or with the wrong number of labels, raises
ValueError.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from watchdog.web.metric import Labels, Metric, Type

KEPT_FOR = 3600.0
"""Seconds for which a series is kept after it was last used."""

_GAUGE = Type.GAUGE  # on Python 3.11, access to a member of an enumeration takes about as long as setting a gauge


@dataclass(slots=True)
class Histogram:
    """The number of observations in each bucket, not cumulative, and the sum of the observed values."""

    buckets: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        """Start with empty buckets."""
        self.counts = [0] * (len(self.buckets) + 1)

    def observe(self, value: float) -> None:
        """Add one observation."""
        place = next((i for i, bound in enumerate(self.buckets) if value <= bound), len(self.buckets))
        self.counts[place] += 1
        self.total += value

    def cumulative(self) -> Mapping[str, float]:
        """The cumulative count of each bucket by its upper bound, as the exposition format requires."""
        result: dict[str, float] = {}
        count = 0
        for bound, here in zip((*map(str, self.buckets), "+Inf"), self.counts, strict=True):
            count += here
            result[bound] = count
        return result


@dataclass(slots=True, kw_only=True)
class Series:
    """Values by metric and labels. Times are in monotonic seconds and are given by the caller.

    `changes` reports the metrics that changed, so that the exposition renders only those. Most metrics do not change.
    """

    counters: dict[Metric, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))
    gauges: dict[Metric, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))
    histograms: dict[Metric, dict[Labels, Histogram]] = field(default_factory=lambda: defaultdict(dict))
    _used: dict[Metric, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))
    _told: dict[Metric, dict[Labels, float]] = field(default_factory=dict)
    _moved: set[Metric] = field(default_factory=set)

    def changes(self) -> set[Metric]:
        """The metrics whose values have changed since the last call."""
        told, self._told = self._told, {metric: values for metric, values in self.gauges.items() if values}
        gauges = {metric for metric in told.keys() | self._told.keys() if told.get(metric) != self._told.get(metric)}
        moved, self._moved = self._moved, set()
        return gauges | moved

    def tell_again(self, metrics: Iterable[Metric]) -> None:
        """Report these metrics again at the next call of `changes`, because the caller failed to render them."""
        self._moved |= set(metrics)

    def count(self, metric: Metric, labels: Labels, value: float, *, now: float | None = None) -> None:
        """Add to a counter. With `now` the series is dropped when it has not been used for `KEPT_FOR`."""
        series = self.counters[metric]
        if labels not in series:
            metric.expect(Type.COUNTER, labels)
            series[labels] = 0.0
            self._moved.add(metric)
        if value:
            series[labels] += value
            self._moved.add(metric)
        if now is not None:
            self._used[metric][labels] = now

    def copy(self, metric: Metric, values: Mapping[Labels, float]) -> None:
        """Replace all series of a counter by values that are counted elsewhere."""
        metric.expect(Type.COUNTER, *values)
        if self.counters[metric] != values:
            self.counters[metric] = dict(values)
            self._moved.add(metric)

    def observe(self, metric: Metric, labels: Labels, value: float) -> None:
        """Add one observation to a histogram that exists."""
        metric.expect(Type.HISTOGRAM, labels)
        self.histograms[metric][labels].observe(value)
        self._moved.add(metric)

    def offer(self, metric: Metric, histograms: Collection[Labels]) -> None:
        """Keep a histogram for each of these labels and drop the others. Existing histograms keep their counts."""
        metric.expect(Type.HISTOGRAM, *histograms)
        before = self.histograms[metric]
        self.histograms[metric] = {labels: before.get(labels) or Histogram(metric.buckets) for labels in histograms}
        if self.histograms[metric].keys() != before.keys():
            self._moved.add(metric)

    def keep(self, metrics: Iterable[Metric], labels: Labels, *, now: float) -> None:
        """Mark gauges with these labels as used at `now`. `zero` shows them for `KEPT_FOR` from then on."""
        for metric in metrics:
            used = self._used[metric]
            if labels not in used:
                metric.expect(Type.GAUGE, labels)
            used[labels] = now

    def clear_gauges(self, *, but: Iterable[Metric] = ()) -> None:
        """Remove every gauge except those of `but`, because the values of an earlier look may no longer hold."""
        self.gauges = defaultdict(dict, {metric: dict(self.gauges[metric]) for metric in but})

    def zero(self, metrics: Iterable[Metric], *, unless: bool) -> None:
        """Set the kept gauges of these metrics to 0. With `unless` nothing is set, because 0 may be wrong then."""
        for metric in metrics if not unless else ():
            metric.expect(Type.GAUGE)
            self.gauges[metric] = dict.fromkeys(self._used[metric], 0.0)

    def set(self, metric: Metric, labels: Labels, value: float) -> None:
        """Set a gauge. True is 1 and False is 0."""
        if metric.type is not _GAUGE or len(labels) != metric.label_count:
            metric.expect(Type.GAUGE, labels)
        self.gauges[metric][labels] = value

    def add(self, metric: Metric, labels: Labels, value: float) -> None:
        """Add to a gauge, because several label values that became `other` share one series."""
        series = self.gauges[metric]
        if labels not in series:
            self.set(metric, labels, value)
        else:
            series[labels] += value

    def most(self, metric: Metric, labels: Labels, value: float) -> None:
        """Raise a gauge to `value` if it is lower. A new gauge starts with 0."""
        series = self.gauges[metric]
        if labels not in series:
            self.set(metric, labels, max(0.0, value))
        elif value > series[labels]:
            series[labels] = value

    def drop_unused(self, *, now: float) -> None:
        """Drop the series that have not been used for `KEPT_FOR`."""
        for metric, series in self._used.items():
            for labels in [labels for labels, used in series.items() if now - used >= KEPT_FOR]:
                del series[labels]
                if metric.type is Type.GAUGE:
                    self.gauges[metric].pop(labels, None)
                elif self.counters[metric].pop(labels, None) is not None:
                    self._moved.add(metric)
