"""The machine: its name for the page, what its processes have used, and how it is kept busy."""

import os
import platform
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILES = 12_000
"""Open files that the largest benchmark needs."""


def description(server: str) -> str:
    """Cores, memory, system and versions; no name of a host, no path."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        system = platform.system()
    kernel = ".".join(platform.release().split("-")[0].split(".")[:2])
    return (
        f"Machine: {os.cpu_count()} cores, {memory:.0f} GiB of memory, {system}, {platform.system()} {kernel}, "
        f"Python {platform.python_version()}, PostgreSQL {server}."
    )


def allow_many_files() -> None:
    """Raise the limit of open files as far as we may and need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, FILES)), hard))


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in spinners:
            each.kill()
            each.wait()


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used, as the scheduler counts them: in nanoseconds, not in ticks."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def cpu_of_server(postmaster: int) -> float:
    """Seconds of CPU of a postmaster and all its processes, those that have ended included (these in ticks)."""
    ticks = os.sysconf("SC_CLK_TCK")
    ended = sum(map(int, _fields(postmaster)[13:15])) / ticks
    return ended + sum(_cpu_if_there(pid) for pid in (postmaster, *_children(postmaster)))


def memory_of(pid: int) -> float:
    """Resident memory of a process in MB."""
    line = next(
        each for each in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines() if "VmRSS" in each
    )
    return int(line.split()[1]) / 1000


def _fields(pid: int) -> list[str]:
    """The fields of a process' stat behind its name: the first is the state."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def _cpu_if_there(pid: int) -> float:
    try:
        return cpu_of(pid)
    except OSError:
        return 0.0
