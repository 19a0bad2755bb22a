"""Nests of Tensors as real vectors on plain arrays, with all examples of ``vmap`` as leading axes.

Linear solvers iterate until the residual is small, a condition that cannot be read inside ``vmap``. They run on arrays
of shape (*examples, n) instead, where n counts the real numbers of one example: complex numbers count twice, so that
maps which are linear over the real numbers only (``conj``) are solved as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import Wrapping, array_module
from ...core.arrays.dtypes import DType
from ...core.graph.modes import modes
from ...core.tensor.tensor import Tensor, new_tensor

if TYPE_CHECKING:
    from ...core.mapping.batching import Level


def levels() -> list[Level]:
    """Return the active levels of ``vmap``, from outside to inside."""
    found = []
    level = modes.level
    while level is not None:
        found.append(level)
        level = level.below
    return found[::-1]


def bare(x: Tensor) -> Array:
    """Return the values of x for all examples as an array, whose leading axes are the examples of each active level."""
    array: Any = x.array
    for level in reversed(levels()):
        if isinstance(array, Wrapping) and array.level is level:
            value, mapped = array.value.array, array.mapped
        else:
            value, mapped = array, False
        array = value if mapped else _expanded(value, level)
    return array


def _expanded(array: Array, level: Level) -> Array:
    """Return the array of a layer below ``level`` with a new first axis for the examples of the level."""
    if isinstance(array, Wrapping):
        found: Any = new_tensor(array)
        return found.expand((level.size, *found.shape)).array
    return array_module(array).broadcast_to(array, (level.size, *array.shape))


def lifted(array: Array) -> Tensor:
    """Return an array, whose leading axes are the examples of each active level, as a Tensor of the innermost level."""
    from ...core.mapping.batched import Batched  # loaded only with vmap

    x = new_tensor(array)
    for level in levels():
        x = new_tensor(Batched(level, x, True))
    return x


class Vectors:
    """The space of lists of Tensors with these shapes and dtypes.

    Args:
        shapes, dtypes: the shapes and dtypes of the leaves.
        batch: how many of the first axes of every leaf count independent examples.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[DType], batch: int = 0) -> None:
        self.shapes, self.dtypes, self.batch = list(shapes), list(dtypes), batch
        self.lead = self.shapes[0][:batch] if self.shapes else ()
        self.complex = [dtype.kind == "c" for dtype in self.dtypes]
        self.sizes = [
            prod(shape[batch:]) * (2 if double else 1) for shape, double in zip(self.shapes, self.complex, strict=True)
        ]
        self.size = sum(self.sizes)
        real = np.result_type(np.float32, *[np.empty(0, dtype).real.dtype for dtype in self.dtypes])
        self.dtype = np.dtype(real)

    @classmethod
    def of(cls, leaves: Sequence[Tensor], batch: int = 0) -> Vectors:
        """Return the space that contains these leaves."""
        return cls([x.shape for x in leaves], [x.array.dtype for x in leaves], batch)

    def vector(self, leaves: Sequence[Tensor]) -> Array:
        """Return the elements of all leaves in one array of shape (*examples, size)."""
        parts = []
        for x, shape, double in zip(leaves, self.shapes, self.complex, strict=True):
            array = bare(x)
            xp = array_module(array)
            lead = (*array.shape[: array.ndim - len(shape)], *self.lead)
            flat = array.reshape((*lead, -1)) if array.size else xp.zeros((*lead, 0), array.dtype)
            if double:
                flat = xp.stack([flat.real, flat.imag], -1).reshape((*lead, -1))
            parts.append(flat.astype(self.dtype))
        return parts[0] if len(parts) == 1 else array_module(parts[0]).concatenate(parts, -1)

    def leaves(self, vector: Array) -> list[Tensor]:
        """Return a vector as Tensors of the innermost level."""
        found, start = [], 0
        outer = vector.shape[: vector.ndim - 1 - self.batch]
        for shape, dtype, double, size in zip(self.shapes, self.dtypes, self.complex, self.sizes, strict=True):
            part = vector[..., start : start + size]
            start += size
            if double:
                part = part[..., ::2] + 1j * part[..., 1::2]
            found.append(lifted(part.reshape((*outer, *shape)).astype(dtype)))
        return found


def dot(x: Array, y: Array) -> Array:
    """Return the dot products of real vectors along the last axis, which is kept with length 1."""
    return (x * y).sum(-1, keepdims=True)


def norm(x: Array) -> Array:
    """Return the Euclidean norms of real vectors along the last axis, which is kept with length 1."""
    return array_module(x).sqrt(dot(x, x))
