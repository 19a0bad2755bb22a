"""Tensors in files: safetensors, which PyTorch programs read and write, and which runs no code when it is read.

What is not a Tensor (numbers, texts, the nesting itself) is kept as JSON in the file's metadata, with a checksum.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from . import safetensors_format
from .core.devices import backend_of, is_array
from .core.fallback import legacy_names
from .core.tensor import Tensor, new_tensor, to_array
from .files import open_regular, replacing
from .safetensors_format import Arrays
from .safetensors_format import CorruptFileError as CorruptFileError

_STRUCTURE = "retrograd"  # the metadata's entry that tells how the Tensors nest
_CHECKSUM = "retrograd.crc32"
_OBJECT_FILES = "retrograd.compat.object_files"
_DEEPEST = 100  # what is saved at one depth of the stack must be readable at any other

# Whether ``save`` takes whole modules and other objects, too, as PyTorch's does: under ``retrograd run``.
saves_objects = False


def save(state: Any, path: Any, *, pickle_protocol: Any = None, **options: Any) -> None:
    """Write a state dict to a safetensors file, which replaces an older one at once, when it is whole.

    A flat dictionary of Tensors gives a file that ``safetensors.torch.load_file`` reads as it is; in a nested one the
    Tensors have dotted names there. A symbolic link is followed; an older file's mode is kept.

    Args:
        state: any nesting of dicts, lists and tuples of Tensors, arrays, numbers, texts and None.
        path: the file, or a stream open for binary writing.
        pickle_protocol: taken for compatibility, as are other options of PyTorch's.

    Raises:
        TypeError: a value is none of these, or complex128, which the format has not; the message names it by its path.
        ValueError: the nesting is more than 100 deep, or what is not a Tensor takes more than 100 MB.
        RuntimeError: another thread changed a Tensor meanwhile.
        ImportError: the safetensors library (extra ``weights``) is not installed.
        MemoryError: the file's content, three times over, does not fit in memory.
        OSError: the file cannot be written (no space, no such folder, no permission, not a regular file).

    Whatever is raised, the path holds the older file or the new one, whole.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> model = rg.nn.Linear(2, 1)
    >>> rg.save({"model": model.state_dict(), "epoch": 3}, path)
    >>> state = rg.load(path)
    >>> state["epoch"], model.load_state_dict(state["model"])
    (3, <All keys matched successfully>)
    """
    arrays: Arrays = {}
    try:
        structure = pack(state, "", arrays)
    except TypeError:
        if not saves_objects:
            raise
        with nullcontext(path) if hasattr(path, "write") else replacing(path) as stream:
            import_module(_OBJECT_FILES).write(state, stream, pickle_protocol)
        return
    # What every reader makes of a file without a structure, if it reads the names in alphabetical order.
    flat = {name: {"$": "tensor", "name": name} for name in sorted(arrays)}
    write_file(path, arrays, structure, with_structure=structure != flat or list(structure) != list(flat))


def load(
    path: Any,
    map_location: Any = "cpu",
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **options: Any,
) -> Any:
    """What ``save`` wrote; from another program's safetensors file, a dictionary of Tensors.

    Of weights in several files the index is named (``model.safetensors.index.json``), which says what is in which.

    PyTorch's own files (``.pt``, ``.pth``) of tensors and plain containers are read, too: by a reader that refuses
    whatever else they name, so that no code of a file is ever run. bfloat16 becomes float32 where ml_dtypes is not
    installed.

    Args:
        path: the file, or a stream open for binary reading.
        map_location: the device of the Tensors; or a dictionary of devices, or a function of a storage and the name of
            its device, which gives a storage, as PyTorch takes them.
        pickle_module: taken for compatibility.
        weights_only: False also loads whole objects that a program saved under ``retrograd run``, which runs whatever
            code the file holds. Of all other files nothing but weights and plain containers is ever loaded.
        mmap: taken for compatibility.

    Raises:
        FileNotFoundError: there is no such file.
        CorruptFileError: it is truncated or damaged, no safetensors file, or of a dtype that NumPy does not have.
        pickle.UnpicklingError: a file of PyTorch's names something that is neither a tensor nor a plain container; or
            a file of whole objects is loaded without ``weights_only=False``.
        ImportError: the safetensors library (extra ``weights``) is not installed.
        MemoryError: the file's content, twice over, does not fit in memory.
        OSError: the file cannot be read, or is a folder, a device or a pipe.
    """
    if not hasattr(path, "read") and os.fspath(path).endswith(".index.json"):
        return _load_shards(Path(path), map_location)
    if hasattr(path, "read"):
        start = path.tell()
        first = path.read(8)
        path.seek(start)
        if _is_pt_file(first):
            return _load_pt_file(path, map_location)
        if first == b"retrogra":
            return import_module(_OBJECT_FILES).read(path, weights_only is not False)
        return read_file(path, lambda array: _placed(new_tensor(array), map_location))
    with open_regular(path) as stream:
        try:
            first = stream.read(8)
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        if _is_pt_file(first):
            stream.seek(0)
            return _load_pt_file(stream, map_location)
        if first == b"retrogra":
            stream.seek(0)
            return import_module(_OBJECT_FILES).read(stream, weights_only is not False)
    return read_file(path, lambda array: _placed(new_tensor(array), map_location))


def _load_shards(index: Path, map_location: Any) -> dict[str, Tensor]:
    """The tensors that an index names, from the files beside it."""
    with open_regular(index) as stream:
        try:
            files = safetensors_format.parse_json(stream.read())["weight_map"]
            names_by_file: dict[str, list[str]] = {}
            for name, file in files.items():
                names_by_file.setdefault(file, []).append(name)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise CorruptFileError(f"{index}: damaged, or no index of safetensors files") from None
    for file in names_by_file:
        if not isinstance(file, str) or Path(file).name != file or file in ("", ".."):
            raise CorruptFileError(f"{index}: names {file!r:.80}, which is no file of its folder")
    found = {}
    for file, names in names_by_file.items():
        tensors = load(index.with_name(file), map_location)
        for name in names:
            if not isinstance(tensors, dict) or name not in tensors:
                raise CorruptFileError(f"{index.with_name(file)}: has no {name!r:.80}, which {index.name} says it has")
            found[name] = tensors[name]
    return {name: found[name] for name in files}


def _is_pt_file(start: bytes) -> bool:
    """Whether PyTorch wrote the file: a zip archive with flags, which a header of so few bytes has not, or a pickle
    that begins with PyTorch's number."""
    return start[:4] == b"PK\x03\x04" and start[4:] != b"\0\0\0\0" or start[:4] == b"\x80\x02\x8a\x0a"


