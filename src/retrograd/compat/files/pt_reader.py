"""PyTorch's ``.pt`` files, read by an unpickler that makes nothing but tensors, plain containers and what is listed.

Both forms are read: the zip archive (since PyTorch 1.6), which ``save`` writes as well, and the older sequence of
pickles. Several files may stand in one stream, one after the other.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from io import BytesIO
from typing import IO, Any

import numpy as np

from ...safetensors_format import CorruptFileError
from .arrays import Placed, Storage, StorageType
from .names import FileNames, torch_names
from .sealed_pickle import SealedUnpickler
from .zip_archives import Reader

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C


def read(stream: IO[bytes], placed: Placed, weights_only: bool) -> Any:
    """What is in the file. The stream is left behind its end.

    Args:
        stream: the file's bytes.
        placed: moves a Tensor of the CPU to where it is wanted, given the device that the file names.
        weights_only: make nothing but what is known or listed. Without it an archive's own code is run.

    Raises:
        CorruptFileError: it is truncated or damaged, or names what is neither a tensor nor a plain container.
    """
    begin = stream.tell()
    is_archive = stream.read(4) == b"PK\x03\x04"
    stream.seek(begin)
    return _read_archive(stream, placed, weights_only) if is_archive else _read_legacy(stream, placed)


def _storage_of(pid: Any) -> tuple[StorageType, str, str, int]:
    match pid:
        case ("storage", StorageType() as kind, str() | int() as key, str(location), int(count), *_) if count >= 0:
            return kind, str(key), location, count
    raise CorruptFileError("a tensor without a storage")


def _of_type(storage: Storage, dtype: str, count: int, placed: Placed, location: str) -> Storage:
    """The storage, if it is what the file says of it; PyTorch lets empty ones have several types."""
    if storage.count == count == 0:
        return storage if storage.dtype == dtype else Storage(dtype, 0, None, placed, location)
    if (storage.dtype, storage.count) != (dtype, count):
        raise CorruptFileError("a storage of two types or sizes")
    return storage


def _read_archive(stream: IO[bytes], placed: Placed, weights_only: bool) -> Any:
    archive = Reader(stream)
    main = next((name for name in archive if name.endswith("data.pkl")), None)
    if main is None:
        raise CorruptFileError("the archive holds no data.pkl")
    folder = main[: -len("data.pkl")]
    if f"{folder}byteorder" in archive and archive.read(f"{folder}byteorder").tobytes() != b"little":
        raise CorruptFileError("its numbers are in big-endian order, which is not read")
    if f"{folder}constants.pkl" in archive:
        raise CorruptFileError("it is a compiled program of torch.jit, which is not run")
    storages: dict[str, Storage] = {}

    def persistent(pid: Any) -> Storage:
        kind, key, location, count = _storage_of(pid)
        if key not in storages:
            data = archive.read(f"{folder}data/{key}")
            storages[key] = Storage(kind.dtype, count, data, placed, location)
        return _of_type(storages[key], kind.dtype, count, placed, location)

    data = BytesIO(archive.read(main).data)
    if weights_only:
        value = _sealed(data, FileNames(placed), persistent)
    else:
        value = _Trusting(data, persistent).load()
    stream.seek(archive.end)
    return value


def _read_legacy(stream: IO[bytes], placed: Placed) -> Any:
    begin = stream.tell()
    left = stream.seek(0, 2) - begin
    stream.seek(begin)
    storages: dict[str, Storage] = {}

    def persistent(pid: Any) -> Storage:
        nonlocal left
        kind, key, location, count = _storage_of(pid)
        if len(pid) > 5 and pid[5] is not None:
            raise CorruptFileError("it holds a view of a storage, as files before PyTorch 0.4 do, which is not read")
        if key not in storages:
            left -= count * Storage.width(kind.dtype)
            if left < 0:
                raise CorruptFileError("truncated")
            storages[key] = Storage(kind.dtype, count, None, placed, location)
        return _of_type(storages[key], kind.dtype, count, placed, location)

    names = FileNames(placed)
    if _sealed(stream, names) != _LEGACY_MAGIC:
        raise CorruptFileError("it does not begin as PyTorch's files do")
    _sealed(stream, names)  # the version of the form
    system = _sealed(stream, names)
    if isinstance(system, dict) and not system.get("little_endian", True):
        raise CorruptFileError("its numbers are in big-endian order, which is not read")
    value = _sealed(stream, names, persistent)
    keys = _sealed(stream, names)
    if not isinstance(keys, list) or not all(isinstance(key, (str, int)) for key in keys):
        raise CorruptFileError("damaged: the list of its storages is none")
    if sorted(map(str, keys)) != sorted(storages):
        raise CorruptFileError("damaged: its storages are not those that its tensors have")
    for key in keys:
        storage = storages[str(key)]
        count = int.from_bytes(stream.read(8), "little")
        if count != storage.count:
            raise CorruptFileError(f"a storage of {storage.count} numbers has {count}")
        storage.fill(np.frombuffer(stream.read(count * Storage.width(storage.dtype)), np.uint8))
    return value


def _sealed(stream: IO[bytes], names: FileNames, persistent: Callable[[Any], Any] | None = None) -> Any:
    unpickler = SealedUnpickler(stream, names.find, persistent)
    names.reads_for(unpickler)
    return unpickler.load()


class _Trusting(pickle.Unpickler):
    """Makes whatever the file names; of PyTorch's own classes only what its files of tensors have."""

    def __init__(self, stream: IO[bytes], persistent: Callable[[Any], Any]) -> None:
        super().__init__(stream, encoding="latin1")
        self._persistent = persistent
        self._names = torch_names()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self._names:
            return self._names[module, name]
        if module.partition(".")[0] == "torch":
            raise CorruptFileError(
                f"the file holds a {module}.{name} of PyTorch's, whole; save its state_dict(), and load that"
            )
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        return self._persistent(pid)
