"""``Tensor.storage()``: the memory behind a Tensor as a flat sequence of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ..core.arrays.devices import Device, backend_of
from ..core.tensor.storage import share
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.recipes import owner_of


def memory_of(x: Tensor) -> Any:
    """The whole memory that the Tensor lives in, as a vector of its dtype."""
    owner = array = x.array
    while (below := owner_of(owner)) is not None:
        owner = below
    backend, size = backend_of(array), array.dtype.itemsize
    aligned = (backend.address(array) - backend.address(owner)) % size == 0
    if not aligned or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        owner = array
    if not owner.flags.c_contiguous:
        owner = owner.T if owner.flags.f_contiguous else backend.xp.ascontiguousarray(owner)
    memory = owner.reshape(-1)
    if memory.dtype == array.dtype:
        return memory
    return memory.view(np.uint8)[: memory.nbytes // size * size].view(array.dtype)


def place_in_memory(x: Tensor) -> tuple[Tensor, int]:
    """A Tensor on the whole memory that x lives in, and the position of x's first element there.

    What shares memory with x shares it with this Tensor, which takes part in copy on write. Where x's elements do not
    follow the first one in a contiguous memory (negative strides), the Tensor is a copy of x in row-major order.
    """
    memory, backend = memory_of(x), backend_of(x.array)
    first = (backend.address(x.array) - backend.address(memory)) // x.array.dtype.itemsize
    if 0 <= first < memory.size and min(x.array.strides, default=0) >= 0:
        whole = new_tensor(memory)
        share(whole, x, related=False)
        return whole, first
    return new_tensor(x.array.reshape(-1).copy()), 0


def resize(x: Tensor, size: tuple[int, ...]) -> None:
    """Lay x in row-major order over its memory from its first element on, or over a larger copy of the memory."""
    count = prod(size)
    memory, first = place_in_memory(x)
    held = memory.array.size
    if first + count > held:
        longer = backend_of(memory.array).xp.zeros(first + count, memory.array.dtype)
        longer[:held] = memory.array
        memory = new_tensor(longer)
    x.data = memory[first : first + count].view(size)


class TypedStorage:
    """The memory behind a Tensor: a flat sequence of numbers of one dtype, read and written in place."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self._array = memory_of(tensor)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the numbers."""
        dtype: np.dtype[Any] = self._array.dtype
        return dtype

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self._tensor.device

    def __len__(self) -> int:
        return int(self._array.size)

    size = __len__

    def __getitem__(self, index: Any) -> Any:
        value = self._array[index]
        return value.item() if value.ndim == 0 else value

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """The numbers as a list."""
        numbers: list[Any] = backend_of(self._array).to_numpy(self._array).tolist()
        return numbers

    def data_ptr(self) -> int:
        """The address of the memory."""
        return backend_of(self._array).address(self._array)

    def element_size(self) -> int:
        """Bytes per number."""
        return int(self._array.dtype.itemsize)

    def nbytes(self) -> int:
        """Bytes of all numbers."""
        return int(self._array.nbytes)

    def is_shared(self) -> bool:
        """Whether processes forked from this one share the memory."""
        return bool(self._tensor.is_shared())  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        rows = "\n".join(f" {value}" for value in self.tolist())
        return f"{rows}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


class UntypedStorage(TypedStorage):
    """The memory behind a Tensor in bytes."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor)
        self._array = self._array.view(np.uint8)
