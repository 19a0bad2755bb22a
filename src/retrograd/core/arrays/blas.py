"""The BLAS that NumPy's wheels bring (OpenBLAS), and how many threads it uses.

After each call OpenBLAS's threads wait awake for a tenth of a second, which keeps helpers of the pool of threads
(``kernels/runtime/threads.py``) from running. So BLAS uses one thread while a call of ours multiplies that is shared by
the pool, or may be followed by one. The number of its threads belongs to the process: when the call returns, it is what
it was before.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from threading import get_ident
from typing import Protocol, TypeVar

import numpy as np

SEVERAL = 9216  # elements of a matrix from which OpenBLAS multiplies it by a vector with several threads

_Result = TypeVar("_Result")


class _Number(Protocol):
    value: int


class _NumberByCalls:
    """The number of threads, where OpenBLAS's variable is not visible."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._get = library.scipy_openblas_get_num_threads64_
        self._set = library.scipy_openblas_set_num_threads64_

    @property
    def value(self) -> int:
        return int(self._get())

    @value.setter
    def value(self, threads: int) -> None:
        self._set(threads)


@cache
def openblas() -> ctypes.CDLL | None:
    """OpenBLAS with 64-bit integers as NumPy's wheels have it, or None."""
    from pathlib import Path

    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in folder.glob("libscipy_openblas64_*"):
            with suppress(OSError):
                return ctypes.CDLL(str(path))
    return None


@cache
def _number() -> _Number | None:
    """How many threads OpenBLAS uses: its variable, of which a read or write takes a tenth of the calls' time."""
    library = openblas()
    if library is None:
        return None
    by_calls = _NumberByCalls(library)
    with suppress(ValueError):
        variable = ctypes.c_int.in_dll(library, "blas_cpu_number")
        if variable.value == by_calls.value:
            return variable
    return by_calls


_inside: set[int] = set()  # the threads that want BLAS to use one thread
_before = [1]  # how many it used before the first of them came
_pool_works = False


def one_thread(function: Callable[..., _Result], *args: object) -> _Result:
    """``function(*args)``, while BLAS uses one thread.

    No lock is needed: whoever writes 1 is in the set, and the last thread that leaves the set writes the number back.
    Where one comes while the last one leaves, BLAS may use several threads for it, which costs time alone.
    """
    number, me = _number(), get_ident()
    if number is None or me in _inside or number.value == 1 and not _inside:
        return function(*args)
    interrupt = None
    try:  # before the number changes, since Ctrl-C may come after any call
        _inside.add(me)
        threads = number.value
        if threads != 1:
            _before[0] = threads
            number.value = 1
        return function(*args)
    finally:
        while True:
            try:  # again, where Ctrl-C comes here: each step can be done twice
                _inside.discard(me)
                if not _inside and number.value == 1:  # else the program has set another number meanwhile
                    number.value = _before[0]
                break
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


def beside_pool(function: Callable[..., _Result], *args: object) -> _Result:
    """``function(*args)``, while BLAS uses one thread if the pool has begun to work."""
    return one_thread(function, *args) if _pool_works else function(*args)


def pool_begins() -> None:
    """From now on the pool works: ``beside_pool`` lets BLAS use one thread."""
    global _pool_works
    _pool_works = True


def set_threads(threads: int) -> None:
    """Let BLAS use so many threads, also for the rest of the program."""
    library = openblas()
    if library is not None:
        _before[0] = threads
        if not _inside:
            library.scipy_openblas_set_num_threads64_(threads)


def _after_fork() -> None:
    """The forked process has none of the threads that wanted a limit."""
    number = _number() if _inside else None
    _inside.clear()
    if number is not None:
        number.value = _before[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
