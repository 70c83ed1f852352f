"""How often sockets are swept: five times a second, or less often if that takes too much of a core.

Sweeps never stop altogether: the pause between two of them has an upper bound.
"""

from dataclasses import dataclass

SWEEP, MAX_PAUSE = 0.2, 5.0
"""Seconds between two sweeps of one cluster: the normal pause, and the longest."""

SHARE = 0.05
"""Share of one core for the sweeps of all clusters together. It is exceeded only if the longest pause is reached."""

WAKING = 50e-6
"""Seconds that the event loop takes to come to a sweep and back. It was measured and is added to each sweep."""

WINDOW = 1.0


@dataclass(slots=True)
class Pace:
    """The pause in force. It is adjusted once a second to the time that the sweeps of that second have taken."""

    pause: float = SWEEP
    _spent: float = 0.0
    _since: float | None = None

    def note(self, spent: float, *, now: float) -> None:
        """Count a sweep that has just taken `spent` seconds."""
        if self._since is None:
            self._since = now
        self._spent += spent + WAKING
        lasted = now - self._since
        if lasted >= WINDOW:
            self.pause = min(MAX_PAUSE, max(SWEEP, self.pause * self._spent / lasted / SHARE))
            self._spent, self._since = 0.0, now
