"""The safetensors library between bytes and arrays, with this package's errors.

Source: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import os
from io import BytesIO
from pickle import UnpicklingError
from typing import Any

import numpy as np

from .core.arrays.bfloat16 import bfloat16_or_none, widened
from .files import open_regular

Arrays = dict[str, np.ndarray]

# By the format's names: BOOL, and a letter for the kind with the number of bits, as in F32.
_DTYPES = {"BOOL": np.dtype("?")} | {
    f"{code[0].upper()}{8 * int(code[1])}": np.dtype(f"<{code}")
    for code in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8")
}
_LONGEST_HEADER = 100_000_000  # that the library accepts


class CorruptFileError(RuntimeError, UnpicklingError):
    """A file that is not loaded: truncated, damaged, of no known kind, or one that names what ``load`` does not make.

    It is an ``UnpicklingError``, too, which PyTorch raises for the last of these.
    """


def require_library() -> Any:
    """The library; ImportError, which names the extra, where it is not installed."""
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError("saved files need the safetensors library: pip install 'retrograd[weights]'") from None
    return safetensors


def holds(dtype: np.dtype) -> bool:
    """Whether the format has the dtype, in either byte order.

    >>> holds(np.dtype(">f4")), holds(np.dtype("complex128"))
    (True, False)
    """
    return dtype.newbyteorder("<") in _DTYPES.values() or dtype.name == "bfloat16"


def serialize(arrays: Arrays, metadata: dict[str, str]) -> bytes:
    """The content of a file of contiguous arrays, of dtypes that the format ``holds``.

    Raises:
        ImportError: the library is not installed.
        MemoryError: the copies that it takes do not fit in memory.
        ValueError: the names and the metadata are longer than readers accept.
    """
    library = require_library()
    size = sum(array.nbytes for array in arrays.values()) + sum(map(len, metadata.values()))
    try:
        _reserve(3 * size)
        return library.numpy.save(arrays, metadata)
    except MemoryError:
        raise MemoryError(f"save: not enough memory for copies of {size:,} bytes") from None
    except library.SafetensorError as error:
        raise ValueError(f"save: too many names, numbers and texts ({error}); make Tensors of long lists") from None


def read(path: Any) -> tuple[Arrays, dict[str, str]]:
    """The arrays by name, little-endian and in memory of their own, and the metadata. bfloat16 becomes float32
    where ml_dtypes is not installed.

    Raises:
        CorruptFileError: the file is truncated or damaged, or no safetensors file.
        ImportError: the library is not installed.
        MemoryError: the file does not fit in memory; the message says how large it is.
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
            # Read once more: the library tells no metadata here, and takes the last of two arrays of one name.
            header = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")])
            return arrays, header.get("__metadata__") or {}
        except MemoryError:
            size = file.seek(0, os.SEEK_END)
            raise MemoryError(f"{shown}: not enough memory for two copies of its {size:,} bytes") from None
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        except (library.SafetensorError, ValueError, OverflowError, RecursionError) as error:
            raise CorruptFileError(f"{shown}: {_diagnosis(data, error)}") from None


def _one_file(stream: Any) -> bytes:
    """The bytes of the file that begins at the stream's present position; another one may follow."""
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
            size = end  # the library says what is wrong with it
    stream.seek(begin)
    data: bytes = stream.read(8 + size if isinstance(size, int) and 0 <= size < end - begin else -1)
    return data


def parse_json(text: str | bytes) -> Any:
    """A JSON value; ValueError where a key comes twice in one object, since programs differ in which one they take."""
    return json.loads(text, object_pairs_hook=_without_duplicates)


def _reserve(size: int) -> None:
    """Raise MemoryError where the library would find no room for its copies, and end the process."""
    np.empty(size, np.uint8)


def _array(name: str, view: dict[str, Any]) -> np.ndarray:
    dtype, shape, data = view["dtype"], view["shape"], view["data"]
    if dtype == "BF16":
        kind = bfloat16_or_none()
        return widened(np.ndarray(shape, "<u2", data)) if kind is None else np.ndarray(shape, kind, data)
    if dtype not in _DTYPES:
        raise ValueError(f"{name:.80} has the dtype {dtype}, which NumPy does not have")
    array = np.ndarray(shape, _DTYPES[dtype], data)
    if dtype == "BOOL" and array.size and array.view(np.uint8).max() > 1:
        raise ValueError(f"{name:.80} has truth values that are neither 0 nor 1")
    return array


def _diagnosis(data: bytes, error: Exception) -> str:
    if data.startswith((b"PK\3\4", b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5")):
        return "a pickle (torch.save), which can run any program when it is read; use safetensors.torch.save_file"
    # The error may quote the file, with line breaks and whatever a terminal obeys.
    return f"truncated or damaged, or no safetensors file ({str(error)!r:.200})"


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a name comes twice")
    return values