def _load_pt_file(stream: Any, map_location: Any) -> Any:
    reader = import_module("retrograd.compat.pt_files")
    return reader.read(stream, lambda tensor: _placed(tensor, map_location))


def _placed(tensor: Tensor, map_location: Any) -> Tensor:
    """The Tensor where ``map_location`` says, which may be a function or a dictionary as PyTorch takes them."""
    if callable(map_location):
        storage = map_location(methodcaller("storage")(tensor), "cpu")
        map_location = "cpu" if storage is None else storage.device
    elif isinstance(map_location, Mapping):
        map_location = map_location.get("cpu", "cpu")
    return new_tensor(to_array(tensor.array, device=map_location, copy=False))


def pack(value: Any, path: str, arrays: Arrays, depth: int = 0) -> Any:
    """The value as JSON, with its arrays put under names in ``arrays``."""
    if depth > _DEEPEST:
        raise ValueError(f"save: {path[:80]}... is nested more than {_DEEPEST} deep, or contains itself")
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Tensor):
        return {"$": "tensor", "name": _enter(value.array, path, arrays)}
    if is_array(value):
        return {"$": "array", "name": _enter(value, path, arrays)}

    def inside(key: Any, item: Any) -> Any:
        return pack(item, f"{path}.{key}" if path else str(key), arrays, depth + 1)

    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, (bool, int, float, str)):
                raise TypeError(f"save: {path or 'the state'} has a key of type {type(key).__name__}: {key!r}")
        items = [(key, inside(key, item)) for key, item in value.items()]
        if all(isinstance(key, str) and key != "$" for key, _ in items):
            return dict(items)
        return {"$": "items", "items": items}
    if isinstance(value, (list, tuple)):
        packed = [inside(index, item) for index, item in enumerate(value)]
        return packed if isinstance(value, list) else {"$": "tuple", "items": packed}
    raise TypeError(
        f"save: {path or 'the state'} is a {type(value).__name__}; wanted Tensors, numbers, texts, None, or dicts, "
        "lists and tuples of these (a module's state_dict(), not the module)"
    )


