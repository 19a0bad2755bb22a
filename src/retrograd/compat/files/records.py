"""The records of PyTorch's zip archives, and the Tensors and arrays in them. Every size and offset is checked.

Records are not compressed. An archive may begin anywhere in a stream, and other data may follow it: the reader finds
the archive's end.

Source: PKWARE, APPNOTE.TXT - .ZIP File Format Specification, 4.3 and 4.5.3.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from math import prod
from typing import IO, Any, NamedTuple, NoReturn, TypeVar
from zlib import crc32

import numpy as np

from ...core.arrays import Array
from ...core.arrays.bfloat16 import bfloat16_or_none, widened
from ...core.arrays.devices import backend_of
from ...core.arrays.dtypes import DType, is_differentiable, is_number_dtype
from ...core.tensor.copies import _rebuild as rebuilt_copy
from ...core.tensor.storage import share
from ...core.tensor.tensor import Tensor, new_tensor
from ...files import write_whole
from ...nn.parameter import Buffer, Parameter
from ...ops.linear.sparse.compressed import sparse_csc_tensor, sparse_csr_tensor
from ...ops.linear.sparse.sparse import SparseTensor, sparse_coo_tensor
from ...safetensors_format import CorruptFileError
from ..storages import STORAGE_DTYPES
from ..types import layout
from .sealed_pickle import Opaque, Pending

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR_64 = struct.Struct("<4sIQI")
_HALF, _FULL = 0xFFFF, 0xFFFFFFFF  # placeholders for numbers that only the 64-bit field contains
_LARGE, _MANY = _FULL, _HALF  # smallest numbers that need the 64-bit field
_UTF_8 = 0x800  # the flag of a name in UTF-8
_DATE = 0x21  # the format's first day, so that equal contents give equal files
_ALIGNMENT = 64
_CHUNK = 1 << 20

Content = bytes | memoryview


class Writer:
    """A writer of an archive, from the stream's present position on. It never calls seek."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._at = 0
        self._directory: list[bytes] = []

    def add(self, name: str, content: Content) -> None:
        """Write a record. Its content begins at a multiple of 64 bytes.

        Raises:
            RuntimeError: another thread changed the content during the call.
        """
        label, size, checksum = name.encode(), len(content), crc32(content)
        large = size >= _LARGE
        extra = struct.pack("<2H2Q", 1, 16, size, size) if large else b""
        padding = -(self._at + _LOCAL.size + len(label) + len(extra) + 4) % _ALIGNMENT
        extra += struct.pack("<2s1H", b"FB", padding) + b"Z" * padding
        short = _FULL if large else size
        header = (45 if large else 20, _UTF_8, 0, 0, _DATE, checksum, short, short, len(label))
        begin = self._at
        self._write(_LOCAL.pack(b"PK\3\4", *header, len(extra)) + label + extra)
        self._write(content)
        if crc32(content) != checksum:
            raise RuntimeError(f"save: a Tensor was changed while it was written to {name}")
        wide = [size, size] if large else []
        wide += [begin] if begin >= _LARGE else []
        extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        central = (45, *header, len(extra), 0, 0, 0, 0, _FULL if begin >= _LARGE else begin)
        self._directory.append(_CENTRAL.pack(b"PK\1\2", *central) + label + extra)

    def close(self) -> None:
        """Write the directory, which completes the archive."""
        begin, count = self._at, len(self._directory)
        self._write(b"".join(self._directory))
        size = self._at - begin
        if count >= _MANY or begin >= _LARGE or size >= _LARGE:
            end = self._at
            self._write(_END_64.pack(b"PK\6\6", _END_64.size - 12, 45, 45, 0, 0, count, count, size, begin))
            self._write(_LOCATOR_64.pack(b"PK\6\7", 0, end, 1))
            count, size, begin = _HALF, _FULL, _FULL
        self._write(_END.pack(b"PK\5\6", 0, 0, count, count, size, begin, 0))

    def _write(self, content: Content) -> None:
        write_whole(self._stream, content)
        self._at += len(content)


class _Record(NamedTuple):
    begin: int  # the position of the record's local header in the stream
    size: int
    checksum: int
    is_stored: bool


