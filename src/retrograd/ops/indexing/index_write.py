"""Writes at vectors of positions, at any index, at positions of the flattened Tensor, and under masks.

If several values are written to one position, the last one remains, and only it gets the gradient. Added values are
summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...core.arrays.devices import all_examples, array_module
from ...core.arrays.python_numbers import converted
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor, new_tensor
from ..shape.shape import flatten, reshape
from ..shape.views import narrow
from ..table.arguments import dimension, number
from ..table.registry import operator
from ..table.types import Number, Operand
from .indexing import Index, adding, index_of, setting
from .positions import bool_mask, check_range, mask_index, positions, same_dtype, vector
from .selection import where
from .writing import Write, check_range_of_value, in_place, refuse_filling_bytes, result, written_value

INDEX_FILL, INDEX_PUT, PUT = (setting(name) for name in ("index_fill", "index_put", "put"))
INDEX_PUT_ADD, PUT_ADD = (adding(name) for name in ("index_put", "put"))
# As in PyTorch, the results of these three operators are in row-major order.
INDEX_COPY, MASKED_SCATTER = (setting(name, contiguous=True) for name in ("index_copy", "masked_scatter"))
INDEX_ADD = adding("index_add", contiguous=True)


def _index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Write:
    x = operand(input)
    source, place = _slices(x, dim, index, source, RuntimeError)
    factor = converted(alpha, x.array.dtype)
    return Write(INDEX_ADD, x, source if factor == 1 else source * factor, {"index": _or_whole(place, x)})


def _or_whole(index: Index, x: Tensor, count: int = 1) -> Index:
    """Return the index; for a 0-d Tensor an index of its only element, or of no element if ``count`` is 0."""
    if x.array.ndim:
        return index
    return Index((Ellipsis,)) if count else Index((array_module(x).zeros((), np.bool_),))


def _slices(x: Tensor, dim: int, index: Operand, source: Operand, error: type[Exception]) -> tuple[Tensor, Index]:
    """Return the source, which must have one slice of x's shape per position, and the index of the positions."""
    found, count = vector(x, dim, index, error=error)
    source = same_dtype(x, source, "source")
    copies = error is IndexError  # the error of index_copy, which accepts more shapes than index_add
    if not x.array.ndim:
        if source.array.size != 1 or count != 1 or source.array.ndim > copies:
            raise error(f"expected one position and a source of one element for a 0-d input, got {describe(source)}")
        return reshape(source, ()), found
    place = dimension(dim, x.array.ndim)
    wanted = (*x.array.shape[:place], count, *x.array.shape[place + 1 :])
    if copies and source.array.ndim == 0 and count == 1 and prod(wanted) == 1:
        return reshape(source, wanted), found
    if source.array.shape != wanted:
        raise error(f"source must have shape {wanted} for {count} positions in {describe(x)}, got {describe(source)}")
    return source, found


@operator(inplace=True, dtype="same as source", args="source slices")
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """``out[.., index[i], ..] += alpha * source[.., i, ..]``, from a copy of the input.

    Derivative: input: ``g``. source: ``alpha * g`` at the positions.
    Shape: the input's, preserved; source has the same shape, except for the length of the index along ``dim``.

    Args:
        index: a vector of non-negative integers; slices at repeated positions are summed.
        alpha: a factor of the source.

    Raises:
        RuntimeError: source has a wrong shape, a position is out of range, or the dtypes differ.
        IndexError: ``dim`` is out of range, or the index is not a vector.

    >>> rg.index_add(rg.zeros(3), 0, rg.tensor([0, 0]), rg.tensor([1.0, 2.0]))
    tensor([3., 0., 0.])
    """
    return result(_index_add(input, dim, index, source, alpha=alpha))


def _index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Write:
    x = operand(input)
    source, place = _slices(x, dim, index, source, IndexError)
    return Write(INDEX_COPY, x, source, {"index": _or_whole(place, x)})


