"""NumPy's functions that choose elements: by conditions, at positions, or all but some."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._generated import toplevel as ops
from ...core.tensor import Tensor
from ..table.arguments import dimension
from .arguments import Arrays, Rules, flat, tensor, tensors, unwrapped


def _where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    if x is None and y is None:
        return ops.nonzero(tensor(condition), as_tuple=True)
    return ops.where(tensor(condition), *tensors(x, y))


def _select(condlist: Arrays, choicelist: Arrays, default: Any = 0) -> Any:
    *choices, result = tensors(*choicelist, default)
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        result = ops.where(tensor(condition), choice, result)
    return result


def take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Tensor:
    x, dim = flat(a, axis)
    dim = dimension(dim, x.ndim)
    index = np.asarray(indices) if isinstance(indices, (list, tuple)) else indices
    if mode != "raise":
        length = x.shape[dim]
        index = index % length if mode == "wrap" else np.clip(index, 0, length - 1)
    return x[(slice(None),) * dim + (index,)]


def _delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    x, dim = flat(arr, axis)
    return take(x, np.delete(np.arange(x.shape[dim]), unwrapped(obj)), dim)


RULES: Rules = {
    "where": _where,
    "select": _select,
    "take": take,
    "take_along_axis": lambda arr, indices, axis=-1: ops.take_along_dim(
        tensor(arr), tensor(indices).to(np.int64), axis
    ),
    "delete": _delete,
    "compress": lambda condition, a, axis=None: take(a, np.flatnonzero(unwrapped(condition)), axis),
}
