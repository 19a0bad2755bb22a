"""Numba's decorators for the modules of ``kernels/loops`` and ``kernels/tiles``, and loops compiled in memory.

In a user's process the decorators are Numba's: if no library is open, a loop is compiled in memory at its first call,
and nothing is written to disk. In the process that builds the library, ``build/object_files.py`` replaces the
decorators (``makers``).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from . import blas_address, library
from .object_layout import routine_symbol

makers: list[Any] = []  # the module ``build/object_files.py``, in the process that builds the library
sharers: list[Callable[..., None]] = []  # contains ``threads.in_shares`` once workers can poll for launches
_c_functions: list[Any] = []  # kept alive: their machine code is freed with them


class Shared(NamedTuple):
    """A loop on parts of a range, and the routine by which several threads run it."""

    body: Any  # ``body(*args, start, stop)``
    launch: Any  # ``launch(*how, function, data)``; the loop's arguments are ``how``, then ``args``
    how: int  # the number of arguments in ``how``


def njit(function: Any = None, /, *, noalias: bool = False, **options: Any) -> Any:
    """Apply ``numba.njit`` to a function called only by compiled loops, without the GIL.

    ``noalias`` promises that arrays written by the function do not overlap its other arguments; only the build of the
    library uses this.
    """
    if makers:
        return makers[0].njit(function, noalias=noalias, **options)
    import numba

    decorate = numba.njit(**{"nogil": True, **options})
    return decorate if function is None else decorate(function)


def routine(function: Any) -> Any:
    """Compile a function of integers and floats that returns nothing; the library contains it once."""
    return makers[0].routine(function) if makers else njit(function, error_model="numpy")


def compiled(module: str, name: str, recipe: Any, args: tuple[object, ...]) -> Callable[..., object]:
    """Compile a loop in memory for the types of these arguments; return the Python function that runs it.

    Raises:
        Exception: Numba cannot compile the loop.
    """
    import numba

    blas_address.name_for_llvm()
    if recipe is None:
        recipe = getattr(import_module(module), name).recipe
    if not isinstance(recipe, Shared):
        recipe.compile(tuple(map(numba.typeof, args)))
        alone: Callable[..., object] = recipe
        return alone
    body = recipe.body
    body.compile((*map(numba.typeof, args[recipe.how :]), numba.types.int64, numba.types.int64))

    def run_share(address: int, threads: int, start: int, total: int, part: int, *given: object) -> None:
        if address and sharers:
            sharers[0](lambda low, high: body(*given, low, high), total, part)
        else:
            body(*given, start, total)

    return run_share


def routine_address(module: str, name: str, letters: str) -> int | None:
    """Return the address of a routine as a C function of integers (``i``) and floats (``f``, ``d``), or None.

    Raises:
        Exception: no library is open, and Numba cannot compile the routine.
    """
    opened = library.opened()
    if opened is not None:
        return opened.address(routine_symbol(module, name, letters))
    import numba

    kinds = {"i": numba.types.int64, "f": numba.types.float32, "d": numba.types.float64}
    signature = numba.types.void(*[kinds[letter] for letter in letters])
    _c_functions.append(numba.cfunc(signature)(getattr(import_module(module), name).py_func))
    return int(_c_functions[-1].address)