def unpack(structure: Any, tensors: dict[str, Tensor]) -> Any:
    """The value that ``pack`` took apart; ValueError where ``pack`` never made such a structure."""
    if isinstance(structure, list):
        return [unpack(item, tensors) for item in structure]
    if not isinstance(structure, dict):
        return structure
    if "$" not in structure:
        return {key: unpack(item, tensors) for key, item in structure.items()}
    kind, name, items = structure["$"], structure.get("name"), structure.get("items")
    if kind == "items" and isinstance(items, list) and all(_is_item(item) for item in items):
        return {key: unpack(item, tensors) for key, item in items}
    if kind == "tuple" and isinstance(items, list):
        return tuple(unpack(item, tensors) for item in items)
    if kind in ("tensor", "array") and isinstance(name, str) and name in tensors:
        return tensors[name] if kind == "tensor" else tensors[name].array
    raise ValueError(f"an entry of the structure is unknown: {structure!r:.80}")


def _is_item(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and isinstance(item[0], (bool, int, float, str))


def _enter(array: Any, path: str, arrays: Arrays) -> str:
    name = (path or "tensor").encode(errors="replace").decode()  # no half of a surrogate pair: files are UTF-8
    while name in arrays or name == "__metadata__":
        name += "_"
    array = backend_of(array).to_numpy(array)
    if array.dtype == np.complex128:
        raise TypeError(f"save: {name} is complex128, which safetensors files cannot hold; convert it to complex64")
    if not safetensors_format.holds(array.dtype):
        raise TypeError(f"save: {name} is an array of dtype {array.dtype}, which safetensors files cannot hold")
    # The bytes are written as they lie. (np.ascontiguousarray would give 0-d arrays an axis.)
    arrays[name] = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    return name


def write_file(path: Any, arrays: Arrays, structure: Any, with_structure: bool = True) -> None:
    """Write arrays and structure so that the path holds, at every moment, the old file or the new one, whole."""
    # A file without a structure has the checksum of "null"; the state None is not to have the same.
    text = "null" if not with_structure else " null" if structure is None else json.dumps(structure)
    checksum = _checksum(arrays, text)
    metadata = {"format": "pt", _CHECKSUM: str(checksum)}
    if with_structure:
        metadata[_STRUCTURE] = text
    content = safetensors_format.serialize(arrays, metadata)
    if _checksum(arrays, text) != checksum:
        raise RuntimeError(f"save: a Tensor was changed while it was written to {os.fspath(path)}")
    with nullcontext(path) if hasattr(path, "write") else replacing(path) as stream:
        stream.write(content)


def read_file(path: Any, tensor_of: Callable[[np.ndarray[Any, Any]], Tensor], checked: bool = False) -> Any:
    """The state in a file, a dictionary of Tensors where it is another program's.

    Args:
        path: the file.
        tensor_of: makes Tensors of the file's arrays.
        checked: refuse a file without checksum.

    Raises:
        CorruptFileError, ImportError, MemoryError, OSError: see ``load``.
    """
    arrays, metadata = safetensors_format.read(path)
    text, checksum = metadata.get(_STRUCTURE, "null"), metadata.get(_CHECKSUM)
    if checksum is None and (checked or _STRUCTURE in metadata):
        raise CorruptFileError(f"{path}: no checksum; the file is damaged or was written by another program")
    if checksum is not None and checksum != str(_checksum(arrays, text)):
        raise CorruptFileError(f"{path}: damaged, the checksum does not match what is in the file")
    # The library's reader has an order of its own in each process.
    tensors = {
        name: tensor_of(array.astype(array.dtype.newbyteorder("="), copy=False))
        for name, array in sorted(arrays.items())
    }
    if _STRUCTURE not in metadata:
        return tensors
    try:
        return unpack(safetensors_format.parse_json(text), tensors)
    except RecursionError:
        raise CorruptFileError(f"{path}: damaged, its structure is nested too deeply") from None
    except ValueError as error:
        raise CorruptFileError(f"{path}: damaged ({error})") from None


def _checksum(arrays: Arrays, text: str) -> int:
    total = crc32(text.encode(errors="surrogatepass"))
    for name in sorted(arrays):
        array = arrays[name]
        if array.dtype.kind == "V":  # bfloat16, which is read as float32 where ml_dtypes is not installed
            array = array.astype(np.float32)
        total = crc32(f"{name} {array.dtype.str} {array.shape}".encode(errors="surrogatepass"), total)
        total = crc32(array.reshape(-1).view(np.uint8).data, total)
    return total


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
