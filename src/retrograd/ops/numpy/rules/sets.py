"""NumPy's set functions. Their results are selected elements, through which gradients flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...._generated import toplevel as ops
from ....core.arrays.devices import array_module
from ....core.tensor.tensor import Tensor
from ..arguments import Rules, alike, only, tensor, tensors, wrapped
from .selection import take


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


RULES: Rules = {
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
