"""Tensors in files: safetensors, which PyTorch programs read and write, and which runs no code when it is read.

What is not a Tensor (numbers, texts, the nesting itself) is kept as JSON in the file's metadata, with a checksum.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from io import BytesIO
from operator import methodcaller
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from . import safetensors_format
from .core.arrays.devices import Device as _Device
from .core.missing_names import legacy_names
from .core.tensor.tensor import Tensor, new_tensor, to_array
from .files import open_regular, replacing, write_whole
from .packing import Packed as Packed
from .packing import pack as pack
from .packing import tied, unpack
from .safetensors_format import Arrays
from .safetensors_format import CorruptFileError as CorruptFileError

_STRUCTURE = "retrograd"  # the metadata's entry that tells how the Tensors nest
_CHECKSUM = "retrograd.crc32"
_OBJECTS = b"retrograd objects\n"  # the beginning of whole objects in files of earlier versions
_TORCH_SUFFIXES = (".pt", ".pth", ".bin")

# Whether ``save`` writes PyTorch's archives wherever the name does not say safetensors, and takes whole modules and
# other objects, as PyTorch's does: under ``retrograd run``.
saves_objects = False


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: Any = None, **options: Any) -> None:
    """Write a state dict to a file, which replaces an older one at once, when it is whole.

    A name that ends in ``.pt``, ``.pth`` or ``.bin`` gets PyTorch's own zip archive, which ``torch.load`` reads with
    ``weights_only=True``. Any other name gets a safetensors file. Under ``retrograd run``, where ``torch.save`` is this
    function, every name but ``.safetensors`` and every stream gets PyTorch's archive. There whole modules and other
    objects may be saved, too: ``load`` makes this package's modules by default, and other classes with
    ``weights_only=False`` or after ``add_safe_globals``. PyTorch does not load this package's modules.

    Tensors that share memory share it when they are loaded. Archives keep what PyTorch's keep: views, strides, memory
    seen as two dtypes, Parameters, ``requires_grad``, and all of the memory that a view is a part of; a Tensor with
    negative strides becomes contiguous. In safetensors files each Tensor has its own copy of the numbers, for all
    readers. ``load`` ties a Tensor again to a contiguous one of its dtype that was saved with it and that contains it;
    the format keeps no other overlaps, no classes and no ``requires_grad``.

    A flat dictionary of Tensors gives a safetensors file that ``safetensors.torch.load_file`` reads as it is; in a
    nested one the Tensors have dotted names there. A symbolic link is followed; an older file's mode is kept.

    Args:
        obj: any nesting of dicts, lists and tuples of Tensors, arrays, numbers, texts and None; in archives also sets,
            bytes, dtypes, devices and sizes. (PyTorch loads NumPy's arrays with ``weights_only=False`` alone.)
        f: the file, or a stream open for binary writing. Several files may be written to one stream.
        pickle_module, pickle_protocol: taken for compatibility, as are other options of PyTorch's.

    Raises:
        TypeError: a value is none of these, or complex128, which safetensors files lack; the message names it
            by its path.
        ValueError: the nesting is more than 100 deep, or what is not a Tensor takes more than 100 MB in a safetensors
            file.
        RuntimeError: another thread changed a Tensor meanwhile.
        ImportError: the safetensors library (extra ``weights``) is not installed.
        MemoryError: a safetensors file's content, three times over, does not fit in memory.
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
    is_stream = hasattr(f, "write")
    suffix = "" if is_stream else os.path.splitext(os.fsdecode(f))[1].lower()
    if suffix in _TORCH_SUFFIXES or saves_objects and suffix != ".safetensors":
        from .compat.files import pt_writer

        with nullcontext(f) if is_stream else replacing(f) as stream:
            pt_writer.write(obj, stream, whole=saves_objects)
        return
    packed = Packed()
    structure = pack(obj, "", packed)
    packed.tie()
    # What every reader makes of a file without a structure, if it reads the names in alphabetical order.
    flat = {name: {"$": "tensor", "name": name} for name in sorted(packed.arrays)}
    write_file(f, packed.arrays, structure, with_structure=structure != flat or list(structure) != list(flat))


def load(
    f: Any,
    map_location: Any = "cpu",
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **options: Any,
) -> Any:
    """What ``save`` wrote; from another program's safetensors file, a dictionary of Tensors.

    Of weights in several files the index is named (``model.safetensors.index.json``), which says what is in which.

    PyTorch's own files (``.pt``, ``.pth``) are read, too. By default (``weights_only``) nothing of a file is run: it
    may hold tensors, plain containers, Modules and operators of this package, and what the program has listed by
    ``add_safe_globals``. bfloat16 becomes float32 where ml_dtypes is not installed.

    Args:
        f: the file, or a stream open for binary reading, of which one file is read, from where it stands. (A stream
            that cannot seek is read to its end.)
        map_location: the device of the Tensors; or a dictionary of devices, or a function of a storage and the name of
            its device, which gives a storage, as PyTorch takes them.
        pickle_module: taken for compatibility.
        weights_only: False also loads other objects that a program saved, which runs whatever code the file holds.
        mmap: taken for compatibility.

    Raises:
        FileNotFoundError: there is no such file.
        CorruptFileError: whatever is wrong with the file: it is truncated, damaged or of no known kind, of a dtype that
            NumPy does not have, or names what ``weights_only`` does not allow. It is a RuntimeError and a
            ``pickle.UnpicklingError``. With ``weights_only=False`` the file's own code may raise anything.
        ImportError: the safetensors library (extra ``weights``) is not installed.
        MemoryError: the file's content, twice over, does not fit in memory.
        OSError: the file cannot be read, or is a folder, a device or a pipe.
    """
    if hasattr(f, "read"):
        stream = f if _can_seek(f) else BytesIO(f.read())
        return _load_stream(stream, stream, map_location, weights_only is not False)
    if os.fsdecode(f).endswith(".index.json"):
        return _load_shards(Path(f), map_location)
    with open_regular(f) as stream:
        return _load_stream(stream, f, map_location, weights_only is not False)


def _can_seek(stream: Any) -> bool:
    """Whether the stream knows where it stands; a pipe or a socket does not, and is read to its end."""
    try:
        stream.seek(stream.tell())
    except (OSError, AttributeError):
        return False
    return True


def _load_stream(stream: Any, path: Any, map_location: Any, weights_only: bool) -> Any:
    begin = stream.tell()
    try:
        first = stream.read(8)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    stream.seek(begin)
    if _is_pt_file(first):
        from .compat.files.pt_reader import read
    elif first == _OBJECTS[:8]:
        from .compat.files.object_files import read
    else:
        return read_file(path, lambda array: _placed(new_tensor(array), "cpu", map_location))
    placing: list[
        BaseException
    ] = []  # what is raised by the user's map_location, or by the device, is no fault of the file

    def placed(tensor: Tensor, location: str) -> Tensor:
        try:
            return _placed(tensor, location, map_location)
        except BaseException as error:
            placing.append(error)
            raise

    try:
        return read(stream, placed, weights_only)
    except (CorruptFileError, EOFError, UnpicklingError) as error:
        raise CorruptFileError(f"{_shown(path)}: {_one_line(error) or 'truncated'}") from None
    except MemoryError:
        raise
    except Exception as error:
        # A place before the file's beginning is EINVAL; any other OSError is the system's.
        is_system = isinstance(error, OSError) and error.errno != errno.EINVAL
        if any(error is raised for raised in placing) or is_system or not weights_only:
            raise
        raise CorruptFileError(f"{_shown(path)}: damaged, or no file of tensors ({_one_line(error)})") from None


def _shown(path: Any) -> Any:
    """What a message calls the file."""
    return getattr(path, "name", "the stream") if hasattr(path, "read") or hasattr(path, "write") else path


def _one_line(error: Exception) -> str:
    """The message; it may quote the file, with line breaks and whatever a terminal obeys."""
    text = str(error)
    return text if text.isprintable() else repr(text)


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


def _placed(tensor: Tensor, location: str, map_location: Any) -> Tensor:
    """The Tensor where ``map_location`` says, which may be a function or a dictionary as PyTorch takes them."""
    if callable(map_location) and not isinstance(map_location, _Device):  # a device decorates functions
        storage = map_location(methodcaller("storage")(tensor), location)
        map_location = "cpu" if storage is None else storage.device
    elif isinstance(map_location, Mapping):
        map_location = map_location.get(location, "cpu")
    return new_tensor(to_array(tensor.array, device=map_location, copy=False))


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
        raise RuntimeError(f"save: a Tensor was changed while it was written to {_shown(path)}")
    with nullcontext(path) if hasattr(path, "write") else replacing(path) as stream:
        write_whole(stream, content)


def read_file(path: Any, tensor_of: Callable[[np.ndarray], Tensor], checked: bool = False) -> Any:
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
        raise CorruptFileError(f"{_shown(path)}: no checksum; the file is damaged or was written by another program")
    if checksum is not None and checksum != str(_checksum(arrays, text)):
        raise CorruptFileError(f"{_shown(path)}: damaged, the checksum does not match what is in the file")
    # The library's reader has an order of its own in each process.
    tensors = {
        name: tensor_of(array.astype(array.dtype.newbyteorder("="), copy=False))
        for name, array in sorted(arrays.items())
    }
    if _STRUCTURE not in metadata:
        return tensors
    try:
        structure = safetensors_format.parse_json(text)
        return unpack(structure, tied(structure, tensors))
    except RecursionError:
        raise CorruptFileError(f"{_shown(path)}: damaged, its structure is nested too deeply") from None
    except ValueError as error:
        raise CorruptFileError(f"{_shown(path)}: damaged ({error})") from None


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
