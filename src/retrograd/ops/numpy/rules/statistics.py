"""Sums, extremes and statistics of NumPy; ``axis=()`` reduces no axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...._generated import toplevel as ops
from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import INEXACT
from ....core.graph.primitive import operand
from ....core.tensor.tensor import Tensor, new_tensor
from ...reduce.common import reduce_
from ...reduce.extremes import AMAX, AMIN
from ..arguments import Rules, axes_of, floating, in_double, only, tensor, tensors, unwrapped
from ..promotion import common_dtype, summed_dtype
from .mathematics import scan
from .selection import truth


def reduced(a: object, axis: object, keepdims: bool) -> tuple[Tensor, Any, bool]:
    """Return the operand and arguments of a reduction; ``axis=()`` reduces a new axis of length 1.

    ``keepdims`` may be an integer, as in NumPy.
    """
    x = tensor(a)
    if isinstance(axis, (tuple, list)) and not axis:
        return ops.unsqueeze(x, 0), 0, False
    return x, axis, bool(keepdims) if isinstance(keepdims, int) else keepdims


def _among(x: Tensor, where: object, fill: object) -> Tensor:
    """Replace elements by ``fill`` where ``where`` is False."""
    return x if where is True else ops.where(tensor(where) != 0, x, tensors(x, fill)[1].astype(x.dtype))


def sum_(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Tensor:
    x, axis, keepdims = reduced(_among(tensor(a), where, 0), axis, keepdims)
    if dtype is None and x.array.dtype.kind in INEXACT:
        total = ops.sum(x, axis, keepdims)
    else:
        dtype = summed_dtype(x.dtype) if dtype is None else np.dtype(dtype)
        total = ops.sum(x.astype(dtype, copy=False), axis, keepdims).astype(dtype, copy=False)
    return total if initial is None else total + tensors(total, initial)[1]


def prod(
    a: object,
    axis: object = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: object = None,
    where: object = True,
) -> Tensor:
    x, axis, keepdims = reduced(_among(tensor(a), where, 1), axis, keepdims)
    dtype = summed_dtype(x.dtype) if dtype is None else np.dtype(dtype)
    x = x.astype(dtype, copy=False)
    if x.ndim == 0 or axis is None and not keepdims:
        x = ops.prod(x)
    else:
        for place in sorted(axes_of(x, axis), reverse=True):
            x = ops.prod(x, place, keepdims)
    x = x.astype(dtype, copy=False)
    return x if initial is None else x * tensors(x, initial)[1]


def _extreme(name: str) -> Callable[..., Tensor]:
    primitive, bound = (AMAX, ops.maximum) if name == "amax" else (AMIN, ops.minimum)

    def rule(a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True) -> Tensor:
        if where is not True and initial is None:
            raise ValueError("where= needs initial=, the result if no element is selected")
        x = tensor(a) if initial is None else _among(tensor(a), where, initial)
        x, axis, keepdims = reduced(x, axis, keepdims)
        dims = () if axis is None else axis
        if initial is not None and x.ndim:
            x = ops.cat([x, ops.full_like(x, initial)], axes_of(x, axis)[0])
        elif initial is not None:
            x = bound(x, initial)
        if x.dtype.kind == "c":  # ordered by the real parts, then by the imaginary parts
            return reduce_(primitive, x, dims, keepdims)
        return getattr(ops, name)(x, dims, keepdims)

    return rule


max_, min_ = _extreme("amax"), _extreme("amin")


def logsumexp(a: object, axis: object = None, keepdims: bool = False) -> Tensor:
    """The rule of ``np.logaddexp.reduce``."""
    x, axis, keepdims = reduced(a, axis, keepdims)
    return ops.logsumexp(x, axes_of(x, axis), keepdims)


def _mean(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, *, where: Any = True) -> Tensor:
    if where is not True:
        x = floating(tensor(a))
        counted = ops.broadcast_to(tensor(where) != 0, x.shape)
        return sum_(x, axis, dtype, keepdims, where=counted) / sum_(counted, axis, None, keepdims)
    x, axis, keepdims = reduced(a, axis, keepdims)
    return ops.mean(x if dtype is not None else floating(x), axis, keepdims, dtype=dtype)


def _average(
    a: object, axis: object = None, weights: object = None, returned: bool = False, *, keepdims: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    if weights is None:
        x = tensor(a)
        average = _mean(x, axis, keepdims=keepdims)
        total = ops.full_like(average, x.array.size / max(1, average.array.size))
    else:
        x, w = tensors(a, weights)
        dtype = common_dtype(
            (x.dtype, w.dtype) if x.dtype.kind in INEXACT else (x.dtype, w.dtype, np.dtype(np.float64))
        )
        x, w = x.astype(dtype, copy=False), w.astype(dtype, copy=False)
        w = _weights(w, x, axes_of(x, axis))
        total = sum_(w, axis, keepdims=keepdims)
        average = sum_(x * w, axis, keepdims=keepdims) / total
    return (average, total) if returned else average


def variance_of(
    x: Tensor, present: Any, axis: object, keepdims: bool, correction: float, mean: Any = None
) -> tuple[Tensor, Tensor]:
    """Return the sum of squared deviations from the mean, and its divisor, for elements where ``present`` is True."""
    axes = axes_of(x, axis)
    present = ops.broadcast_to(present, x.shape)
    if mean is None:
        mean = ops.sum(ops.where(present, x, 0), axes, True) / ops.clamp(ops.sum(present, axes, True), min=1)
    distance = ops.abs(ops.where(present, x - mean, 0))
    left = ops.sum(present, axes, keepdims) - correction
    total = ops.sum(distance * distance, axes, keepdims)
    return total, ops.where(left > 0, left, np.nan).astype(total.dtype)


def converted(x: Tensor, dtype: Any) -> Tensor:
    """Return the elements in the requested dtype."""
    if x.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        raise TypeError(f"dtype={np.dtype(dtype)} would drop the imaginary parts; take np.real or np.abs first")
    return x.astype(dtype)


def root(variance: Tensor) -> Tensor:
    """The square root, with the derivative 0 at 0."""
    constant = variance == 0
    return ops.where(constant, 0, ops.sqrt(ops.where(constant, 1, variance)))


def _deviation(name: str, ignore_nan: bool = False) -> Callable[..., Tensor]:
    def rule(
        a: object,
        axis: object = None,
        dtype: object = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: object = True,
        mean: object = None,
        correction: float | None = None,
    ) -> Tensor:
        x, axis, keepdims = reduced(a, axis, keepdims)
        x = floating(x) if dtype is None else converted(x, dtype)
        ddof = ddof if correction is None else correction
        if where is True and mean is None and not ignore_nan:
            return getattr(ops, name)(x, axis, correction=ddof, keepdim=keepdims)
        mean = None if mean is None else tensors(x, mean)[1]
        present = truth(where) & ~ops.isnan(x) if ignore_nan else truth(where)
        total, count = variance_of(x, present, axis, keepdims, ddof, mean)
        return total / count if name == "var" else root(total / count)

    return rule


_OURS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(percent: float, name: str = "quantile") -> Callable[..., Tensor]:
    def rule(
        a: object,
        q: object,
        axis: object = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: object = None,
    ) -> Tensor:
        x, axis, keepdims = reduced(a, axis, keepdims)
        x = floating(x)
        wanted = x.dtype
        if wanted.kind == "f" and np.ndim(
            unwrapped(q)
        ):  # levels in a list or an array are float64, while a single number is weak
            wanted = np.quantile(np.zeros(2, wanted), np.zeros(1), method=method).dtype  # type: ignore[call-overload]
        x = x.astype(np.float32 if wanted == np.float16 else wanted, copy=False)
        if name == "nanquantile":
            only(name, "method", method, *_OURS)
            only(name, "weights", weights, None)
        axes = axes_of(x, axis)
        levels = np.asarray(unwrapped(q), x.array.real.dtype) / percent
        rows, flat = _last(x, axes), levels.reshape(-1).astype(x.array.real.dtype)
        if weights is not None:
            only(name, "method", method, "inverted_cdf")
            result = _weighted(rows, _last(_weights(weights, x, axes), axes), flat)
        elif method in _OURS:
            result = getattr(ops, name)(rows, operand(flat), -1, interpolation=method)
        else:
            result = _by_place(rows, flat, method)
        kept = [1 if place in axes else length for place, length in enumerate(x.shape) if keepdims or place not in axes]
        return ops.reshape(result, [*levels.shape, *kept]).astype(wanted, copy=False)

    return rule


def _last(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    kept = [place for place in range(x.ndim) if place not in axes]
    return ops.reshape(ops.permute(x, (*kept, *axes)), [*(x.shape[place] for place in kept), -1])


def _weights(weights: object, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    w = floating(tensors(x, weights)[1])
    if w.shape != x.shape:
        w = ops.reshape(w, [length if place in axes else 1 for place, length in enumerate(x.shape)])
    return ops.broadcast_to(w, x.shape)


def _by_place(rows: Tensor, levels: Any, method: Any) -> Tensor:
    """Interpolate by one of NumPy's other methods: its quantiles of 0, 1, 2, ... are the positions to read at."""
    ordered = ops.sort(rows, -1).values
    places = np.quantile(np.arange(rows.shape[-1], dtype=np.float64), levels, method=method)
    low = np.floor(places).astype(int)
    below, above = ordered[..., low], ordered[..., np.minimum(low + 1, rows.shape[-1] - 1)]
    y = below + tensors(rows, (places - low).tolist())[1] * (above - below)
    return ops.movedim(ops.where(ops.isnan(ordered[..., -1:]), np.nan, y), -1, 0)


