"""Tensors in files: safetensors, which PyTorch programs read and write, and which runs no code when it is read.

What is not a Tensor (numbers, texts, the nesting itself) is kept as JSON in the file's metadata. Files are written
beside their place and renamed into it, so that a reader, or a crash, never meets half a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from .core.devices import Device, backend_of, is_array
from .core.tensor import Tensor, new_tensor, to_array

Arrays = dict[str, np.ndarray[Any, Any]]

_STRUCTURE = "retrograd"  # the metadata's entry that tells how the Tensors nest
_CHECKSUM = "retrograd.crc32"


class CorruptFileError(RuntimeError):
    """A file that is truncated, damaged, or no safetensors file at all."""


def save(state: Any, path: str | os.PathLike[str]) -> None:
    """Write a state dict to a safetensors file.

    Any nesting of dicts, lists and tuples of Tensors, numbers and texts will do.

    A flat dictionary of Tensors gives a file that ``safetensors.torch.load_file`` reads as it is; in a nested one the
    Tensors have dotted names there. The file replaces an older one at once, when it is whole.

    Raises:
        TypeError: a value that is neither, named by its path, or complex128, which the format has not.
        ImportError: the safetensors library is not installed.

    >>> import retrograd as rg, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> model = rg.nn.Linear(2, 1)
    >>> rg.save({"model": model.state_dict(), "epoch": 3}, path)
    >>> state = rg.load(path)
    >>> state["epoch"], model.load_state_dict(state["model"])
    (3, <All keys matched successfully>)
    """
    arrays: Arrays = {}
    structure = pack(state, "", arrays)
    flat = isinstance(state, Mapping) and all(
        isinstance(value, Tensor) and structure[name] == {"$": "tensor", "name": name} for name, value in state.items()
    )
    write_file(path, arrays, None if flat else structure)


def load(path: str | os.PathLike[str], map_location: str | Device | None = "cpu") -> Any:
    """What ``save`` wrote; from another program's safetensors file, a dictionary of Tensors.

    bfloat16 becomes float32. No pickle is ever loaded.

    Args:
        path: the file.
        map_location: the device of the Tensors.

    Raises:
        FileNotFoundError: there is no such file.
        CorruptFileError: it is truncated or damaged, or no safetensors file.
        ImportError: the safetensors library is not installed.
    """
    arrays, structure = read_file(path)
    tensors = {name: new_tensor(to_array(array, device=map_location, copy=False)) for name, array in arrays.items()}
    return tensors if structure is None else unpack(structure, tensors)


def pack(value: Any, path: str, arrays: Arrays) -> Any:
    """The value as JSON, with its arrays put under names in ``arrays``."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Tensor):
        return {"$": "tensor", "name": _enter(value.array, path, arrays)}
    if is_array(value):
        return {"$": "array", "name": _enter(value, path, arrays)}
    if isinstance(value, Mapping):
        items = [(key, pack(item, f"{path}.{key}" if path else str(key), arrays)) for key, item in value.items()]
        if all(isinstance(key, str) and key != "$" for key, _ in items):
            return dict(items)
        for key, _ in items:
            if not isinstance(key, (bool, int, float, str)):
                raise TypeError(f"save: {path or 'the state'} has a key of type {type(key).__name__}: {key!r}")
        return {"$": "items", "items": items}
    if isinstance(value, (list, tuple)):
        packed = [pack(item, f"{path}.{index}" if path else str(index), arrays) for index, item in enumerate(value)]
        return packed if isinstance(value, list) else {"$": "tuple", "items": packed}
    raise TypeError(
        f"save: {path or 'the state'} is a {type(value).__name__}; wanted Tensors, numbers, texts, None, or dicts, "
        "lists and tuples of these (a module's state_dict(), not the module)"
    )


