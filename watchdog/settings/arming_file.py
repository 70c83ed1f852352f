"""Whether a file that arms may be trusted: nobody but root and the user that runs pgwatchdog may change or replace it.

A file system that is mounted read-only here cannot be changed from here. A ConfigMap is mounted so, and its folders are
writable for everybody by their modes.
"""

import os
import stat
from pathlib import Path

MAX_LINKS = 40


def untrusted(path: Path) -> str | None:
    """Why the file that arms cannot be trusted, and what to do. None if it can.

    Raises:
        OSError: a folder above it cannot be looked at.

    """
    parts, folder, links = list(Path(os.path.abspath(path)).parts[1:]), Path("/"), 0  # noqa: PTH100  # no link followed
    while parts:
        part = parts.pop(0)
        if part == "..":
            folder = folder.parent
            continue
        entry = folder / part
        problem = _folder_problem(folder, entry)
        if problem is not None:
            return problem
        if not entry.is_symlink():
            folder = entry
            continue
        links, target = links + 1, entry.readlink()
        if links > MAX_LINKS:
            return f"there are too many symbolic links on the way to {path.name}"
        parts = [*target.parts[target.is_absolute() :], *parts]
        folder = Path("/") if target.is_absolute() else folder
    return None if _is_read_only(folder) else _file_problem(folder)


def _folder_problem(folder: Path, entry: Path) -> str | None:
    """Why `entry` in `folder`, which is reached without links, could be replaced by somebody else."""
    found = folder.stat()
    if _is_read_only(folder):
        return None
    shown = f"this file arms, and its folder {folder}"
    if found.st_uid not in _trusted():
        return f"{shown} belongs to uid {found.st_uid}, who could replace it: chown it to root or to {_us()}"
    others = _others(found.st_mode)
    if others is None or (_is_sticky(found.st_mode) and entry.lstat().st_uid in _trusted()):
        return None  # in a sticky folder nobody else may rename what is ours or root's
    return f"{shown} may be written by {others}, who could replace it: chmod go-w {folder}"


def _file_problem(place: Path) -> str | None:
    found = place.stat()
    if found.st_uid not in _trusted():
        return f"this file arms and belongs to uid {found.st_uid}: chown it to root or to {_us()}"
    others = _others(found.st_mode)
    return None if others is None else f"this file arms and {others} may write it: chmod go-w {place.name}"


def _others(mode: int) -> str | None:
    if mode & stat.S_IWOTH:
        return "everybody"
    return "its group" if mode & stat.S_IWGRP else None


def _is_sticky(mode: int) -> bool:
    return bool(mode & stat.S_ISVTX)


def _is_read_only(place: Path) -> bool:
    return bool(os.statvfs(place).f_flag & os.ST_RDONLY)


def _trusted() -> set[int]:
    return {0, os.geteuid()}


def _us() -> str:
    return f"the user that runs pgwatchdog (uid {os.geteuid()})"
