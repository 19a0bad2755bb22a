"""Methods of sparse Tensors that select, move or map values: slices, permutations, functions that are 0 at 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.errors import describe
from ....core.tensor.tensor import Tensor, new_tensor
from ...shape.joining import cat as join
from ...table.arguments import dimension
from .without_array import SparseError, WithoutArray


class SparseMethods(WithoutArray):
    """Methods of ``SparseTensor`` that use only coordinates and values."""

    def _new_coo(self, indices: Array, values: Tensor, size: Sequence[int]) -> SparseMethods:
        raise NotImplementedError

    def _distinct(self) -> SparseMethods:
        """Return the Tensor with the values at equal coordinates summed, in the same layout."""
        raise NotImplementedError

    def _coordinate(self, dim: int) -> tuple[int, Array]:
        """Return a dimension, counted from 0, and the coordinate of each value along it."""
        place = dimension(dim, len(self.shape))
        at: Array = self._at.array
        if place >= len(at):
            raise SparseError(f"dimension {dim} of a sparse Tensor of shape {tuple(self.shape)} has no coordinates")
        return place, at[place]

    def select(self, dim: int, index: int) -> Tensor | SparseMethods:
        """Return the slice at one position; a dense Tensor if no sparse dimension is left.

        Raises:
            IndexError: the position is out of range.
        """
        place, coordinate = self._coordinate(dim)
        length = self.shape[place]
        if not -length <= index < length:
            raise IndexError(f"select: index {index} is out of range for dimension {dim} of shape {tuple(self.shape)}")
        chosen = new_tensor(np.flatnonzero(coordinate == index % length))
        values = self._elements[chosen]
        rest = np.delete(self._at.array, place, 0)
        if not len(rest):
            return values.sum(0)
        return self._new_coo(rest[:, chosen.array], values, [n for d, n in enumerate(self.shape) if d != place])

    def narrow(self, dim: int, start: int, length: int) -> SparseMethods:
        """Return ``length`` positions of a dimension, from ``start`` on.

        Raises:
            RuntimeError: the positions are out of range.
        """
        place, coordinate = self._coordinate(dim)
        first = start + self.shape[place] if start < 0 else start
        if length < 0 or not 0 <= first <= self.shape[place] - length:
            raise RuntimeError(f"narrow: {start} + {length} exceeds dimension {dim} of shape {tuple(self.shape)}")
        chosen = np.flatnonzero((coordinate >= first) & (coordinate < first + length))
        indices = self._at.array[:, chosen].copy()
        indices[place] -= first
        size = list(self.shape)
        size[place] = length
        return self._new_coo(indices, self._elements[new_tensor(chosen)], size)

    def index_select(self, dim: int, index: Tensor) -> SparseMethods:
        """Return the slices at several positions, in their order; a position may repeat.

        Raises:
            IndexError: a position is out of range.
        """
        place, coordinate = self._coordinate(dim)
        wanted: Array = np.asarray(index.array if isinstance(index, Tensor) else index).reshape(-1)
        if wanted.size and not 0 <= int(wanted.min()) <= int(wanted.max()) < self.shape[place]:
            raise IndexError(f"index_select: {describe(index)} is out of range for shape {tuple(self.shape)}")
        order = np.argsort(wanted, kind="stable")
        first = np.searchsorted(wanted[order], coordinate, "left")
        counts = np.searchsorted(wanted[order], coordinate, "right") - first
        chosen = np.repeat(np.arange(len(coordinate)), counts)
        within = np.arange(len(chosen)) - np.repeat(np.cumsum(counts) - counts, counts)
        indices = self._at.array[:, chosen].copy()
        indices[place] = order[np.repeat(first, counts) + within]
        size = list(self.shape)
        size[place] = len(wanted)
        return self._new_coo(indices, self._elements[new_tensor(chosen)], size)

    def __getitem__(self, key: object) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        result: Any = self
        place = 0
        for item in keys:
            if isinstance(item, (int, np.integer)):
                result = result.select(place, int(item)) if isinstance(result, SparseMethods) else result[item]
                continue
            if isinstance(item, slice):
                start, stop, step = item.indices(result.shape[place])
                positions = np.arange(start, stop, step)
                whole = len(positions) == result.shape[place] and step == 1
                result = result if whole else result.index_select(place, new_tensor(positions))
            elif isinstance(item, (Tensor, list, np.ndarray)) and np.ndim(getattr(item, "array", item)) == 1:
                array = np.asarray(getattr(item, "array", item))
                positions = np.flatnonzero(array) if array.dtype.kind == "b" else array
                result = result.index_select(
                    place, new_tensor(np.where(positions < 0, positions + result.shape[place], positions))
                )
            else:
                raise SparseError(
                    f"an index of a sparse Tensor must consist of integers, slices and vectors, got {describe(item)}"
                )
            place += 1
        return result

    def permute(self, *dims: Any) -> SparseMethods:
        """Return the Tensor with its dimensions in another order; the dimensions of the values stay last.

        Raises:
            RuntimeError: the order does not name each dimension once.
        """
        order = [dimension(d, len(self.shape)) for d in (dims[0] if len(dims) == 1 else dims)]
        count = len(self._at.array)
        if sorted(order) != list(range(len(self.shape))) or order[count:] != list(range(count, len(self.shape))):
            raise RuntimeError(f"permute: {tuple(dims)} is not an order of the dimensions of shape {tuple(self.shape)}")
        return self._new_coo(self._at.array[order[:count]], self._elements, [self.shape[d] for d in order])

    def unsqueeze(self, dim: int) -> SparseMethods:
        """Return the Tensor with a new dimension of length 1."""
        place = dimension(dim, len(self.shape) + 1)
        if place > len(self._at.array):
            raise SparseError(f"unsqueeze: dimension {dim} would lie among the dense dimensions")
        size = list(self.shape)
        size.insert(place, 1)
        return self._new_coo(np.insert(self._at.array, place, 0, 0), self._elements, size)

    def is_floating_point(self) -> bool:
        """Return whether the elements are real floating-point numbers."""
        return self._elements.is_floating_point()

    def is_complex(self) -> bool:
        """Return whether the elements are complex numbers."""
        return self._elements.is_complex()

    def norm(self, p: float = 2) -> Tensor:
        """Return the norm of all elements as one vector."""
        return self._distinct()._elements.norm(p)

    def pow(self, exponent: float) -> SparseMethods:
        """Return the power of each element.

        Raises:
            RuntimeError: the exponent is not positive, so that zeros would not stay zeros.
        """
        if isinstance(exponent, Tensor) or exponent <= 0:
            raise RuntimeError(f"pow: a sparse Tensor needs a positive number as exponent, got {describe(exponent)}")
        coalesced = self._distinct()
        return coalesced._with(coalesced._elements**exponent)

    __pow__ = pow


def cat(tensors: Sequence[SparseMethods], dim: int = 0) -> SparseMethods:
    """Return sparse Tensors joined along a dimension of their coordinates.

    Raises:
        RuntimeError: the Tensors differ in another dimension.
    """
    first = tensors[0]
    place = first._coordinate(dim)[0]
    indices, start = [], 0
    for tensor in tensors:
        shape = list(tensor.shape)
        if shape[:place] + shape[place + 1 :] != [n for d, n in enumerate(first.shape) if d != place]:
            raise RuntimeError(f"cat: shapes {tuple(first.shape)} and {tuple(shape)} differ outside of dimension {dim}")
        moved = tensor._at.array.copy()
        moved[place] += start
        indices.append(moved)
        start += shape[place]
    size = list(first.shape)
    size[place] = start
    return first._new_coo(np.concatenate(indices, 1), join([tensor._elements for tensor in tensors]), size)


# Functions of one Tensor that are 0 at 0, under PyTorch's names.
_KEEPING_ZERO = (
    "abs absolute angle arcsin arcsinh arctan arctanh asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac "
    "isinf isnan isneginf isposinf log1p neg negative nan_to_num positive rad2deg relu round sgn sign signbit sin sinh "
    "sqrt square tan tanh trunc"
)


def _enter_functions() -> None:
    def method(name: str) -> Callable[[SparseMethods], SparseMethods]:
        def call(self: Any) -> Any:
            coalesced = self._distinct()
            return coalesced._with(getattr(coalesced._elements, name)())

        call.__name__ = name
        call.__doc__ = f"Return ``{name}`` of each element."
        return call

    for name in _KEEPING_ZERO.split():
        setattr(SparseMethods, name, method(name))


_enter_functions()