def _weighted(rows: Tensor, weights: Tensor, levels: Any) -> Tensor:
    """Return the first element at which the cumulative weight reaches the level."""
    order = ops.argsort(rows, -1)
    reached = array_module(weights).cumsum(ops.take_along_dim(weights, order, -1).array, -1)
    reached = reached / reached[..., -1:]
    reached[reached == 0] = -1  # elements of weight 0 are never chosen
    places = [ops.sum(new_tensor(reached < level), -1, True) for level in levels]
    found = [ops.take_along_dim(rows, ops.take_along_dim(order, place, -1), -1)[..., 0] for place in places]
    return ops.stack([ops.where(ops.any(ops.isnan(rows), -1), np.nan, y) for y in found])


def _median(a: object, axis: object = None, overwrite_input: bool = False, keepdims: bool = False) -> Tensor:
    """NumPy's median is the mean of the two middle elements; PyTorch's the lower one."""
    return quantile(1)(a, 0.5, axis, keepdims=keepdims)


def _variables(m: object, y: object, rowvar: bool) -> Tensor:
    given = [floating(x) for x in tensors(m, *[] if y is None else [y])]
    rows = [ops.atleast_2d(x if rowvar or x.ndim < 2 else ops.t(x)) for x in given]
    return _joined(rows) if len(rows) > 1 else in_double(given[0] if given[0].ndim < 2 else rows[0])


