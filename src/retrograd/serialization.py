"""Save and load Tensors as safetensors files, which PyTorch programs read and write; loading them runs no code.

Other values (numbers, strings, the nesting) are stored as JSON in the file's metadata, with a checksum.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from operator import methodcaller
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, TYPE_CHECKING, Any, TypeAlias
from zlib import crc32

import numpy as np

from .core.arrays.devices import Device as _Device
from .core.missing_names import legacy_names
from .core.tensor.tensor import Tensor, new_tensor, to_array
from .files import File, open_regular, replacing, write_whole
from .packing import Packed as Packed
from .packing import pack as pack
from .packing import tied, unpack
from .safetensors_format import Arrays, parse_json, serialize
from .safetensors_format import CorruptFileError as CorruptFileError
from .safetensors_format import read as read_safetensors

MapLocation: TypeAlias = _Device | str | Mapping[str, _Device | str] | Callable[[Any, str], Any] | None

_STRUCTURE = "retrograd"  # metadata key of the nested structure
_CHECKSUM = "retrograd.crc32"
_OBJECTS = b"retrograd objects\n"  # prefix of pickled objects in files of earlier versions
_TORCH_SUFFIXES = (".pt", ".pth", ".bin")

# Under ``retrograd run``, ``save`` follows torch.save: it writes PyTorch's archives unless the name ends in
# safetensors, and accepts whole modules and other objects.
saves_objects = False


def save(obj: object, f: File, pickle_module: object = None, pickle_protocol: object = None, **options: object) -> None:
    """Save a state dict to a file, which is replaced atomically.

    A name that ends in ``.pt``, ``.pth`` or ``.bin`` selects PyTorch's zip archive, which ``torch.load`` reads with
    ``weights_only=True``. Any other name selects a safetensors file. Under ``retrograd run``, where ``torch.save`` is
    this function, every name but ``.safetensors`` and every stream selects PyTorch's archive, and whole modules and
    other objects may be saved: ``load`` accepts this package's modules by default, and other classes with
    ``weights_only=False`` or after ``add_safe_globals``. PyTorch cannot load this package's modules.

    Tensors that share memory share it again when loaded. Archives preserve, as PyTorch's do: views, strides,
    memory viewed as two dtypes, Parameters, ``requires_grad``, and the whole memory that a view belongs to; a Tensor
    with negative strides becomes contiguous. In safetensors files each Tensor has its own copy of its elements.
    ``load`` restores a Tensor as a view if a contiguous Tensor of its dtype, saved with it, contains it; the format
    preserves no other overlaps, no classes and no ``requires_grad``.

    ``safetensors.torch.load_file`` reads the safetensors file of a flat dictionary of Tensors unchanged; from nested
    containers it returns dotted names. Symbolic links are followed; the mode of a replaced file is preserved.

    Args:
        obj: nested dicts, lists and tuples of Tensors, arrays, numbers, strings and None; in archives also sets, bytes,
            dtypes, devices and sizes. (PyTorch loads NumPy arrays only with ``weights_only=False``.)
        f: the file name, or a stream open for binary writing. Several files may be written to one stream.
        pickle_module, pickle_protocol: ignored, as are PyTorch's other options; for compatibility.

    Raises:
        TypeError: a value has a type that is not listed for ``obj``, or is complex128, which safetensors does not
            support; the message names the value's path.
        ValueError: the nesting is more than 100 levels deep, or values other than Tensors take more than 100 MB in a
            safetensors file.
        RuntimeError: another thread changed a Tensor during the call.
        ImportError: the safetensors library (extra ``weights``) is not installed.
        MemoryError: three copies of a safetensors file's content do not fit in memory.
        OSError: the file cannot be written (disk full, no such folder, no permission, not a regular file).

    After any error, the path has its complete old or new content.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> model = rg.nn.Linear(2, 1)
    >>> rg.save({"model": model.state_dict(), "epoch": 3}, path)
    >>> state = rg.load(path)
    >>> state["epoch"], model.load_state_dict(state["model"])
    (3, <All keys matched successfully>)
    """
    suffix = _suffix(f)
    if suffix in _TORCH_SUFFIXES or saves_objects and suffix != ".safetensors":
        from .compat.files import pt_writer

        with _writing(f) as stream:
            pt_writer.write(obj, stream, whole=saves_objects)
        return
    packed = Packed()
    structure = pack(obj, "", packed)
    packed.tie()
    # The value that other readers return for a file without a structure, with the names in alphabetical order.
    flat = {name: {"$": "tensor", "name": name} for name in sorted(packed.arrays)}
    write_file(f, packed.arrays, structure, with_structure=structure != flat or list(structure) != list(flat))


def load(
    f: File,
    map_location: MapLocation = "cpu",
    pickle_module: object = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **options: object,
) -> Any:
    """Load a file that ``save`` wrote. Another program's safetensors file is loaded as a dictionary of Tensors.

    For weights in several files pass the index (``model.safetensors.index.json``).

    PyTorch's files (``.pt``, ``.pth``) are supported. With ``weights_only`` (the default) no code of the file is run:
    it may contain tensors, plain containers, Modules and operators of this package, and objects allowed by
    ``add_safe_globals``. Without ml_dtypes, bfloat16 becomes float32.

    Args:
        f: the file name, or a stream open for binary reading; one file is read from its current position. (A stream
            that is not seekable is read to its end.)
        map_location: the device of the Tensors; or a dictionary of devices, or a function of a storage and the name of
            its device that returns a storage, as in PyTorch.
        pickle_module: ignored; for compatibility.
        weights_only: if False, also load other pickled objects, which runs arbitrary code from the file.
        mmap: ignored; for compatibility.

    Raises:
        FileNotFoundError: the file does not exist.
        CorruptFileError: the file is truncated, damaged or of unknown type, has a dtype that NumPy does not support,
            or names objects that ``weights_only`` does not allow. The error is a RuntimeError and a
            ``pickle.UnpicklingError``. With ``weights_only=False`` the file's code may raise any error.
        ImportError: the safetensors library (extra ``weights``) is not installed.
        MemoryError: two copies of the file's content do not fit in memory.
        OSError: the file cannot be read, or is a folder, a device or a pipe.
    """
    file: Any = f
    if hasattr(file, "read"):
        stream = file if _can_seek(file) else BytesIO(file.read())
        return _load_stream(stream, stream, map_location, weights_only is not False)
    if os.fsdecode(file).endswith(".index.json"):
        return _load_shards(Path(file), map_location)
    with open_regular(file) as stream:
        return _load_stream(stream, file, map_location, weights_only is not False)


def _can_seek(stream: IO[bytes]) -> bool:
    """Whether the stream is seekable; pipes and sockets are not, and are read to their end."""
    try:
        stream.seek(stream.tell())
    except (OSError, AttributeError):
        return False
    return True


def _load_stream(stream: IO[bytes], path: Any, map_location: MapLocation, weights_only: bool) -> Any:
    begin = stream.tell()
    try:
        first = stream.read(8)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    stream.seek(begin)
    if _is_pt_file(first):
        from .compat.files.pt_reader import read
    elif first == _OBJECTS[:8]:
        from .compat.files.pt_reader import read_objects as read
    else:
        return read_file(path, lambda array: _placed(new_tensor(array), "cpu", map_location))
    placing: list[BaseException] = []  # errors of map_location or of the device, not of the file

    def placed(tensor: Tensor, location: str) -> Tensor:
        try:
            return _placed(tensor, location, map_location)
        except BaseException as error:
            placing.append(error)
            raise

    try:
        return read(stream, placed, weights_only)
    except (CorruptFileError, EOFError, UnpicklingError) as error:
        raise CorruptFileError(f"{_display_name(path)}: {_one_line(error) or 'truncated'}") from None
    except MemoryError:
        raise
    except Exception as error:
        # Seeking before the start of the file is EINVAL; any other OSError comes from the system.
        is_system = isinstance(error, OSError) and error.errno != errno.EINVAL
        if any(error is raised for raised in placing) or is_system or not weights_only:
            raise
        raise CorruptFileError(
            f"{_display_name(path)}: damaged, or not a file of tensors ({_one_line(error)})"
        ) from None


def _display_name(path: object) -> Any:
    return getattr(path, "name", "the stream") if hasattr(path, "read") or hasattr(path, "write") else path


def _one_line(error: Exception) -> str:
    """Return an error's message on one line: it may quote the file, with line breaks and control characters."""
    text = str(error)
    return text if text.isprintable() else repr(text)


