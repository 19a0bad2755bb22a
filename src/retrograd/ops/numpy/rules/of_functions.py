"""NumPy's functions that call a user's function on parts of an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...._generated import toplevel as ops
from ....core.tensor.tensor import Tensor
from ...table.arguments import dimension
from ..arguments import Arrays, Rules, axes_of, tensor


def _apply_along_axis(func1d: Callable[..., object], axis: int, arr: object, *args: object, **kwargs: object) -> Tensor:
    x = tensor(arr)
    place = dimension(axis, x.ndim)
    lines = ops.movedim(x, place, -1)
    kept = lines.shape[:-1]
    if 0 in kept:
        raise ValueError(f"the function cannot be called: shape {tuple(x.shape)} has no lines along axis {axis}")
    results = ops.stack([tensor(func1d(line, *args, **kwargs)) for line in ops.reshape(lines, (-1, lines.shape[-1]))])
    one = results.ndim - 1
    results = ops.reshape(results, (*kept, *results.shape[1:]))
    return ops.movedim(results, [len(kept) + i for i in range(one)], [place + i for i in range(one)])


def _apply_over_axes(func: Callable[..., object], a: object, axes: object) -> Tensor:
    x = tensor(a)
    for axis in axes_of(x, axes):
        result = tensor(func(x, axis))
        x = result if result.ndim == x.ndim else ops.unsqueeze(result, axis)
    return x


def _piecewise(x: object, condlist: object, funclist: Sequence[object], *args: object, **kw: object) -> Tensor:
    points = tensor(x)
    conditions: Arrays = condlist if isinstance(condlist, (list, tuple)) else [condlist]
    if not any(np.ndim(condition) for condition in conditions) and points.ndim:
        conditions = [conditions]
    masks = [ops.broadcast_to(tensor(condition) != 0, points.shape) for condition in conditions]
    if len(funclist) == len(masks) + 1:
        masks = [*masks, ~ops.any(ops.stack(masks), 0)]
    elif len(funclist) != len(masks):
        raise ValueError(f"expected {len(masks)} or {len(masks) + 1} functions for the conditions, got {len(funclist)}")
    y = ops.zeros_like(points)
    for mask, function in zip(masks, funclist, strict=True):
        chosen = points[mask]
        if callable(function):
            values = tensor(function(chosen, *args, **kw)) if len(chosen) else chosen
        else:
            values = tensor(function)
        y = ops.masked_scatter(y, mask, ops.broadcast_to(values.astype(y.dtype), chosen.shape))
    return y


RULES: Rules = {"apply_along_axis": _apply_along_axis, "apply_over_axes": _apply_over_axes, "piecewise": _piecewise}
