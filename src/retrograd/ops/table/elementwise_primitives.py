"""Constructors of elementwise primitives."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.graph.plan import Rule
from ...core.graph.primitive import ZEROS as ZEROS
from ...core.graph.primitive import Primitive
from ...elements.arithmetic import Functions, arithmetic
from ...kernels import SLOW, USEFUL, at_first_use, mapped
from ...kernels.loops.elements.elementwise import chosen, kept


def elementwise(
    name: str,
    forward: Any,
    inputs: str,
    vjps: list[Rule | None] | None,
    *,
    compiled: str = "",
    products: bool = False,
    **options: Any,
) -> Primitive:
    """Return an elementwise primitive with broadcasting that can write its result in place.

    Several threads process large arrays in chunks, by calling forward and rules on slices. Loops that are ``compiled``
    for their dtypes are not chunked, since they are multi-threaded themselves. Rules that are ``products`` of their two
    arguments are a single ufunc.
    """

    def write(out: Array, *arrays: Array, **params: Any) -> None:
        out[...] = forward(*arrays, **params)

    if not isinstance(forward, np.ufunc):
        options = {"write": getattr(forward, "write", write), "overwrites": True} | options
    primitive = Primitive(name, forward, inputs, vjps, elementwise=True, **options)
    at_first_use(lambda: _share(primitive, forward, compiled, products))
    return primitive


def _share(primitive: Primitive, forward: object, compiled: str, products: bool) -> None:
    """Wrap forward and rules for multi-threading; done at the first large array, so other programs have no overhead."""
    from ...kernels.chunked import chunked, writing
    from ...kernels.loops.elements.ufuncs import applied, spread

    if isinstance(primitive.write, partial):
        primitive.write = partial(lambda ufunc, out, *arrays: applied(ufunc, arrays, out, "unsafe"), forward)
    elif primitive.write is not None:
        primitive.write = writing(primitive.write, primitive.forward, compiled)
    ufunc = getattr(forward, "ufunc", forward)  # the ufunc behind the forward, for floating numbers
    if isinstance(ufunc, np.ufunc):
        primitive.forward = spread(ufunc, primitive.forward)
        if primitive.ufunc is not None and ufunc.nin == 2:
            primitive.ufunc = spread(ufunc, primitive.ufunc)
    else:
        primitive.forward = chunked(primitive.forward, compiled or ("f" if hasattr(forward, "loop") else ""))
    primitive.called = partial(chunked, compiled=compiled)
    if products:
        primitive.called = lambda rule: spread(np.multiply, chunked(rule))
    primitive.plans.clear()


def unary(name: str, forward: Any, vjp: Rule | None, **options: Any) -> Primitive:
    """Return an elementwise primitive of one input."""
    options.setdefault("promote", "float")
    return elementwise(name, forward, "x", None if vjp is None else [vjp], **options)


def binary(name: str, forward: Any, vjp_x: Rule | None, vjp_y: Rule | None, **options: Any) -> Primitive:
    """Return an elementwise primitive of two inputs, with broadcasting."""
    options.setdefault("promote", "same")
    return elementwise(name, forward, "x y", [vjp_x, vjp_y], **options)


# Selection by masks in derivative rules: masked elements give 0, not 0 * inf = NaN.

_BITS = {np.dtype(f"f{size}"): np.dtype(f"i{size}") for size in (2, 4, 8)}


def _keep(x: Array, mask: Array) -> Array:
    bits = _BITS.get(x.dtype)
    if bits is None:
        return np.where(mask, x, 0)
    if x.size >= USEFUL and type(x) is np.ndarray:
        out = kept(x, mask, 1.0)
        if out is not None:
            return out
    # A product of the bits is twenty times faster than np.where on masks without a pattern.
    return (x.view(bits) * mask.view(np.int8)).view(x.dtype)


# x where the mask is True, otherwise 0.
KEEP: Primitive = Primitive(
    "keep",
    _keep,
    "x mask",
    [lambda g, mask: KEEP(g, mask), None],
    elementwise=True,
    reference=lambda x, mask: np.where(mask, x, 0),
)


@mapped("keep_where_not_zero", SLOW, halves=True)
def _keep_where_not_zero(x: Array, y: Array) -> Array:
    return _keep(x, y != 0)


# x where y is not zero, otherwise 0.
KEEP_WHERE_NOT_ZERO: Primitive = Primitive(
    "keep_where_not_zero",
    _keep_where_not_zero,
    "x y",
    [lambda g, y: KEEP_WHERE_NOT_ZERO(g, y), None],
    elementwise=True,
    halves=_keep_where_not_zero,
    reference=lambda x, y: np.where(y != 0, x, 0),
)


def select(condition: Array, x: Array, y: Array) -> Array:
    """Return ``np.where(condition, x, y)``; for large floating arrays by arithmetic on bits, which is faster."""
    if condition.size >= USEFUL and type(condition) is np.ndarray:
        out = chosen(condition, x, y)
        if out is not None:
            return out
    if condition.size > 4096:
        dtype: Any = x.dtype if hasattr(x, "dtype") else getattr(y, "dtype", None)
        bits = _BITS.get(dtype)
        if bits is not None and getattr(y, "dtype", dtype) == dtype:
            a = (x if hasattr(x, "dtype") else dtype.type(x)).view(bits)
            b = (y if hasattr(y, "dtype") else dtype.type(y)).view(bits)
            return (b ^ ((a ^ b) * condition.view(np.int8))).view(dtype)
    return np.where(condition, x, y)


WHERE = Primitive(
    "where",
    select,
    "condition x y",
    [None, lambda g, condition: KEEP(g, condition), lambda g, condition: KEEP(g, ~condition)],
    elementwise=True,
    reference=np.where,
)


def zero_rule(g: Array) -> Array:
    """The rule of a piecewise constant function: the derivative is 0."""
    return ZEROS(g)


# The functions of ``elements/arithmetic.py``, for arrays and, in derivative rules, for Tensors.
ARITHMETIC = arithmetic(
    Functions(where=WHERE, keep=KEEP, maximum=np.maximum, minimum=np.minimum, sqrt=np.sqrt, absolute=np.abs)
)

# The identity, as a separate node: the start of a nested graph.
IDENTITY = unary("identity", lambda x: x, lambda g: g, promote=None)

# The identity whose gradient has a history with ``create_graph``, for composites of operators that PyTorch fuses.
STAYS_ATTACHED = unary("identity", lambda x: x, lambda g: g, promote=None, view=True, piecewise_linear=True)
