"""PyTorch's storages: the memory of a Tensor as a flat sequence of numbers or of bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from math import prod
from operator import methodcaller
from typing import Any, Literal, Self

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import Device, backend_of, is_cuda_available
from ..core.arrays.dtypes import DType, get_default_dtype
from ..core.arrays.public_dtypes import DTYPES
from ..core.arrays.public_dtypes import dtype as PublicDType
from ..core.errors import describe
from ..core.tensor.storage import share
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.memory.ledger import owner_of
from ..ops.make.filled import memory_fill
from ..ops.table.types import DeviceLike, DTypeLike
from .absent import sentence

STORAGE_DTYPES = {
    "DoubleStorage": "f8", "FloatStorage": "f4", "HalfStorage": "f2", "LongStorage": "i8", "IntStorage": "i4",
    "ShortStorage": "i2", "CharStorage": "i1", "ByteStorage": "u1", "BoolStorage": "?", "ComplexFloatStorage": "c8",
    "ComplexDoubleStorage": "c16", "BFloat16Storage": "bfloat16", "UntypedStorage": "u1",
}  # fmt: skip


def memory_of(x: Tensor) -> Array:
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

    The Tensor shares memory with everything that shares memory with x, and takes part in copy on write. If x has
    negative strides or its memory is not contiguous, the Tensor is a copy of x in row-major order.
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
        longer[present:] = memory_fill(longer.dtype) or 0
        memory = new_tensor(longer)
    x.data = memory[first : first + count].view(size)


_CONVERSIONS = {
    "bool": "bool", "byte": "uint8", "char": "int8", "short": "int16", "int": "int32", "long": "int64",
    "half": "float16", "float": "float32", "double": "float64", "bfloat16": "bfloat16",
    "complex_float": "complex64", "complex_double": "complex128", "float8_e4m3fn": "float8_e4m3fn",
    "float8_e4m3fnuz": "float8_e4m3fnuz", "float8_e5m2": "float8_e5m2", "float8_e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip


def _conversion(name: str) -> Callable[[_Storage], TypedStorage]:
    def convert(self: _Storage) -> TypedStorage:
        return self.type(_CONVERSIONS[name])

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"Return a copy with numbers of dtype {_CONVERSIONS[name]}."
    return convert


def _full_name(storage: _Storage, name: str) -> str:
    return f"torch.{type(storage).__name__}.{name}"


class _Storage:
    """The base class of storages of numbers and of bytes. Items can be read and assigned."""

    _default: PublicDType | None = None

    def __init__(
        self,
        source: Tensor | Sequence[float] | int = (),
        *,
        wrap_storage: _Storage | None = None,
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

    def _with_numbers(self) -> Array:
        """Return the memory; raise NotImplementedError on the device ``meta``."""
        if self.device.type == "meta":
            raise NotImplementedError(f"{type(self).__name__}: the numbers are not available on the device meta")
        return self._array

    def __getitem__(self, index: int | slice) -> Any:
        value = self._with_numbers()[index]
        return value.item() if value.ndim == 0 else value

    def __setitem__(self, index: int | slice, value: object) -> None:
        self._array[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """Return the numbers as a list."""
        array = self._with_numbers()
        return backend_of(array).to_numpy(array).tolist()

    def untyped(self) -> UntypedStorage:
        """Return the memory as bytes."""
        return UntypedStorage(self._tensor)

    def data_ptr(self) -> int:
        """Return the address of the memory; 0 on the device ``meta``."""
        return 0 if self.device.type == "meta" else backend_of(self._array).address(self._array)

    _cdata = property(data_ptr, doc="A number that equals that of storages on the same memory.")

    def read_as(self, dtype: DType | None) -> Array:
        """Return the numbers that ``tensor(storage, dtype=dtype)`` reads.

        Raises:
            RuntimeError: the numbers of the storage have another dtype.
        """
        wanted = np.dtype(get_default_dtype() if dtype is None else dtype)
        if wanted != self._array.dtype:
            raise RuntimeError(
                f"expected a storage of {PublicDType(wanted)} or an UntypedStorage, got a storage of {self.dtype}; "
                f"give dtype={self.dtype}, or convert the storage by its method type"
            )
        return self._array

    def __array__(self, dtype: np.typing.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(backend_of(self._array).to_numpy(self._array), dtype, copy=copy)

    def element_size(self) -> int:
        """Return the bytes per number."""
        return int(self._array.dtype.itemsize)

    def nbytes(self) -> int:
        """Return the bytes of all numbers."""
        return int(self._array.nbytes)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def is_shared(self) -> bool:
        """Return whether forked processes share the memory."""
        return bool(methodcaller("is_shared")(self._tensor))

    def clone(self) -> Self:
        """Return a copy of the memory."""
        return type(self)(new_tensor(self._array.copy()))

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return the storage of the copy of the Tensor, so that both copies share memory.

        If the Tensor covers only a part of the memory, return a copy of the memory.
        """
        copied = type(self)(deepcopy(self._tensor.detach() if self._tensor._node else self._tensor, memo))
        return copied if len(copied) == len(self) else self.clone()

    def type(self, dtype: DTypeLike | LegacyStorageType | None = None) -> Any:
        """Return a copy with numbers of another dtype; without an argument the name of the type."""
        if dtype is None:
            return self._type_name()
        if isinstance(dtype, str):
            dtype = STORAGES[dtype.removeprefix("torch.")].dtype if dtype.endswith("Storage") else dtype
        dtype = dtype.dtype if isinstance(dtype, LegacyStorageType) else dtype
        return TypedStorage(new_tensor(self._array.astype(PublicDType(dtype))))

    def _type_name(self) -> str:
        return f"torch.storage.{type(self).__name__}"

    def copy_(self, source: _Storage, non_blocking: bool = False) -> Self:
        """Write the numbers of another storage of the same length."""
        self._array[:] = source._with_numbers()
        return self

    def fill_(self, value: float) -> Self:
        """Set all elements to one number."""
        self._array[:] = value
        return self

    def cpu(self) -> Self:
        """Return the storage, or a copy on the CPU."""
        return self if self.device.type == "cpu" else type(self)(new_tensor(self._array).cpu())

    def cuda(self, device: DeviceLike | None = None, non_blocking: bool = False) -> Self:
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

    def to(self, *, device: DeviceLike, non_blocking: bool = False) -> Self:
        """Return the storage, or a copy on another device."""
        return self if Device(device) == self.device else type(self)(new_tensor(self._array).to(device))

    def hpu(self, device: DeviceLike | None = None, non_blocking: bool = False) -> Self:
        """Raise the error of a device that Retrograd does not have."""
        return self.to(device="hpu")

    def mps(self) -> Self:
        """Raise the error of a device that Retrograd does not have."""
        return self.to(device="mps")

    def new(self) -> Self:
        """Return an empty storage of the same kind."""
        return type(self)(new_tensor(self._array[:0].copy()))

    def pin_memory(self, device: DeviceLike | None = None) -> Self:
        """Return the storage: copies to a GPU do not need pinned memory here."""
        return self

    def share_memory_(self) -> Self:
        """Move the Tensor of the storage to memory that forked processes share.

        Raises:
            RuntimeError: the storage is not on the CPU.
        """
        if self.device.type != "cpu":
            raise RuntimeError(f"share_memory_: only available on CPU, got a storage on {self.device}")
        methodcaller("share_memory_")(self._tensor)
        self._array = memory_of(self._tensor).view(self._array.dtype)
        return self

    def resizable(self) -> bool:
        """Return False: a Tensor is resized by its own method."""
        return False

    def resize_(self, size: int) -> Self:
        """Change the length, on the device ``meta`` only.

        Raises:
            RuntimeError: the storage is on another device.
        """
        if self.device.type == "meta":
            self._tensor = new_tensor(self._array).new_empty(size)
            self._array = self._tensor.array
            return self
        raise RuntimeError("resize_: trying to resize storage that is not resizable; use Tensor.resize_")

    def pickle_storage_type(self) -> str:
        """Return the name that files give the storage, such as ``FloatStorage``."""
        return next(name for name, dtype in STORAGE_DTYPES.items() if np.dtype(dtype) == self._array.dtype)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}. {sentence(_full_name(self, name))}")

    def _rows(self) -> str:
        return "..." if self.device.type == "meta" else "\n".join(f" {value}" for value in self.tolist())

    def __repr__(self) -> str:
        kind = f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device})"
        return f"{self._rows()}\n[{kind} of size {len(self)}]"


