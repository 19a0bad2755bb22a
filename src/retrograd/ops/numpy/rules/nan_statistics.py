"""NumPy's statistics that ignore NaN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...._generated import toplevel as ops
from ....core.arrays.dtypes import INEXACT
from ....core.tensor.tensor import Tensor
from ..arguments import Rules, axes_of, floating, tensor, tensors
from . import statistics
from .mathematics import scan
from .selection import truth


def _without_nan(a: object, fill: float) -> Tensor:
    x = tensor(a)
    return ops.where(ops.isnan(x), fill, x) if x.dtype.kind in INEXACT else x


def _nan_sum(a: object, axis: object = None, dtype: object = None, keepdims: bool = False, **among: object) -> Tensor:
    return statistics.sum_(_without_nan(a, 0), axis, dtype, keepdims, **among)


def _nan_prod(a: object, axis: object = None, dtype: object = None, keepdims: bool = False, **among: object) -> Tensor:
    return statistics.prod(_without_nan(a, 1), axis, dtype, keepdims, **among)


def _nan_mean(
    a: object, axis: object = None, dtype: object = None, keepdims: bool = False, *, where: object = True
) -> Tensor:
    x = floating(tensor(a))
    present = ops.broadcast_to(truth(where), x.shape) & ~ops.isnan(x)
    total = statistics.sum_(_without_nan(x, 0), axis, dtype, keepdims, where=present)
    return total / statistics.sum_(present, axis, None, keepdims).astype(total.dtype)


def _nan_extreme(extreme: Callable[..., Tensor], fill: float) -> Callable[..., Tensor]:
    def rule(a: object, axis: object = None, keepdims: bool = False, **among: object) -> Tensor:
        x = tensor(a)
        if x.dtype.kind not in INEXACT:
            return extreme(x, axis, keepdims, **among)
        missing = ops.isnan(x)
        result = extreme(ops.where(missing, fill, x), axis, keepdims, **among)
        if among.get("initial") is not None:
            return result
        x, axis, keepdims = statistics.reduced(missing, axis, keepdims)
        return ops.where(ops.all(x, axes_of(x, axis), keepdims), np.nan, result)

    return rule


def _nan_scan(name: str, fill: float) -> Callable[..., Tensor]:
    def rule(a: object, axis: int | None = None, dtype: object = None) -> Tensor:
        return scan(name)(_without_nan(a, fill), axis, dtype)

    return rule


def _nan_var(
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
    x, axis, keepdims = statistics.reduced(a, axis, keepdims)
    x = floating(x) if dtype is None else statistics.converted(x, dtype)
    mean = None if mean is None else tensors(x, mean)[1]
    present = truth(where) & ~ops.isnan(x)
    total, count = statistics.variance_of(x, present, axis, keepdims, ddof if correction is None else correction, mean)
    return total / count


def _nan_median(a: object, axis: object = None, overwrite_input: bool = False, keepdims: bool = False) -> Tensor:
    return statistics.quantile(1, "nanquantile")(a, 0.5, axis, keepdims=keepdims)


RULES: Rules = {
    "nansum": _nan_sum,
    "nanmean": _nan_mean,
    "nanprod": _nan_prod,
    "nancumsum": _nan_scan("cumsum", 0),
    "nancumprod": _nan_scan("cumprod", 1),
    "nanvar": _nan_var,
    "nanstd": lambda a, *args, **options: statistics.root(_nan_var(a, *args, **options)),
    "nanmedian": _nan_median,
    "nanmax": _nan_extreme(statistics.max_, -np.inf),
    "nanmin": _nan_extreme(statistics.min_, np.inf),
    "nanquantile": statistics.quantile(1, "nanquantile"),
    "nanpercentile": statistics.quantile(100, "nanquantile"),
}
