"""Arming: two keys in the configuration, and everything that can take them away before the very next act.

Nothing here can arm. What disarms is asked anew each time: a file, a signal, a reload that failed.
"""

from dataclasses import dataclass
from pathlib import Path

from watchdog.core.acting.status import DisarmReason


@dataclass(slots=True)
class Arming:
    """What the whole process has in common. `epoch` grows when something that disarmed is taken away again."""

    policy_enforces: bool = False
    has_rule: bool = True
    dry_run: bool = False
    disarm_file: Path | None = None
    signalled: bool = False
    reload_failed: bool = False
    epoch: int = 0
    _was_disarmed: bool = False

    def disarm_reasons(self, *, cluster_enforces: bool) -> tuple[DisarmReason, ...]:
        """Everything of this process that stands in the way now, the configuration's own first."""
        switches = (
            (DisarmReason.POLICY_MODE, not self.policy_enforces),
            (DisarmReason.CLUSTER_MODE, not cluster_enforces),
            (DisarmReason.FLAG, self.dry_run),
            (DisarmReason.NO_RULE, not self.has_rule),
            (DisarmReason.DISARM_FILE, self.is_disarmed_by_file),
            (DisarmReason.SIGNAL, self.signalled),
            (DisarmReason.RELOAD_FAILED, self.reload_failed),
        )
        found = tuple(disarm_reason for disarm_reason, holds in switches if holds)
        disarmed = bool({DisarmReason.DISARM_FILE, DisarmReason.RELOAD_FAILED} & set(found))
        if self._was_disarmed and not disarmed:
            self.epoch += 1
        self._was_disarmed = disarmed
        return found

    def disarm(self) -> None:
        """Disarm until the next start."""
        self.signalled = True

    def apply_config(self, other: "Arming") -> None:
        """Take on a new configuration; what disarms by hand stays."""
        self.policy_enforces, self.has_rule = other.policy_enforces, other.has_rule
        self.disarm_file = other.disarm_file

    @property
    def is_disarmed_by_file(self) -> bool:
        """True while the file is there, or cannot be looked for."""
        if self.disarm_file is None:
            return False
        try:
            self.disarm_file.lstat()
        except FileNotFoundError:
            return False
        except OSError:
            return True  # what cannot be looked for may be there
        return True
