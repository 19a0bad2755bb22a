"""PyTorch's types beside Tensor: layouts, legacy constructors, Variable, storages, aliases for annotations."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from operator import methodcaller
from typing import Any, Literal

import numpy as np

from ..autograd.context import Context
from ..autograd.function import Function
from ..core.arrays import Array
from ..core.arrays.devices import Device, backend_of, is_cuda_available, set_default_device
from ..core.arrays.dtypes import get_default_dtype, set_default_dtype
from ..core.arrays.public_dtypes import DTYPES
from ..core.arrays.public_dtypes import dtype as PublicDType
from ..core.errors import describe
from ..core.tensor.storage import share
from ..core.tensor.tensor import Tensor, constructed, new_tensor
from ..func.ledger import owner_of
from ..ops.table.types import DeviceLike, DTypeLike
from .absent import sentence

# Layouts and memory formats


class _Named:
    """A constant with a name. Programs compare with ``is``, so each name has one instance."""

    name: str

    def __new__(cls, name: str) -> _Named:
        if (cls, name) not in _instances:
            _instances[cls, name] = instance = object.__new__(cls)
            instance.name = name
        return _instances[cls, name]

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name,)


_instances: dict[tuple[type[_Named], str], _Named] = {}


class layout(_Named):
    """A storage layout. Every Tensor is ``strided``."""


class memory_format(_Named):
    """An order of elements in memory. Operators accept the argument and ignore it: results have NumPy's order."""


# Legacy constructors: ``FloatTensor([1, 2])``, ``LongTensor(2, 3)``, ``cuda.FloatTensor``


class LegacyType(type):
    """The metaclass of legacy types. A call returns a Tensor of the dtype; isinstance checks dtype and device."""

    dtype: PublicDType
    is_cuda: bool

    def __call__(cls, *data: Any, device: Any = None) -> Any:
        _check_available(cls)
        if len(data) == 1 and isinstance(data[0], Tensor) and data[0].dtype != cls.dtype:
            raise TypeError(
                f"{cls.__name__}: expected a Tensor of {cls.dtype.name}, got {describe(data[0])}; convert it with .to()"
            )
        place = "cuda" if cls.is_cuda and device is None else device
        return new_tensor(constructed(cls.__name__, data, cls.dtype, place or "cpu"))

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and x.array.dtype == cls.dtype and x.is_cuda == cls.is_cuda

    def __repr__(cls) -> str:
        return f"<class 'torch.{'cuda.' if cls.is_cuda else ''}{cls.__name__}'>"


def _check_available(kind: LegacyType) -> None:
    if kind.is_cuda and not is_cuda_available():
        raise TypeError(f"type torch.cuda.{kind.__name__} not available: CuPy is not installed, or no GPU was found")


def _types(is_cuda: bool) -> dict[str, LegacyType]:
    dtypes = {
        "BoolTensor": "bool", "ByteTensor": "uint8", "CharTensor": "int8", "ShortTensor": "int16",
        "IntTensor": "int32", "LongTensor": "int64", "HalfTensor": "float16", "FloatTensor": "float32",
        "DoubleTensor": "float64", "ComplexFloatTensor": "complex64", "ComplexDoubleTensor": "complex128",
    }  # fmt: skip
    fields = {"is_cuda": is_cuda, "__module__": "torch.cuda" if is_cuda else "torch"}
    return {name: LegacyType(name, (), {"dtype": PublicDType(dtype), **fields}) for name, dtype in dtypes.items()}


