"""The series of one cluster: counters that stay, gauges that each look makes anew, histograms.

Knows nothing of what they mean. Labels are values in the order of the table, without the server.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

KEPT_FOR = 3600.0
"""Seconds for which a series is kept after it was last used."""

Labels = tuple[str, ...]


@dataclass(slots=True)
class Histogram:
    """Counts by bucket, not yet cumulative, and the sum of what was observed."""

    buckets: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        """Begin with nothing observed."""
        self.counts = [0] * (len(self.buckets) + 1)

    def observe(self, value: float) -> None:
        """Take one value in."""
        place = next((i for i, bound in enumerate(self.buckets) if value <= bound), len(self.buckets))
        self.counts[place] += 1
        self.total += value

    def cumulative(self) -> Mapping[str, float]:
        """Upper bound to the count of everything up to it, as Prometheus wants it."""
        result: dict[str, float] = {}
        count = 0
        for bound, here in zip((*map(str, self.buckets), "+Inf"), self.counts, strict=True):
            count += here
            result[bound] = count
        return result


@dataclass(slots=True, kw_only=True)
class Series:
    """Values by metric name and labels. Times are monotonic seconds, given by the caller.

    What changes is told by name, so that whoever renders need not do it again for what stands: most of it.
    """

    counters: dict[str, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))
    gauges: dict[str, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))
    histograms: dict[str, dict[Labels, Histogram]] = field(default_factory=lambda: defaultdict(dict))
    _used: dict[str, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))
    _told: dict[str, dict[Labels, float]] = field(default_factory=dict)
    _moved: set[str] = field(default_factory=set)

    def changes(self) -> set[str]:
        """The names whose values are others than at the last call."""
        told, self._told = self._told, {name: values for name, values in self.gauges.items() if values}
        gauges = {name for name in told.keys() | self._told.keys() if told.get(name) != self._told.get(name)}
        moved, self._moved = self._moved, set()
        return gauges | moved

    def tell_again(self, names: Iterable[str]) -> None:
        """Let these be among the next changes: whoever was told could not make use of it."""
        self._moved |= set(names)

    def count(self, name: str, labels: Labels, value: float, *, now: float | None = None) -> None:
        """Add to a counter; with `now` it is one that ends when it has not been used for an hour."""
        series = self.counters[name]
        if value or labels not in series:
            series[labels] = series.get(labels, 0.0) + value
            self._moved.add(name)
        if now is not None:
            self._used[name][labels] = now

    def copy(self, name: str, values: Mapping[Labels, float]) -> None:
        """Show a counter that somebody else keeps, as it stands there."""
        if self.counters[name] != values:
            self.counters[name] = dict(values)
            self._moved.add(name)

    def observe(self, name: str, labels: Labels, value: float) -> None:
        """Take one value into a histogram that is there."""
        self.histograms[name][labels].observe(value)
        self._moved.add(name)

    def offer(self, name: str, histograms: Iterable[Labels], *, buckets: tuple[float, ...]) -> None:
        """Have a histogram for each of these labels and no others; those that are there go on."""
        before = self.histograms[name]
        self.histograms[name] = {labels: before.get(labels) or Histogram(buckets) for labels in histograms}
        if self.histograms[name].keys() != before.keys():
            self._moved.add(name)

    def keep(self, names: Iterable[str], labels: Labels, *, now: float) -> None:
        """Let gauges with these labels stand, with 0 where nothing else is set, for an hour from now."""
        for name in names:
            self._used[name][labels] = now

    def clear_gauges(self, *, but: Iterable[str] = ()) -> None:
        """Take down every gauge: nothing that is not set anew is known."""
        self.gauges = defaultdict(dict, {name: dict(self.gauges[name]) for name in but})

    def zero(self, names: Iterable[str], *, unless: bool) -> None:
        """Put up the kept gauges of these names with 0, unless 0 would claim more than is known."""
        for name in names if not unless else ():
            self.gauges[name] = dict.fromkeys(self._used[name], 0.0)

    def set(self, name: str, labels: Labels, value: float) -> None:
        """Set a gauge."""
        self.gauges[name][labels] = float(value)

    def add(self, name: str, labels: Labels, value: float) -> None:
        """Add to a gauge: folded labels share one."""
        self.gauges[name][labels] = self.gauges[name].get(labels, 0.0) + value

    def most(self, name: str, labels: Labels, value: float) -> None:
        """Raise a gauge to `value` if it is lower."""
        self.gauges[name][labels] = max(self.gauges[name].get(labels, 0.0), value)

    def drop_unused(self, *, now: float) -> None:
        """End the series that nothing of the last hour has used."""
        for name, series in self._used.items():
            for labels in [labels for labels, used in series.items() if now - used >= KEPT_FOR]:
                del series[labels]
                if self.counters[name].pop(labels, None) is not None:
                    self._moved.add(name)
                self.gauges[name].pop(labels, None)
