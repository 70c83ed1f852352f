"""The declaration of a metric: name, type, help, labels and buckets. Holds no values."""

from dataclasses import dataclass, field
from enum import StrEnum

PREFIX = "pgwatchdog_"

SERVER = ("server",)
"""The labels of a metric that has one value for each cluster. Every metric of a cluster has `server` first."""

Labels = tuple[str, ...]
"""The values of a metric's labels without `server`, in the order of its declaration."""


class Type(StrEnum):
    """The Prometheus metric types in use."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Metric:
    """One metric family. A counter's name includes `_total`. Each metric is declared once and compared by identity."""

    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = field(default=(), kw_only=True)
    label_count: int = field(init=False)
    """The number of labels without `server`."""

    def __post_init__(self) -> None:
        """Count the labels once, because setting a gauge compares the number each time."""
        object.__setattr__(self, "label_count", len(self.labels_without_server))

    @property
    def full_name(self) -> str:
        """The name in the exposition."""
        return PREFIX + self.name

    @property
    def labels_without_server(self) -> tuple[str, ...]:
        """The labels whose values a series gives; the exposition adds `server`."""
        return tuple(label for label in self.labels if label not in SERVER)

    def expect(self, expected: Type, *series: Labels) -> None:
        """Raise ValueError unless the metric is of this type and each of the series has the right number of labels."""
        if self.type is not expected:
            raise ValueError(f"{self.name} is a {self.type}, not a {expected}")
        self.expect_labels(*series)

    def expect_labels(self, *series: Labels) -> None:
        """Raise ValueError unless each of the series has one value for each label without `server`."""
        for labels in series:
            if len(labels) != self.label_count:
                raise ValueError(f"{self.name} has the labels {self.labels_without_server}; the values are {labels}")
