"""NumPy's functions that select or delete elements by conditions or positions, and NumPy's set functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...._generated import toplevel as ops
from ....core.arrays.devices import array_module
from ....core.tensor.tensor import Tensor
from ...table.arguments import dimension
from ..arguments import Arrays, Rules, alike, flat, only, tensor, tensors, unwrapped, wrapped


def truth(condition: object) -> Tensor:
    """Return a condition as bools: nonzero numbers are True."""
    x = tensor(condition)
    return x if x.dtype.kind == "b" else x != 0


def _where(condition: object, x: object = None, y: object = None, /) -> Any:
    if x is None and y is None:
        return ops.nonzero(tensor(condition), as_tuple=True)
    chosen = truth(condition)
    return ops.where(chosen, *alike(x, y, beside=chosen))


def _select(condlist: Arrays, choicelist: Arrays, default: object = 0) -> Any:
    conditions = [truth(condition) for condition in condlist]
    *choices, result = alike(*choicelist, default, beside=conditions[0] if conditions else None)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = ops.where(condition, choice, result)
    return result


def take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Tensor:
    x, dim = flat(a, axis)
    dim = dimension(dim, x.ndim)
    index = np.asarray(indices) if isinstance(indices, (list, tuple)) else indices
    if mode != "raise":
        length = x.shape[dim]
        index = index % length if mode == "wrap" else np.clip(index, 0, length - 1)
    return x[(slice(None),) * dim + (index,)]


def _delete(arr: object, obj: object, axis: int | None = None) -> Tensor:
    x, dim = flat(arr, axis)
    return take(x, np.delete(np.arange(x.shape[dim]), unwrapped(obj)), dim)


def _insert(arr: object, obj: object, values: object, axis: int | None = None) -> Tensor:
    x, new = tensors(arr, values)
    x, dim = flat(x, axis)
    dim = dimension(dim, x.ndim)
    length = x.shape[dim]
    index = np.arange(*obj.indices(length)) if isinstance(obj, slice) else np.asarray(unwrapped(obj))
    if index.dtype == bool:
        index = np.flatnonzero(index)
    new = ops.reshape(new.astype(x.dtype), (1,) * (x.ndim - new.ndim) + tuple(new.shape))
    if index.ndim == 0:
        new = ops.movedim(new, 0, dim)
    count = new.shape[dim] if index.size == 1 else index.size
    new = ops.broadcast_to(new, [count if place == dim else size for place, size in enumerate(x.shape)])
    order = np.insert(np.arange(length), index, np.arange(length, length + count))
    return take(ops.cat([x, new], dim), order, dim)


def _extract(condition: object, arr: object) -> Tensor:
    x = flat(arr, None)[0]
    return take(x, np.flatnonzero(unwrapped(condition)), 0)


def _choose(a: Any, choices: Any, mode: str = "raise") -> Tensor:
    given = ops.broadcast_tensors(tensor(a), *alike(*choices))
    which, count = given[0], len(given) - 1
    if mode == "raise" and bool(((which.array < 0) | (which.array >= count)).any()):
        raise ValueError(f"an index is out of range for {count} choices")
    if mode != "raise":
        which = ops.remainder(which, count) if mode == "wrap" else ops.clamp(which, 0, count - 1)
    return ops.take_along_dim(ops.stack(given[1:]), ops.unsqueeze(which, 0).astype(np.int64), 0)[0]


RULES: Rules = {
    "insert": _insert,
    "extract": _extract,
    "choose": _choose,
    "where": _where,
    "select": _select,
    "take": take,
    "take_along_axis": lambda arr, indices, axis=-1: ops.take_along_dim(
        tensor(arr), tensor(indices).to(np.int64), axis
    ),
    "delete": _delete,
    "compress": lambda condition, a, axis=None: take(a, np.flatnonzero(unwrapped(condition)), axis),
}


# Sets. Their results are selected elements, through which gradients flow.


def _unique(
    ar: object,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    **options: object,
) -> Any:
    x = tensor(ar)
    _, index, *rest = array_module(x).unique(x.array, True, return_inverse, return_counts, axis=axis, **options)
    values = take(x, index, axis)
    given = ([wrapped(index)] if return_index else []) + [wrapped(value) for value in rest]
    return (values, *given) if given else values


def _unique_results(name: str) -> Callable[..., Any]:
    """Define ``unique_all`` etc., which return named tuples."""

    def rule(x: object, /) -> Any:
        results = getattr(array_module(tensor(x)), name)(tensor(x).array)
        return type(results)(_unique(x, equal_nan=False), *map(wrapped, results[1:]))

    return rule


def _members(x: Tensor, of: Tensor, invert: bool = False) -> Tensor:
    return x[array_module(x).isin(x.array, of.array, invert=invert)]


def _distinct(*arrays: object, unique_already: bool = False) -> list[Tensor]:
    return [ops.reshape(x, (-1,)) if unique_already else _unique(x) for x in alike(*arrays)]


def _intersect1d(ar1: object, ar2: object, assume_unique: bool = False, return_indices: bool = False) -> Tensor:
    only("intersect1d", "return_indices", return_indices, False)
    x, y = _distinct(ar1, ar2, unique_already=assume_unique)
    return ops.sort(_members(x, y)).values


def _setdiff1d(ar1: object, ar2: object, assume_unique: bool = False) -> Tensor:
    x, y = tensors(ar1, ar2)
    return _members(ops.reshape(x, (-1,)) if assume_unique else _unique(x), y, invert=True)


def _setxor1d(ar1: object, ar2: object, assume_unique: bool = False) -> Tensor:
    x, y = _distinct(ar1, ar2, unique_already=assume_unique)
    return ops.sort(ops.cat([_members(x, y, invert=True), _members(y, x, invert=True)])).values


RULES |= {
    "unique": _unique,
    "unique_values": lambda x, /: _unique(x, equal_nan=False),
    "unique_all": _unique_results("unique_all"),
    "unique_counts": _unique_results("unique_counts"),
    "unique_inverse": _unique_results("unique_inverse"),
    "intersect1d": _intersect1d,
    "setdiff1d": _setdiff1d,
    "setxor1d": _setxor1d,
    "union1d": lambda ar1, ar2: _unique(ops.cat([ops.reshape(x, (-1,)) for x in alike(ar1, ar2)])),
}
