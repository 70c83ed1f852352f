"""The server's own counters of its databases as counters of ours: they grow by what each database has added.

A sum over databases would fall when one is dropped, and its rate would then show a spike as high as the sum.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from watchdog.core.observed.census import DatabaseWork
from watchdog.web.metric import Labels


@dataclass(slots=True)
class ServerCounters:
    """Sessions abandoned and active seconds by the label of the database. Neither ever falls."""

    abandoned: dict[Labels, float] = field(default_factory=dict)
    active: dict[Labels, float] = field(default_factory=dict)
    _last: Mapping[str, DatabaseWork] = field(default_factory=dict)

    def add(self, work: Mapping[str, DatabaseWork], *, label_of: Callable[[str], str]) -> None:
        """Add what each database has counted since the last census.

        A database that was not in the last census counts with all it has: it is new, or this is the first census. So
        does one whose counters are below the last ones: its statistics were reset.
        """
        for name, now in work.items():
            before = self._last.get(name)
            reset = before is None or now.abandoned < before.abandoned or now.active < before.active
            abandoned = now.abandoned if before is None or reset else now.abandoned - before.abandoned
            active = now.active if before is None or reset else now.active - before.active
            labels = (label_of(name),)
            self.abandoned[labels] = self.abandoned.get(labels, 0.0) + abandoned
            self.active[labels] = self.active.get(labels, 0.0) + active.total_seconds()
        self._last = dict(work)
