"""Arming: two keys in the configuration, and everything that can take them away before the very next act.

Nothing here can arm. What disarms is asked anew each time: a file, a signal, a reload that failed.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.core.acting.status import DisarmReason
from watchdog.threads import ThreadCall

DISARM_FILE_DEADLINE = 0.2
"""Seconds in which the file system must say whether the disarm file is there. A late answer means disarmed."""

_PASSING = frozenset({DisarmReason.DISARM_FILE, DisarmReason.RELOAD_FAILED})


@dataclass(slots=True, kw_only=True)
class Arming:
    """What arms and disarms the whole process.

    `epoch` grows when something that disarmed is taken away again: that counts as a new start.
    """

    policy_enforces: bool = False
    has_rule: bool = True
    dry_run: bool = False
    disarm_file: Path | None = None
    signalled: bool = False
    reload_failed: bool = False
    epoch: int = 0
    _was_disarmed: bool = False

    def disarm_reasons(self, *, cluster_enforces: bool, by_file: bool) -> tuple[DisarmReason, ...]:
        """Everything of this process that disarms now, the configuration's own first.

        `by_file`: whether the disarm file is there, see `DisarmFile`.
        """
        switches = (
            (DisarmReason.POLICY_MODE, not self.policy_enforces),
            (DisarmReason.CLUSTER_MODE, not cluster_enforces),
            (DisarmReason.FLAG, self.dry_run),
            (DisarmReason.NO_RULE, not self.has_rule),
            (DisarmReason.DISARM_FILE, by_file),
            (DisarmReason.SIGNAL, self.signalled),
            (DisarmReason.RELOAD_FAILED, self.reload_failed),
        )
        return tuple(reason for reason, holds in switches if holds)

    def take_note(self, reasons: Collection[DisarmReason]) -> None:
        """Begin a new epoch where a disarm file or a failed reload that was seen before is gone."""
        disarmed = not _PASSING.isdisjoint(reasons)
        if self._was_disarmed and not disarmed:
            self.epoch += 1
        self._was_disarmed = disarmed

    def disarm(self) -> None:
        """Disarm until the next start."""
        self.signalled = True

    def apply_config(self, other: "Arming") -> None:
        """Take on a new configuration; what disarms by hand stays."""
        self.policy_enforces, self.has_rule = other.policy_enforces, other.has_rule
        self.disarm_file = other.disarm_file


@dataclass(slots=True)
class DisarmFile:
    """Looks for the disarm file on behalf of one cluster: anew for each question, in a thread of its own.

    A mount that hangs keeps neither the event loop nor another cluster waiting, and no answer is used twice.
    """

    _call: ThreadCall = field(default_factory=ThreadCall)

    async def exists(self, path: Path | None) -> bool:
        """True while the file is there, cannot be looked for, or nobody answers within the deadline."""
        if path is None:
            return False
        try:
            return await self._call.run(lambda: _may_be_there(path), timeout=DISARM_FILE_DEADLINE)
        except (TimeoutError, RuntimeError):  # late, or no thread can be started
            return True


def _may_be_there(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True  # what cannot be looked for may be there
    return True