@operator(inplace=True, like=index_add, args="index vector")
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``out[.., index[i], ..] = source[.., i, ..]``, in a copy of the input.

    Derivative: input: ``g``, 0 at the positions. source: ``g`` at the positions, but for repeats only in the last.

    Raises:
        IndexError: source has a wrong shape, or ``dim`` or a position is out of range.
        RuntimeError: the dtypes differ.

    >>> rg.index_copy(rg.zeros(3), 0, rg.tensor([2, 0]), rg.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    return result(_index_copy(input, dim, index, source))


def _index_fill(input: Tensor, dim: int, index: Tensor, value: Number | Tensor) -> Write:
    x = operand(input)
    place, count = vector(x, dim, positions(index, x, IndexError), low=-1)
    if isinstance(value, Tensor) and value.array.ndim:
        raise RuntimeError(f"expected a number or 0-d Tensor for value, got {describe(value)}")
    value = number(value, "value")
    is_complex = isinstance(value, complex) or getattr(value, "dtype", x.array.dtype).kind == "c"
    if is_complex and x.array.dtype.kind != "c":
        raise RuntimeError(f"the complex value {value!r} can't be written to {describe(x)}")
    if isinstance(value, Tensor) and value.array.dtype is not x.array.dtype:
        check_range_of_value(value, x.array.dtype)
    value = written_value(x, value)
    return Write(INDEX_FILL, x, value, {"index": _or_whole(place, x, count)})


@operator(inplace=True, args="value number")
def index_fill(input: Tensor, dim: int, index: Tensor, value: Number | Tensor) -> Tensor:
    """``out[.., index[i], ..] = value``, in a copy of the input.

    Derivative: input: ``g``, 0 at the positions. value: the sum of ``g`` over the positions.

    Args:
        index: a vector of integers; negative ones count from the end.

    Raises:
        IndexError: ``dim`` or a position is out of range.
        RuntimeError: the value has dimensions, is beyond the input's range, or is complex and the input is not.

    >>> rg.index_fill(rg.zeros(3), 0, rg.tensor([0, 2]), 5.0)
    tensor([5., 0., 5.])
    """
    return result(_index_fill(input, dim, index, value))


def _index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Write:
    x = operand(input)
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"argument 'indices' must be a tuple of Tensors, not {type(indices).__name__}")
    key = tuple([slice(None) if index is None else operand(index, "indices") for index in indices])
    values = same_dtype(x, values, "values")
    if len(key) == 1 and isinstance(key[0], Tensor) and not values.array.ndim:
        mask = key[0]
        if getattr(mask.array, "mapped", False) and mask.dtype.kind == "b" and mask.shape == x.shape[: mask.array.ndim]:
            mask = reshape(mask, (*mask.shape, *(1,) * (x.array.ndim - mask.array.ndim)))
            written = where(mask, x + values if accumulate else values, x)
            return Write(INDEX_PUT, x, written, {"index": Index((Ellipsis,))})
    if not accumulate:
        refuse_filling_bytes(key, values)
    index = index_of(x, key)
    if values.array.ndim > x.detach()[index.key].array.ndim:
        raise RuntimeError(f"values {describe(values)} do not broadcast to the elements at the indices")
    values = written_value(x, values)
    return Write(INDEX_PUT_ADD if accumulate else INDEX_PUT, x, values, {"index": index})


@operator(inplace=True, raises="position")
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """``out[indices] = values``, or ``+=`` with ``accumulate``, in a copy of the input.

    Derivative: input: ``g``, without ``accumulate`` 0 at the positions. values: ``g`` at the positions; without
    ``accumulate``, only for the last value at a repeated position.
    Shape: any, preserved; the values broadcast to the indexed elements.
    Dtype: any, preserved; values have the dtype of the input.

    Args:
        indices: a tuple of Tensors of integers or bools, one per dimension; None stands for a whole dimension.
        values: the values to write.
        accumulate: add instead of replacing; at a repeated position all values are added.

    Raises:
        RuntimeError: the values do not broadcast, or the dtypes differ.
        TypeError: ``indices`` is not a tuple of Tensors.

    >>> rg.index_put(rg.zeros(3), (rg.tensor([0, 0]),), rg.tensor([1.0, 2.0]), accumulate=True)
    tensor([3., 0., 0.])
    """
    return result(_index_put(input, indices, values, accumulate))


