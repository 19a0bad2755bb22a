"""Where arrays live: one backend per array type, found by a cached look-up, and the devices users name.

NumPy arrays live on ``cpu``, CuPy arrays on ``cuda:N``. CuPy is imported only when a device, ``RETROGRAD_BACKEND`` or
an array of the user's asks for it. Operators are written in NumPy's functions, which reach CuPy through its
``__array_ufunc__`` and ``__array_function__``; only what has no array argument asks the backend for its module.
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

# Devices of PyTorch, which programs compare with. No Tensor is on them.
WITHOUT_TENSORS = ("hpu", "ipu", "maia", "mps", "mtia", "privateuseone", "vulkan", "xla", "xpu")


class Device:
    """A place for arrays: ``cpu``, ``cuda`` or ``meta``. In a ``with`` block, new Tensors are made there.

    Tensors on ``meta`` have a shape, a dtype and strides, and no numbers; operators on them give such Tensors.

    Args:
        type: ``"cpu"``, ``"cuda"``, ``"cuda:N"``, ``"meta"``, or a Device.
        index: the number of the GPU, where ``type`` does not say it.

    >>> Device("cuda:1")
    device(type='cuda', index=1)
    >>> Device("cpu") == Device(Device("cpu"))
    True

    Raises:
        RuntimeError: the name is none of these.
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
            raise RuntimeError(f"device: wanted 'cpu', 'cuda', 'cuda:N' or 'meta', got {type!r}")
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
        """Make new Tensors of this thread on the device, until the block ends."""
        global _any_entered
        _entered.devices.append(self)
        _any_entered = True
        return self

    def __exit__(self, *error: object) -> None:
        _entered.devices.pop()

    def __call__(self, function: Function) -> Function:
        """Decorate a function: new Tensors inside are made on the device."""

        @wraps(function)
        def inside(*args: object, **kwargs: object) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


class _Entered(threading.local):
    """The devices that blocks on this thread have entered."""

    def __init__(self) -> None:
        self.devices: list[Device] = []


_entered = _Entered()
_any_entered = False  # until a block is first entered, nobody asks for the thread's devices
Function = TypeVar("Function", bound=Callable[..., Any])


CPU = Device("cpu")


