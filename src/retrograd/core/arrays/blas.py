"""Control the number of threads of OpenBLAS, the BLAS in NumPy's wheels.

After each call OpenBLAS's threads spin for about 0.1 s, which preempts the workers of Retrograd's thread pool
(``kernels/runtime/threads.py``). Products inside and shortly before calls that use the pool therefore run with one BLAS
thread. The number of BLAS threads is a setting of the process; it is restored when the call returns.
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

SEVERAL = 9216  # elements of a matrix from which OpenBLAS uses several threads for a matrix-vector product

_Result = TypeVar("_Result")


class _Number(Protocol):
    value: int


class _NumberByCalls:
    """Reads and sets OpenBLAS's number of threads by function calls, where OpenBLAS does not export the variable."""

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
    """Return the OpenBLAS with 64-bit integers of NumPy's wheels, or None."""
    from pathlib import Path

    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in folder.glob("libscipy_openblas64_*"):
            with suppress(OSError):
                return ctypes.CDLL(str(path))
    return None


@cache
def _number() -> _Number | None:
    """Return an object whose ``value`` is OpenBLAS's number of threads.

    This is OpenBLAS's own variable if exported: reading it takes a tenth of the time of a function call.
    """
    library = openblas()
    if library is None:
        return None
    by_calls = _NumberByCalls(library)
    with suppress(ValueError):
        variable = ctypes.c_int.in_dll(library, "blas_cpu_number")
        if variable.value == by_calls.value:
            return variable
    return by_calls


_inside: set[int] = set()  # the threads inside ``one_thread``
_before = [1]  # the number of BLAS threads before the first thread entered ``one_thread``
_pool_works = False


def one_thread(function: Callable[..., _Result], *args: object) -> _Result:
    """Return ``function(*args)``, computed while BLAS uses one thread.

    No lock is needed: a thread that sets the number to 1 is in the set ``_inside``, and the last thread to leave the
    set restores the number. If a thread enters while the last one leaves, BLAS may use several threads for the call
    of the entering thread, which only costs time.
    """
    number, me = _number(), get_ident()
    if number is None or me in _inside or number.value == 1 and not _inside:
        return function(*args)
    interrupt = None
    try:  # entered before the number changes, since KeyboardInterrupt may be raised after any call
        _inside.add(me)
        threads = number.value
        if threads != 1:
            _before[0] = threads
            number.value = 1
        return function(*args)
    finally:
        while True:
            try:  # repeated after a KeyboardInterrupt: each step is idempotent
                _inside.discard(me)
                if not _inside and number.value == 1:  # not 1 if the program has set another number during the call
                    number.value = _before[0]
                break
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


def beside_pool(function: Callable[..., _Result], *args: object) -> _Result:
    """Return ``function(*args)``, with one BLAS thread if the thread pool is in use."""
    return one_thread(function, *args) if _pool_works else function(*args)


def pool_begins() -> None:
    """Record that the thread pool is in use: from now on ``beside_pool`` restricts BLAS to one thread."""
    global _pool_works
    _pool_works = True


def set_threads(threads: int) -> None:
    """Set the number of BLAS threads for the whole process."""
    library = openblas()
    if library is not None:
        _before[0] = threads
        if not _inside:
            library.scipy_openblas_set_num_threads64_(threads)


def _after_fork() -> None:
    """Restore the number of BLAS threads: threads inside ``one_thread`` do not exist in the forked process."""
    number = _number() if _inside else None
    _inside.clear()
    if number is not None:
        number.value = _before[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
