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


@dataclass(slots=True)
class Series:
    """Values by metric name and labels. Times are monotonic seconds, given by the caller."""

    counters: dict[str, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))
    gauges: dict[str, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))
    histograms: dict[str, dict[Labels, Histogram]] = field(default_factory=lambda: defaultdict(dict))
    _used: dict[str, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))

    def count(self, name: str, labels: Labels, value: float, *, now: float | None = None) -> None:
        """Add to a counter; with `now` it is one that ends when it has not been used for an hour."""
        series = self.counters[name]
        series[labels] = series.get(labels, 0.0) + value
        if now is not None:
            self._used[name][labels] = now

    def keep(self, names: Iterable[str], labels: Labels, *, now: float) -> None:
        """Let gauges with these labels stand, with 0 where nothing else is set, for an hour from now."""
        for name in names:
            self._used[name][labels] = now

    def clear_gauges(self, *, but: Iterable[str] = ()) -> None:
        """Take down every gauge: nothing that is not set anew is known."""
        self.gauges = defaultdict(dict, {name: self.gauges[name] for name in but})

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

    def forget(self, *, now: float) -> None:
        """End the series that nothing of the last hour has used."""
        for name, series in self._used.items():
            for labels in [labels for labels, used in series.items() if now - used >= KEPT_FOR]:
                del series[labels]
                self.counters[name].pop(labels, None)
                self.gauges[name].pop(labels, None)