class Backend:
    """What differs between array libraries. The base class is NumPy itself."""

    name = "numpy"
    xp: Any = np
    array_type: type = np.ndarray

    def device(self, array: Any) -> Device:
        """The device that holds the array."""
        return CPU

    def asarray(self, data: object, dtype: Any = None, device: Device | None = None) -> Any:
        """The data as an array of this library, sharing memory where it can."""
        return np.asarray(data, dtype=dtype)

    def to_numpy(self, array: Any) -> np.ndarray:
        """The array as NumPy's, copied off a GPU when need be."""
        return array

    def address(self, array: Array) -> int:
        """Where the array's first element lies in memory."""
        return array.__array_interface__["data"][0]

    def strided(self, owner: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
        """A view of the owner's memory, ``offset`` bytes from the owner's first element."""
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
        """The array whose memory this one is a view of, or None."""
        return array.base

    def allocation(self, array: Any) -> Any:
        """The object that stands for the memory of the array and of all others that share it."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        return array

    def free_unused(self) -> None:
        """Give memory that the library holds, and no array uses, back to the system."""


class _Borrowed:
    """Memory of another array, kept alive by ``owner``, under NumPy's array interface."""

    def __init__(self, interface: dict[str, Any], owner: Array) -> None:
        self.__array_interface__ = interface
        self.owner = owner


class CupyBackend(Backend):
    """CuPy, imported when made. Raises RuntimeError where it is not installed or no GPU answers."""

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
        # Of arrays at an address CuPy does not know whose memory they lie in: by their id, with a reference to each.
        self._owners: dict[int, tuple[ref[Any], Any]] = {}

    def device(self, array: Any) -> Device:
        return Device("cuda", int(array.device.id))

    def asarray(self, data: object, dtype: Any = None, device: Device | None = None) -> Any:
        if device is None or device.index is None:
            return self.xp.asarray(data, dtype=dtype)
        with self.xp.cuda.Device(device.index):
            return self.xp.asarray(data, dtype=dtype)

    def to_numpy(self, array: Any) -> np.ndarray:
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
    """An array type around arrays of other libraries, each instance with a backend by what it holds."""

    __slots__ = ()

    backend: Any
    dtype: Any
    ndim: int
    examples: Any
    value: Any
    level: Any
    mapped: bool

    def takes_loops(self) -> bool:
        """Whether compiled loops are to be used on the array; they know NumPy's arrays only."""
        return False

    def unshared(self, holders: int) -> bool:
        """Whether nobody can see the memory but so many who hold this array, the caller among them."""
        raise NotImplementedError

    def overlaps(self) -> bool:
        """Whether several elements may share a place in memory."""
        raise NotImplementedError

    def copy(self) -> Any:
        """The same values in memory of their own."""
        raise NotImplementedError

    def tensor_repr(self, x: Any) -> str:
        """The text of the Tensor around this array."""
        return repr(self)

    def detached(self) -> Any:
        """The same memory, without a history on any layer."""
        raise NotImplementedError


NUMPY = Backend()
_backends: dict[type, Backend] = {np.ndarray: NUMPY}


def register_backend(backend: Backend) -> None:
    """Let Tensors hold arrays of ``backend.array_type``."""
    _backends[backend.array_type] = backend


def unregister_backend(backend: Backend) -> None:
    """Take back ``register_backend``."""
    del _backends[backend.array_type]


def registered_backends() -> tuple[Backend, ...]:
    """The backends of all array libraries in use."""
    return tuple(_backends.values())


def backend_of(array: Any) -> Backend:
    """The backend of an array, by its type. Raises TypeError for what is not an array of a known library."""
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
    raise TypeError(f"wanted a NumPy or CuPy array, got {kind.__module__}.{kind.__qualname__}")


def is_array(value: object) -> TypeGuard[Array]:
    """Whether the value is an array (not a NumPy scalar) of a known library."""
    return is_array_type(type(value))


def is_array_type(kind: type) -> bool:
    """Whether the type is that of a known library's arrays."""
    return kind in _backends or _computes_as_array(kind)


@lru_cache(256)
def _computes_as_array(kind: type) -> bool:
    """Whether a type is NumPy's or CuPy's, and no subclass that computes otherwise (masked arrays, units)."""
    if not issubclass(kind, np.ndarray):
        return issubclass(kind, Wrapping) or str(kind.__module__).partition(".")[0] == "cupy"
    return (
        kind.__array_ufunc__ is np.ndarray.__array_ufunc__
        and kind.__array_function__ is np.ndarray.__array_function__
        and not any(base.__module__.startswith("numpy.ma") for base in kind.__mro__)
    )


def array_module(array: Any) -> Any:
    """``numpy`` or ``cupy``, whichever made the array (a Tensor stands for its array)."""
    if array.__class__ is np.ndarray:
        return np
    return backend_of(getattr(array, "array", array)).xp


def all_examples(array: Any) -> Any:
    """The numbers behind an array: of one that ``vmap`` maps those of all examples, of any other itself.

    Checks of values ask these: what must hold for each example must hold for all. Of a ``meta`` array they are zeros,
    at most one along each axis.
    """
    return array if array.__class__ is np.ndarray else getattr(array, "examples", array)


FEW = 32  # numbers whose least and largest Python finds before NumPy has begun


def extent(array: Array) -> tuple[int, int]:
    """The least and the largest of the integers in an array, of all examples."""
    numbers = all_examples(array)
    if numbers.__class__ is np.ndarray and numbers.size <= FEW:
        few = numbers.ravel().tolist()
        return min(few), max(few)
    return numbers.min().item(), numbers.max().item()


_SIGNED, _UNSIGNED = np.dtype(np.int64), np.dtype(np.uint64)


def lie_within(array: Array, length: int) -> bool:
    """Whether the integers, of which there are some, are known to lie in ``range(length)``: cheaper than ``extent``."""
    if array.__class__ is not np.ndarray or array.dtype is not _SIGNED or not array.flags.c_contiguous:
        return False
    numbers = array.view(_UNSIGNED)  # in which negative ones are large
    return bool(numbers.item(numbers.argmax()) < length)


def get_array_module(*values: Any) -> Any:
    """The module of the arrays, for programs that run on any device: ``cupy`` where one is CuPy's, else ``numpy``.

    Args:
        values: Tensors, which stand for their arrays, arrays, numbers and whatever else; none gives NumPy.

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
    """The CuPy backend, made at the first call."""
    for backend in _backends.values():
        if backend.name == "cupy":
            return backend
    backend = CupyBackend()
    register_backend(backend)
    return backend


def is_cuda_available() -> bool:
    """Whether CuPy is installed and a GPU answers."""
    from importlib.util import find_spec

    if "cupy" not in sys.modules and find_spec("cupy") is None:
        return False
    try:
        return bool(cupy_backend().xp.cuda.is_available())
    except Exception:  # CuPy raises many types where the driver or a library is missing.
        return False


_default_device: Device | None = None


def get_default_device() -> Device:
    """The device new tensors are made on: what ``set_default_device`` said, else by ``RETROGRAD_BACKEND``.

    Raises:
        RuntimeError: ``RETROGRAD_BACKEND`` is none of ``auto``, ``numpy``, ``cupy``, or asks for a GPU that
            is not there.
    """
    global _default_device
    if _any_entered and _entered.devices:
        return _entered.devices[-1]
    if _default_device is None:
        wanted = os.environ.get("RETROGRAD_BACKEND", "auto")
        if wanted not in ("auto", "numpy", "cupy"):
            raise RuntimeError(f"RETROGRAD_BACKEND: wanted auto, numpy or cupy, got {wanted!r}")
        if wanted == "cupy" and not is_cuda_available():
            raise RuntimeError("RETROGRAD_BACKEND=cupy: CuPy is not installed or no GPU answers")
        _default_device = Device("cuda" if wanted == "cupy" or wanted == "auto" and is_cuda_available() else "cpu")
    return _default_device


def set_default_device(device: str | Device | None) -> None:
    """Make new tensors on ``device`` from now on; None asks ``RETROGRAD_BACKEND`` again.

    Args:
        device: a Device or its name; one without a GPU behind it fails when the first Tensor is made.

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
    """The backend whose arrays live on the device (the default device for None)."""
    place = get_default_device() if device is None else Device(device)
    if place.type in WITHOUT_TENSORS:
        raise RuntimeError(f"no Tensor can be on the device {place}: Retrograd computes on 'cpu' and 'cuda'")
    if place.type == "meta":
        meta: Backend = provided["meta"]()
        return meta
    return NUMPY if place.type == "cpu" else cupy_backend()


def as_array_like(value: object, arrays: tuple[object, ...]) -> Any:
    """A result as an array of the library that the first array among the inputs is of."""
    for array in arrays:
        if type(array) is np.ndarray:
            return np.asarray(value)
        if is_array(array):
            return backend_of(array).asarray(value)
    return np.asarray(value)
