"""Sums, extremes and statistics of NumPy, which reduce axes: also none, for ``axis=()``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._generated import toplevel as ops
from ...core.primitive import operand
from ...core.tensor import Tensor
from ..reduce.common import reduce_
from ..reduce.extremes import AMAX, AMIN
from .arguments import Rules, axes_of, floating, only, tensor, tensors, unwrapped


def reduced(a: Any, axis: Any, keepdims: bool) -> tuple[Tensor, Any, bool]:
    """What to reduce, and how: for ``axis=()``, which reduces nothing, a new axis of length 1."""
    x = tensor(a)
    if isinstance(axis, (tuple, list)) and not axis:
        return ops.unsqueeze(x, 0), 0, False
    return x, axis, keepdims


def _among(x: Tensor, where: Any, fill: Any) -> Tensor:
    """The elements that count, with ``fill`` for the others."""
    return x if where is True else ops.where(tensor(where) != 0, x, tensors(x, fill)[1].astype(x.dtype))


def sum_(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Tensor:
    x, axis, keepdims = reduced(_among(tensor(a), where, 0), axis, keepdims)
    total = ops.sum(x, axis, keepdims, dtype=dtype)
    return total if initial is None else total + tensors(total, initial)[1]


def prod(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Tensor:
    x, axis, keepdims = reduced(_among(tensor(a), where, 1), axis, keepdims)
    if dtype is not None:
        x = x.astype(dtype)
    if x.ndim == 0 or axis is None and not keepdims:
        x = ops.prod(x)
    else:
        for place in sorted(axes_of(x, axis), reverse=True):
            x = ops.prod(x, place, keepdims)
    return x if initial is None else x * tensors(x, initial)[1]


def _extreme(name: str) -> Callable[..., Tensor]:
    primitive, bound = (AMAX, ops.maximum) if name == "amax" else (AMIN, ops.minimum)

    def rule(a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True) -> Tensor:
        if where is not True and initial is None:
            raise ValueError("where= needs initial=, the result where nothing counts")
        x = tensor(a) if initial is None else _among(tensor(a), where, initial)
        x, axis, keepdims = reduced(x, axis, keepdims)
        dims = () if axis is None else axis
        if x.dtype.kind == "c":  # ordered by the real parts, then by the imaginary ones
            return reduce_(primitive, x, dims, keepdims)
        if initial is not None:
            x = ops.cat([x, ops.full_like(x, initial)], axes_of(x, axis)[0]) if x.ndim else bound(x, initial)
        return getattr(ops, name)(x, dims, keepdims)

    return rule


max_, min_ = _extreme("amax"), _extreme("amin")


def _ptp(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return max_(a, axis, keepdims) - min_(a, axis, keepdims)


def logsumexp(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """What ``np.logaddexp.reduce`` computes."""
    x, axis, keepdims = reduced(a, axis, keepdims)
    return ops.logsumexp(x, axes_of(x, axis), keepdims)


def _mean(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, *, where: Any = True) -> Tensor:
    if where is not True:
        x = floating(tensor(a))
        counted = ops.broadcast_to(tensor(where) != 0, x.shape)
        return sum_(x, axis, dtype, keepdims, where=counted) / sum_(counted, axis, None, keepdims)
    x, axis, keepdims = reduced(a, axis, keepdims)
    return ops.mean(x if dtype is not None else floating(x), axis, keepdims, dtype=dtype)


def _average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    if weights is None:
        x = tensor(a)
        average = _mean(x, axis, keepdims=keepdims)
        total = ops.full_like(average, x.array.size / max(1, average.array.size))
    else:
        x, w = map(floating, tensors(a, weights))
        if w.shape != x.shape:
            places = axes_of(x, axis)
            w = ops.reshape(w, [length if place in places else 1 for place, length in enumerate(x.shape)])
            w = ops.broadcast_to(w, x.shape)
        total = sum_(w, axis, keepdims=keepdims)
        average = sum_(x * w, axis, keepdims=keepdims) / total
    return (average, total) if returned else average


def _deviation(name: str) -> Callable[..., Tensor]:
    def rule(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        mean: Any = None,
        correction: float | None = None,
    ) -> Tensor:
        only(name, "mean", mean, None)
        x, axis, keepdims = reduced(a, axis, keepdims)
        x = floating(x) if dtype is None else x.astype(dtype)
        return getattr(ops, name)(x, axis, correction=ddof if correction is None else correction, keepdim=keepdims)

    return rule


def quantile(percent: float, name: str = "quantile") -> Callable[..., Tensor]:
    def rule(
        a: Any,
        q: Any,
        axis: Any = None,
        out: None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
    ) -> Tensor:
        x, axis, keepdims = reduced(a, axis, keepdims)
        x = floating(x)
        axes = axes_of(x, axis)
        kept = [place for place in range(x.ndim) if place not in axes]
        # One last dimension of everything that is reduced.
        merged = ops.reshape(ops.permute(x, (*kept, *axes)), [*(x.shape[place] for place in kept), -1])
        levels = np.asarray(unwrapped(q), x.dtype) / percent
        result = getattr(ops, name)(merged, operand(levels.astype(x.dtype)), -1, interpolation=method)
        if keepdims:
            shape = [1 if place in axes else length for place, length in enumerate(x.shape)]
            result = ops.reshape(result, [*levels.shape, *shape])
        return result

    return rule


def _median(
    a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Tensor:
    """NumPy's median is the mean of the two middle elements; PyTorch's the lower one."""
    return quantile(1)(a, 0.5, axis, keepdims=keepdims)


def _variables(m: Any, y: Any, rowvar: bool) -> Tensor:
    """The variables of ``m`` and then of ``y`` as rows."""
    given = [floating(x) for x in tensors(m, *[] if y is None else [y])]
    rows = [ops.atleast_2d(x if rowvar or x.ndim < 2 else ops.t(x)) for x in given]
    return ops.cat(rows) if len(rows) > 1 else given[0] if given[0].ndim < 2 else rows[0]


def _cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, **weights: Any) -> Tensor:
    x = _variables(m, y, rowvar)
    return ops.cov(x, correction=(0 if bias else 1) if ddof is None else ddof, **weights)


def _corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Tensor:
    return ops.corrcoef(_variables(x, y, rowvar))


RULES: Rules = {
    "sum": sum_,
    "mean": _mean,
    "average": _average,
    "prod": prod,
    "amax": _extreme("amax"),
    "amin": _extreme("amin"),
    "max": max_,
    "min": min_,
    "ptp": _ptp,
    "var": _deviation("var"),
    "std": _deviation("std"),
    "median": _median,
    "quantile": quantile(1),
    "percentile": quantile(100),
    "cov": _cov,
    "corrcoef": _corrcoef,
}
