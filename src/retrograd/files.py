"""Replace files atomically: after a crash, and for concurrent readers, a file has its old content or its new content.

The new content is written to a temporary file in the same folder, synchronized to the disk, and renamed. The writer
locks the temporary file; the lock ends with the process. The next writer removes temporary files that are not
locked, because their writers have died.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO, BinaryIO, TypeAlias

if sys.platform != "win32":
    import fcntl

FileName: TypeAlias = str | os.PathLike[str]
File: TypeAlias = FileName | IO[bytes]


@contextmanager
def replacing(path: FileName) -> Iterator[BinaryIO]:
    """Yield a stream for the new content of ``path``, which replaces the old content only if the block succeeds.

    Symbolic links are followed. A replaced file keeps its mode and, if the system permits, its owner; a new file gets
    its mode from the umask.

    Args:
        path: a regular file, or a path that does not exist.

    Raises:
        OSError: the file cannot be written, is read-only, or is a folder, a device or a pipe; the error names ``path``.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "text")
    >>> with replacing(path) as stream:
    ...     _ = stream.write(b"whole")
    >>> path.read_text()
    'whole'
    """
    try:
        target = Path(os.path.realpath(path))
        replaced = _status(target)
        if replaced is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        _remove_leftovers(target)
        temporary = target.with_name(f".{_label(target)}.{os.getpid()}-{os.urandom(8).hex()}.tmp")
        try:
            with _create_locked(temporary, 0o666 if replaced is None else stat.S_IMODE(replaced.st_mode)) as stream:
                yield stream
                stream.flush()
                if replaced is not None and os.name == "posix":
                    with suppress(OSError):  # only the superuser may change the owner
                        os.fchown(stream.fileno(), replaced.st_uid, replaced.st_gid)
                    os.fchmod(stream.fileno(), stat.S_IMODE(replaced.st_mode))
                os.fsync(stream.fileno())
                if os.name == "posix":  # while the lock is held
                    os.replace(temporary, target)
            if os.name != "posix":  # Windows cannot rename an open file
                os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        _synchronize_folder(target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def open_regular(path: FileName) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        OSError: the file does not exist or is not readable; or it is a folder, a device or a pipe, which may not end.
    """
    if _status(path) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
    return open(path, "rb")


def write_whole(stream: IO[bytes], content: bytes | memoryview) -> None:
    """Write all bytes, also to an unbuffered stream, whose ``write`` may be partial."""
    while len(content) > 0:
        written = stream.write(content)
        if not isinstance(written, int) or written >= len(content):
            return
        content = memoryview(content)[written:]


def _status(path: FileName) -> os.stat_result | None:
    """Return the status of a regular file, or None if nothing exists; raise OSError for anything else."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", os.fspath(path))
    return status


def _label(target: Path) -> str:
    """Return the target's name for its temporary files, truncated if the names would be too long."""
    return target.name if len(os.fsencode(target.name)) <= 200 else sha256(os.fsencode(target.name)).hexdigest()


def _create_locked(temporary: Path, mode: int) -> BinaryIO:
    while True:
        stream = open(temporary, "xb", opener=partial(os.open, mode=mode))  # noqa: SIM115, closed by the caller
        try:
            if sys.platform != "win32":
                with suppress(OSError):  # the file system has no locks, so leftovers are not removed
                    fcntl.flock(stream, fcntl.LOCK_EX)
            if temporary.exists():  # otherwise another writer removed the file before it was locked
                return stream
        except BaseException:
            stream.close()
            raise
        stream.close()


def _remove_leftovers(target: Path) -> None:
    """Try to remove the temporary files of writers that have died."""
    name = re.compile(rf"\.{re.escape(_label(target))}\.\d+-[0-9a-f]{{16}}\.tmp")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for leftover in [entry.path for entry in entries if name.fullmatch(entry.name)]:
            with suppress(OSError):
                _remove_unlocked(leftover)


def _remove_unlocked(path: str) -> None:
    """Remove a temporary file, or raise OSError if its writer is alive."""
    if sys.platform == "win32":
        os.unlink(path)  # Windows refuses while the file is open
        return
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    finally:
        os.close(descriptor)


def _synchronize_folder(folder: Path) -> None:
    """Wait until the folder's directory entries are on the disk, if the system supports that."""
    if os.name != "posix":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # the folder is writable but not readable
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # the file system does not synchronize folders
            raise
    finally:
        os.close(descriptor)
