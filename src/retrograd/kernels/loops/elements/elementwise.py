"""Elementwise functions in one pass where NumPy needs several passes or one slow pass.

``in_one_pass``, ``special`` and ``of_pairs`` replace a function by a loop. The other functions return None if the
caller should use the reference, which is next to the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache, wraps
from typing import Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.fp_warnings import silent_forms, silently
from ....core.opaque_calls import LoopMissing
from ... import REPEATED, SEVERAL, USEFUL, WORTH_SHARING, Reference, compiled, loop, or_reference, suits
from ...runtime.result_arrays import empty, offering
from ...runtime.threads import launch

BLOCK = 1 << 14  # number of elements in a block whose losses are summed together
SQUARE, ABSOLUTE, QUADRATIC_THEN_LINEAR, LOGITS, SOFT_MARGIN = range(5)  # kinds of losses


def _takes(x: Any, *others: Any, least: int = USEFUL, kinds: str = "fd") -> bool:
    """Return whether to use loops on arrays of one shape; the first is floating, others have its dtype or bool."""
    if type(x) is not ndarray or x.size < least or x.dtype.char not in kinds:
        return False
    shape, dtype = x.shape, x.dtype
    for array in (x, *others):
        if type(array) is not ndarray or array.shape != shape:
            return False
        if array.dtype is not dtype and array.dtype not in (dtype, np.bool_):
            return False
        flags = array.flags
        if not flags.c_contiguous or not flags.aligned:
            return False
    return compiled() is not None


_PLAIN = frozenset((int, float))


@lru_cache(maxsize=512)
def _known(kind: Callable[[float], object], number: float) -> object:
    return kind(number)


def _typed(kind: Callable[[float], object], numbers: Iterable[float]) -> tuple[object, ...]:
    """Return numbers as NumPy scalars; they are cached, since creating them takes as long as a short loop.

    Zeros are not cached: the cache would not distinguish 0 from -0.
    """
    return tuple([_known(kind, n) if n.__class__ in _PLAIN and n else kind(n) for n in numbers])


def parameters(function: Any) -> tuple[int, list[str]]:
    """Return the number of arrays of a function of ``elements/``, and the names of the numbers that follow."""
    kinds = {name: kind for name, kind in function.__annotations__.items() if name != "return"}
    return list(kinds.values()).count("Element"), [name for name, kind in kinds.items() if kind == "Number"]


def in_one_pass(function: Reference, reference: Reference | None = None) -> Reference:
    """Decorate ``reference``, by default ``function``, with the compiled loop of ``function`` of ``elements/``."""
    count, numbers = parameters(function)
    return _with_loop(function.__name__, count, numbers)(reference or function)


def _with_loop(
    name: str,
    count: int,
    names: Sequence[str] = (),
    kinds: str = "fd",
    module: str = "loops.elements.elementwise_loops",
) -> Callable[[Reference], Reference]:
    """Decorate a function of ``count`` arrays and of numbers with ``names`` to run ``loop(*arrays, numbers, out)``.

    The compiler traces the function's own steps.
    """

    def enter(reference: Reference, refer: Reference) -> Reference:
        entries: list[Reference] = []  # compiled functions of the loop, empty before its first run

        def run_loop(out: Any, arrays: tuple[Any, ...], numbers: Any) -> None:
            nonlocal entries
            found = loop(module, name)
            flat = [array.ravel() for array in arrays]
            launch(found, out.size, WORTH_SHARING, *flat, _typed(out.dtype.type, numbers), out.ravel())
            entries = found.entries

        @wraps(reference)
        def dispatch_loop(*args: Any, **params: Any) -> Any:
            x, *others = arrays = args[:count]
            if type(x) is ndarray and SEVERAL <= (size := x.size) <= WORTH_SHARING and entries and not offering:
                dtype, shape = x.dtype, x.shape  # small arrays skip ``_takes`` and ``launch``
                suited = dtype.char in kinds and x.flags.c_contiguous and compiled() is not None
                for other in others:
                    suited = suited and type(other) is ndarray and other.shape == shape
                if suited:
                    out = np.empty(shape, dtype)
                    numbers = _typed(dtype.type, map(params.__getitem__, names) if params else args[count:])
                    rest = *[array.ravel() for array in arrays], numbers, out.ravel()
                    for entry in entries:
                        if entry(0, 1, 0, size, 0, *rest) is not NotImplemented:
                            return out
            if not _takes(*arrays, least=SEVERAL, kinds=kinds):
                return refer(*args, **params)
            out = empty(x.shape, x.dtype)
            try:
                run_loop(out, arrays, [params[name] for name in names] if params else args[count:])
            except LoopMissing:
                return refer(*args, **params)
            return out

        def write(out: Any, x: Any, **params: Any) -> None:
            if _takes(out, x, least=SEVERAL, kinds=kinds) and out.flags.writeable:
                try:
                    run_loop(out, (x,), [params[name] for name in names])
                    return
                except LoopMissing:
                    pass
            out[...] = reference(x, **params)

        dispatch_loop.write = write  # type: ignore[attr-defined]  # for what is written over its input
        dispatch_loop.loop, dispatch_loop.reference = name, reference  # type: ignore[attr-defined]
        silent_forms[dispatch_loop] = lambda: enter(reference, silently(reference))
        return dispatch_loop

    return lambda reference: enter(reference, reference)


def special(name: str) -> Callable[[Reference], Reference]:
    """Decorate a special function of one float32 array to run the compiled loop ``name``."""
    return _with_loop(name, 1, kinds="f", module="loops.elements.special_loops")


def of_pairs(name: str) -> Callable[[Reference], Reference]:
    """Decorate a function of two float32 arrays, or of one array and a number, to run ``loop(x, y, out)``.

    One of the arrays may lack leading dimensions and is then repeated.
    """

    def enter(reference: Reference) -> Reference:
        @wraps(reference)
        def dispatch_pair_loop(x: Any, y: Any) -> Any:
            like = y if type(x) is not ndarray or type(y) is ndarray and y.size > x.size else x
            if type(like) is not ndarray or like.size < REPEATED or not suits(like):
                return reference(x, y)
            pair = [_operand(each, like) for each in (x, y)]
            if pair[0] is None or pair[1] is None or compiled() is None:
                return reference(x, y)
            out = empty(like.shape, like.dtype)
            try:
                launch(loop("loops.elements.special_loops", name), out.size, WORTH_SHARING, *pair, out.ravel())
            except LoopMissing:
                return reference(x, y)
            return out

        dispatch_pair_loop.loop, dispatch_pair_loop.reference = name, reference  # type: ignore[attr-defined]
        return dispatch_pair_loop

    return enter


def _operand(x: Any, like: Any) -> Any:
    """Return an operand as a vector, without repetition if it broadcasts; None if loops do not support it."""
    if type(x) is float or type(x) is int or type(x) is ndarray and x.size == 1 and x.dtype is like.dtype:
        return np.full(min(like.size, BLOCK), x, like.dtype)
    if not suits(x) or x.shape != like.shape and (x.size < REPEATED or x.shape != like.shape[like.ndim - x.ndim :]):
        return None
    return x.ravel()


@or_reference
def kept(x: Array, keep: Array, scale: float) -> Any:
    """``x * scale`` where the mask is True, otherwise 0."""
    if not _takes(x, keep):
        return None
    out = empty(x.shape, x.dtype)
    flat = [array.ravel() for array in (x, keep)]
    launch(
        loop("loops.elements.elementwise_loops", "kept"),
        x.size,
        WORTH_SHARING,
        *flat,
        x.dtype.type(scale),
        out.ravel(),
    )
    return out


@or_reference
def chosen(condition: Any, x: Any, y: Any) -> Any:
    """``np.where`` of two arrays, or of an array and a number."""
    wanted = getattr(x, "ndim", 0) > 0
    array, other = (x, y) if wanted else (y, x)
    of_arrays = getattr(other, "ndim", 0) > 0
    if not _takes(array, condition, *((other,) if of_arrays else ())) or condition.dtype != np.bool_:
        return None
    if getattr(other, "dtype", array.dtype) != array.dtype:
        return None
    out = empty(array.shape, array.dtype)
    mask, values, results = [each.ravel() for each in (condition, array, out)]
    if of_arrays:
        launch(
            loop("loops.elements.elementwise_loops", "chosen"),
            out.size,
            WORTH_SHARING,
            mask,
            values,
            other.ravel(),
            results,
        )
    else:
        number = array.dtype.type(other)
        launch(
            loop("loops.elements.elementwise_loops", "chosen_or_number"),
            out.size,
            WORTH_SHARING,
            mask,
            wanted,
            values,
            number,
            results,
        )
    return out


@or_reference
def filled(out: Any, condition: Any, number: Any) -> bool:
    """Write the number to a large array where the condition is True; return False if the loop cannot be used."""
    if not _takes(out, condition) or condition.dtype != np.bool_ or not out.flags.writeable:
        return False
    args = out.ravel(), condition.ravel(), out.dtype.type(number)
    launch(loop("loops.elements.elementwise_loops", "filled"), out.size, WORTH_SHARING, *args)
    return True


@or_reference
def loss(kind: int, x: Array, y: Array, reduction: str, bound: float = 0.0, divisor: float = 1.0) -> Any:
    """Return the sum or mean of a loss of ``x - y``, or of scores x and labels y."""
    if type(x) is not ndarray or x.size < USEFUL or reduction == "none" or not _takes(x, y) or y.dtype != x.dtype:
        return None
    number = x.dtype.type
    out = np.empty(-(-x.size // BLOCK))
    numbers = kind, number(0.5), number(bound), number(divisor)
    launch(loop("loops.elements.elementwise_loops", "losses"), len(out), 1, x.ravel(), y.ravel(), *numbers, out)
    total = out.sum()
    return np.asarray(total / x.size if reduction == "mean" else total, x.dtype)


@or_reference
def slope(kind: int, g: Array, x: Array, y: Array, bound: float = 0.0, divisor: float = 1.0) -> Any:
    """Return ``g`` times the derivative of a loss with respect to ``x``."""
    if type(x) is not ndarray or x.size < USEFUL or not isinstance(g, (ndarray, np.generic)) or g.ndim:
        return None
    if not _takes(x, y) or y.dtype != x.dtype:
        return None
    out, number = empty(x.shape, x.dtype), x.dtype.type
    numbers = kind, number(g), number(bound), number(divisor)
    flat = x.ravel(), y.ravel()
    launch(loop("loops.elements.elementwise_loops", "slopes"), x.size, WORTH_SHARING, *flat, *numbers, out.ravel())
    return out


def with_value(name: str, value: Reference, backward: Reference) -> Callable[[Array, Array], Array]:
    """Return the function of g and x that returns ``value(x)`` and writes ``backward(g, x)`` over g, in one loop."""

    def value_and_gradient(g: Array, x: Array) -> Array:
        if x.dtype.char == "f" and _takes(g, x) and g.flags.writeable:
            y = empty(x.shape, x.dtype)
            with suppress(LoopMissing):
                found = loop("loops.elements.elementwise_loops", f"{name}_with_value")
                launch(found, x.size, WORTH_SHARING, *[array.ravel() for array in (g, x, y)])
                return y
        y = value(x)
        g[...] = backward(g, x)
        return y

    return value_and_gradient
