"""Statistics: variances, medians and quantiles, covariances, histograms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.devices import array_module
from ...core.errors import describe
from ...core.primitive import Primitive, apply, operand
from ...core.summation import accurate_sum
from ...core.tensor import Tensor, new_tensor
from ..indexing.selection import where
from ..math.bounds import clamp
from ..math.complex_numbers import conj, real
from ..math.powers import sqrt
from ..shape.permutation import movedim
from ..shape.views import diagonal
from ..table.arguments import dimension
from ..table.blocks import in_single
from ..table.registry import numpy_names, operator
from .reductions import MEAN, count, equal_share_vjp, floating, kept, reduce_
from .scans import running
from .sorting import ValuesIndices, argsorted, mesh, picking, selected

# Variance


def _freedom(shape: tuple[int, ...], dim: Any, correction: float) -> float:
    return max(0.0, count(shape, dim) - correction)


@in_single
def _var(x: Any, dim: tuple[int, ...] | None = None, correction: float = 1, keepdim: bool = False) -> Any:
    away = x - MEAN.forward(x, dim, True)
    squares = away.real**2 + away.imag**2 if x.dtype.kind == "c" else away * away
    return accurate_sum(squares, dim, keepdim) / squares.dtype.type(_freedom(x.shape, dim, correction))


def _var_vjp(g: Any, x: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """``2 (x - mean) / (n - correction)``."""
    away = x - MEAN(x, dim=dim, keepdim=True)
    if away.dtype.kind == "c":
        away = np.conj(away)
    return kept(g, x.shape, dim, keepdim) * (2 / np.float64(_freedom(x.shape, dim, correction))).item() * away


def _std_vjp(g: Any, x: Any, ans: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """``(x - mean) / (std (n - correction))``; 0 where the deviation is 0, as in PyTorch."""
    zero = ans == 0
    return _var_vjp(np.where(zero, 0, g) / np.where(zero, 1, 2 * ans), x, dim, correction, keepdim)


VAR = Primitive("var", _var, "x", [_var_vjp], signals=True)
STD = Primitive("std", in_single(lambda x, **params: np.sqrt(_var(x, **params))), "x", [_std_vjp], signals=True)


def _spread(primitive: Primitive, input: Any, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> Tensor:
    """The forms ``f(x, unbiased)``, ``f(x, dim, unbiased, keepdim)`` and ``f(x, dim, correction=..., keepdim=...)``."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{primitive.name}: got both unbiased and correction")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return reduce_(primitive, floating(primitive.name, input), dim, keepdim, correction=correction)


class VarMean(NamedTuple):
    """A variance and a mean."""

    var: Tensor
    mean: Tensor


class StdMean(NamedTuple):
    """A standard deviation and a mean."""

    std: Tensor
    mean: Tensor


@operator()
@numpy_names
def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> Tensor:
    """The variance ``sum (x - mean)^2 / (n - correction)`` over all dimensions, one, or several.

    Args:
        input: a floating or complex Tensor.
        dim: the dimensions, all by default.
        unbiased: PyTorch's older name: False for ``correction=0``.
        keepdim: keep the reduced dimensions with length 1.
        correction: what is taken from the count, 1 by default (the unbiased estimate). NumPy's default is 0.

    Raises:
        RuntimeError: the input holds integers.
        IndexError: a dimension is out of range.

    >>> rg.var(rg.tensor([1.0, 2.0, 3.0])), rg.var(rg.tensor([1.0, 3.0]), correction=0)
    (tensor(1.), tensor(1.))
    """
    return _spread(VAR, input, dim, unbiased, keepdim, correction)


