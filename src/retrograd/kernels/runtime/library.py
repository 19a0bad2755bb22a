"""The library of loops that was compiled ahead of time: found, checked and opened at the first large call.

``kernels/build/make_library.py`` writes for each level of processors a shared library and an index. A wheel has them in
``kernels/library``, a checkout in ``build/kernels``. A library is opened only if its index says that it was compiled of
the sources that lie here, for a level that this processor has, and for objects as this Python lays them out; and if its
bytes are those that were written. Else one warning says why, and loops are compiled by Numba or are NumPy's.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from . import blas_address
from .levels import Level, usable
from .object_layout import HEAD, PREFIX

FORMAT = 1
SLOT = "_slot"  # the end of the names of words from which the library reads the addresses of BLAS's functions
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
        """Where the code of that name is, or None."""
        try:
            return ctypes.cast(getattr(self._handle, symbol), ctypes.c_void_p).value
        except AttributeError:
            return None


def symbol(name: str, kinds: str) -> str:
    """The name in the library of a loop for some kinds of arguments."""
    from hashlib import sha256  # here: its import takes half as long as that of all kernels

    return f"{PREFIX}{name}.{sha256(kinds.encode()).hexdigest()[:16]}"


def digest_of_sources(files: Iterable[str]) -> str:
    """A digest of files of this package's kernels."""
    from hashlib import sha256

    digest = sha256()
    for name in files:
        digest.update(name.encode() + b"\0" + (KERNELS / name).read_bytes() + b"\0")
    return digest.hexdigest()


def folders() -> list[Path]:
    """Where a library may be: in the installed package, and in the checkout of which this is the source."""
    checkout = KERNELS.parents[2]
    made = [checkout / "build" / "kernels"] if (checkout / "pyproject.toml").is_file() else []
    return [*made, INSTALLED]


def wanted() -> bool:
    """Whether a library may be opened: not with ``RETROGRAD_KERNELS=jit``, by which all loops are compiled here."""
    return os.environ.get("RETROGRAD_KERNELS", "compiled") == "compiled"


@cache
def found() -> tuple[Level, Path] | None:
    """The index of the best library for this processor, which is not read to know, and its level."""
    for level in usable() if wanted() else ():
        for folder in folders():
            if (path := folder / f"{level.name}.json").is_file():
                return level, path
    return None


@cache
def opened() -> Library | None:
    """The library for this processor, open; None, after one warning, where what was found cannot be used."""
    place = found()
    if place is None:
        return None
    level, index = place
    try:
        problem = _problem(level, index)
        if problem is None:
            return Library(level, index.with_suffix(".so"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"it cannot be read ({error})"
    warnings.warn(
        f"the compiled loops in {index.with_suffix('.so')} are not used, since {problem}; install retrograd again, or "
        "run `make kernels` in its checkout",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _problem(level: Level, index: Path) -> str | None:
    """Why the library of an index cannot be used, or None."""
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
        return "it is damaged"
    return None