def _load_shards(index: Path, map_location: MapLocation) -> dict[str, Tensor]:
    """Return the tensors that an index names, from files in its folder."""
    with open_regular(index) as stream:
        try:
            files = parse_json(stream.read())["weight_map"]
            names_by_file: dict[str, list[str]] = {}
            for name, file in files.items():
                names_by_file.setdefault(file, []).append(name)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise CorruptFileError(f"{index}: damaged, or not an index of safetensors files") from None
    for file in names_by_file:
        if not isinstance(file, str) or Path(file).name != file or file in ("", ".."):
            raise CorruptFileError(f"{index}: names {file!r:.80}, which is not a file in its folder")
    found = {}
    for file, names in names_by_file.items():
        tensors = load(index.with_name(file), map_location)
        for name in names:
            if not isinstance(tensors, dict) or name not in tensors:
                raise CorruptFileError(f"{index.with_name(file)}: has no {name!r:.80}, although {index.name} lists it")
            found[name] = tensors[name]
    return {name: found[name] for name in files}


def _is_pt_file(start: bytes) -> bool:
    """Whether PyTorch wrote the file: a zip archive (whose flags distinguish it from a safetensors header), or a
    pickle that starts with PyTorch's magic number."""
    return start[:4] == b"PK\x03\x04" and start[4:] != b"\0\0\0\0" or start[:4] == b"\x80\x02\x8a\x0a"