@operator(note="the gradient is 0 where the deviation is 0")
@numpy_names
def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> Tensor:
    """The standard deviation, the square root of ``var``, over all dimensions, one, or several.

    Raises:
        RuntimeError: the input holds integers.
        IndexError: a dimension is out of range.

    >>> rg.std(rg.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return _spread(STD, input, dim, unbiased, keepdim, correction)


@operator(method=False)
@numpy_names
def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> VarMean:
    """The variance and the mean; see ``var``.

    >>> rg.var_mean(rg.tensor([1.0, 2.0, 3.0]))
    VarMean(var=tensor(1.), mean=tensor(2.))
    """
    variance = _spread(VAR, input, dim, unbiased, keepdim, correction)
    return VarMean(variance, reduce_(MEAN, operand(input), None if isinstance(dim, bool) else dim, keepdim))


@operator(method=False, note="the gradient of the deviation is 0 where it is 0")
@numpy_names
def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> StdMean:
    """The standard deviation and the mean; see ``std``.

    >>> rg.std_mean(rg.tensor([1.0, 2.0, 3.0]))
    StdMean(std=tensor(1.), mean=tensor(2.))
    """
    deviation = _spread(STD, input, dim, unbiased, keepdim, correction)
    return StdMean(deviation, reduce_(MEAN, operand(input), None if isinstance(dim, bool) else dim, keepdim))


# Order statistics


def _dimension_of(x: Tensor, dim: int) -> int:
    """The dimension, which must have elements to select from."""
    dim = dimension(dim, x.array.ndim)
    if x.array.ndim and x.array.shape[dim] == 0:
        raise IndexError(f"expected dimension {dim} of {describe(x)} to have non-zero size")
    return dim


def _column(array: Any, place: Any, dim: int) -> Any:
    """The elements at one place (a number, or an array of places with length 1 there) along ``dim``, which is kept."""
    if not array.ndim:
        return array
    if isinstance(place, int):
        return array[(slice(None),) * dim + (slice(place, place + 1),)]
    return array[mesh(place, dim)]


KTHVALUE, MEDIAN, NANMEDIAN, MODE = picking("kthvalue"), picking("median"), picking("nanmedian"), picking("mode")


@operator(real=True)
@numpy_names
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The ``k``-th smallest element along ``dim`` (counted from 1) and its index. NaN counts as the largest.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: ``k`` is out of range.

    >>> rg.kthvalue(rg.tensor([3.0, 1.0, 2.0]), 2)
    ValuesIndices(values=tensor(2.), indices=tensor(2))
    """
    x = operand(input)
    dim = _dimension_of(x, dim)
    length = x.array.shape[dim] if x.array.ndim else 1
    if not 1 <= k <= length:
        raise RuntimeError(f"k={k} is out of range for dimension {dim} of {describe(x)}")
    return selected(KTHVALUE, x, _column(argsorted(x.array, dim), k - 1, dim), dim, keepdim)


def _median_of_all(x: Any, ignore_nan: bool) -> Any:
    flat = x.reshape(-1)
    if not x.size:
        return array_module(x).full((), np.nan, x.dtype)
    return _column(flat, _median_index(flat, 0, ignore_nan), 0).reshape(())