class _End(NamedTuple):
    directory: int
    directory_size: int
    records: int
    end: int


class Reader:
    """A reader of the archive that begins at the stream's present position.

    Raises:
        CorruptFileError: the stream has no complete archive.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._begin = stream.tell()
        self._stop = stream.seek(0, 2)
        found = self._find_end()
        self.end = found.end
        self._directory = found.directory
        self._records = self._read_directory(found)

    def __contains__(self, name: str) -> bool:
        return name in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def size(self, name: str) -> int:
        """Return the size of a record in bytes. The file has at least this many bytes."""
        return self._record(name).size

    def read(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """Return a copy of the bytes of a record."""
        record = self._record(name)
        if not record.is_stored:
            raise CorruptFileError(f"{name[:80]} is compressed or encrypted, which PyTorch never writes")
        header = _LOCAL.unpack(self._bytes(record.begin, _LOCAL.size))
        begin = record.begin + _LOCAL.size + header[9] + header[10]
        if header[0] != b"PK\3\4" or begin + record.size > self._directory:
            raise CorruptFileError(f"{name[:80]} is not where the archive's directory says")
        content = np.empty(record.size, np.uint8)
        self._stream.seek(begin)
        view = content.data
        for at in range(0, record.size, 16 * _CHUNK):
            part = self._stream.read(min(record.size - at, 16 * _CHUNK))
            view[at : at + len(part)] = part
            if len(part) < min(record.size - at, 16 * _CHUNK):
                raise CorruptFileError("truncated")
        if crc32(view) != record.checksum:
            raise CorruptFileError(f"{name[:80]} is damaged: its checksum does not match")
        return content

    def _record(self, name: str) -> _Record:
        try:
            return self._records[name]
        except KeyError:
            raise CorruptFileError(f"the archive has no {name[:80]}") from None

    def _bytes(self, begin: int, size: int) -> bytes:
        if begin < self._begin or begin + size > self._stop:
            raise CorruptFileError("the archive refers to bytes outside it")
        self._stream.seek(begin)
        found = self._stream.read(size)
        if len(found) != size:
            raise CorruptFileError("truncated")
        return found

    def _find_end(self) -> _End:
        """Return the end record that matches the archive's beginning: the stream's last, or else its first."""
        tail = max(self._begin, self._stop - _END.size)
        found = self._end_at(tail)
        if found is not None and found.end == self._stop:
            return found
        place, overlap = self._begin, b""
        while place < self._stop:
            self._stream.seek(place)
            chunk = overlap + self._stream.read(_CHUNK)
            if len(chunk) == len(overlap):
                break
            at = chunk.find(b"PK\5\6")
            while at >= 0:
                found = self._end_at(place - len(overlap) + at)
                if found is not None:
                    return found
                at = chunk.find(b"PK\5\6", at + 1)
            place += len(chunk) - len(overlap)
            overlap = chunk[-3:]
        raise CorruptFileError("truncated: the archive's directory is missing")

    def _end_at(self, place: int) -> _End | None:
        """Return the end record at a position, or None if it does not belong to this archive."""
        if place + _END.size > self._stop:
            return None
        mark, *_, count, size, begin, comment = _END.unpack(self._bytes(place, _END.size))
        if mark != b"PK\5\6" or place + _END.size + comment > self._stop:
            return None
        end = place + _END.size + comment
        before = place - _LOCATOR_64.size
        if before >= self._begin:
            mark, _, at, _ = _LOCATOR_64.unpack(self._bytes(before, _LOCATOR_64.size))
            if mark == b"PK\6\7" and self._begin + at + _END_64.size <= before:
                fields = _END_64.unpack(self._bytes(self._begin + at, _END_64.size))
                if fields[0] == b"PK\6\6" and self._begin + at + 12 + fields[1] == before:
                    count, size, begin = fields[7:10]
                    place = self._begin + at
        return _End(self._begin + begin, size, count, end) if self._begin + begin + size == place else None

    def _read_directory(self, found: _End) -> dict[str, _Record]:
        data = self._bytes(found.directory, found.directory_size)
        records: dict[str, _Record] = {}
        at = total = 0
        for _ in range(found.records):
            if at + _CENTRAL.size > len(data):
                raise CorruptFileError("the archive's directory is damaged")
            fields = _CENTRAL.unpack_from(data, at)
            mark, flags, method, checksum, packed, size = fields[0], *fields[3:5], *fields[7:10]
            label, extra, comment, begin = *fields[10:13], fields[16]
            at += _CENTRAL.size
            name = data[at : at + label].decode("utf-8", "replace")
            wide = _wide_numbers(data[at + label : at + label + extra])
            at += label + extra + comment
            size = wide.pop(0) if size == _FULL and wide else size
            packed = wide.pop(0) if packed == _FULL and wide else packed
            begin = wide.pop(0) if begin == _FULL and wide else begin
            if mark != b"PK\1\2" or at > len(data) or name in records or begin >= found.directory - self._begin:
                raise CorruptFileError("the archive's directory is damaged")
            stored = method == 0 and packed == size and not flags & 1
            records[name] = _Record(self._begin + begin, size, checksum, stored)
            total += size if stored else 0
        if at != len(data) or total > self._stop - self._begin:
            raise CorruptFileError("the archive's directory is damaged, or its records overlap")
        return records


def _wide_numbers(extra: bytes) -> list[int]:
    """Return the numbers of the 64-bit field among a record's extra fields."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        at += 4
        if kind == 1 and at + size <= len(extra):
            return list(struct.unpack_from(f"<{size // 8}Q", extra, at))
        at += size
    return []


