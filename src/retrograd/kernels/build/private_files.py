"""Folders and files that hold machine code: only this user and the superuser may have written them.

Whoever can write to such a file, or replace a folder above it, can run code as this user. So each level of a path is
checked once per process, symbolic links included, and each file when it is read. What fails a check is not used: the
process warns once, and compiles for itself.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_MANY_LINKS = 40  # symbolic links on the way to a folder, as Linux allows
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

_answers: dict[Path, bool] = {}  # whether folders that were there may be used
_warned: list[str] = []


def refuse(reason: str) -> None:
    """Warn, once per process, that compiled code is not kept on disk."""
    if not _warned:
        _warned.append(reason)
        warnings.warn(
            f"compiled code is neither read from disk nor kept there, since {reason}; set RETROGRAD_CACHE to the "
            "absolute path of a folder to which only you can write",
            RuntimeWarning,
            stacklevel=2,
        )


def may_use(folder: Path, make: bool = False) -> bool:
    """Whether a folder is there, and only this user can have written to it; with ``make`` it is made if it is not.

    Raises:
        OSError: the folder cannot be made.
    """
    if make:
        _make(folder)
    if folder not in _answers:
        if not folder.is_dir():
            return False
        problem = _problem(folder)
        _answers[folder] = problem is None
        if problem:
            refuse(problem)
    return _answers[folder]


def read(path: Path) -> bytes | None:
    """The content of a file in a folder that may be used, or None.

    Raises:
        OSError: the file is not there, is a symbolic link, or cannot be read.
    """
    with open(os.open(path, _READ | getattr(os, "O_BINARY", 0)), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            return None
        problem = _fault(path, found, _owners())
        if problem:
            refuse(problem)
            return None
        return file.read()


def write_new(path: Path, content: bytes) -> None:
    """Write a file that is not there yet, which only this user may read and write."""
    with open(os.open(path, _NEW, 0o600), "wb") as file:
        file.write(content)


def open_lock(path: Path) -> int:
    """The descriptor of a file to be locked, which is made if it is not there."""
    return os.open(path, _APPEND, 0o600)


def _make(folder: Path) -> None:
    """Make a folder that only this user may enter, and those above it that are missing."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def _problem(folder: Path) -> str | None:
    """Why somebody else may have written to a folder, or None."""
    if os.name != "posix":
        return None
    levels = list(_levels(folder))
    if not levels:
        return f"{folder} leads through too many symbolic links"
    for path, found in levels[:-1]:
        problem = _fault(path, found, _owners() | _unmapped(), sticky=True)
        if problem:
            return problem
    return _fault(*levels[-1], _owners())


def _fault(path: Path, found: os.stat_result, owners: frozenset[int], sticky: bool = False) -> str | None:
    """What is wrong with the owner or the mode of a file or folder; with ``sticky`` a folder like /tmp passes."""
    if os.name != "posix":
        return None
    if found.st_uid not in owners:
        return f"{path} belongs to another user (id {found.st_uid})"
    writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(found.st_mode)
    if writable and not (sticky and found.st_mode & stat.S_ISVTX):
        return f"other users may write to {path} (mode {stat.S_IMODE(found.st_mode):04o})"
    return None


def _owners() -> frozenset[int]:
    return frozenset((os.geteuid(), 0)) if os.name == "posix" else frozenset()


@cache
def _unmapped() -> frozenset[int]:
    """The number under which the superuser's folders appear in a container that has no superuser."""
    try:
        if Path("/proc/self/uid_map").read_text().split()[0] == "0":
            return frozenset()
        return frozenset((int(Path("/proc/sys/kernel/overflowuid").read_text()),))
    except (OSError, ValueError, IndexError):
        return frozenset()


def _levels(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """All folders and symbolic links that lead to a folder, from the root on, the folder last; nothing for a circle."""
    waiting, path, links = list(reversed(folder.parts)), Path(folder.anchor), 0
    found: dict[Path, os.stat_result] = {}
    while waiting:
        part = waiting.pop()
        path = path.parent if part == ".." else path / part
        status = os.lstat(path)
        found.pop(path, None)
        found[path] = status
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MANY_LINKS:
                return iter(())
            target = Path(os.readlink(path))
            waiting += reversed(target.parts)
            path = path.parent
    return iter(found.items())
