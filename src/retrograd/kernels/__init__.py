"""Dispatch to compiled loops, with NumPy as the reference.

Each kernel has a reference, an ordinary function of arrays written in NumPy. ``mapped`` and ``by_rows`` replace the
reference by a compiled loop where the loop is faster: for large contiguous float32 NumPy arrays. Loops come from a
library compiled ahead of time (``runtime/library.py``), which is opened when the first loop runs. Without a library, or
if the library does not contain a loop, the reference runs. ``RETROGRAD_KERNELS=reference`` turns all loops off; with
``RETROGRAD_KERNELS=jit`` Numba compiles them in memory.

The loops themselves are in ``kernels/loops``. ``ops``, ``nn``, ``optim`` and ``compiler`` call them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cache, wraps
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy import ndarray

from ..core.arrays import Array
from ..core.arrays.bfloat16 import wide
from ..core.arrays.devices import Wrapping
from ..core.arrays.dtypes import float32
from ..core.arrays.fp_warnings import silent_forms, silently
from ..core.arrays.layout import cast as convert
from ..core.arrays.memory import large_array_met
from ..core.arrays.summation import LARGE
from ..core.graph.modes import watchers
from ..core.opaque_calls import LoopMissing, whole
from ..core.source_location import user_level
from ..core.tensor.tensor import Tensor
from .runtime.result_arrays import empty, offering
from .runtime.threads import launch

if TYPE_CHECKING:
    from .runtime.loop_calls import Loop

USEFUL = 1 << 15  # minimum number of elements for which a loop saves more time than its call costs
SLOW = 1 << 13  # minimum number of elements for a loop that replaces one slow or two ordinary NumPy calls
SEVERAL = 1 << 5  # minimum number of elements for a loop that replaces several NumPy calls
REPEATED = 1 << 8  # minimum size of an operand that is broadcast along leading dimensions
PLACES = 256  # number of adjacent elements that a loop along a dimension other than the last processes together
FEW_PLACES = 16  # with fewer adjacent elements, the array is transposed and a loop along the last dimension runs
WORTH_SHARING = 1 << 13  # minimum number of elements per thread

BASIC = "loops.elements.basic_loops"  # the module with the loops that ``mapped`` and ``by_rows`` refer to by name

Reference = Callable[..., Any]
Function = TypeVar("Function", bound=Callable[..., Any])

_waiting: list[Callable[[], None]] = []  # functions to call at the program's first large array
_shared: list[None] = []  # not empty after the program's first large array


def available() -> bool:
    """Return whether loops are turned on and installed, without opening the library or (with ``jit``) importing Numba.

    Raises:
        RuntimeError: ``RETROGRAD_KERNELS`` is not ``compiled``, ``jit`` or ``reference``.
    """
    from .runtime import library

    return library.found() is not None if turned_on() == "compiled" else jits()


def turned_on() -> str:
    """Return ``compiled`` or ``jit``, or an empty string if the environment variable turns loops off.

    Raises:
        RuntimeError: ``RETROGRAD_KERNELS`` has another value.
    """
    wanted = os.environ.get("RETROGRAD_KERNELS", "compiled")
    if wanted not in ("compiled", "jit", "reference"):
        raise RuntimeError(f"RETROGRAD_KERNELS: expected compiled, jit or reference, got {wanted!r}")
    return "" if wanted == "reference" else wanted


def jits() -> bool:
    """Return whether Numba compiles loops in this process, and is installed."""
    from importlib.util import find_spec  # takes 2 ms to import

    return turned_on() == "jit" and find_spec("numba") is not None


def _warn_without_numba() -> None:
    """Warn, once per process, that ``jit`` is set but Numba is not installed."""
    if turned_on() == "jit" and not _without_numba and not jits():
        _without_numba.append(None)
        warnings.warn(
            "RETROGRAD_KERNELS=jit: Numba is not installed (pip install 'retrograd[jit]'); NumPy is used instead",
            RuntimeWarning,
            stacklevel=user_level(),
        )


@cache
def compiled() -> Any:
    """Return the loops of ``basic_loops``, or None if loops are turned off or not available."""
    try:
        from .runtime import library

        if _references or not (jits() or turned_on() and library.opened() is not None):
            _warn_without_numba()
            return None
        from .runtime.loop_calls import loops
    except (ImportError, NameError):  # during interpreter shutdown, imports and ``open`` fail
        return None
    return loops(BASIC)


_clear_cache = compiled.cache_clear
_without_numba: list[None] = []  # not empty once a warning has said that Numba is not installed
_references: list[None] = []  # one item per running call without loops, on any thread


def by_reference(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Call the function with loops turned off; other threads also run without loops until it returns."""
    _references.append(None)
    _clear_cache()
    try:
        return function(*args, **kwargs)
    finally:
        _references.pop()
        _clear_cache()