def unpack(structure: Any, tensors: dict[str, Tensor]) -> Any:
    """The value that ``pack`` took apart."""
    if isinstance(structure, list):
        return [unpack(item, tensors) for item in structure]
    if not isinstance(structure, dict):
        return structure
    kind = structure.get("$")
    if kind is None:
        return {key: unpack(item, tensors) for key, item in structure.items()}
    if kind == "items":
        return {key: unpack(item, tensors) for key, item in structure["items"]}
    if kind == "tuple":
        return tuple(unpack(item, tensors) for item in structure["items"])
    tensor = tensors[structure["name"]]
    return tensor if kind == "tensor" else tensor.array


def _enter(array: Any, path: str, arrays: Arrays) -> str:
    name = path or "tensor"
    while name in arrays or name == "__metadata__":
        name += "_"
    array = backend_of(array).to_numpy(array)
    if array.dtype == np.complex128:
        raise TypeError(f"save: {name} is complex128, which safetensors files cannot hold; convert it to complex64")
    # The library writes the memory as it lies. (np.ascontiguousarray would give 0-d arrays an axis.)
    arrays[name] = array if array.flags.c_contiguous else array.copy(order="C")
    return name


def write_file(path: str | os.PathLike[str], arrays: Arrays, structure: Any = None) -> None:
    """Write arrays and structure so that the path holds, at every moment, the old file or the new one, whole."""
    numpy_format = _library().numpy
    text = json.dumps(structure)
    metadata = {"format": "pt", _CHECKSUM: str(_checksum(arrays, text))}
    if structure is not None:
        metadata[_STRUCTURE] = text
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        numpy_format.save_file(arrays, temporary, metadata)
        _synchronize(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        _synchronize(path.parent)  # the rename itself


def read_file(path: str | os.PathLike[str], checked: bool = False) -> tuple[Arrays, Any]:
    """The arrays by name, and the structure, None in another program's file.

    Args:
        path: the file.
        checked: refuse a file without checksum.

    Raises:
        CorruptFileError: see ``load``.
    """
    library = _library()
    data = Path(path).read_bytes()
    if data[:2] in (b"PK", b"\x80\x02", b"\x80\x04", b"\x80\x05"):
        raise CorruptFileError(
            f"{path}: this is a pickle (torch.save), which can run any program when it is read, so it is not; "
            "write it again with safetensors.torch.save_file"
        )
    try:
        views = library.deserialize(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = header.get("__metadata__") or {}
        arrays = {name: _array(view) for name, view in views}
        text = metadata.get(_STRUCTURE, "null")
        structure = json.loads(text)
    except (library.SafetensorError, ValueError, KeyError) as error:
        raise CorruptFileError(f"{path}: truncated or damaged, or no safetensors file ({error})") from None
    checksum = metadata.get(_CHECKSUM)
    if checksum is None and checked:
        raise CorruptFileError(f"{path}: no checksum; the file is damaged or was written by another program")
    if checksum is not None and checksum != str(_checksum(arrays, text)):
        raise CorruptFileError(f"{path}: damaged, the checksum does not match what is in the file")
    return arrays, structure


def _array(view: Any) -> np.ndarray[Any, Any]:
    kind, shape = view["dtype"], view["shape"]
    if kind == "BF16":  # the upper half of a float32
        halves = np.frombuffer(view["data"], np.uint16).astype(np.uint32)
        return (halves << np.uint32(16)).view(np.float32).reshape(shape)
    names = {"BOOL": "?", "C64": "c8"}
    if kind not in names and not (kind[0] in "FIU" and kind[1:].isdigit()):
        raise ValueError(f"NumPy has no dtype for {kind}")
    dtype = np.dtype(names.get(kind) or f"{kind[0].lower()}{int(kind[1:]) // 8}")
    return np.frombuffer(bytearray(view["data"]), dtype).reshape(shape)


def _checksum(arrays: Arrays, text: str) -> int:
    total = crc32(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        total = crc32(f"{name} {array.dtype.str} {array.shape}".encode(), total)
        total = crc32(array.reshape(-1).view(np.uint8).data, total)
    return total


def _synchronize(path: Path) -> None:
    """Wait until the file, or the folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _library() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise ImportError("saving and loading needs the safetensors library: install retrograd[weights]") from None
    return safetensors
