"""Write PyTorch's zip archives. PyTorch loads them with ``weights_only=True``, views and shared memory included.

An archive contains a pickle of protocol 2, ``data.pkl``, and a record for each memory of tensors. The pickle calls
PyTorch's functions by name for tensors, parameters, dtypes, sizes and devices, and names no class of this package.
Whole Modules and other objects are pickled by the names of their classes.
"""

from __future__ import annotations

import _codecs
import pickle
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from io import BytesIO
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import Device, backend_of
from ...core.arrays.dtypes import DType
from ...core.arrays.layout import Size
from ...core.arrays.public_dtypes import NAMED_ONLY
from ...core.arrays.public_dtypes import dtype as PublicDType
from ...core.tensor.storage import byte_span
from ...core.tensor.tensor import Tensor
from ...func.memory.ledger import owner_of
from ...nn.parameter import Buffer, Parameter
from ...ops.linear.sparse.compressed import CompressedColumnsTensor
from ...ops.linear.sparse.sparse import CompressedTensor, SparseTensor
from ..storages import STORAGE_DTYPES
from ..types import layout
from .records import DTYPE_NAMES, Writer

_STORAGE_NAMES = {dtype: name for name, dtype in STORAGE_DTYPES.items() if name != "UntypedStorage"}
_NAMES_OF_DTYPES = {np.dtype(code): name for name, code in reversed(DTYPE_NAMES.items())}
_CODES = {np.dtype(code): code for code in _STORAGE_NAMES if code != "bfloat16"}

_PLAIN = {
    dict, OrderedDict, defaultdict, Counter, list, tuple, set, frozenset, str, bytes, bytearray, int, float, complex,
    bool, type(None), slice, range,
}  # fmt: skip
# Functions and classes that the reductions of plain values and arrays refer to.
_FUNCTIONS = {*_PLAIN, np.ndarray, np.dtype, _codecs.encode, np.ones(0).__reduce__()[0], np.float64(0).__reduce__()[0]}


class _TorchName:
    """A name of PyTorch, written without importing it. It is callable because pickle requires it."""

    def __init__(self, module: str, name: str) -> None:
        self.line = f"{module}\n{name}\n".encode()

    def __call__(self) -> None:
        raise NotImplementedError


_torch_name = lru_cache(None)(_TorchName)


class _NumpyDtype(NamedTuple):
    """The dtype of an array, written as NumPy's dtype. A dtype outside an array is written as PyTorch's."""

    dtype: DType