Placed = Callable[[Tensor, str], Tensor]  # moves a Tensor from the CPU, given the device that the file names

DTYPE_NAMES = {
    "float64": "f8", "double": "f8", "float32": "f4", "float": "f4", "float16": "f2", "half": "f2", "int64": "i8",
    "long": "i8", "int32": "i4", "int": "i4", "int16": "i2", "short": "i2", "int8": "i1", "uint8": "u1", "bool": "?",
    "complex64": "c8", "complex128": "c16", "uint16": "u2", "uint32": "u4", "uint64": "u8",
}  # fmt: skip

_ARRAY_DTYPES = re.compile(r"[biu]1|[fiu][248]|f16|c8|c16|c32|[SU]\d{1,6}")
_MOST_BYTES = 1 << 62

AnyTensor = TypeVar("AnyTensor", bound=Tensor)


class Function(Opaque):
    """A function that a file may call but not store."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def __call__(self, *args: object) -> object:
        return self._function(*args)


class StorageType(Opaque):
    """A class of PyTorch's storages, which determines the dtype."""

    def __init__(self, name: str) -> None:
        self.dtype = STORAGE_DTYPES[name]


class Storage(Opaque):
    """The memory of one or more tensors.

    Args:
        dtype: a dtype code of NumPy, or bfloat16.
        count: the number of elements.
        data: the bytes of the elements; if None, ``fill`` provides them later.
        placed: moves the memory to the device of the tensors.
        location: the device that the file names.
    """

    def __init__(self, dtype: str, count: int, data: Array | None, placed: Placed, location: str) -> None:
        self.dtype, self.count = dtype, count
        if data is None:
            numbers = np.zeros(count, bfloat16_or_none() or np.float32 if dtype == "bfloat16" else np.dtype(dtype))
        else:
            numbers = self._numbers(data)
        self.array: Array = placed(new_tensor(numbers), location).array
        self._first: Tensor | None = None

    @staticmethod
    def width(dtype: str) -> int:
        """Return the bytes per element in the file."""
        return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize

    def fill(self, data: Array) -> None:
        """Set the elements from the file's bytes."""
        self.array[...] = backend_of(self.array).asarray(self._numbers(data))

    def _numbers(self, data: Array) -> Array:
        if data.nbytes != self.count * self.width(self.dtype):
            raise CorruptFileError(f"a storage of {self.count} elements has {data.nbytes} bytes")
        if self.dtype == "bfloat16":
            kind = bfloat16_or_none()
            return widened(data.view("<u2")) if kind is None else data.view(kind)
        numbers = data.view(np.dtype(self.dtype).newbyteorder("<"))
        return checked_values(numbers.astype(numbers.dtype.newbyteorder("="), copy=False))

    def tensor(
        self, offset: Any, size: object, stride: object, requires_grad: object, dtype: DType | None = None
    ) -> Tensor:
        """Return a tensor on this memory, which it shares with the other tensors of the storage."""
        array = self.array
        if dtype is not None and dtype != array.dtype:
            if self.dtype == "bfloat16" and array.dtype == np.float32:
                raise CorruptFileError("a bfloat16 storage is viewed as another dtype, which needs ml_dtypes")
            array = array.view(np.uint8)
        dtype = self.array.dtype if dtype is None else dtype
        if not (isinstance(size, tuple) and isinstance(stride, tuple) and len(size) == len(stride)):
            raise CorruptFileError("a tensor without a size and a stride")
        for number in (offset, *size, *stride):
            if type(number) is not int or not 0 <= number < _MOST_BYTES:
                raise CorruptFileError("a tensor whose size, stride or offset is not a valid length")
        width, empty = dtype.itemsize, 0 in size
        last = offset + sum((length - 1) * step for length, step in zip(size, stride))
        if prod(map(int, size)) * width >= _MOST_BYTES or not empty and (last + 1) * width > array.nbytes:
            raise CorruptFileError(
                f"a tensor of size {size!r:.80}, stride {stride!r:.80} at {offset} exceeds its storage"
            )
        if empty:
            tensor = new_tensor(backend_of(array).xp.zeros(size, dtype))
        else:
            # The stride of an axis of length 1 is arbitrary.
            steps = tuple(min(step * width, _MOST_BYTES) for step in stride)
            tensor = new_tensor(backend_of(array).strided(array, offset * width, tuple(size), steps, dtype))
            if self.dtype != "?" and dtype.kind == "b":  # an expanded tensor has more elements than its memory
                checked_values(array[offset : last + 1].view(dtype))
            if self._first is None:
                self._first = tensor
            else:
                share(tensor, self._first, related=False)
        tensor._requires = bool(requires_grad) and is_differentiable(dtype)
        return tensor


