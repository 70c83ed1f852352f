"""How often sockets are looked at: five times a second, less where that takes too much of a core, never never."""

from dataclasses import dataclass

SWEEP, MAX_PAUSE = 0.2, 5.0
"""Seconds between two sweeps of one cluster: as a rule, and at most."""

SHARE = 0.05
"""Of one core, for the sweeps of all clusters together, as long as the longest pause allows it."""

WAKING = 50e-6
"""Seconds that the event loop takes to come to a sweep and back; measured, and counted to each."""

WINDOW = 1.0


@dataclass(slots=True)
class Pace:
    """The pause in force, adjusted once a second to what the sweeps of that second have taken."""

    pause: float = SWEEP
    _spent: float = 0.0
    _since: float | None = None

    def note(self, spent: float, *, now: float) -> None:
        """Take note of a sweep that has just taken `spent` seconds."""
        if self._since is None:
            self._since = now
        self._spent += spent + WAKING
        lasted = now - self._since
        if lasted >= WINDOW:
            self.pause = min(MAX_PAUSE, max(SWEEP, self.pause * self._spent / lasted / SHARE))
            self._spent, self._since = 0.0, now
