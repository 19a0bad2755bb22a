"""Devices, and one backend per type of array.

NumPy arrays are on ``cpu``, CuPy arrays on ``cuda:N``. CuPy is imported only if a device, ``RETROGRAD_BACKEND`` or an
array of the user requires it. Operators call NumPy's functions, which dispatch to CuPy by ``__array_ufunc__`` and
``__array_function__``; functions without an array argument are called on the module of the backend (``xp``).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import lru_cache, wraps
from types import ModuleType
from typing import Any, TypeGuard, TypeVar
from weakref import ref

import numpy as np

from ..missing_names import provided
from . import Array

# PyTorch's other devices: programs compare with them, but no Tensor is on them.
WITHOUT_TENSORS = ("hpu", "ipu", "maia", "mps", "mtia", "privateuseone", "vulkan", "xla", "xpu")


class Device:
    """A device: ``cpu``, ``cuda`` or ``meta``. In a ``with`` block, new Tensors are created on the device.

    Tensors on ``meta`` have a shape, a dtype and strides, but no elements, and so have results of operators on them.

    Args:
        type: ``"cpu"``, ``"cuda"``, ``"cuda:N"``, ``"meta"``, or a Device.
        index: the number of the GPU, if ``type`` does not include one.

    >>> Device("cuda:1")
    device(type='cuda', index=1)
    >>> Device("cpu") == Device(Device("cpu"))
    True

    Raises:
        RuntimeError: the name is not that of a device.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | Device, index: int | None = None) -> None:
        if isinstance(type, Device):
            self.type, self.index = type.type, type.index
            return
        name, colon, number = str(type).partition(":")
        known = name in ("cpu", "cuda", "meta") or name in WITHOUT_TENSORS
        if not known or (colon and not number.isdecimal()) or (colon and index is not None):
            raise RuntimeError(f"device: expected 'cpu', 'cuda', 'cuda:N' or 'meta', got {type!r}")
        self.type = name
        self.index = int(number) if colon else index

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + ("" if self.index is None else f", index={self.index}") + ")"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str(self) == other
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.type, self.index)

    def __enter__(self) -> Device:
        """Create new Tensors of this thread on the device until the block ends."""
        global _any_entered
        _entered.devices.append(self)
        _any_entered = True
        return self

    def __exit__(self, *error: object) -> None:
        _entered.devices.pop()

    def __call__(self, function: Function) -> Function:
        """Decorate a function so that it creates new Tensors on the device."""

        @wraps(function)
        def inside(*args: object, **kwargs: object) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


class _Entered(threading.local):
    """The devices of this thread's active ``with`` blocks."""

    def __init__(self) -> None:
        self.devices: list[Device] = []


_entered = _Entered()
_any_entered = False  # False until the first block of any thread, so that most programs skip the thread-local look-up
Function = TypeVar("Function", bound=Callable[..., Any])


CPU = Device("cpu")