def rebuilt_tensor(
    storage: object, offset: object, size: object, stride: object, requires_grad: object = False, *rest: object
) -> Tensor:
    """``torch._utils._rebuild_tensor`` and ``_rebuild_tensor_v2``."""
    if not isinstance(storage, Storage):
        raise CorruptFileError("a tensor without a storage")
    return storage.tensor(offset, size, stride, requires_grad)


def rebuilt_tensor_of_dtype(
    storage: object,
    offset: object,
    size: object,
    stride: object,
    requires_grad: object,
    hooks: object,
    dtype: object,
    *rest: object,
) -> Tensor:
    """``torch._utils._rebuild_tensor_v3``, which states the dtype of the storage's bytes."""
    if not isinstance(storage, Storage) or not isinstance(dtype, np.dtype) or not is_number_dtype(dtype):
        raise CorruptFileError("a tensor without a storage and a dtype")
    return storage.tensor(offset, size, stride, requires_grad, np.dtype(dtype))


def rebuilt_parameter(
    data: object, requires_grad: object = True, hooks: object = None, state: object = None
) -> Parameter:
    """``torch._utils._rebuild_parameter`` and ``_rebuild_parameter_with_state``."""
    if not isinstance(data, Tensor) or requires_grad and not is_differentiable(data.dtype):
        raise CorruptFileError("a parameter without a tensor")
    data._requires = False
    return with_attributes(Parameter(data, requires_grad=bool(requires_grad)), state)


_SPARSE: dict[str, Callable[..., SparseTensor]] = {
    "sparse_coo": sparse_coo_tensor,
    "sparse_csr": sparse_csr_tensor,
    "sparse_csc": sparse_csc_tensor,
}
_LAYOUTS = {f"torch.{name}": layout(name) for name in (*_SPARSE, "strided", "sparse_bsr", "sparse_bsc", "jagged")}


