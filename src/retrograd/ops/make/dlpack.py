"""DLPack: share memory with other libraries, such as NumPy and PyTorch, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib import NumpyVersion

from ...core.arrays import Array
from ...core.arrays.devices import NUMPY, backend_of, cupy_backend
from ...core.missing_names import provided
from ...core.tensor.tensor import Tensor, new_tensor, tensor_method
from ..table.types import DeviceLike

_CPU = 1  # DLPack's number for memory of the CPU; 2 is CUDA memory, 13 CUDA managed memory


@tensor_method
def __dlpack__(
    self: Tensor,
    *,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[object, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The Tensor's memory as a DLPack capsule, from which another library creates an array.

    Raises:
        BufferError: the Tensor requires grad, or the protocol does not support its dtype.
    """
    if self._requires:
        raise BufferError("__dlpack__: can't export a Tensor that requires grad; use detach()")
    array = self.array
    if backend_of(array).xp is not np:
        return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
    options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return array.__dlpack__(**given)
    except TypeError:  # NumPy before 2.1 supports only the first version of the protocol
        return (array.copy() if copy else array).__dlpack__()


@tensor_method
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """DLPack's device type, and the number of the device."""
    kind, number = self.array.__dlpack_device__()
    return int(kind), int(number)


@tensor_method
def __array_namespace__(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """Return the functions of the array API standard on Tensors, ``retrograd.array_api``.

    Raises:
        ValueError: ``api_version`` is not a version of the standard from 2021.12 to 2025.12.
    """
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        raise ValueError(f"__array_namespace__: expected a version from '2021.12' to '2025.12', got {api_version!r}")
    return provided["array_namespace"]()


@tensor_method
def to_device(self: Tensor, device: DeviceLike, /, *, stream: int | None = None) -> Tensor:
    """Return the Tensor on a device: ``to`` under the name of the array API standard.

    Raises:
        ValueError: ``stream`` is given; copies always use the current stream.
    """
    if stream is not None:
        raise ValueError(f"to_device: stream must be None, got {stream!r}; enter a stream of CuPy around the call")
    return self.to(device)


class _Capsule:
    """An object with ``__dlpack__`` that returns a given capsule."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: object) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


def _writable(array: Array) -> Array:
    """Make an imported array writable; NumPy before 2.1 marks all imported arrays read-only."""
    if not isinstance(array, np.ndarray) or array.flags.writeable or NumpyVersion(np.__version__) >= "2.1.0":
        return array
    return NUMPY.strided(array, 0, array.shape, array.strides, array.dtype)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A Tensor on the memory of another library's array: writes to one are seen in the other.

    Args:
        ext_tensor: an object with ``__dlpack__`` (of NumPy, CuPy, PyTorch, JAX), or a capsule of the CPU's memory.
        device: the device of the Tensor, by default that of the memory.
        copy: True always copies; False raises an error if a copy is needed.

    Raises:
        BufferError: the memory cannot be shared.
        TypeError: the object has no ``__dlpack__``.

    Source: https://dmlc.github.io/dlpack/latest

    >>> array = np.zeros(2)
    >>> x = rg.from_dlpack(array)
    >>> x[0] = 1.0
    >>> array
    array([1., 0.])
    """
    if isinstance(ext_tensor, Tensor):
        tensor = ext_tensor.detach()
    elif hasattr(ext_tensor, "__dlpack__"):
        kind = int(ext_tensor.__dlpack_device__()[0])
        library = np if kind == _CPU else cupy_backend().xp
        tensor = new_tensor(_writable(library.from_dlpack(ext_tensor)))
    elif type(ext_tensor).__name__ == "PyCapsule":
        # A capsule of the first version of the protocol does not say whether its memory is read-only; NumPy assumes it.
        unversioned = '"dltensor"' in repr(ext_tensor)
        array = np.from_dlpack(_Capsule(ext_tensor))
        if unversioned and not array.flags.writeable:
            array = NUMPY.strided(array, 0, array.shape, array.strides, array.dtype)
        tensor = new_tensor(_writable(array))
    else:
        raise TypeError(f"from_dlpack: expected an object with __dlpack__, got {type(ext_tensor).__name__}")
    if device is not None:
        tensor = tensor.to(device=device)
    return tensor.clone() if copy else tensor


def to_dlpack(tensor: Tensor) -> Any:
    """The Tensor's memory as a DLPack capsule: ``tensor.__dlpack__()``."""
    return tensor.__dlpack__()
