"""Read PyTorch's ``.pt`` files with an unpickler that creates only tensors, plain containers and listed classes.

Two formats are read: the zip archive (since PyTorch 1.6), which ``save`` also writes, and the older sequence of
pickles. A stream may contain several files, one after another.

There are three tables of the names that an untrusted file may use (``weights_only``): names of PyTorch's files of
tensors, names of Retrograd's own files, and names that the program lists by ``add_safe_globals``. Modules of this
package are created without ``__init__`` and get the state of a Module. Operators are values; a file cannot call them.
"""

from __future__ import annotations

import pickle
import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from io import BytesIO
from typing import IO, Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.bfloat16 import bfloat16_or_none
from ...core.arrays.devices import Device
from ...core.arrays.layout import Size
from ...core.arrays.public_dtypes import NAMED_ONLY, bfloat16, dtype
from ...core.tensor.tensor import Tensor
from ...nn.base.module import Module
from ...nn.parameter import Buffer, Parameter
from ...ops.table.registry import OPERATORS
from ...safetensors_format import CorruptFileError
from ..storages import STORAGE_DTYPES
from . import records
from .records import Function, Placed, Reader, Storage, StorageType
from .sealed_pickle import Name, SealedUnpickler

_safe: list[Any] = []


def add_safe_globals(safe_globals: Iterable[object]) -> None:
    """Allow ``load(weights_only=True)`` to use these classes and functions, from now on."""
    _safe.extend(safe_globals)


def get_safe_globals() -> list[object]:
    """Return the classes and functions that ``add_safe_globals`` listed."""
    return list(_safe)


def clear_safe_globals() -> None:
    """Remove the classes and functions that ``add_safe_globals`` listed."""
    _safe.clear()


class safe_globals:
    """A context manager that allows ``load(weights_only=True)`` to use these classes and functions."""

    def __init__(self, safe_globals: Iterable[object]) -> None:
        self.safe_globals = list(safe_globals)

    def __enter__(self) -> None:
        self._before = list(_safe)
        _safe.extend(self.safe_globals)

    def __exit__(self, *error: object) -> None:
        _safe[:] = self._before


def called(function: Callable[..., object]) -> Name:
    """Return the entry of a function that a file may call."""
    value = Function(function)
    return Name(value, make=value)


def torch_names() -> dict[tuple[str, str], object]:
    """Return the values of names in PyTorch's files of tensors, for any unpickler."""
    names: dict[tuple[str, str], object] = {
        ("torch._utils", "_rebuild_tensor"): Function(records.rebuilt_tensor),
        ("torch._utils", "_rebuild_tensor_v2"): Function(records.rebuilt_tensor),
        ("torch._utils", "_rebuild_tensor_v3"): Function(records.rebuilt_tensor_of_dtype),
        ("torch._utils", "_rebuild_sparse_tensor"): Function(records.rebuilt_sparse),
        ("torch.serialization", "_get_layout"): Function(records.layout_named),
        ("torch._utils", "_rebuild_parameter"): Function(records.rebuilt_parameter),
        ("torch._utils", "_rebuild_parameter_with_state"): Function(records.rebuilt_parameter),
        ("torch._tensor", "_rebuild_from_type_v2"): Function(records.rebuilt_with_attributes),
        ("torch", "Tensor"): Tensor,
        ("torch.nn.parameter", "Parameter"): Parameter,
        ("torch.nn.parameter", "Buffer"): Buffer,
        ("torch", "Size"): Size,
        ("torch", "device"): Device,
    }
    names |= {("torch", name): records.StorageType(name) for name in STORAGE_DTYPES}
    names["torch.storage", "UntypedStorage"] = records.StorageType("UntypedStorage")
    names |= {("torch", name): dtype(code) for name, code in records.DTYPE_NAMES.items()}
    names |= {("torch", name): named for name, named in NAMED_ONLY.items()}
    names["torch", "bfloat16"] = bfloat16
    return names