LoopMissing.by_reference = staticmethod(by_reference)


def or_reference(function: Function) -> Function:
    """Decorate a function that checks ``compiled()`` first: run it again without loops if a loop is missing."""

    @wraps(function)
    def loop_or_reference(*args: object, **kwargs: object) -> Array:
        try:
            return function(*args, **kwargs)
        except LoopMissing:
            return by_reference(function, args, kwargs)

    return cast(Function, loop_or_reference)


@cache
def share() -> None:
    """Enable multi-threaded operations on large arrays; called for the first large array of a program."""
    large_array_met()
    if compiled() is not None:
        _shared.append(None)
        _call_waiting()


def at_first_use(function: Callable[[], None]) -> None:
    """Call a function once: at the first large array of a program with compiled loops, or now if that was earlier.

    Modules of operators are imported at the first use of a name, which may come after the first large array.
    """
    _waiting.append(function)
    if _shared:
        _call_waiting()


def _call_waiting() -> None:
    while _waiting:
        try:
            function = _waiting.pop(0)
        except IndexError:  # another thread has taken the function
            return
        function()


@cache
def loop(module: str, name: str) -> Loop:
    """Return the loop ``name`` of a module without importing the module. ``compiled()`` must not be None."""
    from .runtime.loop_calls import loops

    return getattr(loops(module), name)


def multiplies() -> bool:
    """Return whether compiled loops that call NumPy's BLAS are available."""
    return compiled() is not None and _blas_found()


@cache
def _blas_found() -> bool:
    from .runtime import blas_address

    return blas_address.available()


def takes(x: object, *others: object, least: int = USEFUL) -> bool:
    """Return whether to use loops on these arrays; x must have at least ``least`` elements, others may be None."""
    if type(x) is not ndarray:
        return isinstance(x, Wrapping) and x.takes_loops()
    size, dtype, flags = x.size, x.dtype, x.flags  # the body of ``suits``, inlined
    if size < least or dtype is not float32 and (dtype.char != "f" or not dtype.isnative):
        return False
    if not (flags.c_contiguous and flags.aligned):
        return False
    for other in others:
        if other is not None and not suits(other):
            return False
    if size >= USEFUL:
        share() if size >= LARGE else large_array_met()
    return compiled() is not None


def suits(x: Any, kinds: str = "f") -> bool:
    """Return whether loops support an array: contiguous, aligned, with a dtype whose character is in ``kinds``."""
    if type(x) is not ndarray or x.dtype.char not in kinds or not x.dtype.isnative:
        return False
    flags = x.flags
    return flags.c_contiguous and flags.aligned


def takes_halves(*arrays: Array, least: int = SEVERAL) -> bool:
    """Return whether to use loops that read and write bfloat16 on arrays; the first must have ``least`` elements."""
    return all(suits(x, "E") for x in arrays) and arrays[0].size >= least and compiled() is not None


def _with_halves(name: str, refer: Reference, least: int) -> Reference:
    """Extend ``refer`` to bfloat16, by the loop or, if the loop does not apply, by a call of ``refer`` in float32."""

    def refer_or_convert(*arrays: Array) -> object:
        x = arrays[0]
        if x.dtype.char != "E":
            return refer(*arrays)
        if takes_halves(*arrays, least=least) and all(y.shape == x.shape for y in arrays):
            out = empty(x.shape, x.dtype)
            launch(loop(BASIC, name), x.size, WORTH_SHARING, *[z.ravel().view(np.uint16) for z in (*arrays, out)])
            return out
        found = refer(*map(wide, arrays))
        return found if isinstance(found, Tensor) else convert(np.asarray(found), x.dtype)

    return refer_or_convert


MAPPED: set[str] = set()  # the names of elementwise loops