def layout_named(name: object) -> layout:
    """``torch.serialization._get_layout``: the layout that is printed as ``name``."""
    found = _LAYOUTS.get(name) if isinstance(name, str) else None
    if found is None:
        raise CorruptFileError("an unknown layout")
    return found


def rebuilt_sparse(kind: object, parts: object) -> SparseTensor:
    """``torch._utils._rebuild_sparse_tensor``: a sparse Tensor of checked indices."""
    make = _SPARSE.get(kind.name) if isinstance(kind, layout) else None
    if make is None:
        raise CorruptFileError(f"a sparse tensor of layout {kind!r:.80}, which is not supported")
    count = 2 if make is sparse_coo_tensor else 3
    if not isinstance(parts, tuple) or len(parts) <= count:
        raise CorruptFileError("a sparse tensor without indices, values and a size")
    tensors, size, (coalesced, *_) = parts[:count], parts[count], (*parts[count + 1 :], False)
    if not all(isinstance(part, Tensor) for part in tensors) or not isinstance(size, tuple):
        raise CorruptFileError("a sparse tensor without indices, values and a size")
    try:
        made: SparseTensor = make(*tensors, size)
        if coalesced is True:
            sorted_once = made.coalesce()
            if not np.array_equal(sorted_once._indices().cpu().array, made._indices().cpu().array):
                raise CorruptFileError("a sparse tensor with coordinates that are not in order")
            made = sorted_once
    except RuntimeError as error:
        raise CorruptFileError(f"a sparse tensor: {error}") from None
    return made


def unfilled_sparse(kind: object, parts: object) -> NoReturn:
    """Refuse a sparse Tensor whose indices cannot be checked yet."""
    raise CorruptFileError("a sparse tensor in PyTorch's format before 1.6, which is not supported; save it again")


def rebuilt_with_attributes(function: object, kind: object, args: object, state: object) -> Tensor:
    """``torch._tensor._rebuild_from_type_v2``: a tensor with attributes, or a buffer."""
    if not (isinstance(function, Function) and isinstance(args, tuple)):
        raise CorruptFileError("a tensor built by something that is not a function for tensors")
    made = function(*args)
    if not isinstance(made, Tensor):
        raise CorruptFileError("a tensor function that returned no tensor")
    if isinstance(state, tuple) and len(state) == 2:  # a pair of attributes and slots
        state = state[0]
    if isinstance(state, dict) and state.get("_is_buffer") is True:
        requires, made._requires = made.requires_grad, False
        made = Buffer(made, persistent=state.get("persistent") is not False)
        made._requires = requires
        state = {name: value for name, value in state.items() if name not in ("_is_buffer", "persistent")}
    return with_attributes(made, state)


def with_attributes(tensor: AnyTensor, attributes: object) -> AnyTensor:
    """Set attributes that a program gave to a Tensor, and return the Tensor."""
    if attributes:
        set_attributes(tensor, attributes)
    return tensor


def check_attributes(kind: type, state: object) -> None:
    """Raise an error unless a state is a dictionary of attributes, none of which replaces a method."""
    if not isinstance(state, dict):
        raise CorruptFileError(f"a state of a {kind.__name__} that is not a dictionary")
    for name in state:
        if not isinstance(name, str) or name.startswith("__"):
            label = name[:80] if isinstance(name, str) else f"that is a {type(name).__name__}"
            raise CorruptFileError(f"an attribute {label} of a {kind.__name__}")
        here = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
        if callable(here) or hasattr(type(here), "__get__"):
            raise CorruptFileError(f"the file replaces {name} of a {kind.__name__}")


def set_attributes(target: Any, state: object) -> None:
    """Set attributes of an object from a file. No attribute may replace a method."""
    check_attributes(type(target), state)
    target.__dict__.update(state)


