"""Read and write safetensors bytes as arrays, with this package's errors.

Source: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import os
from io import BytesIO
from pickle import UnpicklingError
from types import ModuleType
from typing import Any

import numpy as np

from .core.arrays.bfloat16 import bfloat16_or_none, widened
from .files import File, open_regular

Arrays = dict[str, np.ndarray]

# Dtypes by the format's names: BOOL, or a letter for the kind and the number of bits, as in F32.
_DTYPES = {"BOOL": np.dtype("?")} | {
    f"{code[0].upper()}{8 * int(code[1])}": np.dtype(f"<{code}")
    for code in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8")
}
_LONGEST_HEADER = 100_000_000  # limit of the library


class CorruptFileError(RuntimeError, UnpicklingError):
    """A file cannot be loaded: it is truncated, damaged or of unknown type, or names objects that ``load`` refuses.

    The base class ``UnpicklingError`` is the error that PyTorch raises in the last case.
    """


def require_library() -> ModuleType:
    """Return the library, or raise an ImportError that names the extra."""
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError("saved files need the safetensors library: pip install 'retrograd[weights]'") from None
    return safetensors


def holds(dtype: np.dtype) -> bool:
    """Whether the format supports the dtype, in either byte order.

    >>> holds(np.dtype(">f4")), holds(np.dtype("complex128"))
    (True, False)
    """
    return dtype.newbyteorder("<") in _DTYPES.values() or dtype.name == "bfloat16"


def serialize(arrays: Arrays, metadata: dict[str, str]) -> bytes:
    """Return the content of a file of contiguous arrays, whose dtypes the format ``holds``.

    Raises:
        ImportError: the library is not installed.
        MemoryError: the necessary copies do not fit in memory.
        ValueError: names and metadata exceed the limit of the format's header.
    """
    library = require_library()
    size = sum(array.nbytes for array in arrays.values()) + sum(map(len, metadata.values()))
    try:
        _reserve(3 * size)
        return library.numpy.save(arrays, metadata)
    except MemoryError:
        raise MemoryError(f"save: not enough memory for copies of {size:,} bytes") from None
    except library.SafetensorError as error:
        raise ValueError(
            f"save: the names, numbers and strings are too long ({error}); convert long lists to Tensors"
        ) from None


def read(path: File) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays by name, little-endian and in memory of their own, and the metadata.

    Without ml_dtypes, bfloat16 becomes float32.

    Raises:
        CorruptFileError: the file is truncated or damaged, or not a safetensors file.
        ImportError: the library is not installed.
        MemoryError: the file does not fit in memory; the message has the file's size.
        OSError: the file cannot be read.
    """
    library = require_library()
    data = b""
    shown = getattr(path, "name", "the stream") if hasattr(path, "read") else path
    with BytesIO(_one_file(path)) if hasattr(path, "read") else open_regular(path) as file:
        try:
            data = file.read()
            _reserve(len(data))
            arrays = {name: _array(name, view) for name, view in library.deserialize(data)}
            # Parse the header again: the library does not return the metadata, and ignores duplicate names.
            header = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")])
            return arrays, header.get("__metadata__") or {}
        except MemoryError:
            size = file.seek(0, os.SEEK_END)
            raise MemoryError(f"{shown}: not enough memory for two copies of its {size:,} bytes") from None
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(shown)) from None
        except (library.SafetensorError, ValueError, OverflowError, RecursionError) as error:
            raise CorruptFileError(f"{shown}: {_diagnosis(data, error)}") from None


def _one_file(stream: Any) -> bytes:
    """Return the bytes of the file at the stream's current position; another file may follow."""
    begin = stream.tell()
    end = stream.seek(0, os.SEEK_END)
    stream.seek(begin)
    size = int.from_bytes(stream.read(8), "little")
    if size <= min(_LONGEST_HEADER, end - begin - 8):
        try:
            entries = json.loads(stream.read(size))
            ends = [entry["data_offsets"][1] for name, entry in entries.items() if name != "__metadata__"]
            size += max(ends, default=0)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            size = end  # the library reports the error
    stream.seek(begin)
    data: bytes = stream.read(8 + size if isinstance(size, int) and 0 <= size < end - begin else -1)
    return data


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON value; ValueError for duplicate keys, because programs differ in which of the values they use."""
    return json.loads(text, object_pairs_hook=_without_duplicates)


def _reserve(size: int) -> None:
    """Raise MemoryError if the library's copies would not fit in memory, where it would abort the process."""
    np.empty(size, np.uint8)


def _array(name: str, view: dict[str, Any]) -> np.ndarray:
    dtype, shape, data = view["dtype"], view["shape"], view["data"]
    if dtype == "BF16":
        kind = bfloat16_or_none()
        return widened(np.ndarray(shape, "<u2", data)) if kind is None else np.ndarray(shape, kind, data)
    if dtype not in _DTYPES:
        raise ValueError(f"{name:.80} has dtype {dtype}, which NumPy does not support")
    array = np.ndarray(shape, _DTYPES[dtype], data)
    if dtype == "BOOL" and array.size and array.view(np.uint8).max() > 1:
        raise ValueError(f"{name:.80} has booleans other than 0 and 1")
    return array


def _diagnosis(data: bytes, error: Exception) -> str:
    if data.startswith((b"PK\3\4", b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5")):
        return "a pickle (torch.save), which can run any code when loaded; convert it with safetensors.torch.save_file"
    # The error may quote the file, including line breaks and terminal control characters.
    return f"truncated or damaged, or not a safetensors file ({str(error)!r:.200})"


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a name is repeated")
    return values
