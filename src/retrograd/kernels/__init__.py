"""Compiled loops, behind functions written in NumPy.

A kernel has a reference: an ordinary function of arrays, in NumPy's functions, that computes the same. ``mapped`` and
``by_rows`` put the compiled loop of a name in the reference's place where that pays: for large contiguous float32
arrays in NumPy's memory. Loops come from the library that was compiled ahead of time (``runtime/library.py``), which is
opened when the first one runs; where there is no library, or not this loop in it, the reference runs.
``RETROGRAD_KERNELS=reference`` turns loops off; with ``RETROGRAD_KERNELS=jit`` Numba compiles all of them in memory.

This is the one place where it is chosen; the loops themselves stand in ``loops.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from math import prod
from typing import Any, TypeVar, cast

import numpy as np
from numpy import ndarray

from ..core.arrays import Array
from ..core.arrays.devices import Wrapping
from ..core.arrays.memory import large_array_met
from ..core.arrays.summation import LARGE
from ..core.graph.modes import watchers
from ..core.opaque_calls import LoopMissing, whole
from .runtime.result_arrays import empty
from .runtime.threads import launch

USEFUL = 1 << 15  # elements from which a loop gains more than the call of it costs
SLOW = 1 << 13  # those from which one does that stands for a call of NumPy that is slow, or two
SEVERAL = 1 << 5  # those from which one does that stands for several calls of NumPy
REPEATED = 1 << 8  # elements of what is gone through again and again
PLACES = 256  # neighbours that a loop along another dimension than the last takes together
FEW_PLACES = 16  # those from which it pays to
WORTH_SHARING = 1 << 13  # elements that another thread should at least be given

BASIC = "loops.elements.basic_loops"  # the module whose loops ``mapped`` and ``by_rows`` name

Reference = Callable[..., Any]
Function = TypeVar("Function", bound=Callable[..., Any])

# What is called once, when a program meets a large array, and compiled loops are there.
at_first_use: list[Callable[[], None]] = []


def available() -> bool:
    """Whether loops are turned on, and there is a library of them, or Numba where that is asked for; none is opened.

    Raises:
        RuntimeError: ``RETROGRAD_KERNELS`` is none of ``compiled``, ``jit`` and ``reference``.
    """
    from .runtime import library

    return library.found() is not None if turned_on() == "compiled" else jits()


def turned_on() -> str:
    """``compiled``, ``jit``, or nothing where loops are turned off by the environment variable.

    Raises:
        RuntimeError: ``RETROGRAD_KERNELS`` is none of ``compiled``, ``jit`` and ``reference``.
    """
    wanted = os.environ.get("RETROGRAD_KERNELS", "compiled")
    if wanted not in ("compiled", "jit", "reference"):
        raise RuntimeError(f"RETROGRAD_KERNELS: wanted compiled, jit or reference, got {wanted!r}")
    return "" if wanted == "reference" else wanted


def jits() -> bool:
    """Whether Numba is to compile loops in this process, and is installed."""
    from importlib.util import find_spec  # takes 2 ms to import

    return turned_on() == "jit" and find_spec("numba") is not None


@cache
def compiled() -> Any:
    """The loops of ``basic_loops``, or None where loops are turned off or there are none."""
    try:
        from .runtime import library

        if _references or not (jits() or turned_on() and library.opened() is not None):
            return None
        from .runtime.loop_calls import loops
    except (ImportError, NameError):  # also where the interpreter is ending, without imports and ``open``
        return None
    return loops(BASIC)


_ask_again = compiled.cache_clear
_references: list[None] = []  # an item for each call that is done without loops now, on whatever thread


def by_reference(function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """The function's result, with loops turned off meanwhile: on all threads, which lose some time at most."""
    _references.append(None)
    _ask_again()
    try:
        return function(*args, **kwargs)
    finally:
        _references.pop()
        _ask_again()


LoopMissing.by_reference = staticmethod(by_reference)


def or_reference(function: Function) -> Function:
    """Let the function, which asks for ``compiled()`` before all else, find its reference where a loop is missing."""

    @wraps(function)
    def loop_or_reference(*args: object, **kwargs: object) -> Array:
        try:
            return function(*args, **kwargs)
        except LoopMissing:
            return by_reference(function, args, kwargs)

    return cast(Function, loop_or_reference)


