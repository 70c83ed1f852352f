"""The daemon's own values: what it was configured with, and how late its event loop is."""

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
REMEMBERED = 60
"""Beats: 15 seconds."""


@dataclass(slots=True, kw_only=True)
class OwnState:
    """What the daemon says about itself."""

    clusters: int
    loaded_at: float = field(default_factory=time.time)
    reload_failed: bool = False
    lost_lines: Callable[[], int] = lambda: 0
    _lags: deque[float] = field(default_factory=lambda: deque([0.0], maxlen=REMEMBERED))

    def loaded(self, clusters: int) -> None:
        """Take note of a configuration that has come into force."""
        self.clusters, self.loaded_at, self.reload_failed = clusters, time.time(), False

    async def measure_lag(self) -> Never:
        """Measure the loop's lateness until cancelled."""
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