class Backend:
    """The operations that differ between array libraries. The base class is NumPy's backend."""

    name = "numpy"
    xp: Any = np
    array_type: type = np.ndarray

    def device(self, array: object) -> Device:
        """The device that holds the array."""
        return CPU

    def asarray(self, data: object, dtype: Any = None, device: Device | None = None) -> Any:
        """Return the data as an array of this library, which may share memory with it."""
        return np.asarray(data, dtype=dtype)

    def to_numpy(self, array: Any) -> np.ndarray:
        """Return the array as a NumPy array, copied from the GPU if necessary."""
        return array

    def address(self, array: Array) -> int:
        """Return the address of the array's first element."""
        return array.__array_interface__["data"][0]

    def strided(self, owner: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
        """Return a view of the owner's memory that begins ``offset`` bytes after the owner's first element."""
        interface = {
            "data": (self.address(owner) + offset, False),
            "shape": shape,
            "strides": strides,
            "typestr": dtype.str,
            "version": 3,
        }
        view = np.asarray(_Borrowed(interface, owner))
        return view.view(dtype) if dtype.kind == "V" else view

    def owner(self, array: Array) -> Any:
        """Return the array that this one is a view of, or None."""
        return array.base

    def allocation(self, array: Any) -> Any:
        """Return an object that is the same for all arrays on the same memory allocation."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        return array

    def free_unused(self) -> None:
        """Free the memory that the library caches, so that other processes can use it."""


class _Borrowed:
    """An array interface to the memory of ``owner``, which it keeps alive."""

    def __init__(self, interface: dict[str, Any], owner: Array) -> None:
        self.__array_interface__ = interface
        self.owner = owner


class CupyBackend(Backend):
    """The backend of CuPy, which the constructor imports. Raises RuntimeError if CuPy is not installed."""

    name = "cupy"

    def __init__(self) -> None:
        try:
            import cupy
        except ImportError:
            raise RuntimeError(
                "device 'cuda' needs CuPy: pip install 'retrograd[gpu]' for CUDA 12, 'retrograd[gpu13]' for CUDA 13"
            ) from None
        self._use(cupy, cupy.ndarray)

    def _use(self, xp: ModuleType, array_type: type) -> None:
        self.xp, self.array_type = xp, array_type
        # CuPy arrays made from an address have no base: this maps their ids to a weak reference and the owner.
        self._owners: dict[int, tuple[ref[object], object]] = {}

    def device(self, array: Any) -> Device:
        return Device("cuda", int(array.device.id))

    def asarray(self, data: object, dtype: object = None, device: Device | None = None) -> Any:
        if device is None or device.index is None:
            return self.xp.asarray(data, dtype=dtype)
        with self.xp.cuda.Device(device.index):
            return self.xp.asarray(data, dtype=dtype)

    def to_numpy(self, array: object) -> np.ndarray:
        return self.xp.asnumpy(array)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def strided(self, owner: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
        view = self.xp.ndarray(shape, dtype, owner.data + offset, strides=strides)
        key, owners = id(view), self._owners
        owners[key] = ref(view, lambda _: owners.pop(key, None)), owner
        return view

    def owner(self, array: Any) -> Any:
        base = array.base
        return self._owners.get(id(array), (None, None))[1] if base is None else base

    def allocation(self, array: Any) -> Any:
        return array.data.mem

    def free_unused(self) -> None:
        self.xp.get_default_memory_pool().free_all_blocks()


class Wrapping:
    """Base class of array types that wrap arrays of other libraries; each instance has its own backend."""

    __slots__ = ()

    backend: Any
    dtype: Any
    ndim: int
    examples: Any
    value: Any
    level: Any
    mapped: bool

    def takes_loops(self) -> bool:
        """Return whether compiled loops, which support only NumPy arrays, may be used on the array."""
        return False

    def unshared(self, holders: int) -> bool:
        """Return whether the array's memory is reachable only by ``holders`` references, including the caller's own."""
        raise NotImplementedError

    def overlaps(self) -> bool:
        """Return whether several elements may share memory."""
        raise NotImplementedError

    def copy(self) -> Any:
        """Return a copy."""
        raise NotImplementedError

    def tensor_repr(self, x: Any) -> str:
        """Return the repr of a Tensor that wraps this array."""
        return repr(self)

    def detached(self) -> Any:
        """Return an array on the same memory without a history on any level."""
        raise NotImplementedError


NUMPY = Backend()
_backends: dict[type, Backend] = {np.ndarray: NUMPY}


def register_backend(backend: Backend) -> None:
    """Make ``backend.array_type`` an array type that Tensors can wrap."""
    _backends[backend.array_type] = backend


def unregister_backend(backend: Backend) -> None:
    """Undo ``register_backend``."""
    del _backends[backend.array_type]


def registered_backends() -> tuple[Backend, ...]:
    """Return the backends of all array types in use."""
    return tuple(_backends.values())


def backend_of(array: object) -> Backend:
    """Return the backend of an array. Raise TypeError unless it is an array of a known library."""
    kind = type(array)
    backend = _backends.get(kind)
    if backend is not None:
        return backend
    if isinstance(array, (np.ndarray, np.generic)):
        return NUMPY
    if isinstance(array, Wrapping):
        return array.backend
    if str(kind.__module__).partition(".")[0] == "cupy":
        return cupy_backend()
    raise TypeError(f"expected a NumPy or CuPy array, got {kind.__module__}.{kind.__qualname__}")


def is_array(value: object) -> TypeGuard[Array]:
    """Return whether the value is an array (not a NumPy scalar) of a known library."""
    return is_array_type(type(value))


def is_array_type(kind: type) -> bool:
    """Return whether the type is an array type of a known library."""
    return kind in _backends or _computes_as_array(kind)


@lru_cache(256)
def _computes_as_array(kind: type) -> bool:
    """Return whether a type computes as NumPy or CuPy arrays do, unlike masked arrays and arrays with units."""
    if not issubclass(kind, np.ndarray):
        return issubclass(kind, Wrapping) or str(kind.__module__).partition(".")[0] == "cupy"
    return (
        kind.__array_ufunc__ is np.ndarray.__array_ufunc__
        and kind.__array_function__ is np.ndarray.__array_function__
        and not any(base.__module__.startswith("numpy.ma") for base in kind.__mro__)
    )


def array_module(array: object) -> Any:
    """Return the module (``numpy``, ``cupy``) of an array or of a Tensor's array."""
    if array.__class__ is np.ndarray:
        return np
    return backend_of(getattr(array, "array", array)).xp


def all_examples(array: object) -> Any:
    """Return an array that contains all values of ``array``, for checks of values.

    For a Batched array, these are the numbers of all examples; for a ``meta`` array, zeros, at most one along each
    axis; any other array is returned itself.
    """
    return array if array.__class__ is np.ndarray else getattr(array, "examples", array)


FEW = 32  # up to this size, Python's min and max have less overhead than NumPy's


def extent(array: Array) -> tuple[int, int]:
    """Return the smallest and the largest integer in an array, over all examples."""
    numbers = all_examples(array)
    if numbers.__class__ is np.ndarray and numbers.size <= FEW:
        few = numbers.ravel().tolist()
        return min(few), max(few)
    return numbers.min().item(), numbers.max().item()


_SIGNED, _UNSIGNED = np.dtype(np.int64), np.dtype(np.uint64)


def lie_within(array: Array, length: int) -> bool:
    """Return True if all integers of a non-empty array lie in ``range(length)``; False if unknown or not.

    This is cheaper than ``extent``.
    """
    if array.__class__ is not np.ndarray or array.dtype is not _SIGNED or not array.flags.c_contiguous:
        return False
    numbers = array.view(_UNSIGNED)  # as unsigned integers, negative integers are large
    return bool(numbers.item(numbers.argmax()) < length)


def get_array_module(*values: object) -> Any:
    """Return the module of the arrays, for programs that run on any device: ``cupy`` for CuPy arrays, else ``numpy``.

    Args:
        values: Tensors, arrays, numbers or other values; without values, the module is NumPy.

    Source: ``cupy.get_array_module``, ``chainer.backend.get_array_module``.

    >>> import retrograd as rg
    >>> xp = rg.get_array_module(rg.ones(2))
    >>> xp.arange(3)
    array([0, 1, 2])
    """
    arrays = [getattr(value, "array", value) for value in values]
    modules = [backend_of(array).xp for array in arrays if is_array(array)]
    return next((module for module in modules if module is not np), np)


def cupy_backend() -> Backend:
    """Return the CuPy backend, created at the first call."""
    for backend in _backends.values():
        if backend.name == "cupy":
            return backend
    backend = CupyBackend()
    register_backend(backend)
    return backend


def is_cuda_available() -> bool:
    """Return whether CuPy is installed and a GPU is available."""
    from importlib.util import find_spec

    if "cupy" not in sys.modules and find_spec("cupy") is None:
        return False
    try:
        return bool(cupy_backend().xp.cuda.is_available())
    except Exception:  # CuPy raises errors of many types if the driver or a library is missing.
        return False


_default_device: Device | None = None


def get_default_device() -> Device:
    """Return the device of new Tensors: set by ``set_default_device``, otherwise by ``RETROGRAD_BACKEND``.

    Raises:
        RuntimeError: ``RETROGRAD_BACKEND`` is not ``auto``, ``numpy`` or ``cupy``, or it is ``cupy`` and no GPU is
            available.
    """
    global _default_device
    if _any_entered and _entered.devices:
        return _entered.devices[-1]
    if _default_device is None:
        wanted = os.environ.get("RETROGRAD_BACKEND", "auto")
        if wanted not in ("auto", "numpy", "cupy"):
            raise RuntimeError(f"RETROGRAD_BACKEND: expected auto, numpy or cupy, got {wanted!r}")
        if wanted == "cupy" and not is_cuda_available():
            raise RuntimeError("RETROGRAD_BACKEND=cupy: CuPy is not installed or no GPU is available")
        _default_device = Device("cuda" if wanted == "cupy" or wanted == "auto" and is_cuda_available() else "cpu")
    return _default_device


def set_default_device(device: str | Device | None) -> None:
    """Create new Tensors on ``device`` from now on; None reads ``RETROGRAD_BACKEND`` again.

    Args:
        device: a Device or its name; whether the GPU exists is checked when the first Tensor is created.

    Raises:
        RuntimeError: the name is not ``cpu``, ``cuda`` or ``cuda:N``.

    >>> rg.set_default_device("cpu")
    >>> rg.get_default_device()
    device(type='cpu')
    >>> rg.set_default_device(None)
    """
    global _default_device
    _default_device = None if device is None else Device(device)


def backend_for(device: str | Device | None) -> Backend:
    """Return the backend of a device; None is the default device."""
    place = get_default_device() if device is None else Device(device)
    if place.type in WITHOUT_TENSORS:
        raise RuntimeError(f"no Tensor can be on the device {place}: Retrograd computes on 'cpu' and 'cuda'")
    if place.type == "meta":
        return provided["meta"]()
    return NUMPY if place.type == "cpu" else cupy_backend()


def as_array_like(value: object, arrays: tuple[object, ...]) -> Any:
    """Return the value as an array of the same library as the first array among the inputs."""
    for array in arrays:
        if type(array) is np.ndarray:
            return np.asarray(value)
        if is_array(array):
            return backend_of(array).asarray(value)
    return np.asarray(value)
