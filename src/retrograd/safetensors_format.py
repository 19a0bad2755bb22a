"""The safetensors format: eight bytes that give the length of a JSON header, the header, and the arrays' bytes.

The header tells each array's dtype, shape and place. It is read as what a stranger may have written: every number in it
is checked before anything is allocated or believed.

Source: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from .files import open_regular

Arrays = dict[str, np.ndarray[Any, Any]]

_DTYPES = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("<u1"),
    "I8": np.dtype("<i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "C64": np.dtype("<c8"),
    "BF16": np.dtype("<u2"),  # as it is stored; widened to float32 when it is read
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items() if name != "BF16"}
_LONGEST_HEADER = 100_000_000  # every reader's limit
_METADATA = "__metadata__"


class CorruptFileError(RuntimeError):
    """A file that is truncated, damaged, or no safetensors file at all."""


def holds(dtype: np.dtype[Any]) -> bool:
    """Whether the format has the dtype, in either byte order.

    >>> holds(np.dtype(">f4")), holds(np.dtype("complex128"))
    (True, False)
    """
    return dtype.newbyteorder("<") in _NAMES


def write(stream: BinaryIO, arrays: Arrays, metadata: dict[str, str]) -> None:
    """Write contiguous, little-endian arrays of dtypes that the format ``holds``.

    Raises:
        ValueError: the names and the metadata are longer than readers accept.
    """
    # The largest elements first: so each array begins at a multiple of its elements' size, as readers that map the file
    # into memory need it.
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {_METADATA: metadata}
    end = 0
    for name in names:
        begin, end = end, end + arrays[name].nbytes
        kind = _NAMES[arrays[name].dtype.newbyteorder("<")]
        header[name] = {"dtype": kind, "shape": list(arrays[name].shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _LONGEST_HEADER:
        raise ValueError(
            f"save: names, numbers and texts take {len(text):,} bytes beside the Tensors, and safetensors files hold "
            f"{_LONGEST_HEADER:,}; make Tensors of long lists"
        )
    stream.write(len(text).to_bytes(8, "little"))
    stream.write(text)
    for name in names:
        stream.write(arrays[name].reshape(-1).view(np.uint8).data)


def read(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, str]]:
    """The arrays by name, little-endian and in memory of their own, and the metadata. bfloat16 becomes float32.

    Raises:
        CorruptFileError: the file is truncated or damaged, or no safetensors file.
        MemoryError: the arrays do not fit in memory; the message says how large they are.
        OSError: the file cannot be read.
    """
    with open_regular(path) as file:
        wanted = size = os.fstat(file.fileno()).st_size
        try:
            entries, metadata = _read_header(file, size)
            wanted = sum(entry.bytes_in_memory for entry in entries)
            return {entry.name: _read_array(file, entry) for entry in entries}, metadata
        except MemoryError:
            raise MemoryError(f"{path}: not enough memory for the {wanted:,} bytes of its Tensors") from None
        except (ValueError, OverflowError, RecursionError) as error:
            file.seek(0)
            raise CorruptFileError(f"{path}: {_diagnosis(file.read(4), error)}") from None


def parse_json(text: str | bytes) -> Any:
    """A JSON value; ValueError where a key comes twice in one object, since programs differ in which one they take."""
    return json.loads(text, object_pairs_hook=_without_duplicates)


class _Entry(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def bytes_in_memory(self) -> int:
        return (self.end - self.begin) * (2 if self.dtype == "BF16" else 1)


def _read_header(file: BinaryIO, size: int) -> tuple[list[_Entry], dict[str, str]]:
    """The entries in the order of their places, which together are the rest of the file, and the metadata."""
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or not 2 <= length <= min(size - 8, _LONGEST_HEADER):
        _fail(f"a header of {length} bytes in a file of {size}")
    header = parse_json(file.read(length).decode())
    if not isinstance(header, dict):
        _fail("the header is no JSON object")
    metadata = header.pop(_METADATA, None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        _fail("the metadata holds something else than texts")
    entries = sorted((_entry(name, tell) for name, tell in header.items()), key=lambda entry: (entry.begin, entry.end))
    end = 0
    for entry in entries:
        if entry.begin != end:
            _fail(f"{entry.name!r:.80} begins at {entry.begin}, not at {end}, where the one before it ends")
        end = entry.end
    if end != size - 8 - length:
        _fail(f"it holds {size - 8 - length} bytes of Tensors, the header promises {end}")
    return entries, metadata


def _entry(name: str, fields: Any) -> _Entry:
    fields = fields if isinstance(fields, dict) else {}
    kind, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not (isinstance(kind, str) and _are_sizes(shape) and _are_sizes(offsets) and len(offsets) == 2):
        _fail(f"{name!r:.80} has no dtype, shape and data_offsets")
    if kind not in _DTYPES:
        _fail(f"{name!r:.80} has the dtype {kind!r:.20}, which NumPy does not have")
    begin, end = offsets
    if math.prod(shape) * _DTYPES[kind].itemsize != end - begin:
        _fail(f"{name!r:.80} has {end - begin} bytes, which is not what its shape and dtype take")
    return _Entry(name, kind, tuple(shape), begin, end)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and 0 <= size < 1 << 63 for size in value)


def _read_array(file: BinaryIO, entry: _Entry) -> np.ndarray[Any, Any]:
    array = np.empty(entry.shape, _DTYPES[entry.dtype])
    if file.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
        _fail(f"the file ends inside {entry.name!r:.80}")
    if entry.dtype != "BF16":
        return array
    wide = array.astype("<u4")  # the upper half of a float32
    wide <<= 16
    return wide.view("<f4")


def _diagnosis(first: bytes, error: Exception) -> str:
    if first == b"PK\3\4" or (first[:1] == b"\x80" and first[1:2] in (b"\2", b"\3", b"\4", b"\5")):
        return (
            "this is a pickle (torch.save), which can run any program when it is read, so it is not; write it again "
            "with safetensors.torch.save_file"
        )
    problem = "the header is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return f"truncated or damaged, or no safetensors file ({problem})"


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        _fail("a name comes twice")
    return values


def _fail(problem: str) -> NoReturn:
    raise ValueError(problem)