CPU_TYPES = _types(False)
CUDA_TYPES = _types(True)


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype and the default device by a legacy type or its name (``"torch.DoubleTensor"``).

    >>> import retrograd as rg
    >>> rg.set_default_tensor_type("torch.FloatTensor")
    >>> rg.get_default_dtype()
    retrograd.float32

    Raises:
        TypeError: the type does not exist, is not floating point, or needs a GPU that is not available.
    """
    kind = t
    if isinstance(t, str):
        path = t.removeprefix("torch.").removeprefix("retrograd.")
        kind = CUDA_TYPES.get(path[5:]) if path.startswith("cuda.") else CPU_TYPES.get(path)
    if kind is Tensor:
        kind = CPU_TYPES["FloatTensor"]
    if not isinstance(kind, LegacyType):
        raise TypeError(f"set_default_tensor_type: invalid type name: {t!r}")
    _check_available(kind)
    set_default_dtype(kind.dtype)
    set_default_device("cuda" if kind.is_cuda else "cpu")


# ``autograd.Variable`` and other names of ``autograd``


class _VariableType(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor)

    def __call__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable: data has to be a Tensor, but got {type(data).__name__}")
        result = data.detach()
        result.requires_grad = bool(requires_grad) and not volatile
        return result


class Variable(metaclass=_VariableType):
    """``Variable(x)`` is a Tensor that shares the memory of x and is detached from it. Every Tensor is a Variable.

    >>> import retrograd as rg
    >>> x = rg.autograd.Variable(rg.ones(2), requires_grad=True)
    >>> x, isinstance(x, rg.autograd.Variable)
    (tensor([1., 1.], requires_grad=True), True)
    """


class InplaceFunction(Function):
    """A Function that may write to its input, with ``mark_dirty``."""


class NestedIOFunction(Function):
    """A Function. Tensors inside nested arguments are not extracted."""


def traceable(cls: Callable[..., Any]) -> Callable[..., Any]:
    """Return the class unchanged."""
    return cls


class _Threads(threading.local):
    enabled = True


_threads = _Threads()


class set_multithreading_enabled:
    """Accepted for compatibility: a backward pass runs on the calling thread with either value.

    The value is set at once; the end of a ``with`` statement restores the previous one.
    """

    def __init__(self, mode: bool) -> None:
        self._before, _threads.enabled = _threads.enabled, bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _threads.enabled = self._before


def is_multithreading_enabled() -> bool:
    """Return the last value of ``set_multithreading_enabled`` on this thread, by default True."""
    return _threads.enabled


FunctionCtx = Context


# ``Tensor.storage()``


def memory_of(x: Tensor) -> Any:
    """Return the whole memory that contains the Tensor, as a one-dimensional array of the Tensor's dtype."""
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
    """Return a Tensor on the whole memory that contains x, and the position of x's first element in this memory.

    The Tensor shares memory with everything that shares memory with x, and takes part in copy on write. If x's elements
    do not follow the first one in a contiguous memory (negative strides), the Tensor is a copy of x in row-major order.
    """
    memory, backend = memory_of(x), backend_of(x.array)
    first = (backend.address(x.array) - backend.address(memory)) // x.array.dtype.itemsize
    if 0 <= first < memory.size and min(x.array.strides, default=0) >= 0:
        whole = new_tensor(memory)
        share(whole, x, related=False)
        return whole, first
    return new_tensor(x.array.reshape(-1).copy()), 0


def resize(x: Tensor, size: tuple[int, ...]) -> None:
    """Give x another size: row-major from its first element on, in its memory or in a larger copy of the memory."""
    count = prod(size)
    memory, first = place_in_memory(x)
    present = memory.array.size
    if first + count > present:
        longer = backend_of(memory.array).xp.zeros(first + count, memory.array.dtype)
        longer[:present] = memory.array
        memory = new_tensor(longer)
    x.data = memory[first : first + count].view(size)


