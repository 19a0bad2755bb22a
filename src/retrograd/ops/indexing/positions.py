"""Check arguments that are positions (along a dimension, vectors, masks) and convert them to an ``Index``."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...core.arrays.devices import all_examples, array_module, backend_of, extent, lie_within
from ...core.arrays.layout import broadcast_shapes
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.storage import storage_of
from ...core.tensor.tensor import Tensor, new_tensor
from ..shape.expansion import expand
from ..shape.shape import reshape
from ..table.arguments import dimension
from ..table.types import Operand
from .indexing import Index

_POSITIONS = frozenset(np.dtype(kind).char for kind in (np.int32, np.int64, np.intc, np.int_, np.longlong))


def positions(index: Operand, x: Tensor, error: type[Exception] = RuntimeError) -> Tensor:
    index = operand(index, "index")
    if index.array.dtype.char not in _POSITIONS:
        raise error(f"expected an integer dtype, int64 or int32, for index, got {describe(index)}")
    if type(index.array) is not type(x.array) and backend_of(index.array).name != backend_of(x.array).name:
        raise RuntimeError(f"index is on {index.device}, input on {x.device}")
    return index


def check_range(index: Tensor, low: int, length: int, dim: int, x: Tensor, error: type[Exception] = IndexError) -> bool:
    """Check that positions lie in ``range(low, length)``; return whether none is negative."""
    array = index.array
    if array.size and lie_within(array, length):
        return True
    least = 0
    if all_examples(array).size:
        least, most = extent(array)
        if least < low or most >= length:
            wrong = least if least < low else most
            raise error(f"index {wrong} is out of bounds for dimension {dim} with size {length} of {describe(x)}")
    return least >= 0


def same_dtype(x: Tensor, src: Operand, argument: str) -> Tensor:
    src = operand(src, argument)
    if src.array.dtype != x.array.dtype:
        raise RuntimeError(f"input ({describe(x)}) and {argument} ({describe(src)}) must have the same dtype")
    return src


def along(x: Tensor, dim: int, index: Operand) -> tuple[Tensor, Index, Tensor]:
    """Return the Index that, for dimension 1 of three, selects ``x[i, index[i, j, k], k]``.

    Returns:
        x, the Index and the checked index. A 0-d x or index gets one dimension, an empty index the dimensions of x.
    """
    place = dimension(dim, x.array.ndim)
    index, x = operand(index, "index"), at_least_vector(x)
    if index.array.size:
        index = at_least_vector(positions(index, x))
    else:
        index = new_tensor(array_module(x).zeros((0,) * x.array.ndim, np.int64))
    shape, own = index.array.shape, x.array.shape
    if len(shape) != len(own):
        raise RuntimeError(f"index {describe(index)} must have as many dimensions as {describe(x)}")
    if shape != own and any(length > mine for d, (length, mine) in enumerate(zip(shape, own)) if d != place):
        raise RuntimeError(f"index {describe(index)} must not be larger than {describe(x)} except at dimension {place}")
    check_range(index, 0, own[place], place, x, RuntimeError)
    return x, mesh(index, place, place), index


def at_least_vector(x: Tensor) -> Tensor:
    """Return x, or a vector of one element for a 0-d x."""
    return x if x.array.ndim else reshape(x, (1,))


def mesh(index: Tensor, place: int, along: int | None = None) -> Index:
    array = index.array
    ndim = array.ndim
    if array.__class__ is np.ndarray:
        key = [array if d == place else places(length, d, ndim) for d, length in enumerate(array.shape)]
    else:
        xp = array_module(array)
        key = [
            array if d == place else xp.arange(length).reshape((1,) * d + (-1,) + (1,) * (ndim - 1 - d))
            for d, length in enumerate(array.shape)
        ]
    return Index.of_positions(tuple(key), storage_of(index), along)


@lru_cache(maxsize=256)
def places(length: int, d: int, ndim: int) -> np.ndarray:
    """Return the integers below ``length`` along dimension ``d`` of ``ndim``; the cached array must not be written."""
    numbers = np.arange(length).reshape((1,) * d + (-1,) + (1,) * (ndim - 1 - d))
    numbers.flags.writeable = False
    return numbers


def vector(x: Tensor, dim: int, index: Operand, low: int = 0, error: type[Exception] = IndexError) -> tuple[Index, int]:
    """Return the Index of the slices along ``dim`` at a vector of positions, and the number of slices."""
    place = dimension(dim, x.array.ndim)
    index = operand(index, "index")
    if index.array.ndim > 1:
        raise IndexError(f"index is supposed to be a vector, got {describe(index)}")
    index = positions(index, x)
    length = x.array.shape[place] if x.array.ndim else 1
    check_range(index, -length if low < 0 else 0, length, place, x, error)
    array = index.array if index.array.ndim else index.array.reshape(-1)
    return Index.of_positions((*(slice(None),) * place, array), storage_of(index)), array.size


def bool_mask(mask: Operand) -> Tensor:
    mask = operand(mask, "mask")
    if mask.array.dtype.kind != "b":
        raise RuntimeError(f"expected a bool Tensor for mask, got {describe(mask)}")
    return mask


def mask_index(x: Tensor, mask: Tensor) -> tuple[Tensor, Index]:
    """Broadcast x and the mask; return x and the Index of the mask."""
    try:
        shape = broadcast_shapes(x.array.shape, mask.array.shape)
    except ValueError:
        raise RuntimeError(f"input {describe(x)} and mask {describe(mask)} do not broadcast") from None
    if x.array.shape != shape:
        x = expand(x, shape)
    array = array_module(mask).broadcast_to(mask.array, shape)
    return x, Index((array,), (storage_of(mask),))