@cache
def share() -> None:
    """From now on let all threads work on large arrays: to be called where one is met. Programs without pay nothing."""
    large_array_met()
    if compiled() is not None:
        for function in at_first_use:
            function()


@cache
def loop(module: str, name: str) -> Any:
    """The loop of a name in a module of this folder, which is not imported; to be asked for where ``compiled()`` is."""
    from .runtime.loop_calls import loops

    return getattr(loops(module), name)


def multiplies() -> bool:
    """Whether there are compiled loops, and NumPy's BLAS for them."""
    from .runtime import blas_address

    return compiled() is not None and blas_address.available()


def takes(x: Any, *others: object, least: int = USEFUL) -> bool:
    """Whether the loops are to be used on these arrays, or Nones; the first one's size says whether it pays."""
    if type(x) is not ndarray:
        return isinstance(x, Wrapping) and x.takes_loops()
    flags = x.flags  # as ``suits``, without a call
    if x.size < least or x.dtype.char != "f" or not (flags.c_contiguous and flags.aligned and x.dtype.isnative):
        return False
    for other in others:
        if other is not None and not suits(other):
            return False
    if x.size >= LARGE:
        share()
    elif x.size >= USEFUL:
        large_array_met()
    return compiled() is not None


def suits(x: Any, kinds: str = "f") -> bool:
    """Whether an array is of the kind that loops are compiled for: contiguous, and of a dtype with such a character."""
    if type(x) is not ndarray or x.dtype.char not in kinds or not x.dtype.isnative:
        return False
    flags = x.flags
    return flags.c_contiguous and flags.aligned


MAPPED: set[str] = set()  # the loops that work element by element


def mapped(name: str, least: int = USEFUL) -> Callable[[Reference], Reference]:
    """Compile a function of arrays that works element by element: ``loop(*arrays, out)``, of vectors.

    The arrays are of one shape; the second of two may lack axes in front (as where only the first has the examples of
    ``vmap``), and is then gone through again and again.
    """

    def enter(reference: Reference) -> Reference:
        if _arity(reference) == 1:

            @wraps(reference)
            def run_loop(x: Array) -> Array:
                if not takes(x, least=least):
                    dense = _dense(x) if least == SEVERAL else None
                    return run_loop(*dense) if dense else reference(x)
                out = empty(x.shape, x.dtype)
                launch(loop(BASIC, name), x.size, WORTH_SHARING, x.reshape(-1), out.reshape(-1))
                return out

            @wraps(reference)
            def dispatch_loop(x: Any) -> Any:
                if type(x) is ndarray and x.size < least:
                    return reference(x)
                try:
                    return shared(x) if watchers else run_loop(x)
                except LoopMissing:
                    return reference(x)

            def write(out: Array, x: Array) -> None:
                if x.size >= least and suits(out) and takes(x, least=least):
                    try:
                        launch(loop(BASIC, name), x.size, WORTH_SHARING, x.reshape(-1), out.reshape(-1))
                        return
                    except LoopMissing:
                        pass
                out[...] = dispatch_loop(x)

            dispatch_loop.write = write  # type: ignore[attr-defined]  # for what is written over its input
        else:

            @wraps(reference)
            def run_loop(x: Array, *others: Array) -> Array:
                differ = any(other.shape != x.shape for other in others)
                if not takes(x, *others, least=least) or differ and not _repeats(x, *others):
                    dense = _dense(x, *others) if least == SEVERAL and not differ else None
                    return run_loop(*dense) if dense else reference(x, *others)
                out = empty(x.shape, x.dtype)
                arrays = [array.reshape(-1) for array in (x, *others, out)]
                launch(loop(BASIC, name), x.size, WORTH_SHARING, *arrays)
                return out

            @wraps(reference)
            def dispatch_loop(x: Any, *others: Any) -> Any:
                if type(x) is ndarray and x.size < least:
                    return reference(x, *others)
                try:
                    return shared(x, *others) if watchers else run_loop(x, *others)
                except LoopMissing:
                    return reference(x, *others)

        MAPPED.add(name)
        run_loop.loop, run_loop.reference = name, reference  # type: ignore[attr-defined]
        shared = whole(run_loop)
        dispatch_loop.loop, dispatch_loop.reference = name, reference  # type: ignore[attr-defined]
        return dispatch_loop

    return enter


