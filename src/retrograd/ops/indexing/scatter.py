"""Scattering along a dimension: values replace elements, or are added, multiplied or reduced.

If several values are written to one position, the last one remains, and only it gets the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING
from ...core.arrays.unbuffered import Reduction, ufunc_at
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, operand
from ...core.tensor.tensor import Tensor, new_tensor
from ..shape.shape import reshape
from ..table.arguments import dimension
from ..table.composites import raw
from ..table.registry import operator
from ..table.types import Number, Operand
from .batching import writing
from .indexing import ERASE, READ, Index, add_at, adding, copied, setting
from .positions import along, at_least_vector, check_range, same_dtype
from .writing import Write, in_place, result, written_value


def _reduced_at(ufunc: Reduction, identity: Callable[[Any], object]) -> tuple[Callable[..., Any], Callable[..., None]]:
    """Return the forward and the in-place form of a reduction."""

    def write(out: Any, x: Any, src: Any, index: Index, include_self: bool) -> None:
        if not include_self:
            out[index.key] = identity(out.dtype)
        ufunc_at(ufunc, out, index.key, src)

    def forward(x: Any, src: object, index: Index, include_self: bool) -> Array:
        out = copied(x)
        write(out, x, src, index, include_self)
        return out

    return forward, write


ADD = adding("scatter_add")


def _lowest(dtype: Any) -> float:
    return -np.inf if dtype.kind in FLOATING else False if dtype.kind == "b" else np.iinfo(dtype).min


def _highest(dtype: Any) -> float:
    return np.inf if dtype.kind in FLOATING else True if dtype.kind == "b" else np.iinfo(dtype).max


def _extreme_shares(
    g: Array, x: Array, src: Array, ans: Array, index: Index, include_self: bool
) -> tuple[Any, Any, Any]:
    """Return g divided among the elements equal to the extreme value, and masks of these elements in x and src."""
    x, src, ans = raw(x), raw(src), raw(ans)
    mine, theirs = x == ans, src == ans[index.key]
    if not include_self:
        mine[index.key] = False
    count = ADD(mine.astype(ans.dtype), theirs.astype(ans.dtype), index=index)
    return g / count, mine, theirs


def _extreme_rule(
    g: Array, x: Array, src: Array, ans: Array, index: Index, include_self: bool, needs: tuple[bool, ...]
) -> tuple[Any, Any]:
    share, mine, theirs = _extreme_shares(g, x, src, ans, index, include_self)
    return share * mine if needs[0] else None, READ(share, index=index) * theirs if needs[1] else None


def _prod_rule(
    g: Array, x: Array, src: Array, index: Index, include_self: bool, needs: tuple[bool, ...]
) -> tuple[Any, Any]:
    """The gradient of each factor is g times the product of the other factors at its position, which is correct for
    zeros."""
    xp = array_module(x)
    ones = xp.ones_like(raw(x))
    gx = gsrc = None
    if needs[0]:
        gx = g * SCATTER_PROD(ones, src, index=index, include_self=True)
        gx = gx if include_self else ERASE(gx, index=index)
    if needs[1]:
        zero = raw(src) == 0
        nonzero = src + zero.astype(ones.dtype)
        count = ADD(xp.zeros_like(ones), zero.astype(ones.dtype), index=index)[index.key]
        product = READ(SCATTER_PROD(x, nonzero, index=index, include_self=include_self), index=index)
        gsrc = READ(g, index=index) * (product / nonzero) * (count == zero)
    return gx, gsrc


def _reduction(name: str, ufunc: Reduction, identity: Callable[[Any], object], rule: Any) -> Primitive:
    forward, write = _reduced_at(ufunc, identity)
    return Primitive(
        name,
        forward,
        "x src",
        vjp=rule,
        write=write,
        signals=True,
        piecewise_linear=True,
        contiguous=True,
        batch=writing,
    )


SCATTER_PROD: Primitive = _reduction("scatter_prod", "multiply", lambda dtype: 1, _prod_rule)
SCATTER_AMAX: Primitive = _reduction("scatter_amax", "maximum", _lowest, _extreme_rule)
SCATTER_AMIN: Primitive = _reduction("scatter_amin", "minimum", _highest, _extreme_rule)


SCATTER, SCATTER_ADD = setting("scatter", contiguous=True), adding("scatter_add", contiguous=True)


def _source(x: Tensor, src: Operand, index: Tensor) -> Tensor:
    """Return the part of ``src`` that has the shape of the index."""
    src = at_least_vector(same_dtype(x, src, "src"))
    shape, have = index.array.shape, src.array.shape
    if shape == have:
        return src
    if not index.array.size:
        return reshape(reshape(src, (-1,))[:0], shape)
    if len(have) != len(shape) or any(length > mine for length, mine in zip(shape, have)):
        raise RuntimeError(f"index {describe(index)} must not be larger than src {describe(src)} in any dimension")
    return src[tuple(map(slice, shape))]


def _of_shape(input: Operand, result: Tensor) -> Tensor:
    """Return the result in the shape of the input; a 0-d input was treated as a vector of one element."""
    ndim = input.array.ndim if isinstance(input, Tensor) else np.ndim(input)
    return result if ndim else reshape(result, ())


def _scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Write:
    x = operand(input)
    if (src is None) == (value is None):
        raise TypeError(f"pass exactly one of src and value, got {'neither' if src is None else 'both'}")
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError(f"reduce argument must be either add or multiply, got {reduce!r}")
    x, place, index = along(x, dim, index)
    source: Any = value if src is None else src
    if isinstance(source, np.generic):
        source = source.item()
    if isinstance(source, (bool, int, float, complex)):
        source = written_value(x, source)
        if reduce is not None:
            xp = array_module(x)
            source = new_tensor(xp.full(index.array.shape, source, x.array.dtype))
    else:
        source = _source(x, source, index)
    if reduce == "multiply":
        return Write(SCATTER_PROD, x, source, {"index": place, "include_self": True})
    return Write(SCATTER if reduce is None else SCATTER_ADD, x, source, {"index": place})


@operator(inplace=True, args="index from 0")
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Tensor:
    """``out[i, index[i, j, k], k] = src[i, j, k]`` for dimension 1 of three, in a copy of the input.

    Derivative: input: ``g``, 0 where something was written. src: ``g`` at the positions, for a repeated position only
    at the last value; with ``"add"`` input: ``g``, src: ``g`` at the positions; with ``"multiply"`` ``g`` times the
    product of the other factors.
    Shape: index and src have as many dimensions as the input; the index is not longer than src in any dimension, and
    longer than the input at most along ``dim``. The result has the input's shape.
    Dtype: any, preserved; src has the input's dtype.

    Args:
        src: a Tensor, or a number.
        value: a number, instead of ``src``.
        reduce: ``"add"`` or ``"multiply"`` instead of replacing.

    Raises:
        RuntimeError: index or src has a wrong shape, an index is out of range, or the dtypes differ.

    >>> rg.scatter(rg.zeros(2, 3), 1, rg.tensor([[0], [2]]), 1.0)
    tensor([[1., 0., 0.],
            [0., 0., 1.]])
    """
    return _of_shape(input, result(_scatter(input, dim, index, src, value=value, reduce=reduce)))


def _scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Write:
    x, place, index = along(operand(input), dim, index)
    return Write(SCATTER_ADD, x, _source(x, src, index), {"index": place})


@operator(inplace=True, like=scatter)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """``out[i, index[i, j, k], k] += src[i, j, k]`` for dimension 1 of three, from a copy of the input.

    Derivative: input: ``g``. src: ``g`` at the positions.

    Args:
        index: non-negative integers; values at a repeated position are summed.
        src: the values to add.

    >>> rg.scatter_add(rg.zeros(3), 0, rg.tensor([0, 0, 2]), rg.ones(3))
    tensor([2., 0., 1.])
    """
    return _of_shape(input, result(_scatter_add(input, dim, index, src)))


in_place("scatter", _scatter)
in_place("scatter_add", _scatter_add)


# Reductions of all values written to one position


@operator(inplace=True, like=scatter)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """``scatter``, but all values for one position are reduced to one number.

    Derivative: that of the reduction, for the input and src; ``"amax"`` and ``"amin"`` divide ``g`` equally among all
    elements equal to the extreme value. input: 0 where something was written, unless ``include_self``.

    Args:
        src: the values.
        reduce: ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: whether the reduction at a written position includes the input's element there.

    Raises:
        RuntimeError: index or src has a wrong shape, an index is out of range, the dtypes differ, or ``reduce`` has
            another value.

    >>> rg.scatter_reduce(rg.ones(2), 0, rg.tensor([0, 0, 1]), rg.tensor([2.0, 3.0, 4.0]), "prod")
    tensor([6., 4.])
    """
    x, place, index = along(operand(input), dim, index)
    src = _source(x, src, index)
    if reduce == "mean" and x.array.dtype.kind == "b":
        raise NotImplementedError(f"bools have no mean, got {describe(x)}")
    if reduce in ("sum", "mean"):
        total = apply(SCATTER_ADD, (x if include_self else apply(ERASE, (x,), {"index": place}), src), {"index": place})
        return _of_shape(input, total if reduce == "sum" else _divided(total, place, include_self, index))
    primitives = {"prod": SCATTER_PROD, "amax": SCATTER_AMAX, "amin": SCATTER_AMIN}
    if reduce not in primitives:
        raise RuntimeError(f"reduce must be sum, prod, mean, amax or amin, got {reduce!r}")
    return _of_shape(input, apply(primitives[reduce], (x, src), {"index": place, "include_self": include_self}))


def _divided(total: Tensor, place: Index, include_self: bool, index: Tensor) -> Tensor:
    xp = array_module(total)
    count = xp.full_like(total.array, 1 if include_self else 0)
    add_at(count, place, xp.ones(index.array.shape, total.array.dtype))
    count = xp.maximum(count, 1)
    if total.array.dtype.kind in "iu":
        return new_tensor(total.array // count)
    return total / new_tensor(count)


@operator(inplace=True, args="source slices")
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: Literal["prod", "mean", "amax", "amin"],
    *,
    include_self: bool = True,
) -> Tensor:
    """``input`` with the slices of ``source`` reduced into positions along ``dim``: ``index_add`` for other reductions.

    Derivative: input, source: that of the reduction; for amax and amin divided equally among all elements equal to the
    extreme value.
    Shape: index ``(n,)``; source has the input's shape with length n along ``dim``; the result has the input's shape.
    Dtype: any, the same for input, source and result; index holds integers.

    Args:
        index: the position that each slice of the source goes to; a position may repeat.
        reduce: how values for one position are reduced: ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: whether the reductions include the input's values at the written positions.

    Raises:
        IndexError: a position is out of range.
        RuntimeError: the source has a wrong shape, the dtypes differ, or the reduction is unknown.

    >>> rg.index_reduce(rg.ones(2), 0, rg.tensor([0, 0, 1]), rg.tensor([2.0, 3.0, 4.0]), "prod")
    tensor([6., 4.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce must be prod, mean, amax or amin, got {reduce!r}")
    x, index, source = operand(input), operand(index, "index"), operand(source, "source")
    if index.array.dtype.kind not in "iu" or index.array.ndim > 1:
        raise RuntimeError(f"index must be a vector of integers, got {describe(index)}")
    if not x.array.ndim:
        result = index_reduce(x.reshape(1), dim, index, source.reshape(1), reduce, include_self=include_self)
        return result.reshape(())
    place, count = dimension(dim, x.array.ndim), index.array.size
    wanted = (*x.array.shape[:place], count, *x.array.shape[place + 1 :])
    if source.array.shape != wanted:
        raise RuntimeError(
            f"source must have shape {wanted} for {count} positions in {describe(x)}, got {describe(source)}"
        )
    check_range(index, 0, x.array.shape[place], place, x)
    column = index.reshape([count if axis == place else 1 for axis in range(x.array.ndim)])
    return scatter_reduce(x, place, column.expand(*wanted), source, reduce, include_self=include_self)
