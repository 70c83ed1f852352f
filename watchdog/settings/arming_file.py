"""Whether a file that arms may be trusted: nobody but root and the user that runs pgwatchdog may change or replace it.

A file system that is mounted read-only here cannot be changed from here. A ConfigMap is mounted so, and its folders are
writable for everybody by their modes.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

MAX_LINKS = 40


def untrusted(path: Path) -> str | None:
    """Why the file that arms cannot be trusted, and what to do. None if it can.

    Raises:
        OSError: a folder above it cannot be looked at.

    """
    place, seen = Path(os.path.abspath(path)), set[Path]()  # noqa: PTH100  # `resolve` would follow the links at once
    for _ in range(MAX_LINKS):
        for folder in _above(place, seen):
            problem = _folder_problem(folder, place)
            if problem is not None:
                return problem
        if not place.is_symlink():
            return None if _is_read_only(place) else _file_problem(place)
        place = Path(os.path.normpath(place.parent.resolve() / place.readlink()))
    return f"there are too many symbolic links on the way to {path.name}"


def _above(place: Path, seen: set[Path]) -> Iterator[Path]:
    """The folders above `place` from the root on, each once. A folder that is a link is followed."""
    for folder in reversed(place.parents):
        for real in _above_and_itself(folder.resolve()) if folder.is_symlink() else (folder,):
            if real not in seen:
                seen.add(real)
                yield real


def _above_and_itself(folder: Path) -> Iterator[Path]:
    yield from reversed(folder.parents)
    yield folder


def _folder_problem(folder: Path, place: Path) -> str | None:
    found = folder.stat()
    if _is_read_only(folder):
        return None
    shown = f"this file arms, and its folder {folder}"
    if found.st_uid not in _trusted():
        return f"{shown} belongs to uid {found.st_uid}, who could replace it: chown it to root or to {_us()}"
    others = _others(found.st_mode)
    if others is None or (_is_sticky(found.st_mode) and _own(folder, place)):
        return None
    return f"{shown} may be written by {others}, who could replace it: chmod go-w {folder}"


def _own(folder: Path, place: Path) -> bool:
    """True if what leads from a sticky `folder` to `place` is ours or root's: then nobody else may rename it there."""
    parts = place.relative_to(folder).parts if place.is_relative_to(folder) else ()
    return bool(parts) and (folder / parts[0]).lstat().st_uid in _trusted()


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