def _dense(*arrays: Array) -> list[Any] | None:
    """Parts of larger arrays, such as gates, as contiguous ones: a copy takes less than several calls of NumPy.

    None for what loops do not take, and where dimensions are exchanged, which NumPy keeps in its results.
    """
    if compiled() is None:
        return None
    for x in arrays:
        if type(x) is not ndarray or x.size < SEVERAL or x.dtype.char != "f" or not x.dtype.isnative:
            return None
        steps = [step for step, length in zip(x.strides, x.shape, strict=True) if length > 1]
        if min(steps) <= 0 or steps != sorted(steps, reverse=True):
            return None
    return list(map(np.ascontiguousarray, arrays))


def _repeats(x: Array, *others: Any) -> bool:
    """Whether the only other array is broadcast along axes in front alone, and long enough to be gone through."""
    if len(others) != 1 or others[0].size < REPEATED:
        return False
    shape = others[0].shape
    while shape[0] == 1:
        shape = shape[1:]
    return shape == x.shape[-len(shape) :]


def _arity(reference: Reference) -> int:
    return reference.nin if isinstance(reference, np.ufunc) else reference.__code__.co_argcount


def by_rows(name: str) -> Callable[[Reference], Reference]:
    """Compile a function of arrays of one shape that works along ``dim``: ``loop(*rows, out)``.

    Large arrays go along another dimension than the last by the loop of the same name in ``plane_loops``; where few
    elements follow, they are turned to have their last dimension there.
    """

    def enter(reference: Reference) -> Reference:
        @wraps(reference)
        def run_row_loop(*arrays: Any, dim: int) -> Any:
            x = arrays[0]
            last = dim == x.ndim - 1
            if not takes(*arrays, least=SEVERAL if last else USEFUL):
                return reference(*arrays, dim=dim)
            if not last:
                return _along(name, run_row_loop, arrays, dim)
            out = empty(x.shape, x.dtype)
            width = x.shape[-1]
            rows = x.size // width, width
            launch(loop(BASIC, name), rows[0], shortest(width), *[shaped(array, rows) for array in (*arrays, out)])
            return out

        @wraps(reference)
        def dispatch_row_loop(*arrays: Array, dim: int) -> Array:
            try:
                return shared(*arrays, dim=dim) if watchers else run_row_loop(*arrays, dim=dim)
            except LoopMissing:
                return reference(*arrays, dim=dim)

        shared = whole(run_row_loop)
        return dispatch_row_loop

    return enter


def _along(name: str, function: Callable[..., Any], arrays: tuple[Any, ...], dim: int) -> Any:
    x, shape = arrays[0], arrays[0].shape
    lanes = prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])
    if lanes[2] < FEW_PLACES or type(x) is not ndarray:
        return _transposed(function(*[_transposed(array.reshape(lanes)) for array in arrays], dim=2)).reshape(shape)
    out = empty(lanes, x.dtype)
    launch_planes(name, lanes, *[array.reshape(lanes) for array in arrays], out)
    return out.reshape(shape)


def launch_planes(name: str, lanes: tuple[int, int, int], *args: object) -> None:
    """Run a loop of ``plane_loops`` on arrays of ``(count, along, places)``."""
    count, along, places = lanes
    least = max(1, WORTH_SHARING // (along * min(places, PLACES)))
    launch(loop("loops.elements.plane_loops", name), count * -(-places // PLACES), least, *args)


def _transposed(x: Array) -> Any:
    """Matrices with rows and columns exchanged."""
    count, rows, columns = x.shape
    out = empty((count, columns, rows), x.dtype)
    words = [array.view(np.int32) for array in (x, out)]
    launch(loop("loops.layout.copy_loops", "transpose"), count * columns, shortest(rows), *words)
    return out


def shaped(x: Array, shape: tuple[int, ...]) -> Array:
    """The array in a shape: itself where that is its own, since a view is one more array to make and to hold."""
    return x if x.shape == shape else x.reshape(shape)


def shortest(width: int) -> int:
    """How many rows of so many elements a thread should at least be given."""
    return max(1, WORTH_SHARING // width)
