"""Machine code on disk, such that nothing found there can break a call.

A file holds one loop for one kind of arguments, and begins with a digest over its content and all that the content
depends on: a file that is damaged, old or another's does not match and the loop is compiled again. Files of one state
of sources, versions and processor lie in a folder of their own. This guards against accidents, not against somebody
who may write to the folder: as little as for Python's own ``.pyc``.
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

try:
    import fcntl
except ImportError:  # where the system has no such locks
    fcntl = None  # type: ignore[assignment]

_DIGEST = hashlib.sha256
_STATES = 16  # of sources, versions and processors, whose loops are kept
_FILES = 4096  # in a folder; of more, the older half is let go
_NUMBA = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT", "NUMBA_ENABLE_AVX"  # what changes the code it makes


def folder() -> Path:
    """Where everything compiled is kept: ``RETROGRAD_CACHE``, or below the user's folder for caches."""
    named = os.environ.get("RETROGRAD_CACHE")
    if named:
        return Path(named)
    beside = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return Path(beside or os.path.join(os.path.expanduser("~"), ".cache")) / "retrograd"


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
def _place() -> Path:
    return folder() / "loops" / _DIGEST(_state()).hexdigest()[:24]


def lock() -> IO[bytes]:
    """A file that one process at a time can have open.

    Raises:
        OSError: another one has.
    """
    folder().mkdir(parents=True, exist_ok=True)
    file = open(folder() / "lock", "ab")  # noqa: SIM115
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
    return file


def known() -> bool:
    """Whether loops were compiled before in this state, by a Numba that works."""
    try:
        return _place().is_dir()
    except OSError:
        return False


def read(name: str, kinds: str) -> bytes | None:
    """What was kept of a loop for a kind of arguments."""
    try:
        content = _file(name, kinds).read_bytes()
    except OSError:
        return None
    digest, payload = content[: _DIGEST().digest_size], content[_DIGEST().digest_size :]
    return payload if digest == _seal(name, kinds, payload) else None


def holds(name: str, kinds: str) -> bool:
    """Whether something was kept of a loop for a kind of arguments."""
    try:
        return _file(name, kinds).is_file()
    except OSError:
        return False


def write(name: str, kinds: str, payload: bytes) -> bool:
    """Keep a loop for a kind of arguments, if that can be done: whether it is."""
    try:
        path = _file(name, kinds)
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            _forget_oldest(path.parent.parent, _STATES, _STATES)
        _write(path, _seal(name, kinds, payload) + payload)
    except OSError:
        return False
    return True


def read_region(key: str) -> bytes | None:
    """What was kept of a part of a program, whose key says all that its code depends on."""
    try:
        content = _region(key).read_bytes()
    except OSError:
        return None
    digest, code = content[: _DIGEST().digest_size], content[_DIGEST().digest_size :]
    return code if digest == _DIGEST(key.encode() + code).digest() else None


def write_region(key: str, code: bytes) -> None:
    """Keep a part of a program, if that can be done."""
    with suppress(OSError):
        path = _region(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, _DIGEST(key.encode() + code).digest() + code)


def _region(key: str) -> Path:
    return folder() / "regions" / f"{key[:32]}.o"


def _write(path: Path, content: bytes) -> None:
    """Another process reads a whole file or none."""
    new = path.with_suffix(f".{os.urandom(8).hex()}")
    try:
        with open(new, "xb") as file:
            file.write(content)
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


def _file(name: str, kinds: str) -> Path:
    return _place() / f"{name}.{_DIGEST(kinds.encode()).hexdigest()[:16]}.loop"


def _seal(name: str, kinds: str, payload: bytes) -> bytes:
    return _DIGEST(repr((_state(), name, kinds)).encode() + payload).digest()
