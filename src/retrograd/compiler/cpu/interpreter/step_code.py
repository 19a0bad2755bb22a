"""The code of steps of a region, which ``kernels/loops/regions/region_code.py`` defines."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from ....kernels.loops.regions import region_code as at
from ....kernels.loops.regions.accumulator_code import STILL_BYTES
from ....kernels.runtime.threads import SHORT
from ..emission import collapsed
from ..machine_code import power_address
from ..numpy_loops import Gathering, NumpyCall
from ..product_kernels import flushed
from ..region_steps import Buffer, Map, Place, Step, Unlowered
from .map_code import MapCode, Slot, map_code, number_of, padded


class StepCode:
    """Encodes steps as words.

    Args:
        buffers: the number of each buffer of the region other than the arena.
        arena: the number of the arena, which is the last buffer.
        pool: the number of the buffer with the address and the size of the pool of threads, or -1.
        registers: where registers are in the arena; the code itself is the buffer after the arena.
    """

    def __init__(self, buffers: Mapping[Buffer, int], arena: int, pool: int = -1, registers: int = 0) -> None:
        self.words: list[int] = []
        self.arena_bytes = registers
        self._buffers, self._arena, self._pool, self._registers = buffers, arena, pool, registers

    def append(self, step: Step) -> None:
        """Append a step.

        Raises:
            Unlowered: the step has no code.
        """
        if isinstance(step, Map):
            self._map(step)
        elif isinstance(step.content, NumpyCall):
            self._call(step, step.content)
        elif isinstance(step.content, Gathering):
            self._gather(step, step.content)
        elif step.name in _WRITERS:
            _WRITERS[step.name](self, step)
        else:
            raise Unlowered(f"{step.name} needs LLVM")

    def separate(self, one: Buffer, other: Buffer) -> None:
        """Append the check that two inputs do not overlap."""
        both = [(self._buffers[buffer], buffer.low, buffer.high) for buffer in (one, other)]
        self._write(at.SEPARATE, *both[0], *both[1])

    def begin(
        self, count: int, rows: Mapping[Buffer, int], pairs: Sequence[tuple[Buffer, Buffer, bool, int]], reverse: bool
    ) -> int:
        """Begin a loop over the following steps; return its position for ``end``.

        Args:
            count: the number of the buffer with the number of repetitions; the second arrays of the carries follow.
            rows: the buffers from which each step takes one row, with the bytes of a row.
            pairs: for each carry the buffers that a step reads and writes, whether all values are stored, and bytes.
            reverse: whether the loop starts at the last row.
        """
        first, words = at.HEADER + len(self.words), list[int]()
        for buffer, size in rows.items():
            words += [self._buffers[buffer], size]
        for second, (before, after, saved, size) in enumerate(pairs, count + 1):
            words += [self._buffers[before], self._buffers[after], second, saved, size]
        self._write(at.BEGIN, count, reverse, len(rows), len(pairs), *words)
        return first

    def end(self, begin: int) -> None:
        """End a loop."""
        self._write(at.AGAIN, begin)

    def _write(self, operation: int, *words: int) -> None:
        self.words += [operation, 2 + len(words), *map(int, words)]

    def _at(self, place: Place) -> tuple[int, int]:
        number = self._buffers.get(place.buffer)
        if number is None:
            return self._arena, at.HEAD + place.buffer.index + place.offset
        return number, place.offset

    def _map(self, step: Map) -> None:
        code = map_code(step)
        places = [(*self._at(place), *strides) for place, strides in zip(step.operands, code.strides, strict=True)]
        if code.rows:
            self._rows(code, places)
            return
        size = code.dtype.itemsize
        if size not in (1, 4, 8):
            raise Unlowered(f"a copy of {code.dtype}")
        if code.constant:
            self._write(at.FILL, size, *code.lengths, _element(code.constant, code.dtype), *places[0])
        else:
            self._write(at.COPY, size, *code.lengths, *places[0], *places[1])

    def _rows(self, code: MapCode, places: Sequence[tuple[int, ...]]) -> None:
        """Append the accumulator's rows, to be executed once for all elements, or for blocks of them."""
        alone = not any((code.loads, code.stores))
        flat = alone and code.lengths[:-1] == [1] * (at.AXES - 1)
        begin = 7 if flat else 15  # words before the constants
        slots = self._slots(code.slots, places, at.HEADER + len(self.words) + begin)
        bits = [_bits_of(slot.constant, code.dtype) for slot in code.slots if slot.kind == "constant"]
        rows = [word for row in (*code.once, *code.loads, *code.stores, *code.rows) for word in row]
        sizes = code.dtype.itemsize, len(slots), len(code.once), code.lengths[-1]
        if flat:
            words = [word for slot in slots for word in slot[:2]]
            self._write(at.FLAT, *sizes, begin + len(bits), *bits, *words, *rows)
            return
        words = [word for slot in slots for word in slot]
        block = code.lengths[-1] if alone else at.LANES // code.group
        counts = code.group, block, len(places), len(code.loads), len(code.stores), begin + len(bits)
        self._write(at.MAP, *sizes, *code.lengths[:-1], *counts, *bits, *words, *rows)

    def _slots(self, slots: Sequence[Slot], places: Sequence[tuple[int, ...]], constants: int) -> list[tuple[int, ...]]:
        """Return buffer, offset and strides of each slot; the first constant is the word number ``constants``."""
        sizes = {"register": at.REGISTER, "temporary": STILL_BYTES, "number": 64}
        starts, end = dict[str, int](), self._registers
        for kind, size in sizes.items():
            starts[kind] = end
            end += size * sum(slot.kind == kind for slot in slots)
        self.arena_bytes = max(self.arena_bytes, end)
        found: list[tuple[int, ...]] = []
        for slot in slots:
            if slot.kind == "operand":
                found.append(places[slot.number])
            elif slot.kind == "constant":
                found.append((self._arena + 1, 8 * constants, *[0] * at.AXES))
                constants += 1
            else:
                found.append((self._arena, starts[slot.kind] + sizes[slot.kind] * slot.number, *[0] * at.AXES))
        return found

    def _call(self, step: Step, call: NumpyCall) -> None:
        function, data = call.loop.address, call.loop.data
        places = [(*self._at(step.operands[k]), *padded(strides, 0, 3)) for k, strides in call.outer]
        self._write(at.CALL, function, data, len(places), len(call.sizes), len(call.strides),
                    *padded(call.lengths, 1, 3), *call.sizes, *call.strides,
                    *[word for place in places for word in place])  # fmt: skip
        if step.checked:
            self._write(at.NUMBER, step.operands[0].dtype.itemsize, *self._at(step.operands[0]))

    def _gather(self, step: Step, gather: Gathering) -> None:
        x, part, *indices = gather.operands(step)
        operation = {"take": at.TAKE, "put": at.PUT, "add": at.ADD_AT}[gather.how]
        size = x.dtype.itemsize
        if any(index.dtype != np.int64 for index in indices) or size not in (1, 4, 8):
            raise Unlowered("indices or elements of another size")
        if gather.how == "add" and x.dtype.kind != "f":
            raise Unlowered("sums of integers at indices")
        lengths, inner = padded(indices[0].shape, 1, 2), padded(gather.inner, 1, 2)
        of_x, of_part = padded(gather.of_x, 0, 2), padded(gather.of_part, 0, 2)
        outer = padded(part.strides[: len(indices[0].shape)], 0, 2)
        words = [*self._at(x), *of_x, *self._at(part), *outer, *of_part]
        for bound, stride, index in zip(gather.bounds, gather.leading, indices, strict=True):
            words += [bound, stride, *self._at(index), *padded(index.strides, 0, 2)]
        self._write(operation, size, len(indices), *lengths, *inner, *words)

    def _product(self, step: Step) -> None:
        out, x, y = step.operands
        (rows, inner), columns = x.shape, y.shape[1]
        if step.flops > 2.0 * at.MAX_MULTIPLICATIONS:
            raise Unlowered("a large product without BLAS")
        self._write(at.PRODUCT, x.dtype.itemsize, rows, inner, columns, *self._at(x), *x.strides, *self._at(y),
                    y.strides[0], *self._at(out), out.strides[0])  # fmt: skip

    def _gemm(self, step: Step) -> None:
        out, x, y = step.operands
        blocks, least, block, each = step.parts
        words: list[int] = []
        for place in (x, y):
            plain = place.strides[1] == place.dtype.itemsize
            length = place.shape[1] if plain else place.shape[0]
            apart = max(place.strides[0 if plain else 1], length * place.dtype.itemsize)
            words += [*self._at(place), apart, not plain]
        width = max(out.strides[0], out.shape[1] * out.dtype.itemsize)
        few = SHORT * least if least > 1 else 0
        self._write(at.GEMM, x.dtype.itemsize, *x.shape, y.shape[1], step.content, flushed(step), blocks, least, block,
                    each, *words, *self._at(out), width, self._pool, few)  # fmt: skip

    def _add_up(self, step: Step) -> None:
        out, x = step.operands
        if x.dtype != np.float32:
            raise Unlowered(f"an accurate sum of {x.dtype}")
        lengths, (of_x, of_out) = collapsed(x.shape, x.strides, out.strides)
        self._write(at.ADD_UP, *padded(lengths, 1), *self._at(out), *padded(of_out, 0), *self._at(x), *padded(of_x, 0))

    def _check(self, step: Step) -> None:
        (place,) = step.operands
        seen, size = str(step.content), place.dtype.itemsize
        if place.dtype.kind == "f":
            self._write(at.CHECK_FLOAT, size, _bits(number_of(seen)), *self._at(place))
            return
        self._write(at.CHECK, size, _element(seen, place.dtype), *self._at(place))

    def _rates(self, step: Step) -> None:
        rates, count, *numbers = step.operands
        places: Sequence[Place] = [rates, rates._replace(offset=rates.offset + 8), count, *numbers]
        address = power_address()
        if address is None:
            raise Unlowered("no C library")
        self._write(at.RATES, address, count.dtype.itemsize, *[word for place in places for word in self._at(place)])


def _element(text: str, dtype: np.dtype) -> int:
    """Return an LLVM constant, converted to a dtype, as an integer with the same bits."""
    return _bits_of(int(text) if dtype.kind in "iu" else number_of(text), dtype)


def _bits_of(value: float, dtype: np.dtype) -> int:
    """Return a number, converted to a dtype, as an integer with the same bits."""
    return int.from_bytes(np.array(value, dtype).tobytes(), "little", signed=dtype.itemsize == 8)


def _bits(number: float) -> int:
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return int(bits)


_WRITERS = {
    "matmul": StepCode._product, "gemm": StepCode._gemm, "accurate_sum": StepCode._add_up, "check": StepCode._check,
    "rates": StepCode._rates,
}  # fmt: skip


def check(step: Step) -> None:
    """Raise an error unless a step has code.

    Raises:
        Unlowered: the step has no code.
    """
    StepCode(dict.fromkeys((place.buffer for place in step.operands), 0), 0).append(step)