def _median_index(x: Any, dim: int, ignore_nan: bool) -> Any:
    """The index of the lower median; of the first NaN where there is one, unless they are ignored."""
    order = argsorted(x, dim)
    if not x.ndim:
        return order
    missing = (x != x).sum(axis=dim, keepdims=True)
    length = x.shape[dim]
    if ignore_nan:
        xp = array_module(x)
        return _column(order, xp.maximum(length - missing - 1, 0) // 2, dim)
    place = array_module(x).where(missing > 0, length - missing, (length - 1) // 2)
    return _column(order, place, dim)


MEDIAN_OF_ALL = Primitive("median", _median_of_all, "x", [equal_share_vjp], signals=True)
ORDER_TIES = "without dim equal elements share the gradient evenly; with dim it goes to the element at the index"


def _median(primitive: Primitive, input: Any, dim: int | None, keepdim: bool) -> Any:
    name = primitive.name
    x = operand(input)
    ignore_nan = name == "nanmedian"
    if dim is None:
        return apply(MEDIAN_OF_ALL, (x,), {"ignore_nan": ignore_nan})
    dim = _dimension_of(x, dim)
    return selected(primitive, x, _median_index(x.array, dim, ignore_nan), dim, keepdim)


@operator(note=ORDER_TIES, real=True)
@numpy_names
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of all elements, or with ``dim`` along it, with indices; the lower one of two. NaN if there is any.

    Raises:
        IndexError: ``dim`` is out of range or empty.

    >>> rg.median(rg.tensor([4.0, 1.0, 3.0, 2.0]))
    tensor(2.)
    >>> rg.median(rg.tensor([3.0, 1.0, 2.0]), 0)
    ValuesIndices(values=tensor(2.), indices=tensor(2))
    """
    return _median(MEDIAN, input, dim, keepdim)


@operator(note=ORDER_TIES, real=True)
@numpy_names
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of the elements that are not NaN; see ``median``.

    Raises:
        IndexError: ``dim`` is out of range or empty.

    >>> rg.nanmedian(rg.tensor([3.0, float("nan"), 1.0]))
    tensor(1.)
    """
    return _median(NANMEDIAN, input, dim, keepdim)


@operator(real=True)
@numpy_names
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent element along ``dim``, the smallest of several, and the index of its last occurrence.

    Raises:
        IndexError: ``dim`` is out of range or empty.

    >>> rg.mode(rg.tensor([3.0, 1.0, 3.0, 2.0]))
    ValuesIndices(values=tensor(3.), indices=tensor(2))
    """
    x = operand(input)
    dim = _dimension_of(x, dim)
    order = argsorted(x.array, dim)
    if not x.array.ndim:
        return selected(MODE, x, order, dim, keepdim)
    xp = array_module(order)
    ordered = x.array[mesh(order, dim)]
    steps = xp.arange(order.shape[dim]).reshape([-1 if axis == dim else 1 for axis in range(order.ndim)])
    same = ordered == xp.roll(ordered, 1, axis=dim)
    starts = running(np.maximum, xp.where(same & (steps > 0), 0, steps), dim)
    lengths = steps - starts
    longest = lengths.argmax(axis=dim).reshape(_column(order, 0, dim).shape)
    return selected(MODE, x, _column(order, longest, dim), dim, keepdim)


QUANTILE = picking("quantile", repeats=True)
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(name: str, input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    x = floating(name, input)
    if x.array.dtype.itemsize < 4 or x.array.dtype.kind == "c":
        raise RuntimeError(f"wanted float32 or float64, got {describe(x)}")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(f"argument interpolation must be one of {', '.join(INTERPOLATIONS)}, not {interpolation!r}")
    if x.array.size == 0:
        raise RuntimeError(f"the input {describe(x)} has no elements")
    xp = array_module(x)
    levels = operand(q, "q") if not isinstance(q, float | int) else new_tensor(xp.asarray(q, x.array.dtype))
    if levels.array.ndim > 1:
        raise RuntimeError(f"argument q must be a number or have 1 dimension, got {describe(levels)}")
    if levels.array.dtype != x.array.dtype:
        raise RuntimeError(f"argument q must have the dtype of the input, {x.dtype}, not {levels.dtype}")
    if not bool(((levels.array >= 0) & (levels.array <= 1)).all()):
        raise RuntimeError(f"argument q must lie in [0, 1], got {describe(q)}")
    shape = x.array.shape
    if dim is None:
        rows = x.reshape((-1,))
        outer = (1,) * len(shape) if keepdim else ()
    else:
        dim = dimension(dim, len(shape))
        rows = movedim(x, dim, -1) if shape else x.reshape((1,))
        outer = shape[:dim] + ((1,) if keepdim else ()) + shape[dim + 1 :] if shape else ()
    array = rows.array
    last = array.ndim - 1
    missing = (array != array).sum(axis=-1, keepdims=True)
    highest = array.shape[-1] - 1
    if name == "nanquantile":
        top = xp.maximum(highest - missing, 0)
    else:
        top = xp.where(missing > 0, -1, highest)
    # Ranks (rows, q); of a row with NaN that is not ignored the last element, NaN, whatever the level.
    ranks = levels.reshape((1,) * last + (-1,)) * new_tensor(xp.maximum(top, 0).astype(array.dtype))
    place = xp.where(top < 0, highest, ranks.array)
    if interpolation in ("lower", "higher", "nearest"):
        place = {"lower": xp.floor, "higher": xp.ceil, "nearest": xp.round}[interpolation](place)
    below, above = xp.floor(place).astype(np.int64), xp.ceil(place).astype(np.int64)
    order = argsorted(array, last)

    def pick(at: Any) -> Tensor:
        return apply(QUANTILE, (rows, new_tensor(order[mesh(at, last)])), {"dim": last, "keepdim": True})

    lower = pick(below)
    if interpolation in ("linear", "midpoint"):
        weight = 0.5 if interpolation == "midpoint" else ranks - new_tensor(xp.floor(ranks.array))
        # Where both are the same element the weight is 0, also for infinities, whose difference is NaN.
        exact = new_tensor(below == above)
        lower = where(exact, lower, lower + weight * (pick(above) - where(exact, 0, lower)))
    first = movedim(lower, -1, 0)
    return first.reshape(levels.array.shape + outer)


@operator()
@numpy_names
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-th quantiles of all elements, or along ``dim``: the element of rank ``q (n - 1)``, interpolated.

    Args:
        input: a float32 or float64 Tensor.
        q: a number or a 1-dimensional Tensor in [0, 1]; a Tensor gives the result a first dimension.
        dim: the dimension, by default the flattened input.
        keepdim: keep the reduced dimension with length 1.
        interpolation: between two ranks: ``linear``, ``lower``, ``higher``, ``midpoint`` or ``nearest``.

    Raises:
        RuntimeError: wrong dtypes, an empty input, ``q`` outside [0, 1], an unknown interpolation.
        IndexError: ``dim`` is out of range.

    >>> rg.quantile(rg.tensor([1.0, 2.0, 3.0, 4.0]), 0.5)
    tensor(2.5)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation)


@operator()
@numpy_names
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The quantiles of the elements that are not NaN; see ``quantile``.

    >>> rg.nanquantile(rg.tensor([1.0, float("nan"), 3.0]), 0.5)
    tensor(2.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation)


# Covariance


@operator()
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariance matrix of the rows, each a variable with its observations as columns.

    Args:
        input: at most 2 dimensions; one variable for 1 or 0.
        correction: what is taken from the number of observations.
        fweights: how often each observation counts, integers.
        aweights: how much each observation counts.

    Raises:
        RuntimeError: more than 2 dimensions, or weights that do not fit.

    >>> rg.cov(rg.tensor([[0.0, 2.0], [0.0, 4.0]]))
    tensor([[2., 4.],
            [4., 8.]])
    """
    x = operand(input)
    if x.array.ndim > 2:
        raise RuntimeError(f"wanted at most 2 dimensions, got {describe(x)}")
    if x.array.dtype.kind == "b":
        raise RuntimeError(f"bools are not supported, got {describe(x)}")
    x = floating("cov", x if x.array.dtype.kind in "fc" else x * 1.0)
    rows = x.reshape((1, -1)) if x.array.ndim < 2 else x
    observations = rows.array.shape[1]
    weights = _observation_weights(fweights, aweights, observations)
    if weights is None:
        centred = rows - rows.mean(1, True)
        weighted, norm = centred, max(0, observations - correction)
    else:
        total = weights.sum()
        centred = rows - (rows * weights).sum(1, True) / total
        weighted = centred * weights
        norm = total - correction if aweights is None else total - correction * (weights * aweights).sum() / total
        norm = new_tensor(np.maximum(norm.array, 0)) if not norm.requires_grad else norm
    product = weighted @ conj(centred).transpose(0, 1)
    return (product / norm).squeeze()


def _observation_weights(fweights: Any, aweights: Any, observations: int) -> Tensor | None:
    for name, weights, kinds in (("fweights", fweights, "iu"), ("aweights", aweights, "f")):
        if weights is not None:
            if weights.shape != (observations,):
                raise RuntimeError(f"{name} must have shape ({observations},), got {describe(weights)}")
            if weights.dtype.kind not in kinds:
                raise RuntimeError(f"{name} has the wrong dtype: {describe(weights)}")
            if bool((getattr(weights, "array", weights) < 0).any()):
                raise RuntimeError(f"{name} must not be negative")
    if fweights is None:
        return None if aweights is None else operand(aweights, "aweights")
    return operand(fweights) if aweights is None else operand(fweights) * aweights


@operator()
def corrcoef(input: Tensor) -> Tensor:
    """The matrix of the correlation coefficients of the rows: ``cov_ij / sqrt(cov_ii cov_jj)``.

    Raises:
        RuntimeError: more than 2 dimensions.

    >>> rg.corrcoef(rg.tensor([[0.0, 2.0, 1.0], [0.0, 4.0, 2.0]]))
    tensor([[1., 1.],
            [1., 1.]])
    """
    c = cov(input)
    if c.array.ndim == 0:
        return c / c
    deviations = sqrt(real(diagonal(c)))
    r = c / deviations.reshape((-1, 1)) / deviations
    return r if r.dtype.kind == "c" else clamp(r, -1, 1)


# Counts


@operator(differentiable=False)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of ``bins`` equal intervals between ``min`` and ``max``; the last one is closed.

    Elements outside are left out. With ``min == max`` the range is that of the elements.

    Raises:
        NotImplementedError: the input is not floating.
        RuntimeError: ``bins`` is not positive, ``max`` is below ``min`` or the range is not finite.

    >>> rg.histc(rg.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    x = operand(input)
    array = x.array
    xp = array_module(array)
    if array.dtype.kind != "f":
        raise NotImplementedError(f"wanted a floating dtype, got {describe(x)}")
    if bins <= 0:
        raise RuntimeError(f"bins must be positive, got {bins}")
    low, high = float(min), float(max)
    if low == high and array.size:
        low, high = float(array.min().item()), float(array.max().item())
    if low == high:
        low, high = low - 1, high + 1
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise RuntimeError(f"the range [{low}, {high}] is not finite or empty")
    flat = array.reshape(-1)
    flat = flat[(flat >= low) & (flat <= high)]
    place = xp.minimum(((flat - low) * (bins / (high - low))).astype(np.int64), bins - 1)
    return new_tensor(xp.bincount(place, minlength=bins).astype(array.dtype))


@operator(differentiable=False, real=True)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number 0, 1, 2, ... occurs, or with ``weights`` the sum of the weights where it does.

    Raises:
        RuntimeError: the input is not 1-dimensional, does not hold integers from 0, or the weights do not fit.

    >>> rg.bincount(rg.tensor([1, 3, 1]))
    tensor([0, 2, 0, 1])
    """
    x = operand(input)
    array = x.array
    if array.dtype.kind not in "iu":
        raise NotImplementedError(f"wanted integers, got {describe(x)}")
    if array.ndim != 1 or (array.size and bool((array < 0).any())):
        raise RuntimeError(f"wanted one dimension of integers that are not negative, got {describe(x)}")
    if minlength < 0:
        raise RuntimeError(f"minlength must not be negative, got {minlength}")
    heavy = None if weights is None else operand(weights, "weights").array
    if heavy is not None and heavy.shape != array.shape:
        raise RuntimeError(f"the weights {describe(heavy)} must have the shape of {describe(x)}")
    out = array_module(array).bincount(array, weights=heavy, minlength=minlength)
    return new_tensor(out.astype(np.float32) if heavy is not None and heavy.dtype == np.float32 else out)