class Copies:
    """``core.tensor.copies._rebuild``: Tensors pickled with their arrays."""

    def __init__(self, placed: Placed) -> None:
        self._placed = placed
        self._tensor_of_array: dict[int, tuple[Array, Tensor]] = {}

    def rebuild(
        self, kind: object, array: object, device: object, requires: object, attributes: object = None
    ) -> Tensor:
        """Return a Tensor on an array. Tensors on the same array share memory."""
        if kind not in (Tensor, Parameter, Buffer) or not isinstance(array, np.ndarray):
            raise CorruptFileError("a Tensor of an unknown class, or without an array")
        if not is_number_dtype(array.dtype) or not isinstance(device, str):
            raise CorruptFileError(f"a Tensor of dtype {array.dtype}")
        requires = bool(requires) and is_differentiable(array.dtype)
        known = self._tensor_of_array.get(id(array))
        found = self._placed(new_tensor(array), device) if known is None else known[1]
        made: Tensor = rebuilt_copy(kind, found.array, str(found.device), requires, None)
        if known is None:
            self._tensor_of_array[id(array)] = array, made
        else:
            share(made, found, related=False)
        if kind is Buffer and not isinstance(attributes, dict):
            attributes = {"persistent": True}
        return with_attributes(made, attributes)


# NumPy's arrays and scalars


class PendingDtype(Pending):
    """A dtype whose byte order has not been read yet."""

    def __init__(self, code: object, align: object = False, copy: object = True) -> None:
        super().__init__()
        if isinstance(code, str) and not _ARRAY_DTYPES.fullmatch(code):
            raise CorruptFileError(f"an array of dtype {code!r:.80}, which is neither numeric nor text")
        if not isinstance(code, str) and code is not getattr(bfloat16_or_none(), "type", None):
            raise CorruptFileError("an array of an unknown dtype")
        self._dtype = np.dtype(code)

    def build(self, state: object) -> DType:
        match state:
            case (3, "<" | ">" | "=" | "|" as order, None, None, None, int(), int(), int()):
                swapped = self._dtype.newbyteorder(order) if order in "<>" and self._dtype.kind != "V" else self._dtype
                return self._dtype if swapped.isnative else swapped
        raise CorruptFileError("an array of a dtype with fields or objects, or of a damaged dtype")


class PendingArray(Pending):
    """An array whose shape and content have not been read yet."""

    def __init__(self, charge: Callable[[int], None]) -> None:
        super().__init__()
        self._charge = charge

    def build(self, state: object) -> Array:
        match state:
            case (1, tuple(shape), np.dtype() as dtype, bool(fortran), bytes(data)):
                return array_of(data, dtype, shape, "F" if fortran else "C", self._charge)
        raise CorruptFileError("an array of objects, or a damaged array")


def array_of(data: object, dtype: object, shape: object, order: Any, charge: Callable[[int], None]) -> Array:
    """Return an array on a copy of the bytes."""
    if not isinstance(dtype, np.dtype) or not (dtype.kind in "biufcSU" or is_number_dtype(dtype)) or order not in "CF":
        raise CorruptFileError("an array of a dtype that is neither numeric nor text")
    if not isinstance(data, (bytes, bytearray)) or not isinstance(shape, tuple):
        raise CorruptFileError("an array without bytes or without a shape")
    if not all(type(length) is int and 0 <= length < _MOST_BYTES for length in shape):
        raise CorruptFileError("an array whose shape is not a tuple of lengths")
    if prod(shape) * dtype.itemsize != len(data):
        raise CorruptFileError(f"an array of shape {shape!r:.80} and dtype {dtype} with {len(data)} bytes")
    charge(len(data))
    array = np.ndarray(shape, dtype, bytearray(data), order=order)
    if dtype.kind == "U" and array.size and dtype.itemsize:
        points = array.reshape(-1).view(np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if points.max() > 0x10FFFF:
            raise CorruptFileError("a text with invalid code points")
    # NumPy's own reader also returns native byte order.
    return checked_values(array if dtype.isnative else array.astype(dtype.newbyteorder("=")))


def scalar_of(dtype: object, data: object) -> np.generic:
    """``numpy._core.multiarray.scalar``: a NumPy scalar."""
    return array_of(data, dtype, (1,), "C", lambda size: None)[0]


def checked_values(array: Array) -> Array:
    """Return the array, after a check that every bool is 0 or 1."""
    if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise CorruptFileError("bools that are neither 0 nor 1")
    return array
