"""NumPy's statistics that leave NaN out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._generated import toplevel as ops
from ...core.tensor import Tensor
from . import statistics
from .arguments import Rules, axes_of, floating, tensor
from .mathematics import scan


def _nan_sum(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    x, axis, keepdims = statistics.reduced(a, axis, keepdims)
    return ops.nansum(x, axis, keepdims, dtype=dtype)


def _nan_mean(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    x, axis, keepdims = statistics.reduced(a, axis, keepdims)
    return ops.nanmean(x if dtype is not None else floating(x), axis, keepdims, dtype=dtype)


def _nan_extreme(extreme: Callable[..., Tensor], fill: float) -> Callable[..., Tensor]:
    def rule(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
        x, axis, keepdims = statistics.reduced(a, axis, keepdims)
        if x.dtype.kind not in "fc":
            return extreme(x, axis, keepdims)
        missing = ops.isnan(x)
        result = extreme(ops.where(missing, fill, x), axis, keepdims)
        return ops.where(ops.all(missing, axes_of(x, axis), keepdims), np.nan, result)

    return rule


def _without_nan(a: Any, fill: float) -> Tensor:
    x = tensor(a)
    return ops.where(ops.isnan(x), fill, x) if x.dtype.kind in "fc" else x


def _nan_prod(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    return statistics.prod(_without_nan(a, 1), axis, dtype, keepdims)


def _nan_scan(name: str, fill: float) -> Callable[..., Tensor]:
    def rule(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
        return scan(name)(_without_nan(a, fill), axis, dtype)

    return rule


def _nan_var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    x, axis, keepdims = statistics.reduced(a, axis, keepdims)
    x = floating(x) if dtype is None else x.astype(dtype)
    axes = axes_of(x, axis)
    present = ~ops.isnan(x)
    count = ops.sum(present, axes, True)
    mean = ops.sum(ops.where(present, x, 0), axes, True) / ops.clamp(count, min=1)
    distance = ops.abs(ops.where(present, x - mean, 0))
    left = ops.sum(present, axes, keepdims) - (ddof if correction is None else correction)
    total = ops.sum(distance * distance, axes, keepdims)
    return (total / ops.where(left > 0, left, np.nan)).astype(total.dtype)


def _nan_std(a: Any, *args: Any, **options: Any) -> Tensor:
    variance = _nan_var(a, *args, **options)
    constant = variance == 0
    return ops.where(constant, 0, ops.sqrt(ops.where(constant, 1, variance)))


def _nan_median(
    a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Tensor:
    return statistics.quantile(1, "nanquantile")(a, 0.5, axis, keepdims=keepdims)


RULES: Rules = {
    "nansum": _nan_sum,
    "nanmean": _nan_mean,
    "nanprod": _nan_prod,
    "nancumsum": _nan_scan("cumsum", 0),
    "nancumprod": _nan_scan("cumprod", 1),
    "nanvar": _nan_var,
    "nanstd": _nan_std,
    "nanmedian": _nan_median,
    "nanmax": _nan_extreme(statistics.max_, -np.inf),
    "nanmin": _nan_extreme(statistics.min_, np.inf),
    "nanquantile": statistics.quantile(1, "nanquantile"),
    "nanpercentile": statistics.quantile(100, "nanquantile"),
}