class FileNames:
    """The names that one file may use.

    Args:
        placed: moves a Tensor from the CPU, given the device that the file names.
        filled: whether storages have their elements when Tensors are created from them.
    """

    def __init__(self, placed: records.Placed, filled: bool = True) -> None:
        self._unpickler: SealedUnpickler | None = None
        self._copies = records.Copies(placed)
        self._without_state: set[int] = set()  # Modules whose state has not been read yet
        self._names: dict[tuple[str, str], Name] = {}
        for name, value in torch_names().items():
            self._names[name] = Name(value, make=value if isinstance(value, Function) else None)
        if not filled:
            self._names["torch._utils", "_rebuild_sparse_tensor"] = called(records.unfilled_sparse)
        self._add_containers()
        self._add_own()
        self._listed: dict[tuple[str, str], object] = {}
        for item in _safe:
            item, full = item if isinstance(item, tuple) else (item, f"{item.__module__}.{item.__qualname__}")
            module, _, qualified = full.rpartition(".")
            self._listed[module, qualified] = item
            self._listed[getattr(item, "__module__", module), getattr(item, "__qualname__", "")] = item

    def reads_for(self, unpickler: SealedUnpickler) -> None:
        """Set the unpickler whose budget is charged."""
        self._unpickler = unpickler

    def find(self, module: str, name: str) -> Name:
        """Return the entry of a name.

        Raises:
            CorruptFileError: the name is not allowed.
        """
        module = {"__builtin__": "builtins", "numpy.core.multiarray": "numpy._core.multiarray"}.get(module, module)
        module = "numpy._core.numeric" if module == "numpy.core.numeric" else module
        found = self._listed.get((module, name))
        if found is not None:
            return self._listed_name(found)
        entry = self._names.get((module, name))
        return self._own_module(module, name) if entry is None else entry

    def _reader(self) -> SealedUnpickler:
        assert self._unpickler is not None
        return self._unpickler

    def _add_containers(self) -> None:
        def size(items: object = ()) -> Size:
            lengths = self._reader().sequence_of(tuple, items)
            if not all(type(length) is int for length in lengths):
                raise CorruptFileError("a size whose items are not lengths")
            return Size(lengths)

        def attributed(made: object, state: object) -> None:
            records.set_attributes(made, state)

        def counter(items: object = ()) -> Counter[object]:
            return self._reader().mapping_of(Counter, items)

        def default(factory: object = None, items: object = ()) -> defaultdict[object, object]:
            if factory not in (None, list, dict, set, tuple, int, float, str, bool):
                raise CorruptFileError("a defaultdict whose factory is not a plain type")
            return self._reader().mapping_of(lambda: defaultdict(factory), items)

        def buffer(data: object = b"", encoding: object = "latin1") -> bytearray:
            data = _encoded(data, encoding) if isinstance(data, str) else data
            if not isinstance(data, (bytes, bytearray)):
                raise CorruptFileError("a bytearray whose content is not bytes")
            self._reader().charge(len(data))
            return bytearray(data)

        def encoded(text: object, encoding: object = "latin1") -> bytes:
            data = _encoded(text, encoding)
            self._reader().charge(len(data))
            return data

        for kind in (set, frozenset):
            self._builtin(kind, lambda items=(), kind=kind: self._reader().set_of(kind, items))
        for sequence in (list, tuple):
            self._builtin(sequence, lambda items=(), kind=sequence: self._reader().sequence_of(kind, items))
        self._builtin(dict, lambda items=(): self._reader().mapping_of(dict, items))
        self._builtin(complex, _complex)
        self._builtin(slice, lambda *parts: slice(*_whole_numbers(parts)))
        self._builtin(range, _range)
        self._builtin(bytearray, buffer)
        for plain in (int, float, str, bool):
            self._builtin(plain, None)
        self._names["_codecs", "encode"] = called(encoded)
        self._names["collections", "OrderedDict"] = Name(
            OrderedDict, make=lambda items=(): self._reader().mapping_of(OrderedDict, items), build=attributed
        )
        self._names["collections", "Counter"] = Name(Counter, make=counter)
        self._names["collections", "defaultdict"] = Name(defaultdict, make=default)
        for module in ("torch", "retrograd.core.arrays.layout", "retrograd.core.tensor.tensor"):
            self._names[module, "Size"] = Name(Size, make=size, new=size)
        for name in (("torch", "device"), ("retrograd.core.arrays.devices", "Device")):
            self._names[name] = Name(Device, make=_device)

    def _builtin(self, kind: type, make: Callable[..., object] | None) -> None:
        self._names["builtins", kind.__name__] = Name(kind, make=make)

    def _add_own(self) -> None:
        def charge(amount: int) -> None:
            self._reader().charge(amount)

        def reconstruct(kind: object, shape: object, code: object) -> records.PendingArray:
            if kind is not np.ndarray:
                raise CorruptFileError("an array of an unknown class")
            return records.PendingArray(charge)

        def from_buffer(data: object, dtype: object, shape: object, order: object) -> Array:
            return records.array_of(data, dtype, shape, order, charge)

        own = {
            ("retrograd.core.tensor.copies", "_rebuild"): called(self._copies.rebuild),
            ("retrograd.core.tensor.tensor", "Tensor"): Name(Tensor),
            ("retrograd.nn.parameter", "Parameter"): Name(Parameter),
            ("retrograd.nn.parameter", "Buffer"): Name(Buffer),
            ("numpy._core.multiarray", "_reconstruct"): called(reconstruct),
            ("numpy._core.multiarray", "scalar"): called(records.scalar_of),
            ("numpy._core.numeric", "_frombuffer"): called(from_buffer),
            ("numpy", "ndarray"): Name(np.ndarray),
            ("numpy", "dtype"): Name(np.dtype, make=records.PendingDtype),
        }
        kind = bfloat16_or_none()
        if kind is not None:
            own["ml_dtypes", "bfloat16"] = Name(kind.type)
        self._names |= own

    def _listed_name(self, found: object) -> Name:
        if not isinstance(found, type):
            return Name(found, make=found if callable(found) else None, listed=True)
        new: Callable[..., object] = found.__new__

        def make(*args: object, **options: object) -> object:
            made = new(found, *args, **options)
            if isinstance(made, Module):
                self._without_state.add(id(made))
            return made

        return Name(found, make=found, new=make, build=self._build_listed, listed=True)

    def _build_listed(self, made: Any, state: Any) -> None:
        if isinstance(made, Module):
            self._build_module(made, state)
        elif hasattr(type(made), "__setstate__"):
            made.__setstate__(state)
        else:
            state, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
            if state:
                records.set_attributes(made, state)
            for name, value in (slots or {}).items():
                if type(getattr(type(made), name, None)).__name__ != "member_descriptor":
                    raise CorruptFileError(f"the file replaces {name!r:.80} of a {type(made).__name__}")
                setattr(made, name, value)

    def _own_module(self, module: str, name: str) -> Name:
        """Return the entry of a Module's class, or of an operator, of this package."""
        if re.fullmatch(r"retrograd\.(nn|ops)(\.[A-Za-z_]\w*)+", module) and name.isidentifier():
            try:
                found = getattr(import_module(module), name, None)
            except ImportError:
                found = None
            if isinstance(found, type) and issubclass(found, Module):
                return Name(found, new=partial(self._blank_module, found), build=self._build_module)
            if found is not None and _is_operator(found):
                return Name(found)
        raise CorruptFileError(
            f"Weights only load failed: the file names {module[:80]}.{name[:80]}, which is neither a tensor nor a "
            "plain container. Allow the class with retrograd.serialization.add_safe_globals, or load with "
            "weights_only=False, which runs arbitrary code from the file, if you trust its origin"
        )

    def _blank_module(self, kind: type[Module]) -> Module:
        """Return an empty Module without a call of its class's ``__init__``."""
        module = object.__new__(kind)
        Module.__init__(module)
        self._without_state.add(id(module))
        return module

    def _build_module(self, module: Module, state: object) -> None:
        """Set the state of a Module: Parameters, buffers, Modules, and attributes that replace no method."""
        if not isinstance(state, dict):
            raise CorruptFileError(f"a state of a {type(module).__name__} that is not a dictionary")
        for table, kind in (("_parameters", Parameter), ("_buffers", Tensor), ("_modules", Module)):
            entries = state.get(table, {})
            if not isinstance(entries, dict) or not all(
                isinstance(name, str) and (value is None or isinstance(value, kind)) for name, value in entries.items()
            ):
                raise CorruptFileError(f"{table} of a {type(module).__name__} with entries of a wrong type")
        if any(id(child) in self._without_state for child in state.get("_modules", {}).values()):
            raise CorruptFileError(f"a {type(module).__name__} that contains itself, or a Module without a state")
        kinds: dict[str, type] = {"training": bool, "_non_persistent_buffers_set": set}
        kinds |= {name: dict for name in state if name.endswith("_hooks")}
        for name, wanted in kinds.items():
            if not isinstance(state.get(name, wanted()), wanted):
                raise CorruptFileError(f"{name} of a {type(module).__name__} is a {type(state[name]).__name__}")
        for name in state:
            if isinstance(name, str) and name.endswith("_hooks"):
                self._check_hooks(state[name])
        records.check_attributes(type(module), state)
        module.__setstate__(state)
        self._without_state.discard(id(module))

    def _check_hooks(self, hooks: Mapping[object, object]) -> None:
        """Raise an error for hooks that the program has not listed."""
        for hook in hooks.values():
            function = hook[0] if isinstance(hook, tuple) and hook else hook
            if not any(function is item or type(function) is item for item in self._listed.values()):
                raise CorruptFileError("a Module with hooks that the program did not list by add_safe_globals")


