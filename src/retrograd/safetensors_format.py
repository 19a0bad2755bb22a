"""Read and write safetensors files as arrays.

Source: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
import os
from io import BytesIO
from pickle import UnpicklingError
from types import ModuleType
from typing import Any

import numpy as np

from .core.arrays.bfloat16 import bfloat16_or_none, widened
from .files import open_regular

Arrays = dict[str, np.ndarray]

# Dtypes by the format's names: BOOL, or a letter for the kind and the number of bits, as in F32.
_DTYPES = {"BOOL": np.dtype("?")} | {
    f"{code[0].upper()}{8 * int(code[1])}": np.dtype(f"<{code}")
    for code in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8")
}
_LONGEST_HEADER = 100_000_000  # limit of the format


class CorruptFileError(RuntimeError, UnpicklingError):
    """A file cannot be loaded: it is truncated, damaged or of unknown type, or names objects that ``load`` refuses.

    The base class ``UnpicklingError`` is the error that PyTorch raises in the last case.
    """


def holds(dtype: np.dtype) -> bool:
    """Whether the format supports the dtype, in either byte order.

    >>> holds(np.dtype(">f4")), holds(np.dtype("complex128"))
    (True, False)
    """
    return dtype.newbyteorder("<") in _DTYPES.values() or dtype.name == "bfloat16"


def serialize(arrays: Arrays, metadata: dict[str, str]) -> bytes:
    """Return the content of a file of contiguous arrays, whose dtypes the format ``holds``.

    Raises:
        MemoryError: the content does not fit in memory.
        ValueError: names and metadata exceed the limit of the format's header.
    """
    header: dict[str, object] = {"__metadata__": metadata}
    content, end = [], 0
    # Larger elements first, so that each array begins at a multiple of its element's size.
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])):
        if array.dtype.name != "bfloat16":
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _name(array.dtype), "shape": array.shape, "data_offsets": (begin, end)}
        content.append(array.reshape(-1).view(np.uint8).data)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _LONGEST_HEADER:
        raise ValueError(
            f"save: the names, numbers and strings are too long (a header of {len(text):,} bytes, at most "
            f"{_LONGEST_HEADER:,}); convert long lists to Tensors"
        )
    try:
        return b"".join([len(text).to_bytes(8, "little"), text, *content])
    except MemoryError:
        raise MemoryError(f"save: not enough memory for a copy of {end:,} bytes") from None


def read(path: Any) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays by name, little-endian and in memory of their own, and the metadata.

    Without ml_dtypes, bfloat16 becomes float32.

    Raises:
        CorruptFileError: the file is truncated or damaged, or not a safetensors file.
        MemoryError: the file does not fit in memory; the message has the file's size.
        OSError: the file cannot be read.
    """
    data = b""
    shown = getattr(path, "name", "the stream") if hasattr(path, "read") else path
    with BytesIO(_one_file(path)) if hasattr(path, "read") else open_regular(path) as file:
        try:
            data = file.read()
            return _parsed(data)
        except MemoryError:
            size = file.seek(0, os.SEEK_END)
            raise MemoryError(f"{shown}: not enough memory for two copies of its {size:,} bytes") from None
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        except (ValueError, OverflowError, RecursionError) as error:
            raise CorruptFileError(f"{shown}: {_diagnosis(data, error)}") from None


def _parsed(data: bytes) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays and the metadata in a file's content; ValueError if it breaks a rule of the format."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(_LONGEST_HEADER, len(data) - 8):
        raise ValueError(f"the header's length is {size:,} in a file of {len(data):,} bytes")
    header = parse_json(data[8 : 8 + size].decode())
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")
    metadata = header.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("the metadata are not strings")
    arrays, end = {}, 0
    for (begin, stop), name, entry in sorted((_offsets(entry), name, entry) for name, entry in header.items()):
        if begin != end:
            raise ValueError(f"{name:.80} begins at byte {begin:,}, expected {end:,}")
        arrays[name] = _array(name, entry, data, 8 + size + begin, stop - begin)
        end = stop
    if 8 + size + end != len(data):
        raise ValueError(f"the arrays end at byte {8 + size + end:,} in a file of {len(data):,} bytes")
    return arrays, metadata


def _offsets(entry: Any) -> tuple[int, int]:
    match entry:
        case {"data_offsets": [int(begin), int(end)]} if 0 <= begin <= end:
            return begin, end
    raise ValueError("an entry has no data_offsets")


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
            size = end  # `_parsed` reports the error
    stream.seek(begin)
    data: bytes = stream.read(8 + size if isinstance(size, int) and 0 <= size < end - begin else -1)
    return data


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON value; ValueError for duplicate keys, because programs differ in which one they use."""
    return json.loads(text, object_pairs_hook=_without_duplicates)


def _name(dtype: np.dtype) -> str:
    """Return the format's name of a dtype.

    >>> _name(np.dtype(np.float32)), _name(np.dtype(bool))
    ('F32', 'BOOL')
    """
    return next((name for name, known in _DTYPES.items() if known == dtype), "BF16")


def _array(name: str, entry: dict[str, Any], data: bytes, begin: int, size: int) -> np.ndarray:
    """Return a copy of an array's elements in the file's content."""
    name.encode()  # an unpaired surrogate is not text
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(dtype, str) or dtype != "BF16" and dtype not in _DTYPES:
        raise ValueError(f"{name:.80} has dtype {dtype!r:.40}, which NumPy does not support")
    kind = _DTYPES.get(dtype) or bfloat16_or_none() or np.dtype("<u2")
    if not isinstance(shape, list) or any(type(length) is not int or length < 0 for length in shape):
        raise ValueError(f"{name:.80} has shape {shape!r:.80}")
    if math.prod(shape) * kind.itemsize != size or begin + size > len(data):
        raise ValueError(
            f"{name:.80} of shape {shape!r:.80} and dtype {dtype} has {size:,} bytes from byte {begin:,} on"
        )
    array = np.ndarray(shape, kind, data, begin)
    if dtype == "BOOL" and array.size and array.view(np.uint8).max() > 1:
        raise ValueError(f"{name:.80} has booleans other than 0 and 1")
    return widened(array) if dtype == "BF16" and kind.kind == "u" else array.copy()


def _diagnosis(data: bytes, error: Exception) -> str:
    if data.startswith((b"PK\3\4", b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5")):
        return "a pickle (torch.save), which can run any code when loaded; convert it with safetensors.torch.save_file"
    # The error may quote the file, including line breaks and terminal control characters.
    return f"truncated or damaged, or neither a safetensors file nor one of torch.save ({str(error)!r:.200})"


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a name is repeated")
    return values
