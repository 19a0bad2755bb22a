"""Read PyTorch's ``.pt`` files with an unpickler that creates only tensors, plain containers and listed classes.

Two formats are read: the zip archive (since PyTorch 1.6), which ``save`` also writes, and the older sequence of
pickles. A stream may contain several files, one after another.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from io import BytesIO
from typing import IO, Any

import numpy as np

from ...safetensors_format import CorruptFileError
from .allowed_names import FileNames, torch_names
from .arrays import Placed, Storage, StorageType
from .sealed_pickle import SealedUnpickler
from .zip_archives import Reader

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
