"""Read and write zip archives of uncompressed records, as in PyTorch. The reader checks every offset in the file.

An archive may begin anywhere in a stream, and other data may follow it: the reader finds the archive's end.

Source: PKWARE, APPNOTE.TXT - .ZIP File Format Specification, 4.3 and 4.5.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, NamedTuple
from zlib import crc32

import numpy as np

from ...files import write_whole
from ...safetensors_format import CorruptFileError

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