class _Memory:
    """The memory of one or more tensors: a record of the archive, and a persistent id in the pickle."""

    def __init__(self, key: str, root: Array, dtype: DType) -> None:
        backend = backend_of(root)
        code = _CODES.get(dtype, "bfloat16" if dtype.name == "bfloat16" else None)
        self.dtype = np.dtype(np.uint8) if code is None else dtype
        self.low, high = byte_span(root)
        self.size = (high - self.low) // self.dtype.itemsize * self.dtype.itemsize
        place = self.low - backend.address(root)
        self._bytes = backend.strided(root, place, (self.size,), (1,), np.dtype(np.uint8))
        untyped = _torch_name("torch.storage", "UntypedStorage")
        kind = untyped if code is None else _torch_name("torch", _STORAGE_NAMES[code])
        self.identity = ("storage", kind, key, str(backend.device(root)), self.size // self.dtype.itemsize)

    def content(self) -> memoryview:
        return np.ascontiguousarray(backend_of(self._bytes).to_numpy(self._bytes)).data

    def offset(self, array: Array) -> int | None:
        """Return the array's offset in the memory, in elements, or None if the memory cannot represent it."""
        low, high = byte_span(array)
        width = array.dtype.itemsize
        if array.size == 0:
            return 0
        if any(stride < 0 or stride % width for stride in array.strides) or (low - self.low) % width:
            return None
        return (low - self.low) // width if self.low <= low and high <= self.low + self.size else None


def write(value: object, stream: IO[bytes], *, whole: bool) -> None:
    """Write an archive to a stream, from its present position on.

    Args:
        value: tensors, plain containers, numbers and texts.
        stream: a stream open for writing; it need not support seek.
        whole: also pickle other objects, by the names of their classes.

    Raises:
        TypeError: without ``whole``, a value has another type; the message gives its path.
        pickle.PicklingError, AttributeError: with ``whole``, an object cannot be pickled.
        ValueError: the nesting is hundreds of levels deep.
        RuntimeError: another thread changed a Tensor during the call.
    """
    data = BytesIO()
    pickler = _Pickler(data, value, whole)
    try:
        pickler.dump(value)
    except RecursionError:
        raise ValueError("save: the state is nested too deeply") from None
    archive = Writer(stream)
    archive.add("archive/data.pkl", data.getbuffer())
    archive.add("archive/byteorder", b"little")
    for key, memory in enumerate(pickler.memories):
        archive.add(f"archive/data/{key}", memory.content())
    archive.add("archive/version", b"3\n")
    archive.close()


class _Pickler(pickle._Pickler):  # the pickler in Python, because the C pickler writes only names that it can import
    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)

    def __init__(self, stream: IO[bytes], root: object, whole: bool) -> None:
        super().__init__(stream, 2)
        self._root = root
        self._whole = whole
        self.memories: list[_Memory] = []
        self._by_owner: dict[int, tuple[Array, _Memory]] = {}

    def persistent_id(self, obj: object) -> tuple[object, ...] | None:
        return obj.identity if type(obj) is _Memory else None

    def save(self, obj: object, save_persistent_id: bool = True) -> None:
        """Write any object; write a dtype by PyTorch's name."""
        named = _named_dtype(obj) if isinstance(obj, (np.dtype, PublicDType)) else obj
        super().save(named, save_persistent_id)  # type: ignore[misc]

    def _save_torch_name(self, obj: _TorchName) -> None:
        self.write(pickle.GLOBAL + obj.line)  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]

    dispatch[_TorchName] = _save_torch_name

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in (Tensor, Parameter, Buffer):
            return self._reduced(obj)
        if isinstance(obj, SparseTensor):
            return self._reduced_sparse(obj)
        if kind is layout:
            return _torch_name("torch.serialization", "_get_layout"), (str(obj),)
        if kind is Size:
            return _torch_name("torch", "Size"), (tuple(obj),)
        if kind is Device:
            place = (obj.type,) if obj.index is None else (obj.type, obj.index)
            return _torch_name("torch", "device"), place
        if kind is _NumpyDtype:
            return obj.dtype.__reduce__()
        if kind is np.ndarray and (self._whole or _is_plain_dtype(obj.dtype)):
            reduced: Any = obj.__reduce__()
            function, args, state = reduced
            return function, args, tuple(_NumpyDtype(x) if isinstance(x, np.dtype) else x for x in state)
        if isinstance(obj, np.generic) and _is_plain_dtype(obj.dtype):
            reduced = obj.__reduce__()
            function, args = reduced
            return function, (_NumpyDtype(obj.dtype), *args[1:])
        if not (self._whole or kind in _PLAIN or kind is _TorchName or _is_named(obj)):
            where = _path_to(obj, self._root) or "a part of the state"
            raise TypeError(
                f"save: {where} is a {kind.__name__}; expected Tensors, arrays, numbers, texts, None, or dicts, lists, "
                "tuples and sets of these (a module's state_dict(), not the module)"
            )
        return NotImplemented

    def _reduced(self, tensor: Tensor) -> tuple[object, ...]:
        """Return the function of PyTorch, and its arguments, that rebuild the tensor."""
        requires, attributes = tensor.requires_grad, dict(getattr(tensor, "__dict__", {}))
        is_parameter = type(tensor) is Parameter
        function, args = self._rebuild_call(tensor, requires and not is_parameter)
        if is_parameter:
            data = _Call(function, args)
            if attributes:
                name = _torch_name("torch._utils", "_rebuild_parameter_with_state")
                return name, (data, requires, OrderedDict(), attributes)
            return _torch_name("torch._utils", "_rebuild_parameter"), (data, requires, OrderedDict())
        if type(tensor) is Buffer:
            attributes["_is_buffer"] = True
        if attributes:
            kind = _torch_name("torch", "Tensor")
            return _torch_name("torch._tensor", "_rebuild_from_type_v2"), (function, kind, args, attributes)
        return function, args

    def _reduced_sparse(self, a: SparseTensor) -> tuple[object, ...]:
        """Return the function of PyTorch, and its arguments, that rebuild the sparse Tensor."""
        size = Size(a.shape)
        if isinstance(a, CompressedTensor):
            parts: tuple[object, ...] = a.crow_indices(), a.col_indices(), a.values().detach(), size
        elif isinstance(a, CompressedColumnsTensor):
            parts = a.ccol_indices(), a.row_indices(), a.values().detach(), size
        else:
            parts = a._indices(), a._values().detach(), size, a.is_coalesced()
        return _torch_name("torch._utils", "_rebuild_sparse_tensor"), (a.layout, parts)

    def _rebuild_call(self, tensor: Tensor, requires_grad: bool) -> tuple[_TorchName, tuple[object, ...]]:
        array = tensor.array
        named = _named_dtype(array.dtype)
        if not isinstance(named, _TorchName):
            where = _path_to(tensor, self._root) or "a Tensor"
            raise TypeError(f"save: {where} has dtype {array.dtype}, which PyTorch does not have")
        memory = self._memory_of(array)
        offset = memory.offset(array)
        if offset is None:  # PyTorch's tensors have no negative strides or fractional offsets
            array = backend_of(array).xp.array(array, order="C")
            memory = self._memory_of(array)
            offset = 0
        strides = tuple(stride // array.dtype.itemsize for stride in array.strides)
        args: tuple[object, ...] = (memory, offset, tuple(array.shape), strides, requires_grad, OrderedDict())
        if memory.dtype == array.dtype:
            return _torch_name("torch._utils", "_rebuild_tensor_v2"), args
        return _torch_name("torch._utils", "_rebuild_tensor_v3"), (*args, named)

    def _memory_of(self, array: Array) -> _Memory:
        owner = array
        while (below := owner_of(owner)) is not None:
            owner = below
        found = self._by_owner.get(id(owner))
        if found is None:
            found = self._by_owner[id(owner)] = owner, _Memory(str(len(self.memories)), owner, array.dtype)
            self.memories.append(found[1])
        return found[1]


class _Call:
    """A call in the file whose result has no other reference."""

    def __init__(self, function: _TorchName, args: tuple[object, ...]) -> None:
        self._call = function, args

    def __reduce__(self) -> tuple[_TorchName, tuple[object, ...]]:
        return self._call


def _is_plain_dtype(dtype: DType) -> bool:
    return dtype.kind in "biufcSU" or dtype.name == "bfloat16"


def _named_dtype(dtype: DType) -> _TorchName | _NumpyDtype:
    if type(dtype) is PublicDType and dtype.name in NAMED_ONLY:
        return _torch_name("torch", dtype.name)
    name = "bfloat16" if dtype.name == "bfloat16" else _NAMES_OF_DTYPES.get(dtype) if dtype.isnative else None
    return _NumpyDtype(np.dtype(dtype)) if name is None else _torch_name("torch", name)


def _is_named(obj: object) -> bool:
    """Return whether the reductions of plain values refer to the object."""
    if type(obj) is _Call or type(obj) is _Memory:
        return True
    return any(obj is function for function in _FUNCTIONS) or isinstance(obj, type) and obj.__module__ == "ml_dtypes"


def _path_to(wanted: object, value: object, path: str = "", depth: int = 0) -> str | None:
    """Return the path of an object in nested containers, such as ``model.layers.0``, or None."""
    if value is wanted:
        return path or "the state"
    items: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    for key, item in items if depth < 20 else ():
        found = _path_to(wanted, item, f"{path}.{key}" if path else str(key), depth + 1)
        if found is not None:
            return found
    return None
