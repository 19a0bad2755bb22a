"""Reductions over dimensions: sums, means, products, any, all and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING, as_dtype, float16, float32, int64
from ...core.arrays.layout import row_major
from ...core.arrays.summation import LARGE, LONG, accurate_sum, shared, small_sum
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, apply1, operand
from ...core.tensor.tensor import Tensor, new_tensor
from ...kernels.loops.elements import ufuncs
from ...kernels.loops.statistics.sums import multiplied, summed
from ..table import batching
from ..table.arguments import dimension
from ..table.batching import called_per_example
from ..table.registry import also_named, operator
from ..table.types import Dim, Dims, DTypeLike, Operand
from .common import converted, count, divided, floating, kept, kept_shape, reduce_, reduced

if TYPE_CHECKING:
    from ...core.mapping.batching import Call

# Sums

shared[:] = [summed]


def _repeated(g: Array, shape: tuple[int, ...], dim: tuple[int, ...] | None, keepdim: bool) -> Array:
    """Return the cotangent of a sum broadcast to the shape of the input, as a view unless it is small."""
    if isinstance(g, (np.ndarray, np.generic)) and count(shape, None) < LONG:
        out = np.empty(shape, g.dtype)
        out[...] = kept(g, shape, dim, keepdim)
        return out
    if dim is None and g.__class__ is np.ndarray and g.size == 1:
        return np.ndarray(shape, g.dtype, g, 0, (0,) * len(shape))  # 10x faster than broadcast_to
    return np.broadcast_to(kept(g, shape, dim, keepdim), shape)


def _sum(x: Array, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Any:
    if x.__class__ is np.ndarray and x.size < LONG and x.dtype.char in "fd":
        out = small_sum(x, dim, keepdim)
        if out is not None:
            return out
    return row_major(accurate_sum(x, dim, keepdim))


def _mean(x: Array, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Array:
    if x.dtype.char == "e":
        return _mean(x.astype(np.float32), dim, keepdim).astype(np.float16)
    total = _sum(x, dim, keepdim)
    if x.dtype.kind == "c":  # real and imaginary parts separately: complex division turns infinities into NaN
        parts = array_module(x).ascontiguousarray(total[..., None]).view(x.real.dtype)
        return (parts / parts.dtype.type(count(x.shape, dim))).view(x.dtype)[..., 0]
    if total.__class__ is np.ndarray:
        total /= count(x.shape, dim)  # in place, so that a 0-d result stays an array
        return total
    return total / x.dtype.type(count(x.shape, dim))


SUM = Primitive(
    "sum",
    _sum,
    "x",
    [lambda g, x_shape, dim, keepdim: _repeated(g, x_shape, dim, keepdim)],
    signals=True,
    batch=batching.along("dim"),
    by_rows=True,
    computes="sum",
)
MEAN = Primitive(
    "mean",
    _mean,
    "x",
    [lambda g, x_shape, dim, keepdim: _repeated(divided(g, count(x_shape, dim)), x_shape, dim, keepdim)],
    signals=True,
    batch=batching.along("dim"),
    by_rows=True,
    computes="mean",
)


@operator(dtype="integer sum", args="dim or all", raises="repeated dimension")
def sum_(input: Operand, dim: Dims | None = None, keepdim: bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
    """``sum_i x_i`` over all dimensions, one, or several.

    float32 is summed pairwise along contiguous memory and in blocks elsewhere: the error stays near one rounding error,
    even for millions of elements. float16 is summed in float32.

    Derivative: ``g``, repeated along the reduced dimensions.

    Args:
        dtype: convert the input first; sums of integers wrap around.

    >>> x = rg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> rg.sum(x), rg.sum(x, 0), x.sum(axis=1, keepdims=True)
    (tensor(10.), tensor([4., 6.]), tensor([[3.],
            [7.]]))
    """
    x = input if isinstance(input, Tensor) else operand(input)
    if dtype is None:
        return reduce_(SUM, x, dim, keepdim)
    return converted(reduce_(SUM, converted(x, dtype), dim, keepdim), dtype)  # int32 is summed to int64


@operator(dtype="floating and complex", args="dim or all, dtype converts")
def mean(input: Operand, dim: Dims | None = None, keepdim: bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
    """``sum_i x_i / n`` over all dimensions, one, or several; NaN if there are no elements.

    Derivative: ``g / n``, repeated along the reduced dimensions.

    Raises:
        RuntimeError: the input holds integers and no floating ``dtype`` is given, or a dimension appears twice.

    >>> rg.mean(rg.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([2., 3.])
    """
    if dtype is not None and as_dtype(dtype) == float16:  # the elements may be out of float16's range
        return converted(mean(input, dim, keepdim, dtype=float32), dtype)
    return reduce_(MEAN, floating(input, dtype), dim, keepdim)


# Products


def _prod(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    out = multiplied(x, dim, keepdim) if x.size >= LARGE else None
    if out is not None:
        return out
    return x.prod(axis=dim, keepdims=keepdim, dtype=int64 if x.dtype.kind in "biu" else None)


def _prod_vjp(g: Array, x: Array, dim: int | None, keepdim: bool) -> Array:
    """Return the cotangent times the product of the other elements, which is correct even for zeros."""
    from .scans import product_of_others

    if dim is None:
        return (g * product_of_others(x.reshape((-1,)), 0)).reshape(x.shape)
    return kept(g, x.shape, dim, keepdim) * product_of_others(x, dim)


def _prod_examples(call: Call) -> Any:
    if call.params.get("dim") is not None:
        return batching.along("dim")(call)
    result = batching.flattened({"dim": 1, "keepdim": False})(call)
    return result.reshape((call.size,) + (1,) * call.ndim()) if call.params.get("keepdim") else result


PROD = Primitive("prod", _prod, "x", [_prod_vjp], signals=True, contiguous=True, batch=_prod_examples, by_rows=True)


@operator(shape="reduced dimension", dtype="integer sum", args="dtype converts")
def prod(input: Operand, dim: Dim | None = None, keepdim: bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
    """``prod_i x_i``, of all elements or along one dimension.

    Derivative: ``g`` times the product of the other elements, without a division, so that derivatives of every order
    are correct for zeros.

    >>> x = rg.tensor([2.0, 0.0, 4.0], requires_grad=True)
    >>> rg.prod(x).backward()
    >>> x.grad
    tensor([0., 8., 0.])
    """
    x = converted(operand(input), dtype)
    if dim is not None:
        dim = dimension(dim, x.array.ndim)
        dim = dim if x.array.ndim else None
    return converted(apply(PROD, (x,), {"dim": dim, "keepdim": keepdim}), dtype)


# Sums without NaN

ZERO_FOR_NAN = Primitive(
    "zero_for_nan",
    lambda x: array_module(x).where(x == x, x, x.dtype.type(0)),
    "x",
    [lambda g, x: g * (x == x)],
    elementwise=True,
)


@operator(like=mean)
def nansum(input: Operand, dim: Dims | None = None, keepdim: bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
    """``sum_i x_i`` over the elements that are not NaN.

    Derivative: ``g``, repeated along the reduced dimensions; 0 for NaN.
    Dtype: floating, integers and bools; the result for integers and bools is int64.

    Raises:
        RuntimeError: the input is complex, or a dimension appears twice.

    >>> rg.nansum(rg.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    x = operand(input)
    if x.array.dtype.kind == "c":
        raise RuntimeError(f"complex numbers are not supported, got {describe(x)}")
    x = converted(apply1(ZERO_FOR_NAN, x) if x.array.dtype.kind in FLOATING else x, dtype)
    return converted(reduce_(SUM, x, dim, keepdim), dtype)


@operator(like=mean, dtype="only floating")
def nanmean(
    input: Operand, dim: Dims | None = None, keepdim: bool = False, *, dtype: DTypeLike | None = None
) -> Tensor:
    """``sum_i x_i / n`` over the ``n`` elements that are not NaN; NaN if there are none.

    Derivative: ``g / n``, repeated along the reduced dimensions; 0 for NaN.

    Raises:
        RuntimeError: the input is complex or holds integers.

    >>> rg.nanmean(rg.tensor([1.0, float("nan"), 2.0]))
    tensor(1.5)
    """
    x = floating(input)
    if x.array.dtype.kind == "c":
        raise RuntimeError(f"complex numbers are not supported, got {describe(x)}")
    x = floating(x, dtype)
    axes = reduced(dim, x.array.ndim)
    numbers = (x.array == x.array).sum(axis=axes, keepdims=keepdim, dtype=x.array.dtype)
    return nansum(x, dim, keepdim) / array_module(x).asarray(numbers)


# Truth and counts


def _nonzero(x: Array) -> Array:
    if x.dtype.kind == "b":
        return x
    from ..math.comparison import NE

    return NE.forward(x, array_module(x).zeros((), x.dtype))


def _truth(name: str, input: Operand, dim: Dims | None, keepdim: bool) -> Tensor:
    x = operand(input)
    # For all and any, PyTorch treats () and [] as no dimension.
    axes = () if isinstance(dim, (tuple, list)) and not dim else reduced(dim, x.array.ndim)
    true = _nonzero(x.array)
    ufunc = np.logical_and if name == "all" else np.logical_or
    out = ufuncs.reduced(ufunc, true, axes, keepdim)
    if out is None:
        out = getattr(true, name)(axis=axes, keepdims=keepdim)
    out = row_major(array_module(x).asarray(out))
    return new_tensor(out.astype(np.uint8) if x.array.dtype == np.uint8 else out)


@operator(differentiable=False)
def all_(input: Operand, dim: Dims | None = None, keepdim: bool = False) -> Tensor:
    """``x_0 != 0 and ... and x_n != 0``, over all dimensions, one, or several; True if there are no elements.

    Dtype: any; the result is bool, but uint8 for uint8 (as in PyTorch).

    Args:
        input: the elements to test.
        dim: a dimension or several, by default all; ``()`` reduces none.

    >>> rg.all(rg.tensor([[1, 1], [0, 1]]), dim=1)
    tensor([ True, False])
    """
    return _truth("all", input, dim, keepdim)


@operator(differentiable=False, like=all_)
def any_(input: Operand, dim: Dims | None = None, keepdim: bool = False) -> Tensor:
    """``x_0 != 0 or ... or x_n != 0``, over all dimensions, one, or several; False if there are no elements.

    >>> rg.any(rg.tensor([[0, 0], [0, 1]]), dim=1)
    tensor([False,  True])
    """
    return _truth("any", input, dim, keepdim)


@operator(differentiable=False, dtype="int64", args="dim or all")
def count_nonzero(input: Operand, dim: Dims | None = None) -> Tensor:
    """``sum_i [x_i != 0]`` over all dimensions, one, or several.

    Shape: any; the reduced dimensions are removed.

    Args:
        input: the elements to count.

    >>> rg.count_nonzero(rg.tensor([[0, 2], [1, 3]]), dim=0)
    tensor([1, 2])
    """
    x = operand(input)
    axes = reduced(dim, x.array.ndim)
    xp, true = array_module(x), _nonzero(x.array)
    return new_tensor(xp.asarray(xp.count_nonzero(true) if axes is None else true.sum(axis=axes, dtype=int64)))


def _folded(bits: Array) -> Array:
    """Return the exclusive or along the last dimension, by combining halves."""
    while bits.shape[-1] > 1:
        half = bits.shape[-1] // 2
        rest = bits[..., 2 * half :]
        bits = bits[..., :half] ^ bits[..., half : 2 * half]
        if rest.shape[-1]:
            bits[..., :1] ^= rest
    return bits[..., 0]


@operator(differentiable=False, args="dim or all")
@also_named(axis="dim", keepdims="keepdim")
@called_per_example
def hash_tensor(input: Operand, dim: Dims | None = None, *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """``x_0 ^ ... ^ x_n``: the exclusive or of the bits of the elements, which are read as int64 or float64.

    Shape: any; the reduced dimensions are removed, or have length 1 with ``keepdim``.
    Dtype: real; the result is uint64.

    Args:
        input: the elements to combine.
        mode: 0, exclusive or, is the only mode.

    Raises:
        RuntimeError: ``mode`` is not 0, there are no elements and no ``dim``, or a dimension appears twice.
        IndexError: ``dim`` is out of range or has length 0.
        NotImplementedError: the input is complex.

    >>> rg.hash_tensor(rg.tensor([5, 3, 9]))
    tensor(15, dtype=uint64)
    """
    x = operand(input).array
    if mode != 0:
        raise RuntimeError(f"mode must be 0, got {mode}")
    if x.dtype.kind == "c":
        raise NotImplementedError(f"complex numbers are not supported, got {describe(x)}")
    axes = reduced(dim, x.ndim)
    if axes is None and not x.size:
        raise RuntimeError(f"expected dim for an input without elements, got {describe(x)}")
    if axes is not None and 0 in (lengths := [x.shape[axis] for axis in axes]):
        raise IndexError(f"expected dimensions of length 1 or more, got lengths {lengths} of {describe(x)}")
    xp = array_module(x)
    bits = x.astype(np.float64 if x.dtype.kind in FLOATING else int64).view(np.uint64)
    reduced_axes = tuple(range(x.ndim)) if axes is None else axes
    rows = xp.moveaxis(bits, reduced_axes, range(-len(reduced_axes), 0))
    rest = rows.shape[: x.ndim - len(reduced_axes)]
    result = _folded(rows.reshape((*rest, count(x.shape, axes))))
    return new_tensor(xp.asarray(result.reshape(kept_shape(x.shape, axes) if keepdim else rest)))
