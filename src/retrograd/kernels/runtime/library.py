"""Find, check and open the library of loops compiled ahead of time, at the first call on a large array.

``kernels/build/make_library.py`` writes a shared library and an index per processor level, for a wheel to
``kernels/library`` and in a checkout to ``build/kernels``. A library is opened only if it was compiled from the sources
in this package, for a level that this processor supports and for the object layout of this Python, and if its digest is
correct. Otherwise one warning gives the reason, and loops are compiled by Numba or replaced by NumPy.
"""

from __future__ import annotations

import ctypes
import os
import struct
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from time import sleep
from typing import Any

from ...core.source_location import user_level
from . import blas_address
from .levels import Level, usable
from .object_layout import HEAD, PREFIX

FORMAT = 1
DAMAGED = "it is damaged"
SLOT = "_slot"  # suffix of the symbols that hold the addresses of BLAS functions
KERNELS = Path(__file__).resolve().parent.parent
INSTALLED = KERNELS / "library"


class Library:
    """An open library."""

    def __init__(self, level: Level, path: Path) -> None:
        self.level = level
        self.path = path
        self._handle = ctypes.CDLL(str(path), os.RTLD_NOW | os.RTLD_LOCAL)
        for kind, address in (blas_address.addresses() or {}).items():
            ctypes.c_void_p.in_dll(self._handle, blas_address.PREFIX + kind + SLOT).value = address

    def address(self, symbol: str) -> int | None:
        """Return the address of a symbol, or None."""
        try:
            return ctypes.cast(getattr(self._handle, symbol), ctypes.c_void_p).value
        except AttributeError:
            return None


def symbol(name: str, kinds: str) -> str:
    """Return the library's symbol of a loop for argument kinds."""
    from hashlib import sha256  # a slow import: half the time of importing all kernels

    return f"{PREFIX}{name}.{sha256(kinds.encode()).hexdigest()[:16]}"


def digest_of_sources(files: Iterable[str]) -> str:
    """Return a digest of source files of ``kernels``."""
    from hashlib import sha256

    digest = sha256()
    for name in files:
        digest.update(name.encode() + b"\0" + (KERNELS / name).read_bytes() + b"\0")
    return digest.hexdigest()


def folders() -> list[Path]:
    """Return the folders that may contain a library: of the checkout, if the package is in one, and of the package."""
    checkout = KERNELS.parents[2]
    made = [checkout / "build" / "kernels"] if (checkout / "pyproject.toml").is_file() else []
    return [*made, INSTALLED]


def wanted() -> bool:
    """Return whether ``RETROGRAD_KERNELS`` allows a library to be opened."""
    return os.environ.get("RETROGRAD_KERNELS", "compiled") == "compiled"


@cache
def found() -> tuple[Level, Path] | None:
    """Return the best level for this processor and the path of its index, which is not read yet; or None."""
    for level in usable() if wanted() else ():
        for folder in folders():
            path = folder / f"{level.name}.json"
            try:
                if path.is_file():
                    return level, path
            except OSError:  # the folder may not be read: ``opened`` warns
                return level, path
    return None


@cache
def opened() -> Library | None:
    """Open the library for this processor; return None if there is none, or after a warning if it cannot be used."""
    place = found()
    if place is None:
        return None
    level, index = place
    try:
        before, problem = _file(index), _problem(level, index)
        if problem == DAMAGED:  # another process may have replaced the library but not yet its index
            sleep(0.1)
            before, problem = _file(index), _problem(level, index)
        if problem is None:
            library = Library(level, index.with_suffix(".so"))
            if _file(index) == before:
                return library
            problem = "it was replaced while it was opened"
    except Exception as error:  # errors in an index or a library must not end the user's call
        problem = f"it cannot be read ({error})"
    warnings.warn(
        f"the compiled loops in {index.with_suffix('.so')} are not used, since {problem}; install retrograd again, or "
        "run `make kernels` in its checkout",
        RuntimeWarning,
        stacklevel=user_level(),
    )
    return None


def _file(index: Path) -> tuple[int, ...]:
    """Identify the library's file by its ``stat``: another process may replace the file after the check."""
    try:
        about = index.with_suffix(".so").stat()
    except OSError:
        return ()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _problem(level: Level, index: Path) -> str | None:
    """Return the reason why a library cannot be used, or None."""
    import json
    from hashlib import sha256

    about: dict[str, Any] = json.loads(index.read_text())
    if about["format"] != FORMAT or about["level"] != level.name:
        return "it was written by another version"
    if about["head"] != HEAD:
        return "it was made for another build of Python"
    try:
        sources = digest_of_sources(about["files"])
    except FileNotFoundError as error:
        return f"its source {error.filename} is gone"
    if sources != about["sources"]:
        return "its sources have changed since it was compiled"
    content = index.with_suffix(".so").read_bytes()
    if len(content) != about["size"] or sha256(content).hexdigest() != about["digest"]:
        return DAMAGED
    if not _is_whole(content):
        return "it is cut short"
    return None


_ELF = struct.Struct("<16s2HI3QI6H")  # the header of an ELF file of 64 bits
_SEGMENT = struct.Struct("<2I6Q")  # an entry of an ELF file's table of segments


def _is_whole(content: bytes) -> bool:
    """Return whether a file has all bytes that its ELF headers name: a missing page would end the process (SIGBUS).

    A file of another format counts as whole, since the dynamic loader refuses it.
    """
    if content[:6] != b"\x7fELF\2\1":
        return True
    size = len(content)
    if size < _ELF.size:
        return False
    _, _, _, _, _, segments, sections, _, _, each, count, section_size, section_count, _ = _ELF.unpack_from(content)
    if max(segments + each * count, sections + section_size * section_count) > size or count and each < _SEGMENT.size:
        return False
    for number in range(count):
        _, _, offset, _, _, in_file, _, _ = _SEGMENT.unpack_from(content, segments + number * each)
        if offset + in_file > size:
            return False
    return True
