"""A process that outlives its parent and cleans up after it, even if the parent was killed.

It reads the lines `process PID START` and `directory PATH` from standard input. When the input ends, because the
parent has closed it or has been killed, it ends those processes and removes those directories. It uses only the
standard library. It runs in its own session, so that neither Ctrl-C nor a signal to the process group ends it.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PATIENCE = 5.0


@dataclass(slots=True)
class Guardian:
    """The parent's handle of a guardian process."""

    process: subprocess.Popen[str]
    _allowed: float = PATIENCE
    """Seconds that a clean-up may take: its bound grows with what there is to end and to remove."""

    @classmethod
    def start(cls) -> "Guardian":
        """Start a guardian for this process."""
        return cls(
            subprocess.Popen(
                [sys.executable, "-m", __name__], stdin=subprocess.PIPE, text=True, start_new_session=True, bufsize=1
            )
        )

    def mind_process(self, pid: int) -> None:
        """Have this process ended when the parent has gone."""
        self._allowed += 2 * PATIENCE
        self._tell(f"process {pid} {start_of(pid)}")

    def mind_directory(self, path: Path) -> None:
        """Have this directory removed when the parent has gone."""
        self._allowed += PATIENCE
        self._tell(f"directory {path}")

    def clean_up(self) -> None:
        """Have all processes ended and all directories removed now, and wait until that is done."""
        with contextlib.suppress(OSError):
            self._input.close()
        self.process.wait(timeout=self._allowed)

    @property
    def _input(self) -> IO[str]:
        assert self.process.stdin is not None  # because it was requested as a pipe
        return self.process.stdin

    def _tell(self, line: str) -> None:
        self._input.write(f"{line}\n")
        self._input.flush()


def start_of(pid: int) -> str:
    """The start time of a process in the kernel's clock ticks, or '-' if the process has gone.

    Together with it a pid identifies one process, because a later process with the same pid has another start time.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return "-"
    return stat.rpartition(")")[2].split()[19]


def main() -> None:
    """Read lines until the parent has gone, then clean up.

    The latest processes are ended first, so that clients end before servers. Directories are removed last.
    """
    processes: list[tuple[int, str]] = []
    directories: list[Path] = []
    for line in sys.stdin:
        kind, _, rest = line.rstrip("\n").partition(" ")
        if kind == "process":
            pid, _, begun = rest.partition(" ")
            processes.append((int(pid), begun))
        elif kind == "directory":
            directories.append(Path(rest))
    for pid, begun in reversed(processes):
        _end(pid, begun)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _end(pid: int, begun: str) -> None:
    """Send SIGQUIT, which is an immediate shutdown for a server. If the process stays, send SIGKILL."""
    for number in (signal.SIGQUIT, signal.SIGKILL):
        if start_of(pid) != begun or begun == "-":
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        ends = time.monotonic() + PATIENCE
        while start_of(pid) == begun and not _is_zombie(pid) and time.monotonic() < ends:
            time.sleep(0.02)
        if _is_zombie(pid):
            return


def _is_zombie(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


if __name__ == "__main__":
    main()
