"""Scans: cumulative sums, products, extremes and log-sum-exps along one dimension."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING, as_dtype, get_default_dtype, int64
from ...core.graph.primitive import Primitive, apply, operand
from ...core.tensor.tensor import Tensor, tensor_method
from ...kernels.loops.statistics.scans import latest, of_others, scanning
from ..table import batching
from ..table.arguments import dimension
from ..table.registry import assign, inplace_method, operator
from ..table.types import Dim, DTypeLike, Operand
from .common import along, converted
from .sorting import ValuesIndices, picking, selected


def shifted(x: Array, dim: int, first: float) -> Array:
    """Return x shifted by one along ``dim``: ``first, x[0], x[1], ...``, without the last element of x."""
    shape = x.shape[:dim] + (min(1, x.shape[dim]),) + x.shape[dim + 1 :]
    start = array_module(x).full(shape, first, x.dtype)
    return np.concatenate([start, x[along(dim, slice(0, -1))]], dim)


def running(combine: Callable[[Any, Any], object], x: Array, dim: int) -> Array:
    """Return the cumulative results of an associative ufunc along ``dim``.

    CuPy's ufuncs lack ``accumulate``; spans of doubling length are combined in log2(n) steps instead.
    """
    if x.__class__ is np.ndarray and isinstance(combine, np.ufunc):
        return combine.accumulate(x, axis=dim)
    out = x.copy()
    step, length = 1, x.shape[dim]
    while step < length:
        tail, head = along(dim, slice(step, None)), along(dim, slice(0, length - step))
        out[tail] = combine(out[tail], out[head])
        step *= 2
    return out


# A linear recurrence: the derivative of cumulative products, correct for zeros, without a division


@scanning("recurrences")
def _recurrence(a: Array, b: Array, dim: int, backward: bool) -> Array:
    """Solve ``s[i] = b[i] + a[i] * s[i - 1]``, or with ``backward`` ``s[i] = b[i] + a[i + 1] * s[i + 1]``.

    The reference combines spans of doubling length (Blelloch 1990).
    """
    if backward:
        return np.flip(_recurrence(np.roll(np.flip(a, dim), 1, dim), np.flip(b, dim), dim=dim), dim)
    a, s = a.copy(), b.copy()
    step, length = 1, b.shape[dim]
    a[along(dim, slice(0, 1))] = 0
    while step < length:
        tail, head = along(dim, slice(step, None)), along(dim, slice(0, length - step))
        s[tail] = s[tail] + a[tail] * s[head]
        a[tail] = a[tail] * a[head]
        step *= 2
    return s


def _recurrence_vjp(g: Array, a: Array, ans: Array, dim: int, backward: bool) -> tuple[Array, Array]:
    gb = RECURRENCE(a, g, dim=dim, backward=not backward)
    return (shifted(gb, dim, 0) * ans if backward else gb * shifted(ans, dim, 0)), gb


RECURRENCE = Primitive(
    "linear_recurrence", _recurrence, "a b", vjp=_recurrence_vjp, signals=True, batch=batching.along("dim")
)


# Sums and products


def _accumulated(ufunc: np.ufunc, x: Array, dim: int) -> Any:
    """Return cumulative results, in double precision as in PyTorch, since scans cannot sum pairwise."""
    method = getattr(x, "cumsum" if ufunc is np.add else "cumprod")
    if x.dtype.kind in FLOATING and x.dtype.itemsize < 8:
        return method(axis=dim, dtype=np.float64).astype(x.dtype)
    return method(axis=dim, dtype=x.dtype)  # NumPy would widen small integers


@scanning("sums", "fdl")
def _cumsum(x: Array, dim: int, backward: bool) -> Array:
    return np.flip(CUMSUM(np.flip(x, dim), dim=dim), dim) if backward else _accumulated(np.add, x, dim)


CUMSUM: Primitive = Primitive(
    "cumsum",
    _cumsum,
    "x",
    [lambda g, dim: _cumsum(g, dim=dim, backward=True)],
    signals=True,
    contiguous=True,
    batch=batching.along("dim"),
    shaped=True,
)

# d/dx[i] = (x[0] ... x[i-1]) * sum over k >= i of g[k] x[i+1] ... x[k]: correct for zeros, to every order.
CUMPROD = Primitive(
    "cumprod",
    scanning("products", "fdl")(lambda x, dim, backward: _accumulated(np.multiply, x, dim)),
    "x",
    [lambda g, x, ans, dim: shifted(ans, dim, 1) * RECURRENCE(x, g, dim=dim, backward=True)],
    signals=True,
    contiguous=True,
    batch=batching.along("dim"),
    shaped=True,
)


@of_others
def product_of_others(x: Array, dim: int) -> Array:
    """Return for each element the product of all others along ``dim``, without division, which would fail at zeros."""
    before = CUMPROD(shifted(x, dim, 1), dim=dim)
    after = CUMPROD(shifted(np.flip(x, dim), dim, 1), dim=dim)
    return before * np.flip(after, dim)


def _scan(primitive: Primitive, input: Operand, dim: Dim, dtype: DTypeLike | None) -> Tensor:
    x = operand(input)
    dim = dimension(dim, x.array.ndim)
    if dtype is None and x.array.dtype.kind in "biu":
        dtype = int64
    x = converted(x, dtype)
    if x.array.dtype.kind == "b" and x.array.size:
        raise NotImplementedError("is not defined for bools; pass a numeric dtype")
    return x.clone() if x.array.ndim == 0 else apply(primitive, (x,), {"dim": dim})


@operator(inplace=True, dtype="integer sum", args="dtype converts")
def cumsum(input: Operand, dim: Dim, *, dtype: DTypeLike | None = None) -> Tensor:
    """``y_i = x_0 + ... + x_i`` along ``dim``.

    float16 and float32 are summed in double precision and rounded once.

    Derivative: ``sum_(k >= i) g_k``, the cumulative sum of ``g`` from the end.

    >>> rg.cumsum(rg.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    """
    return _scan(CUMSUM, input, dim, dtype)


def _scan_in_place(name: str, scan: Callable[..., Tensor]) -> None:
    @wraps(scan)
    def write(self: Tensor, dim: Dim, *, dtype: DTypeLike | None = None) -> Tensor:
        own = self.array.dtype
        if dtype is not None and as_dtype(dtype) != own:
            raise RuntimeError(f"dtype={as_dtype(dtype)} differs from the dtype of the written Tensor, {own}")
        return assign(name, self, scan(self, dim, dtype=own))

    tensor_method(inplace_method(name, write), name + "_")


@operator(inplace=True, like=cumsum)
def cumprod(input: Operand, dim: Dim, *, dtype: DTypeLike | None = None) -> Tensor:
    """``y_i = x_0 * ... * x_i`` along ``dim``.

    Derivative: ``x_0 ... x_(i-1) sum_(k >= i) g_k x_(i+1) ... x_k``, without a division, so that derivatives of every
    order are correct for zeros.

    >>> x = rg.tensor([2.0, 0.0, 3.0], requires_grad=True)
    >>> rg.cumprod(x, 0).sum().backward()
    >>> x.grad
    tensor([1., 8., 0.])
    """
    return _scan(CUMPROD, input, dim, dtype)


_scan_in_place("cumsum", cumsum)
_scan_in_place("cumprod", cumprod)


# Extremes

CUMMAX = picking("cummax", repeats=True, by_rows=False)
CUMMIN = picking("cummin", repeats=True, by_rows=False)


def _extremes(primitive: Primitive, combine: np.ufunc, input: Operand, dim: Dim) -> ValuesIndices:
    x = operand(input)
    dim = dimension(dim, x.array.ndim)
    array = x.array
    xp = array_module(array)
    if not array.ndim:
        index = xp.zeros((), int64)
    else:
        index = latest(array, dim, combine is np.maximum)
        if index is None:
            values = running(combine, array, dim)
            # The index is the latest position of the running extreme or of a NaN.
            steps = xp.arange(array.shape[dim]).reshape([-1 if axis == dim else 1 for axis in range(array.ndim)])
            index = running(np.maximum, xp.where((array == values) | (array != array), steps, 0), dim)
    return selected(primitive, x, index, dim)


@operator(real=True, dtype="indices")
def cummax(input: Operand, dim: Dim) -> ValuesIndices:
    """``y_i = max(x_0, ..., x_i)`` along ``dim``, with its index; NaN from the first NaN on.

    Derivative: each ``g`` is added at the element with the returned index, the last of equal elements.

    Returns:
        The named tuple ``(values, indices)``.

    >>> rg.cummax(rg.tensor([1.0, 3.0, 2.0, 3.0]), 0)
    ValuesIndices(values=tensor([1., 3., 3., 3.]), indices=tensor([0, 1, 1, 3]))
    """
    return _extremes(CUMMAX, np.maximum, input, dim)


@operator(real=True, like=cummax)
def cummin(input: Operand, dim: Dim) -> ValuesIndices:
    """``y_i = min(x_0, ..., x_i)`` along ``dim``, with its index; NaN from the first NaN on.

    >>> rg.cummin(rg.tensor([2.0, 3.0, 1.0, 1.0]), 0)
    ValuesIndices(values=tensor([2., 2., 1., 1.]), indices=tensor([0, 0, 2, 3]))
    """
    return _extremes(CUMMIN, np.minimum, input, dim)


# Log-sum-exp


def _logcumsumexp_vjp(g: Array, x: Array, ans: Array, dim: int) -> Array:
    """``sum_(k >= i) g[k] exp(x[i] - y[k])``, by a recurrence whose factors ``exp(y[i-1] - y[i])`` are at most 1."""
    before = shifted(ans, dim, -np.inf)
    same = before == ans  # the difference of equal infinities is NaN
    factors = np.exp(np.where(same, 0, before) - np.where(same, 0, ans))
    undefined = (x == ans) & (np.abs(x) == np.inf)
    weights = np.exp(np.where(undefined, 0, x) - np.where(undefined, 0, ans))
    return np.where(undefined, np.nan, weights * RECURRENCE(factors, g, dim=dim, backward=True))


def _complex_logaddexp(x: Array, y: Array) -> Array:
    """``log(exp(x) + exp(y))`` of complex numbers; the exponential with the larger real part is factored out."""
    larger, smaller = np.where(x.real < y.real, y, x), np.where(x.real < y.real, x, y)
    nothing = smaller.real == -np.inf
    return np.where(nothing, larger, larger + np.log1p(np.exp(np.where(nothing, 0, smaller - larger))))


@scanning("log_sums")
def _logcumsumexp(x: Array, dim: int, backward: bool) -> Array:
    if x.dtype.kind == "c":
        return running(_complex_logaddexp, x.astype(np.complex128), dim).astype(x.dtype)
    return running(np.logaddexp, x.astype(np.result_type(x, np.float64)), dim).astype(x.dtype)  # in float64


LOGCUMSUMEXP = Primitive(
    "logcumsumexp", _logcumsumexp, "x", [_logcumsumexp_vjp], signals=True, contiguous=True, batch=batching.along("dim")
)


@operator(dtype="float or complex")
def logcumsumexp(input: Operand, dim: Dim) -> Tensor:
    """``y_i = log(exp(x_0) + ... + exp(x_i))`` along ``dim``, without overflow; in double precision, rounded once.

    Derivative: ``sum_(k >= i) g_k exp(x_i - y_k)``; NaN, as in PyTorch, at ``inf`` and at a ``-inf`` that is preceded
    only by ``-inf``.

    Args:
        input: the exponents.

    >>> rg.logcumsumexp(rg.tensor([100.0, 100.0]), 0)
    tensor([100.    , 100.6931])
    """
    x = operand(input)
    return _scan(LOGCUMSUMEXP, x, dim, get_default_dtype() if x.array.dtype.kind in "biu" else None)