def _is_operator(found: object) -> bool:
    plain = getattr(found, "__wrapped__", found)
    return any(entry.function in (found, plain) for entry in OPERATORS.values())


def _encoded(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise CorruptFileError("a text in an unknown encoding")
    return text.encode("latin1")


def _device(kind: object, index: object = None) -> Device:
    if not isinstance(kind, str) or not (index is None or type(index) is int and 0 <= index < 1000):
        raise CorruptFileError("an invalid device")
    return Device(kind, index)


def _complex(real: object = 0.0, imag: object = 0.0) -> complex:
    if not isinstance(real, (int, float)) or not isinstance(imag, (int, float)):
        raise CorruptFileError("a complex number whose parts are not numbers")
    return complex(real, imag)


def _range(*parts: Any) -> range:
    if not all(type(part) is int for part in parts):
        raise CorruptFileError("a range whose arguments are not integers")
    return range(*parts)


def _whole_numbers(parts: tuple[Any, ...]) -> tuple[int | None, ...]:
    if not all(part is None or type(part) is int for part in parts):
        raise CorruptFileError("a slice whose arguments are not integers")
    return parts


_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
OBJECTS_MAGIC = b"retrograd objects\n"


def read(stream: IO[bytes], placed: Placed, weights_only: bool) -> Any:
    """Return the content of the file. The stream is then at the end of the file.

    Args:
        stream: the file's bytes.
        placed: moves a Tensor from the CPU, given the device that the file names.
        weights_only: create only known and listed objects. Otherwise an archive can run arbitrary code.

    Raises:
        CorruptFileError: the file is truncated or damaged, or contains objects other than tensors and plain containers.
    """
    begin = stream.tell()
    is_archive = stream.read(4) == b"PK\x03\x04"
    stream.seek(begin)
    return _read_archive(stream, placed, weights_only) if is_archive else _read_legacy(stream, placed)


def _storage_of(pid: object) -> tuple[StorageType, str, str, int]:
    match pid:
        case ("storage", StorageType() as kind, str() | int() as key, str(location), int(count), *_) if count >= 0:
            return kind, str(key), location, count
    raise CorruptFileError("a tensor without a storage")


def _of_type(storage: Storage, dtype: str, count: int, placed: Placed, location: str) -> Storage:
    """Return the storage after a check of its dtype and size. In PyTorch, empty storages may have several dtypes."""
    if storage.count == count == 0:
        return storage if storage.dtype == dtype else Storage(dtype, 0, None, placed, location)
    if (storage.dtype, storage.count) != (dtype, count):
        raise CorruptFileError("a storage of two types or sizes")
    return storage


def _read_archive(stream: IO[bytes], placed: Placed, weights_only: bool) -> Any:
    archive = Reader(stream)
    main = next((name for name in archive if name.endswith("data.pkl")), None)
    if main is None:
        raise CorruptFileError("the archive has no data.pkl")
    folder = main[: -len("data.pkl")]
    if f"{folder}byteorder" in archive and archive.read(f"{folder}byteorder").tobytes() != b"little":
        raise CorruptFileError("the file's numbers are big-endian, which is not supported")
    if f"{folder}constants.pkl" in archive:
        raise CorruptFileError("the file is a compiled program of torch.jit, which is not supported")
    storages: dict[str, Storage] = {}

    def persistent(pid: object) -> Storage:
        kind, key, location, count = _storage_of(pid)
        if key not in storages:
            data = archive.read(f"{folder}data/{key}")
            storages[key] = Storage(kind.dtype, count, data, placed, location)
        return _of_type(storages[key], kind.dtype, count, placed, location)

    data = BytesIO(archive.read(main).data)
    if weights_only:
        value = _sealed(data, FileNames(placed), persistent)
    else:
        value = _UnsafeUnpickler(data, persistent).load()
    stream.seek(archive.end)
    return value


def _read_legacy(stream: IO[bytes], placed: Placed) -> Any:
    begin = stream.tell()
    left = stream.seek(0, 2) - begin
    stream.seek(begin)
    storages: dict[str, Storage] = {}

    def persistent(pid: object) -> Storage:
        nonlocal left
        kind, key, location, count = _storage_of(pid)
        if isinstance(pid, (tuple, list)) and len(pid) > 5 and pid[5] is not None:
            raise CorruptFileError("the file has a view of a storage, from PyTorch before 0.4, which is not supported")
        if key not in storages:
            left -= count * Storage.width(kind.dtype)
            if left < 0:
                raise CorruptFileError("truncated")
            storages[key] = Storage(kind.dtype, count, None, placed, location)
        return _of_type(storages[key], kind.dtype, count, placed, location)

    names = FileNames(placed, filled=False)
    if _sealed(stream, names) != _LEGACY_MAGIC:
        raise CorruptFileError("the file does not begin like a file of PyTorch")
    _sealed(stream, names)  # the version of the format
    system = _sealed(stream, names)
    if isinstance(system, dict) and not system.get("little_endian", True):
        raise CorruptFileError("the file's numbers are big-endian, which is not supported")
    value = _sealed(stream, names, persistent)
    keys = _sealed(stream, names)
    if not isinstance(keys, list) or not all(isinstance(key, (str, int)) for key in keys):
        raise CorruptFileError("damaged: the list of storages is invalid")
    if sorted(map(str, keys)) != sorted(storages):
        raise CorruptFileError("damaged: the storages in the file are not the storages of its tensors")
    for key in keys:
        storage = storages[str(key)]
        count = int.from_bytes(stream.read(8), "little")
        if count != storage.count:
            raise CorruptFileError(f"a storage of {storage.count} elements has {count}")
        storage.fill(np.frombuffer(stream.read(count * Storage.width(storage.dtype)), np.uint8))
    return value


def _sealed(stream: IO[bytes], names: FileNames, persistent: Callable[[object], Storage] | None = None) -> Any:
    unpickler = SealedUnpickler(stream, names.find, persistent)
    names.reads_for(unpickler)
    return unpickler.load()


class _UnsafeUnpickler(pickle.Unpickler):
    """Python's unpickler, which runs arbitrary code. Of PyTorch's classes, only those of tensors are allowed."""

    def __init__(self, stream: IO[bytes], persistent: Callable[[object], Storage]) -> None:
        super().__init__(stream, encoding="latin1")
        self._persistent = persistent
        self._names = torch_names()

    def find_class(self, module: str, name: str) -> object:
        if (module, name) in self._names:
            return self._names[module, name]
        if module.partition(".")[0] == "torch":
            raise CorruptFileError(
                f"the file contains a whole {module}.{name} of PyTorch; save its state_dict(), and load that"
            )
        return super().find_class(module, name)

    def persistent_load(self, pid: object) -> Storage:
        return self._persistent(pid)


def read_objects(stream: IO[bytes], placed: Placed, weights_only: bool) -> Any:
    """Return the content of a file of whole objects that an earlier version wrote: a first line and a pickle."""
    stream.seek(len(OBJECTS_MAGIC), 1)
    if not weights_only:
        return pickle.Unpickler(stream).load()
    names = FileNames(placed)
    unpickler = SealedUnpickler(stream, names.find)
    names.reads_for(unpickler)
    return unpickler.load()


NAMES = {"serialization": "add_safe_globals clear_safe_globals get_safe_globals safe_globals"}