for _name in _CONVERSIONS:
    setattr(_Storage, _name, _conversion(_name))


class TypedStorage(_Storage):
    """The memory of a Tensor as a flat sequence of numbers of one dtype. Items can be read and assigned.

    Args:
        source: the Tensor; a sequence of numbers; or the number of uninitialized elements to allocate.
        wrap_storage: bytes to read as numbers of ``dtype``, without a copy.
        dtype: the dtype of new numbers, by default the default dtype.
        device: where to allocate new numbers.
    """

    @property
    def _untyped_storage(self) -> UntypedStorage:
        return self.untyped()

    def _type_name(self) -> str:
        return f"torch.{'cuda.' if self.is_cuda else ''}{self.pickle_storage_type()}"


class UntypedStorage(_Storage):
    """The memory of a Tensor as bytes. Pass a Tensor, the values of new bytes, or their number."""

    _default = PublicDType("uint8")

    def __init__(self, source: Tensor | Sequence[int] | int = (), *, device: DeviceLike | None = None) -> None:
        super().__init__(source, device=device)
        self._array = self._array.view(np.uint8)

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Map the bytes of a file into memory. With ``shared``, writes to the memory change the file.

        Args:
            filename: the path.
            shared: whether to write to the file; it becomes ``nbytes`` long.
            nbytes: number of bytes; by default the whole file.
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
            return int(self._with_numbers()[index])
        part = object.__new__(UntypedStorage)
        part._tensor, part._array = self._tensor, self._array[index]
        return part

    def untyped(self) -> UntypedStorage:
        """Return the object itself."""
        return self

    def read_as(self, dtype: DType | None) -> Array:
        """Return the bytes as numbers of a dtype, by default of int64."""
        kind = np.dtype(np.int64 if dtype is None else dtype)
        return self._array[: len(self) // kind.itemsize * kind.itemsize].view(kind)

    def __repr__(self) -> str:
        return f"{self._rows()}\n[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"


# Legacy storages: ``FloatStorage([1, 2])``, ``LongStorage(3)``, ``cuda.FloatStorage``


class _LegacyStorage(TypedStorage):
    """The base class of legacy storages. A call of a legacy class returns an instance of ``TypedStorage``."""


class LegacyStorageType(type):
    """The metaclass of legacy storages. A call returns a storage of the dtype; isinstance checks dtype and device."""

    dtype: PublicDType
    is_cuda: bool

    def __call__(cls, *args: object, wrap_storage: UntypedStorage | None = None) -> TypedStorage:
        if cls.is_cuda and not is_cuda_available():
            raise TypeError(f"type {cls.path} not available: CuPy is not installed, or no GPU was found")
        if wrap_storage is not None:
            if args or not isinstance(wrap_storage, UntypedStorage) or wrap_storage.is_cuda != cls.is_cuda:
                raise TypeError(
                    f"{cls.path}: expected wrap_storage to be an UntypedStorage on its device and the only argument, "
                    f"got {describe([*args, wrap_storage])}"
                )
            return TypedStorage(wrap_storage=wrap_storage, dtype=cls.dtype)
        source = args[0] if len(args) == 1 else () if not args else None
        if not isinstance(source, (int, Sequence)) or isinstance(source, (str, bytes, bool)):
            raise TypeError(f"{cls.path}: expected a size, a sequence of numbers or wrap_storage, got {describe(args)}")
        return TypedStorage(source, dtype=cls.dtype, device="cuda" if cls.is_cuda else "cpu")

    @property
    def path(cls) -> str:
        """The name of the class in PyTorch, such as ``torch.FloatStorage``."""
        return f"{cls.__module__}.{cls.__name__}"

    def from_buffer(cls, *args: Any, **options: Any) -> TypedStorage:
        """Return a copy of the numbers of a buffer; see ``UntypedStorage.from_buffer``."""
        raw = UntypedStorage.from_buffer(*args, **{"dtype": cls.dtype, **options})
        return TypedStorage(wrap_storage=raw, dtype=cls.dtype)

    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, size: int = 0) -> TypedStorage:
        """Map ``size`` numbers of a file into memory; see ``UntypedStorage.from_file``."""
        raw = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=raw, dtype=cls.dtype)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, TypedStorage) and x._array.dtype == cls.dtype and x.is_cuda == cls.is_cuda

    def __repr__(cls) -> str:
        return f"<class {cls.path!r}>"


def _legacy(module: str) -> dict[str, LegacyStorageType]:
    dtypes = {
        "BoolStorage": "bool", "ByteStorage": "uint8", "CharStorage": "int8", "ShortStorage": "int16",
        "IntStorage": "int32", "LongStorage": "int64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
        "FloatStorage": "float32", "DoubleStorage": "float64", "ComplexFloatStorage": "complex64",
        "ComplexDoubleStorage": "complex128",
    }  # fmt: skip
    fields = {"is_cuda": module == "torch.cuda", "__module__": module}
    bases = (_LegacyStorage,)
    return {
        name: LegacyStorageType(name, bases, {"dtype": PublicDType(dtype), **fields}) for name, dtype in dtypes.items()
    }


STORAGES = _legacy("torch")
CUDA_STORAGES = _legacy("torch.cuda")

NAMES: Mapping[str, Mapping[str, object]] = {
    "retrograd": {
        **STORAGES, "Storage": TypedStorage, "TypedStorage": TypedStorage, "UntypedStorage": UntypedStorage,
    },
    "storage": {
        "TypedStorage": TypedStorage, "UntypedStorage": UntypedStorage, "_LegacyStorage": _LegacyStorage,
        "_StorageBase": UntypedStorage,
    },
}  # fmt: skip