def mapped(name: str, least: int = USEFUL, halves: bool = False) -> Callable[[Reference], Reference]:
    """Decorate an elementwise function of arrays so that it runs ``loop(*arrays, out)`` on flattened large arrays.

    The arrays have one shape. The second of two arrays may lack leading dimensions (for instance the mapped dimension
    of ``vmap``) and is then broadcast. With ``halves`` the loop also reads and writes bfloat16.
    """

    def enter(reference: Reference, refer: Reference) -> Reference:
        refer = _with_halves(name, refer, least) if halves else refer
        entries: list[Reference] = []  # the loop's compiled functions, empty before its first run

        def launch_loop(size: int, *arrays: Array) -> None:
            nonlocal entries
            found = loop(BASIC, name)
            launch(found, size, WORTH_SHARING, *[array.ravel() for array in arrays])
            entries = found.entries

        # For small arrays the overhead of Python calls dominates: skip ``takes``, ``empty`` and ``launch``.
        if _arity(reference) == 1:

            @wraps(reference)
            def run_loop(x: Array) -> Array:
                if not takes(x, least=least):
                    dense = _dense(x) if least == SEVERAL else None
                    return run_loop(*dense) if dense else refer(x)
                out = empty(x.shape, x.dtype)
                launch_loop(x.size, x, out)
                return out

            @wraps(reference)
            def dispatch_loop(x: Any) -> Any:
                if type(x) is ndarray:
                    size = x.size
                    if size < least:
                        return refer(x)
                    if (
                        size <= WORTH_SHARING
                        and x.dtype is float32
                        and x.flags.c_contiguous
                        and not (watchers or offering)
                        and compiled() is not None
                    ):
                        out = np.empty(x.shape, float32)
                        flat, result = x.ravel(), out.ravel()
                        for entry in entries:
                            if entry(0, 1, 0, size, 0, flat, result) is not NotImplemented:
                                return out
                return shared(x)

            def write(out: Array, x: Array) -> None:
                if x.size >= least and suits(out) and takes(x, least=least):
                    try:
                        launch_loop(x.size, x, out)
                        return
                    except LoopMissing:
                        pass
                out[...] = dispatch_loop(x)

            dispatch_loop.write = write  # type: ignore[attr-defined]  # ``out`` may alias the input
        else:

            @wraps(reference)
            def run_loop(x: Array, y: Array) -> Array:
                differ = y.shape != x.shape
                if not takes(x, y, least=least) or differ and not _repeats(x, y):
                    dense = _dense(x, y) if least == SEVERAL and not differ else None
                    return run_loop(*dense) if dense else refer(x, y)
                out = empty(x.shape, x.dtype)
                launch_loop(x.size, x, y, out)
                return out

            @wraps(reference)
            def dispatch_loop(x: Any, y: Any) -> Any:
                if type(x) is ndarray:
                    size = x.size
                    if size < least:
                        return refer(x, y)
                    if (
                        size <= WORTH_SHARING
                        and x.dtype is float32
                        and type(y) is ndarray
                        and y.shape == (shape := x.shape)
                        and x.flags.c_contiguous
                        and not (watchers or offering)
                        and compiled() is not None
                    ):
                        out = np.empty(shape, float32)
                        flat, other, result = x.ravel(), y.ravel(), out.ravel()
                        for entry in entries:
                            if entry(0, 1, 0, size, 0, flat, other, result) is not NotImplemented:
                                return out
                return shared(x, y)

        MAPPED.add(name)
        run_loop.loop, run_loop.reference = name, reference  # type: ignore[attr-defined]
        shared: Reference = whole(run_loop)
        dispatch_loop.loop, dispatch_loop.reference = name, reference  # type: ignore[attr-defined]
        silent_forms[dispatch_loop] = lambda: enter(reference, silently(reference))
        return dispatch_loop

    return lambda reference: enter(reference, reference)


def _dense(*arrays: Array) -> list[Any] | None:
    """Return contiguous copies of slices of larger arrays, such as an LSTM's gates: copying is faster than NumPy calls.

    Return None for arrays that loops do not support, and for transposed arrays, whose order NumPy keeps in results.
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


def _repeats(x: Array, y: Any) -> bool:
    """Return whether y is broadcast only along leading dimensions, and has at least ``REPEATED`` elements."""
    if y.size < REPEATED:
        return False
    shape = y.shape
    while shape[0] == 1:
        shape = shape[1:]
    return shape == x.shape[-len(shape) :]


def _arity(reference: Reference) -> int:
    return reference.nin if isinstance(reference, np.ufunc) else reference.__code__.co_argcount


def by_rows(name: str) -> Callable[[Reference], Reference]:
    """Decorate a function along ``dim`` of arrays of one shape so that it runs ``loop(*rows, out)``.

    For a dimension other than the last, large arrays use the loop of the same name in ``plane_loops``, or are
    transposed if few elements follow that dimension.
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
    """Run a loop of ``plane_loops`` on arrays of shape ``(count, along, places)``."""
    count, along, places = lanes
    least = max(1, WORTH_SHARING // (along * min(places, PLACES)))
    launch(loop("loops.elements.plane_loops", name), count * -(-places // PLACES), least, *args)


def _transposed(x: Array) -> Any:
    """Return the transposes of a batch of matrices."""
    count, rows, columns = x.shape
    out = empty((count, columns, rows), x.dtype)
    words = [array.view(np.int32) for array in (x, out)]
    launch(loop("loops.layout.copy_loops", "transpose"), count * columns, shortest(rows), *words)
    return out


def shaped(x: Array, shape: tuple[int, ...]) -> Array:
    """Return ``x.reshape(shape)``, or x itself if the shape is the same, to save the creation of a view."""
    return x if x.shape == shape else x.reshape(shape)


def shortest(width: int) -> int:
    """Return the minimum number of rows of ``width`` elements per thread."""
    return WORTH_SHARING // width or 1
