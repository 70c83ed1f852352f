"""The daemon's values about itself: its configuration, lost log lines, and the lag of its event loop."""

import asyncio
import platform
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Never

from watchdog.version import own_version
from watchdog.web.families import process
from watchdog.web.metric import Labels, Metric

BEAT = 0.25
"""Seconds between two measurements of the event loop's lag."""

REMEMBERED = 60
"""Number of measurements that are kept: those of 15 seconds."""


@dataclass(slots=True, kw_only=True)
class OwnState:
    """The daemon's values about itself. `clusters` is the number of configured clusters."""

    clusters: int
    loaded_at: float = field(default_factory=time.time)
    reload_failed: bool = False
    lost_lines: Callable[[], int] = lambda: 0
    _lags: deque[float] = field(default_factory=lambda: deque([0.0], maxlen=REMEMBERED))

    def loaded(self, clusters: int) -> None:
        """Record that a configuration with this number of clusters is in force."""
        self.clusters, self.loaded_at, self.reload_failed = clusters, time.time(), False

    async def measure_lag(self) -> Never:
        """Measure the event loop's lag until cancelled."""
        while True:
            due = time.monotonic() + BEAT
            await asyncio.sleep(BEAT)
            self._lags.append(max(0.0, time.monotonic() - due))

    def values(self) -> Mapping[Metric, Mapping[Labels, float]]:
        """The values by metric and labels."""
        return {
            process.BUILD_INFO: {(own_version(), platform.python_version()): 1.0},
            process.CONFIGURED_CLUSTERS: {(): float(self.clusters)},
            process.CONFIG_LAST_RELOAD_SUCCESSFUL: {(): 0.0 if self.reload_failed else 1.0},
            process.CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS: {(): self.loaded_at},
            process.LOG_LINES_LOST: {(): float(self.lost_lines())},
            process.EVENT_LOOP_LAG_SECONDS: {(): max(self._lags)},
        }
