"""Machine code on disk, such that nothing found there can break a call.

A file holds one loop for one kind of arguments, and begins with a digest over its content and all that the content
depends on: a file that is damaged or old does not match, and the loop is compiled again. Files of one state of sources,
versions and processor lie in a folder of their own. The digest guards against accidents only; ``private_files.py``
refuses files and folders that another user may have written.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import numpy as np

from . import private_files

try:
    import fcntl
except ImportError:  # where the system has no such locks
    fcntl = None  # type: ignore[assignment]

_DIGEST = hashlib.sha256
_STATES = 16  # of sources, versions and processors, whose loops are kept
_FILES = 4096  # in a folder; of more, the older half is let go
_NUMBA = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT", "NUMBA_ENABLE_AVX"  # what changes the code it makes


def folder() -> Path | None:
    """Where everything compiled is kept: ``RETROGRAD_CACHE``, or below the user's folder for caches.

    None, with a warning, where that is not an absolute path, since code in the current folder may be anybody's, and
    where somebody else may write to it.
    """
    found = _named()
    try:
        return found if found is None or private_files.may_use(found) or not found.is_dir() else None
    except OSError:
        return None


def _named() -> Path | None:
    named = os.environ.get("RETROGRAD_CACHE")
    if named:
        if os.path.isabs(named):
            return Path(named)
        private_files.refuse(f"RETROGRAD_CACHE is {named!r}, which is not an absolute path")
        return None
    shared = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", "")
    if os.path.isabs(shared):  # a relative one is to be ignored, as the XDG specification says
        return Path(shared, "retrograd")
    home = os.path.expanduser("~")
    if os.path.isabs(home):
        return Path(home, ".cache", "retrograd")
    relative = f"HOME is {home!r}, which is not an absolute path"
    private_files.refuse(relative if os.environ.get("HOME") else "this user has no home folder")
    return None


@cache
def _state() -> bytes:
    """All that machine code depends on besides its source and arguments."""
    import llvmlite.binding as llvm

    processor = llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    versions = sys.version, np.__version__, llvm.llvm_version_info, _numba(), _sources()
    return repr((processor, versions, [os.environ.get(name) for name in _NUMBA])).encode()


def _numba() -> bytes:
    """Numba's version, from the file that says it: importing Numba takes longer than all loops of a program."""
    spec = find_spec("numba")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).with_name("_version.py").read_bytes()


def _sources() -> str:
    """A digest of the kernels' files: loops are compiled from several, and one line may change them all."""
    digest = _DIGEST()
    for path in sorted(Path(__file__).parent.parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _place() -> Path | None:
    found = folder()
    return None if found is None else found / "loops" / _DIGEST(_state()).hexdigest()[:24]


def lock() -> IO[bytes]:
    """A file that one process at a time can have open.

    Raises:
        OSError: another one has, or there is no folder for it.
    """
    found = folder()
    if found is None or not private_files.may_use(found, make=True):
        raise OSError("there is no folder in which compiled code is kept")
    file = open(private_files.open_lock(found / "lock"), "ab")  # noqa: SIM115
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
    return file


def known() -> bool:
    """Whether loops were compiled before in this state, by a Numba that works."""
    place = _place()
    try:
        return place is not None and private_files.may_use(place)
    except OSError:
        return False


def read(name: str, kinds: str) -> bytes | None:
    """What was kept of a loop for a kind of arguments."""
    content = _content(_file(name, kinds))
    digest, payload = content[: _DIGEST().digest_size], content[_DIGEST().digest_size :]
    return payload if payload and digest == _seal(name, kinds, payload) else None


def holds(name: str, kinds: str) -> bool:
    """Whether something was kept of a loop for a kind of arguments."""
    path = _file(name, kinds)
    try:
        return path is not None and private_files.may_use(path.parent) and path.is_file()
    except OSError:
        return False


def write(name: str, kinds: str, payload: bytes) -> bool:
    """Keep a loop for a kind of arguments, if that can be done: whether it is."""
    path = _file(name, kinds)
    try:
        new = path is not None and not path.parent.is_dir()
        if path is None or not private_files.may_use(path.parent, make=True):
            return False
        if new:
            _forget_oldest(path.parent.parent, _STATES, _STATES)
        _write(path, _seal(name, kinds, payload) + payload)
    except OSError:
        return False
    return True


def read_region(key: str) -> bytes | None:
    """What was kept of a part of a program, whose key says all that its code depends on."""
    content = _content(_region(key))
    digest, code = content[: _DIGEST().digest_size], content[_DIGEST().digest_size :]
    return code if code and digest == _DIGEST(key.encode() + code).digest() else None


def write_region(key: str, code: bytes) -> None:
    """Keep a part of a program, if that can be done."""
    path = _region(key)
    with suppress(OSError):
        if path is not None and private_files.may_use(path.parent, make=True):
            _write(path, _DIGEST(key.encode() + code).digest() + code)


def _region(key: str) -> Path | None:
    found = folder()
    return None if found is None else found / "regions" / f"{key[:32]}.o"


def _content(path: Path | None) -> bytes:
    """What a file holds; nothing where there is none that may be used."""
    try:
        return (path is not None and private_files.may_use(path.parent) and private_files.read(path)) or b""
    except OSError:
        return b""


def _write(path: Path, content: bytes) -> None:
    """Another process reads a whole file or none."""
    new = path.with_suffix(f".{os.urandom(8).hex()}")
    try:
        private_files.write_new(new, content)
        os.replace(new, path)
    finally:
        with suppress(OSError):
            os.unlink(new)
    _forget_oldest(path.parent, _FILES, _FILES // 2)


def _forget_oldest(folder: Path, most: int, keep: int) -> None:
    """Where a folder has more than ``most`` entries, keep the newest ones."""
    if len(os.listdir(folder)) > most:
        entries = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in entries[:-keep]:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _file(name: str, kinds: str) -> Path | None:
    place = _place()
    return None if place is None else place / f"{name}.{_DIGEST(kinds.encode()).hexdigest()[:16]}.loop"


def _seal(name: str, kinds: str, payload: bytes) -> bytes:
    return _DIGEST(repr((_state(), name, kinds)).encode() + payload).digest()
