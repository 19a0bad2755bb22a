"""``tensor.flat``: read, write and iterate over the elements in row-major order, as with NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..._generated import toplevel as ops
from ...core.errors import describe
from ...core.tensor.storage import shares_memory
from ...core.tensor.tensor import Tensor, tensor_method
from .arguments import tensor, tensors


class Flat:
    """NumPy's flat iterator over a Tensor. Reads and writes are recorded for the backward pass."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @property
    def base(self) -> Tensor:
        """The Tensor."""
        return self._tensor

    def __repr__(self) -> str:
        return f"<flat {describe(self._tensor)}>"

    def __len__(self) -> int:
        return int(self._tensor.array.size)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(ops.unbind(ops.ravel(self._tensor)))

    def __getitem__(self, index: Any) -> Tensor:
        return ops.clone(ops.ravel(self._tensor)[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        x = self._tensor
        flat = ops.ravel(x)
        if not shares_memory(flat.array, x.array):  # a Tensor that is not contiguous was copied
            flat = ops.clone(flat)
        chosen = flat[index]
        source = tensors(x, value)[1].astype(x.dtype)
        if source.array.size not in (0, 1) and source.shape != chosen.shape:  # repeat or truncate, as NumPy does
            source = ops.reshape(source, (-1,))
            times = -(-chosen.array.size // source.array.size)
            source = ops.reshape(ops.tile(source, (times,))[: chosen.array.size], tuple(chosen.shape))
        flat[index] = ops.reshape(source, ()) if source.array.size == 1 else source
        if not shares_memory(flat.array, x.array):
            x[...] = ops.reshape(flat, tuple(x.shape))

    def copy(self) -> Tensor:
        """The elements as a new Tensor of one dimension."""
        return ops.clone(ops.ravel(self._tensor))


def _flat(self: Tensor) -> Flat:
    """The elements in row-major order, as NumPy's ``ndarray.flat``; assigning to it writes all elements.

    >>> x = rg.zeros(2, 2)
    >>> x.flat[1:3] = [5, 6]
    >>> x
    tensor([[0., 5.],
            [6., 0.]])
    """
    return Flat(self)


def _set_flat(self: Tensor, values: object) -> None:
    Flat(self)[:] = tensor(values)


tensor_method(property(_flat, _set_flat), "flat")