def _joined(rows: list[Tensor]) -> Tensor:
    return ops.cat([in_double(row) for row in rows])


def _cov(
    m: object, y: object = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Tensor:  # fmt: skip
    x = _variables(m, y, rowvar)
    x = x if dtype is None else x.astype(dtype)
    counts = None if fweights is None else tensor(fweights)
    weights = None if aweights is None else tensors(x, aweights)[1]
    return ops.cov(x, correction=(0 if bias else 1) if ddof is None else ddof, fweights=counts, aweights=weights)


def _corrcoef(x: object, y: object = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    rows = _variables(x, y, rowvar)
    return ops.corrcoef(rows if dtype is None else rows.astype(dtype))


RULES: Rules = {
    "sum": sum_,
    "mean": _mean,
    "average": _average,
    "prod": prod,
    "amax": _extreme("amax"),
    "amin": _extreme("amin"),
    "max": max_,
    "min": min_,
    "ptp": lambda a, axis=None, keepdims=False: max_(a, axis, keepdims) - min_(a, axis, keepdims),
    "var": _deviation("var"),
    "std": _deviation("std"),
    "median": _median,
    "quantile": quantile(1),
    "percentile": quantile(100),
    "cov": _cov,
    "corrcoef": _corrcoef,
}


# Statistics that ignore NaN


def _without_nan(a: object, fill: float) -> Tensor:
    x = tensor(a)
    return ops.where(ops.isnan(x), fill, x) if x.dtype.kind in INEXACT else x


def _nan_sum(a: object, axis: object = None, dtype: object = None, keepdims: bool = False, **among: object) -> Tensor:
    return sum_(_without_nan(a, 0), axis, dtype, keepdims, **among)


def _nan_prod(a: object, axis: object = None, dtype: object = None, keepdims: bool = False, **among: object) -> Tensor:
    return prod(_without_nan(a, 1), axis, dtype, keepdims, **among)


def _nan_mean(
    a: object, axis: object = None, dtype: object = None, keepdims: bool = False, *, where: object = True
) -> Tensor:
    x = floating(tensor(a))
    present = ops.broadcast_to(truth(where), x.shape) & ~ops.isnan(x)
    total = sum_(_without_nan(x, 0), axis, dtype, keepdims, where=present)
    return total / sum_(present, axis, None, keepdims).astype(total.dtype)


def _nan_extreme(extreme: Callable[..., Tensor], fill: float) -> Callable[..., Tensor]:
    def rule(a: object, axis: object = None, keepdims: bool = False, **among: object) -> Tensor:
        x = tensor(a)
        if x.dtype.kind not in INEXACT:
            return extreme(x, axis, keepdims, **among)
        missing = ops.isnan(x)
        result = extreme(ops.where(missing, fill, x), axis, keepdims, **among)
        if among.get("initial") is not None:
            return result
        x, axis, keepdims = reduced(missing, axis, keepdims)
        return ops.where(ops.all(x, axes_of(x, axis), keepdims), np.nan, result)

    return rule


def _nan_scan(name: str, fill: float) -> Callable[..., Tensor]:
    def rule(a: object, axis: int | None = None, dtype: object = None) -> Tensor:
        return scan(name)(_without_nan(a, fill), axis, dtype)

    return rule


def _nan_median(a: object, axis: object = None, overwrite_input: bool = False, keepdims: bool = False) -> Tensor:
    return quantile(1, "nanquantile")(a, 0.5, axis, keepdims=keepdims)


RULES |= {
    "nansum": _nan_sum,
    "nanmean": _nan_mean,
    "nanprod": _nan_prod,
    "nancumsum": _nan_scan("cumsum", 0),
    "nancumprod": _nan_scan("cumprod", 1),
    "nanvar": _deviation("var", True),
    "nanstd": _deviation("std", True),
    "nanmedian": _nan_median,
    "nanmax": _nan_extreme(max_, -np.inf),
    "nanmin": _nan_extreme(min_, np.inf),
    "nanquantile": quantile(1, "nanquantile"),
    "nanpercentile": quantile(100, "nanquantile"),
}