_CONVERSIONS = {
    "bool": "bool", "byte": "uint8", "char": "int8", "short": "int16", "int": "int32", "long": "int64",
    "half": "float16", "float": "float32", "double": "float64", "bfloat16": "bfloat16",
    "complex_float": "complex64", "complex_double": "complex128", "float8_e4m3fn": "float8_e4m3fn",
    "float8_e4m3fnuz": "float8_e4m3fnuz", "float8_e5m2": "float8_e5m2", "float8_e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip


def _conversion(name: str) -> Callable[[TypedStorage], TypedStorage]:
    def convert(self: TypedStorage) -> TypedStorage:
        converted: TypedStorage = self.type(_CONVERSIONS[name])
        return converted

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"Return a copy with numbers of dtype {_CONVERSIONS[name]}."
    return convert


def _full_name(storage: TypedStorage, name: str) -> str:
    return f"torch.{type(storage).__name__}.{name}"


class TypedStorage:
    """The memory of a Tensor as a flat sequence of numbers of one dtype. Items can be read and assigned.

    Args:
        source: the Tensor; a sequence of numbers, or how many numbers of any value to allocate.
        wrap_storage: bytes to read as numbers of ``dtype``, without a copy.
        dtype: the dtype of new numbers, by default the default dtype.
        device: where to allocate new numbers.
    """

    _default: PublicDType | None = None

    def __init__(
        self,
        source: Tensor | Sequence[float] | int = (),
        *,
        wrap_storage: TypedStorage | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
        **options: object,
    ) -> None:
        if wrap_storage is not None:
            source = new_tensor(wrap_storage._array.view(np.dtype(PublicDType(dtype))))
            share(source, wrap_storage._tensor, related=False)
        elif not isinstance(source, Tensor):
            kind = np.dtype(PublicDType(dtype or self._default or get_default_dtype()))
            numbers = np.empty(source, kind) if isinstance(source, int) else np.array(source, kind)
            source = new_tensor(numbers).to(device or "cpu")
        self._tensor: Tensor = source
        self._array: Array = memory_of(source)

    @property
    def dtype(self) -> PublicDType:
        """The dtype of the numbers."""
        return DTYPES[self._array.dtype]

    @property
    def device(self) -> Device:
        """The device of the memory."""
        return self._tensor.device

    def __len__(self) -> int:
        return int(self._array.size)

    size = __len__

    def __getitem__(self, index: int | slice) -> Any:
        value = self._array[index]
        return value.item() if value.ndim == 0 else value

    def __setitem__(self, index: int | slice, value: object) -> None:
        self._array[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """Return the numbers as a list."""
        numbers: list[Any] = backend_of(self._array).to_numpy(self._array).tolist()
        return numbers

    def untyped(self) -> UntypedStorage:
        """Return the memory as bytes."""
        return UntypedStorage(self._tensor)

    def data_ptr(self) -> int:
        """Return the address of the memory."""
        return backend_of(self._array).address(self._array)

    def element_size(self) -> int:
        """Return the bytes per number."""
        return int(self._array.dtype.itemsize)

    def nbytes(self) -> int:
        """Return the bytes of all numbers."""
        return int(self._array.nbytes)

    def is_shared(self) -> bool:
        """Return whether forked processes share the memory."""
        return bool(methodcaller("is_shared")(self._tensor))

    def clone(self) -> TypedStorage:
        """Return a copy of the memory."""
        return type(self)(new_tensor(self._array.copy()))

    def type(self, dtype: DTypeLike | None = None) -> Any:
        """Return a copy with numbers of another dtype; without an argument the name of the type."""
        if dtype is None:
            return f"torch.storage.{type(self).__name__}"
        return TypedStorage(new_tensor(self._array.astype(PublicDType(dtype))))

    def copy_(self, source: TypedStorage, non_blocking: bool = False) -> TypedStorage:
        """Write the numbers of another storage of the same length."""
        self._array[:] = source._array
        return self

    def fill_(self, value: float) -> TypedStorage:
        """Write one number everywhere."""
        self._array[:] = value
        return self

    def cpu(self) -> TypedStorage:
        """Return the storage, or a copy on the CPU."""
        return self if self.device.type == "cpu" else type(self)(new_tensor(self._array).cpu())

    def cuda(self, device: DeviceLike | None = None, non_blocking: bool = False) -> TypedStorage:
        """Return a copy on a GPU."""
        return type(self)(new_tensor(self._array).cuda(device))

    def is_pinned(self, device: DeviceLike | None = None) -> bool:
        """Return False: memory is not pinned."""
        return False

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a GPU."""
        return bool(self._tensor.is_cuda)

    is_sparse = False

    is_hpu = is_sparse_csr = False
    filename: str | None = None

    def get_device(self) -> int:
        """Return the number of the GPU, -1 for the CPU."""
        device = self.device
        return -1 if device.type == "cpu" else device.index or 0

    def to(self, *, device: DeviceLike, non_blocking: bool = False) -> TypedStorage:
        """Return the storage, or a copy on another device."""
        return self if Device(device) == self.device else type(self)(new_tensor(self._array).to(device))

    def hpu(self, device: DeviceLike | None = None, non_blocking: bool = False) -> TypedStorage:
        """Raise the error of a device that Retrograd does not have."""
        return self.to(device="hpu")

    def mps(self) -> TypedStorage:
        """Raise the error of a device that Retrograd does not have."""
        return self.to(device="mps")

    def new(self) -> TypedStorage:
        """Return an empty storage of the same kind."""
        return type(self)(new_tensor(self._array[:0].copy()))

    def pin_memory(self, device: DeviceLike | None = None) -> TypedStorage:
        """Return the storage: copies to a GPU do not need pinned memory here."""
        return self

    def share_memory_(self) -> TypedStorage:
        """Move the Tensor of the storage to memory that forked processes share."""
        methodcaller("share_memory_")(self._tensor)
        self._array = memory_of(self._tensor).view(self._array.dtype)
        return self

    def resizable(self) -> bool:
        """Return False: a Tensor is resized by its own method."""
        return False

    def resize_(self, size: int) -> TypedStorage:
        """Raise an error.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("resize_: trying to resize storage that is not resizable; use Tensor.resize_")

    def pickle_storage_type(self) -> str:
        """Return the name that files give the storage, such as ``FloatStorage``."""
        from .files.arrays import STORAGE_DTYPES

        return next(name for name, dtype in STORAGE_DTYPES.items() if np.dtype(dtype) == self._array.dtype)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}. {sentence(_full_name(self, name))}")

    def __repr__(self) -> str:
        rows = "\n".join(f" {value}" for value in self.tolist())
        return f"{rows}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


for _name in _CONVERSIONS:
    setattr(TypedStorage, _name, _conversion(_name))


class UntypedStorage(TypedStorage):
    """The memory of a Tensor as bytes. New memory is given by a number of bytes, or by their values."""

    _default = PublicDType("uint8")

    def __init__(self, source: Tensor | Sequence[int] | int = (), *, device: DeviceLike | None = None) -> None:
        super().__init__(source, device=device)
        self._array = self._array.view(np.uint8)

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Map the bytes of a file into memory. With ``shared`` what is written to the memory goes to the file.

        Args:
            filename: the path.
            shared: whether to write to the file; it becomes ``nbytes`` long.
            nbytes: number of bytes; those of the whole file by default.
        """
        count = nbytes or os.path.getsize(filename)
        if shared:
            with open(filename, "ab") as file:
                file.truncate(max(count, file.tell()))
        mapped = (
            np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(count,)) if count else np.empty(0, np.uint8)
        )
        return cls(new_tensor(np.asarray(mapped)))

    @classmethod
    def from_buffer(
        cls,
        buffer: bytes | bytearray | memoryview,
        byte_order: str = "native",
        count: int = -1,
        offset: int = 0,
        dtype: DTypeLike = "uint8",
    ) -> UntypedStorage:
        """Return a copy of ``count`` numbers of a buffer, from byte ``offset`` on.

        Args:
            byte_order: the order of the buffer's bytes: ``native``, ``little`` or ``big``.
        """
        orders: dict[str, Literal["=", "<", ">"]] = {"native": "=", "little": "<", "big": ">"}
        kind = np.dtype(dtype).newbyteorder(orders[byte_order])
        return cls(new_tensor(np.frombuffer(buffer, kind, count, offset).astype(np.dtype(dtype))))

    def byteswap(self, dtype: DTypeLike) -> None:
        """Reverse the bytes of each number, in place."""
        self._array.view(np.dtype(dtype)).byteswap(inplace=True)

    def __getitem__(self, index: int | slice) -> int | UntypedStorage:
        if not isinstance(index, slice):
            return int(self._array[index])
        part = object.__new__(UntypedStorage)
        part._tensor, part._array = self._tensor, self._array[index]
        return part

    def untyped(self) -> UntypedStorage:
        """Return the object itself."""
        return self

    def __array__(self, dtype: np.typing.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(backend_of(self._array).to_numpy(self._array), dtype, copy=copy)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()


# Aliases that programs use in annotations

_ALIASES = {
    "Number": bool | int | float,
    "_int": int,
    "_bool": bool,
    "_dtype": PublicDType,
    "_device": Device,
    "_size_1_t": int | tuple[int],
    "_size_2_t": int | tuple[int, int],
    "_size_3_t": int | tuple[int, int, int],
    "_size_any_t": int | tuple[int, ...],
    "_ratio_2_t": float | tuple[float, float],
    "_ratio_any_t": float | tuple[float, ...],
    "_collate_fn_t": Callable[[list[Any]], Any],
    "_worker_init_fn_t": Callable[[int], None],
}

_AUTOGRAD = "InplaceFunction NestedIOFunction Variable is_multithreading_enabled set_multithreading_enabled traceable"
NAMES: Mapping[str, str | Mapping[str, object]] = {
    "retrograd": {**CPU_TYPES, "set_default_tensor_type": set_default_tensor_type},
    "autograd": f"FunctionCtx {_AUTOGRAD}",
    "storage": "TypedStorage UntypedStorage",
    "types": {**_ALIASES, "Device": Device, "layout": layout, "memory_format": memory_format},
}
