"""Indices of nonzero elements, coordinates of flat positions, and membership."""

from __future__ import annotations

from math import prod

import numpy as np

from ...core.arrays.devices import all_examples, array_module, extent, is_array
from ...core.arrays.dtypes import promote_types
from ...core.errors import InvalidValue, describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor, new_tensor
from ..reduce.searching import nonzero
from ..table.arguments import integer, integers
from ..table.batching import called_per_example
from ..table.registry import operator
from ..table.types import Operand, Size


@operator(differentiable=False, reads_elements=True)
@called_per_example
def argwhere(input: Tensor) -> Tensor:
    """The indices of the nonzero elements, one row per element, in row-major order: ``nonzero(input)``.

    Shape: any to ``(count, ndim)``.
    Dtype: any; the result is int64.

    >>> rg.argwhere(rg.tensor([[0, 2], [3, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    return nonzero(input)


@operator(differentiable=False, like=argwhere)
@called_per_example
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first ``size`` rows of ``nonzero(input)``, padded with ``fill_value``.

    Shape: any to ``(size, ndim)``.

    Args:
        size: the number of rows.
        fill_value: the value of rows beyond the last nonzero element.

    Raises:
        RuntimeError: ``size`` is negative.

    >>> rg.nonzero_static(rg.tensor([1, 0, 2]), size=3)
    tensor([[ 0],
            [ 2],
            [-1]])
    """
    if integer(size, "size") < 0:
        raise RuntimeError(f"size must not be negative, got {size}")
    found = nonzero(input).array[:size]
    rows = array_module(found).full((size, found.shape[1]), integer(fill_value, "fill_value"), dtype=np.int64)
    rows[: len(found)] = found
    return new_tensor(rows)


@operator(method=False, differentiable=False)
def unravel_index(indices: Tensor, shape: Size) -> tuple[Tensor, ...]:
    """``(indices // stride_d) % shape_d``, a Tensor per dimension: coordinates of positions in a flattened Tensor.

    Shape: any; each result has the shape of ``indices``.
    Dtype: integers; the results have the dtype of ``indices``.

    Args:
        indices: positions in row-major order, from 0 to the number of elements - 1; negative positions count from the
            end.
        shape: the lengths of the dimensions.

    Returns: a tuple with one Tensor per dimension of ``shape``.

    Raises:
        TypeError: the indices or the lengths are not integers.
        ValueError: a length is negative, or a position is out of range.

    >>> rg.unravel_index(rg.tensor([5, 0]), (2, 3))
    (tensor([1, 0]), tensor([2, 0]))
    """
    places = operand(indices, "indices").array
    if places.dtype.kind not in "iu":
        raise TypeError(f"expected 'indices' to be integers, got {describe(places)}")
    for length in shape if isinstance(shape, (tuple, list)) else (shape,):
        if not isinstance(length, (int, np.integer)):
            raise TypeError(f"expected 'shape' to be an int or a sequence of ints, got {describe(shape)}")
    lengths = integers((shape,), "shape")
    if any(length < 0 for length in lengths):
        raise InvalidValue(f"the lengths of 'shape' must not be negative, got {lengths}")
    size = prod(lengths)
    if all_examples(places).size and not -size <= extent(places)[0] <= extent(places)[1] < size:
        raise InvalidValue(f"positions must lie in [{-size}, {size}) for shape {lengths}, got {describe(places)}")
    rest = np.where(places < 0, places + size, places)
    coordinates = []
    for length in reversed(lengths):
        length = max(length, 1)
        coordinates.append(new_tensor(array_module(places).asarray(rest % length, dtype=places.dtype)))
        rest = rest // length
    return tuple(reversed(coordinates))


@operator(method=False, differentiable=False, real=True)
@called_per_example
def isin(elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each of ``elements`` is in ``test_elements``; NaN never is.

    Shape: any; the result has the shape of ``elements``.
    Dtype: any but complex, compared in the common dtype; the result is bool.

    Args:
        elements: a Tensor or a number.
        test_elements: a Tensor or a number; at least one of the two arguments must be a Tensor.
        assume_unique: accepted for compatibility; it does not affect the result.
        invert: return whether elements are *not* in ``test_elements``.

    Raises:
        TypeError: both arguments are numbers.

    >>> rg.isin(rg.tensor([[1, 2], [3, 4]]), rg.tensor([2, 3]))
    tensor([[False,  True],
            [ True, False]])
    """
    if not any(isinstance(value, Tensor) or is_array(value) for value in (elements, test_elements)):
        raise TypeError("one of elements and test_elements must be a Tensor")
    x, y = operand(elements, "elements").array, operand(test_elements, "test_elements").array
    dtype, xp = promote_types(x.dtype, y.dtype), array_module(x if isinstance(elements, Tensor) else y)
    return new_tensor(xp.asarray(xp.isin(x.astype(dtype, copy=False), y.astype(dtype, copy=False), invert=invert)))