def _placed(tensor: Tensor, location: str, map_location: Any) -> Tensor:
    """Move a Tensor to the device that ``map_location`` requests, which is a function, a dictionary or a device."""
    if callable(map_location) and not isinstance(map_location, _Device):  # a device is callable, as a decorator
        storage = map_location(methodcaller("storage")(tensor), location)
        map_location = "cpu" if storage is None else storage.device
    elif isinstance(map_location, Mapping):
        map_location = map_location.get(location, "cpu")
    return new_tensor(to_array(tensor.array, device=map_location, copy=False))


def _suffix(file: Any) -> str:
    return "" if hasattr(file, "write") else os.path.splitext(os.fsdecode(file))[1].lower()


def _writing(file: Any) -> AbstractContextManager[IO[bytes]]:
    return nullcontext(file) if hasattr(file, "write") else replacing(file)


def write_file(path: File, arrays: Arrays, structure: object, with_structure: bool = True) -> None:
    """Write arrays and structure to a file atomically."""
    # A file without a structure has the checksum of "null"; a saved None must have a different checksum.
    text = "null" if not with_structure else " null" if structure is None else json.dumps(structure)
    checksum = _checksum(arrays, text)
    metadata = {"format": "pt", _CHECKSUM: str(checksum)}
    if with_structure:
        metadata[_STRUCTURE] = text
    content = serialize(arrays, metadata)
    if _checksum(arrays, text) != checksum:
        raise RuntimeError(f"save: a Tensor was changed while it was written to {_display_name(path)}")
    with _writing(path) as stream:
        write_whole(stream, content)


def read_file(path: File, tensor_of: Callable[[np.ndarray], Tensor], checked: bool = False) -> Any:
    """Return the state in a file; a dictionary of Tensors if another program wrote it.

    Args:
        path: the file.
        tensor_of: converts arrays to Tensors.
        checked: raise an error if the file has no checksum.

    Raises:
        CorruptFileError, ImportError, MemoryError, OSError: see ``load``.
    """
    arrays, metadata = read_safetensors(path)
    text, checksum = metadata.get(_STRUCTURE, "null"), metadata.get(_CHECKSUM)
    if checksum is None and (checked or _STRUCTURE in metadata):
        raise CorruptFileError(
            f"{_display_name(path)}: no checksum; the file is damaged or was written by another program"
        )
    if checksum is not None and checksum != str(_checksum(arrays, text)):
        raise CorruptFileError(f"{_display_name(path)}: damaged (the checksum does not match the content)")
    # The library's order of the names differs between processes.
    tensors = {
        name: tensor_of(array.astype(array.dtype.newbyteorder("="), copy=False))
        for name, array in sorted(arrays.items())
    }
    if _STRUCTURE not in metadata:
        return tensors
    try:
        structure = parse_json(text)
        return unpack(structure, tied(structure, tensors))
    except RecursionError:
        raise CorruptFileError(f"{_display_name(path)}: damaged, its structure is nested too deeply") from None
    except ValueError as error:
        raise CorruptFileError(f"{_display_name(path)}: damaged ({error})") from None


def _checksum(arrays: Arrays, text: str) -> int:
    total = crc32(text.encode(errors="surrogatepass"))
    for name in sorted(arrays):
        array = arrays[name]
        if array.dtype.kind == "V":  # bfloat16, which is read as float32 without ml_dtypes
            array = array.astype(np.float32)
        total = crc32(f"{name} {array.dtype.str} {array.shape}".encode(errors="surrogatepass"), total)
        total = crc32(array.reshape(-1).view(np.uint8).data, total)
    return total


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