def _put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Write:
    x = operand(input)
    index = positions(index, x)
    source = same_dtype(x, source, "source")
    if source.array.size != index.array.size:
        raise IndexError(f"source {describe(source)} must have as many elements as index {describe(index)}")
    size = x.array.size
    check_range(index, -size, size, 0, x)
    if not x.array.ndim or not size:
        x = reshape(x, (size,))
    xp = array_module(x)
    flat = index.array.reshape(-1)
    key = xp.unravel_index(xp.where(flat < 0, flat + size, flat), x.array.shape) if size else (flat,)
    return Write(PUT_ADD if accumulate else PUT, x, flatten(source), {"index": Index(tuple(key))})


@operator(inplace=True, dtype="same as source", args="index signed", raises="dtypes differ")
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """``out.ravel()[index] = source``, or ``+=`` with ``accumulate``, in a copy of the input.

    Derivative: input: ``g``, without ``accumulate`` 0 at the positions. source: ``g`` at the positions, but
    without ``accumulate`` only for the last value at a repeated position.
    Shape: any, preserved; source has as many elements as the index.

    Args:
        source: the values to write.
        accumulate: add instead of replacing.

    Raises:
        IndexError: a position is out of range, or index and source have different numbers of elements.

    >>> rg.put(rg.zeros(2, 2), rg.tensor([0, -1]), rg.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    return reshape(result(_put(input, index, source, accumulate)), operand(input).array.shape)


def _masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Write:
    x, mask = operand(input), bool_mask(mask)
    source = same_dtype(x, source, "source")
    if getattr(mask.array, "mapped", False):  # under vmap the mask differs between examples
        return _masked_scatter_of_examples(x, mask, source)
    x, index = mask_index(x, mask)
    count = int(index.key[0].sum().item())
    if source.array.size < count:
        raise RuntimeError(f"source {describe(source)} has fewer elements than the {count} that the mask selects")
    return Write(MASKED_SCATTER, x, narrow(flatten(source), 0, 0, count), {"index": index})


def _masked_scatter_of_examples(x: Tensor, mask: Tensor, source: Tensor) -> Write:
    """``_masked_scatter`` with a mask that differs between the examples of ``vmap``."""
    x, index = mask_index(x, mask)
    chosen = index.key[0]
    places = chosen.reshape(-1).cumsum().reshape(chosen.shape)  # positions in the source, from 1
    counts = all_examples(places)
    count = int(counts.max()) if counts.size else 0
    if source.array.size < count:
        raise RuntimeError(f"source {describe(source)} has fewer elements than the {count} that the mask selects")
    picked = flatten(source)[new_tensor((places - 1) * chosen)] if count else x
    return Write(INDEX_PUT, x, where(new_tensor(chosen), picked, x), {"index": Index((Ellipsis,))})


def _masked_scatter_in_place(input: Tensor, mask: Tensor, source: Tensor) -> Write:
    write = _masked_scatter(input, mask, source)
    if write.x.array.shape != input.array.shape:
        raise RuntimeError(f"mask {describe(mask)} does not broadcast to the written Tensor {describe(input)}")
    return write


@operator(inplace=True, dtype="same as source")
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """``out[mask] = source.ravel()[:mask.sum()]``, in a copy of the input.

    Derivative: input: ``g``, 0 where the mask is True. source: ``g`` where the mask is True, in order, and 0 for the
    unused elements.
    Shape: input and mask broadcast to the result's shape; source has at least as many elements as the mask selects.

    Args:
        source: the values to write, in row-major order.

    Raises:
        RuntimeError: the source has too few elements, the mask does not hold bools, or the dtypes differ.

    >>> rg.masked_scatter(rg.zeros(3), rg.tensor([True, False, True]), rg.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    return result(_masked_scatter(input, mask, source))


for _name, _prepare in (
    ("index_add", _index_add),
    ("index_copy", _index_copy),
    ("index_fill", _index_fill),
    ("index_put", _index_put),
    ("put", _put),
    ("masked_scatter", _masked_scatter_in_place),
):
    in_place(_name, _prepare)
