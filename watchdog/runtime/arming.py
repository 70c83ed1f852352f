"""Arming: the modes of the configuration that arm, and everything of this process that disarms before the next act.

Only the configuration can arm. The disarm file, the signal and a failed reload are checked again before each act.
"""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from watchdog.core.acting.status import DisarmReason
from watchdog.threads import ThreadCall

DISARM_FILE_DEADLINE = 0.2
"""Seconds within which the file system must say whether the disarm file exists. A late answer means disarmed."""


class FileAnswer(Enum):
    """What is known of the disarm file. All but `ABSENT` disarm."""

    PRESENT = "present"
    ABSENT = "absent"
    LATE = "late"


@dataclass(slots=True, kw_only=True)
class Arming:
    """What arms and disarms the whole process.

    `epoch` grows when a disarm file or a failed reload is no longer there. That counts as a new start.
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
        """Every reason of this process to be disarmed now. Those of the configuration come first.

        `by_file` is whether the disarm file exists, see `DisarmFile`.
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

    def take_note(self, file: FileAnswer) -> None:
        """Begin a new epoch if a disarm file or a failed reload was there at the last call and is gone now.

        A late answer says nothing about the file, so it changes nothing here.
        """
        if file is FileAnswer.LATE:
            return
        disarmed = file is FileAnswer.PRESENT or self.reload_failed
        if self._was_disarmed and not disarmed:
            self.epoch += 1
        self._was_disarmed = disarmed

    def disarm(self) -> None:
        """Disarm until the next start."""
        self.signalled = True

    def apply_config(self, other: "Arming") -> None:
        """Take on a new configuration. The dry-run flag, the signal and a failed reload stay as they are."""
        self.policy_enforces, self.has_rule = other.policy_enforces, other.has_rule
        self.disarm_file = other.disarm_file


@dataclass(slots=True)
class DisarmFile:
    """Looks for the disarm file on behalf of one cluster, each time in a thread of its own.

    So a mount that hangs blocks neither the event loop nor another cluster. No answer is used twice.
    """

    _call: ThreadCall = field(default_factory=ThreadCall)

    async def look(self, path: Path | None) -> FileAnswer:
        """Whether the file is there. A file that cannot be looked for counts as present."""
        if path is None:
            return FileAnswer.ABSENT
        try:
            there = await self._call.run(lambda: _may_be_there(path), timeout=DISARM_FILE_DEADLINE)
        except (TimeoutError, RuntimeError):  # the answer is late, or no thread can be started
            return FileAnswer.LATE
        return FileAnswer.PRESENT if there else FileAnswer.ABSENT

    async def disarms(self, path: Path | None) -> bool:
        """True if the file exists, if it cannot be looked for, or if there is no answer within the deadline."""
        return await self.look(path) is not FileAnswer.ABSENT


def _may_be_there(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it may exist
    return True
