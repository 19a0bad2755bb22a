"""Reads at positions along a dimension, at positions of the flattened Tensor, and under masks."""

from __future__ import annotations

import numpy as np

from ...core.errors import describe
from ...core.graph.primitive import apply, operand
from ...core.tensor.storage import storage_of
from ...core.tensor.tensor import Tensor
from ..shape.expansion import expand
from ..shape.shape import flatten, reshape
from ..table.arguments import dimension
from ..table.registry import operator
from .indexing import Index, reading
from .positions import along, bool_mask, check_range, mask_index, mesh, positions, vector

GATHER, INDEX_SELECT, TAKE, TAKE_ALONG_DIM = map(reading, ("gather", "index_select", "take", "take_along_dim"))
MASKED_SELECT = reading("masked_select", shaped=False)


@operator(derivative="added at positions", args="index from 0")
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """``out[i, j, k] = input[i, index[i, j, k], k]`` for dimension 1 of three: elements selected along a dimension.

    Shape: the index has as many dimensions as the input, and is not longer except in ``dim``; the result has
    the shape of the index. A 0-d Tensor counts as a vector of one element; an empty index may have any shape.

    Args:
        sparse_grad: accepted for compatibility; gradients are dense.

    Raises:
        RuntimeError: the index has a wrong shape or is out of range.

    >>> rg.gather(rg.tensor([[1, 2], [3, 4]]), 1, rg.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    x = operand(input)
    shape = index.array.shape if isinstance(index, Tensor) else np.shape(index)
    x, place, index = along(x, dim, index)
    found = apply(GATHER, (x,), {"index": place})
    return found if found.array.shape == shape else reshape(found, shape)


@operator(derivative="added at positions")
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """``gather`` where input and indices broadcast against each other; without ``dim``, from the flattened input.

    Shape: input and indices have the same number of dimensions and broadcast except along ``dim``, where the result has
    the length of the indices.

    Args:
        indices: int64; negative ones count from the end.
        dim: the dimension; None flattens input and indices.

    Raises:
        RuntimeError: the shapes do not broadcast, or the indices are not int64.
        IndexError: ``dim`` or an index is out of range.

    >>> x = rg.tensor([[3, 1], [2, 4]])
    >>> rg.take_along_dim(x, rg.argsort(x, 1), 1)
    tensor([[1, 3],
            [2, 4]])
    """
    x, index = operand(input), operand(indices, "indices")
    if dim is None:
        x, index, dim = flatten(x), flatten(index), 0
    place = dimension(dim, x.array.ndim)
    index = positions(index, x)
    if index.array.dtype.itemsize != 8:
        raise RuntimeError(f"indices must be int64, got {describe(index)}")
    own, shape = list(x.array.shape), list(index.array.shape)
    if len(own) != len(shape):
        raise RuntimeError(f"input {describe(x)} and indices {describe(index)} have different numbers of dimensions")
    for d, (length, other) in enumerate(zip(x.array.shape, index.array.shape)):
        if d != place:
            if length != other and 1 not in (length, other):
                raise RuntimeError(f"input {describe(x)} and indices {describe(index)} do not broadcast")
            own[d] = shape[d] = other if length == 1 else length
    lane = place if check_range(index, -own[place], own[place], place, x) else None
    x, index = _broadcast(x, own), _broadcast(index, shape)
    return apply(TAKE_ALONG_DIM, (x,), {"index": mesh(index, place, lane)})


def _broadcast(x: Tensor, shape: list[int]) -> Tensor:
    return x if x.array.shape == tuple(shape) else expand(x, shape)


@operator(derivative="added at positions", args="index vector")
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """``out[.., i, ..] = input[.., index[i], ..]``: slices along a dimension, copied.

    Shape: (*, n, *) to (*, len(index), *).

    Raises:
        IndexError: a position is negative or too large, or the index is not a vector.
        RuntimeError: the index does not hold integers, or the input has no elements and a position is out of range.

    >>> rg.index_select(rg.tensor([[1, 2], [3, 4]]), 1, rg.tensor([1, 1]))
    tensor([[2, 2],
            [4, 4]])
    """
    x = operand(input)
    if not x.array.ndim:
        return reshape(index_select(reshape(x, (1,)), dim, index), ())
    error = IndexError if x.array.size else RuntimeError  # PyTorch raises RuntimeError for an input without elements
    return apply(INDEX_SELECT, (x,), {"index": vector(x, dim, index, error=error)[0]})


@operator(raises="position", derivative="added at positions", args="index signed")
def take(input: Tensor, index: Tensor) -> Tensor:
    """``out = input.ravel()[index]``.

    Shape: any; the result has the index's shape.

    Raises:
        RuntimeError: the index does not hold integers.

    >>> rg.take(rg.tensor([[1, 2], [3, 4]]), rg.tensor([0, -1]))
    tensor([1, 4])
    """
    x = operand(input)
    index = positions(index, x)
    size = x.array.size
    check_range(index, -size, size, 0, x)
    if not index.array.ndim:
        return reshape(take(x, reshape(index, (1,))), ())
    return apply(TAKE, (flatten(x),), {"index": Index((index.array,), (storage_of(index),))})


@operator(reads_elements=True)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """``input[mask]``: the elements where the mask is True, in row-major order.

    Derivative: ``g`` where the mask is True, 0 elsewhere.
    Shape: input and mask broadcast; the result is a vector.

    Raises:
        RuntimeError: the mask is not bool, or the shapes do not broadcast.

    >>> rg.masked_select(rg.tensor([1, 2, 3]), rg.tensor([True, False, True]))
    tensor([1, 3])
    """
    x, index = mask_index(operand(input), bool_mask(mask))
    return apply(MASKED_SELECT, (x,), {"index": index})
