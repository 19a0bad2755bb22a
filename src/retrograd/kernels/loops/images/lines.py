"""Copies of lines of images: parts of contiguous vectors, by explicit vectors and without checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...tiles.tiles import BYTES, HALF, WORD, first_lanes, masked_load
from .convolution import LANES

_BYTE = ir.IntType(8)


class _Context(Protocol):
    """The methods of Numba's contexts that this module calls."""

    def make_array(self, kind: object) -> Callable[..., ir.Value]: ...
    def get_value_type(self, kind: object) -> ir.Type: ...
    def get_abi_sizeof(self, kind: ir.Type) -> int: ...
    def get_dummy_value(self) -> ir.Value: ...


def _pointer(context: _Context, builder: ir.IRBuilder, kind: object, array: ir.Value, at: ir.Value) -> ir.Value:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


@intrinsic
def _copy(
    typing_context: object, target: types.Array, at: object, source: types.Array, place: object, count: object
) -> object:
    """``target[at:][:count] = source[place:][:count]`` for contiguous vectors, without checks.

    Lines of windows are short: by vectors, of which the last is masked, they take a fraction of the time of memcpy.
    """

    def generate(
        context: _Context, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        into, at, given, begin, numbers = arguments
        size = context.get_abi_sizeof(context.get_value_type(target.dtype))
        to, of = _pointer(context, builder, target, into, at), _pointer(context, builder, source, given, begin)
        if BYTES < 32 or size < 4:
            cgutils.raw_memcpy(builder, to, of, numbers, size)
            return context.get_dummy_value()
        lanes = BYTES // size
        vector = ir.VectorType(ir.FloatType() if size == 4 else ir.DoubleType(), lanes).as_pointer()
        whole = builder.and_(numbers, WORD(-lanes))
        with cgutils.for_range_slice(builder, WORD(0), whole, WORD(lanes)) as (index, _):
            here, there = [builder.bitcast(builder.gep(line, [index]), vector) for line in (of, to)]
            builder.store(builder.load(here, align=size), there, align=size)
        here, there = [builder.bitcast(builder.gep(line, [whole]), vector) for line in (of, to)]
        mask = first_lanes(builder, builder.sub(numbers, whole), lanes)
        _store_some(builder, masked_load(builder, here, mask, size), there, mask, size)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def _fill(typing_context: object, target: types.Array, count: object, number: object) -> object:
    """``target[:count] = number`` for a contiguous vector of any layout in Numba's types."""

    def generate(
        context: _Context, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        into, numbers, value = arguments
        to = _pointer(context, builder, target, into, WORD(0))
        with cgutils.for_range(builder, numbers) as loop:  # LLVM vectorizes it
            builder.store(value, builder.gep(to, [loop.index]))
        return context.get_dummy_value()

    return types.void(target, types.int64, target.dtype), generate


@intrinsic
def _copy_inside(
    typing_context: object,
    target: types.Array,
    at: object,
    source: types.Array,
    place: object,
    count: object,
    inside: types.Array,
    where: object,
) -> object:
    """``copy``, but 0 for the numbers at which the bytes ``inside[where:][:count]`` are 0.

    Only for vectors of 32 bytes and more, and numbers of 4 bytes and more.
    """

    def generate(
        context: _Context, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        into, at, given, begin, numbers, known, where = arguments
        number = context.get_value_type(target.dtype)
        size = context.get_abi_sizeof(number)
        to, of = _pointer(context, builder, target, into, at), _pointer(context, builder, source, given, begin)
        known = _pointer(context, builder, inside, known, where)
        if BYTES < 32 or size < 4:
            return context.get_dummy_value()
        lanes = BYTES // size
        vector = ir.VectorType(ir.FloatType() if size == 4 else ir.DoubleType(), lanes).as_pointer()
        bytes_of = ir.VectorType(_BYTE, lanes)

        def load(index: ir.Value, live: ir.Value | None) -> ir.Value:
            flags = builder.load(builder.bitcast(builder.gep(known, [index]), bytes_of.as_pointer()), align=1)
            mask = builder.icmp_unsigned("!=", flags, ir.Constant(bytes_of, [0] * lanes))
            mask = mask if live is None else builder.and_(mask, live)
            return masked_load(builder, builder.bitcast(builder.gep(of, [index]), vector), mask, size)

        whole = builder.and_(numbers, WORD(-lanes))
        with cgutils.for_range_slice(builder, WORD(0), whole, WORD(lanes)) as (index, _):
            builder.store(load(index, None), builder.bitcast(builder.gep(to, [index]), vector), align=size)
        live = first_lanes(builder, builder.sub(numbers, whole), lanes)
        _store_some(builder, load(whole, live), builder.bitcast(builder.gep(to, [whole]), vector), live, size)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64, inside, types.int64), generate


def _store_some(builder: ir.IRBuilder, value: ir.Value, address: ir.Value, mask: ir.Value, size: int) -> None:
    kinds = ir.FunctionType(ir.VoidType(), [value.type, address.type, HALF, mask.type])
    name = f"llvm.masked.store.v{value.type.count}{'i' if value.type.element == _BYTE else 'f'}{8 * size}.p0"
    builder.call(cgutils.get_or_insert_function(builder.module, kinds, name), [value, address, HALF(size), mask])


class _Windows:
    """Code for adjacent windows of 2 x 2 numbers, of which ``count`` lie on a pair of lines, one vector at a time.

    ``lines`` are the upper and the lower line, a number for each window, and the byte of its winner.
    """

    def __init__(
        self, context: _Context, builder: ir.IRBuilder, kinds: Sequence[types.Array], lines: Sequence[ir.Value]
    ) -> None:
        self.builder = builder
        self.number = context.get_value_type(kinds[0].dtype)
        self.size = context.get_abi_sizeof(self.number)
        self.lanes = max(BYTES // self.size, 2)
        *arrays, self.count = lines
        self.lines = [_pointer(context, builder, kind, line, WORD(0)) for kind, line in zip(kinds, arrays, strict=True)]

    def vectors(self, of: Callable[[ir.Value], None]) -> None:
        with cgutils.for_range_slice(self.builder, WORD(0), self.count, WORD(self.lanes)) as (at, _):
            live = self.builder.sub(self.count, at)
            self.live = first_lanes(self.builder, live, self.lanes)
            pairs = self.builder.shl(live, WORD(1))
            self.halves = [
                first_lanes(self.builder, self.builder.sub(pairs, WORD(half)), self.lanes) for half in (0, self.lanes)
            ]
            of(at)

    def place(self, line: int, at: ir.Value, kind: ir.Type) -> ir.Value:
        vector = ir.VectorType(kind, self.lanes).as_pointer()
        return self.builder.bitcast(self.builder.gep(self.lines[line], [at]), vector)

    def pair_places(self, line: int, at: ir.Value) -> list[ir.Value]:
        begin = self.builder.shl(at, WORD(1))
        return [self.place(line, self.builder.add(begin, WORD(half)), self.number) for half in (0, self.lanes)]

    def picked(self, pair: Sequence[ir.Value], lanes: Sequence[int]) -> ir.Value:
        return self.builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(HALF, self.lanes), list(lanes)))

    def larger(self, new: ir.Value, index: ir.Value, best: ir.Value, won: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Generate ``pooling_loops._larger``."""
        builder = self.builder
        better = builder.or_(builder.fcmp_ordered(">", new, best), builder.fcmp_unordered("uno", new, new))
        return builder.select(better, new, best), builder.select(better, index, won)

    def bytes(self, value: int) -> ir.Value:
        return ir.Constant(ir.VectorType(_BYTE, self.lanes), [value] * self.lanes)


@intrinsic
def _max_of_pairs(
    typing_context: object, top: types.Array, bottom: types.Array, best: types.Array, won: types.Array, count: object
) -> object:
    """Find the maxima of the windows on two lines, and their winners."""

    def generate(
        context: _Context, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        windows = _Windows(context, builder, (top, bottom, best, won), arguments)
        lanes, size = windows.lanes, windows.size

        def of(at: ir.Value) -> None:
            found = []
            for line in (0, 1):
                both = zip(windows.pair_places(line, at), windows.halves, strict=True)
                pair = [masked_load(builder, place, mask, size) for place, mask in both]
                even, odd = [windows.picked(pair, range(first, 2 * lanes, 2)) for first in (0, 1)]
                found.append(windows.larger(odd, windows.bytes(2 * line + 1), even, windows.bytes(2 * line)))
            most, winner = windows.larger(*found[1], *found[0])
            _store_some(builder, most, windows.place(2, at, windows.number), windows.live, size)
            _store_some(builder, winner, windows.place(3, at, _BYTE), windows.live, 1)

        if top.dtype != types.uint16:  # pairs of bfloat16 are compared one by one
            windows.vectors(of)
        return context.get_dummy_value()

    return types.void(top, bottom, best, won, types.int64), generate


@intrinsic
def _write_pairs(
    typing_context: object, top: types.Array, bottom: types.Array, new: types.Array, won: types.Array, count: object
) -> object:
    """Write each number to the place of its window's winner on two lines, and zeros to the other places."""

    def generate(
        context: _Context, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        windows = _Windows(context, builder, (top, bottom, new, won), arguments)
        lanes, size = windows.lanes, windows.size

        def of(at: ir.Value) -> None:
            value = masked_load(builder, windows.place(2, at, windows.number), windows.live, size)
            chosen, none = windows.place(3, at, _BYTE), windows.bytes(0)
            kinds = ir.FunctionType(none.type, [chosen.type, HALF, windows.live.type, none.type])
            load = cgutils.get_or_insert_function(builder.module, kinds, f"llvm.masked.load.v{lanes}i8.p0")
            winner = builder.call(load, [chosen, HALF(1), windows.live, none])
            zeros = ir.Constant(value.type, [0.0] * lanes)
            for line in (0, 1):
                pair = [
                    builder.select(builder.icmp_unsigned("==", winner, windows.bytes(2 * line + side)), value, zeros)
                    for side in (0, 1)
                ]
                for half, place in enumerate(windows.pair_places(line, at)):
                    first = half * lanes // 2
                    picks = [lane for k in range(first, first + lanes // 2) for lane in (k, lanes + k)]
                    _store_some(builder, windows.picked(pair, picks), place, windows.halves[half], size)

        if top.dtype != types.uint16:
            windows.vectors(of)
        return context.get_dummy_value()

    return types.void(top, bottom, new, won, types.int64), generate


def _on_lanes(adds: bool) -> Callable[..., None]:
    """Return ``write(target, at, source, place)``, which computes ``target[at:][:LANES] = source[place:][:LANES]``, or
    ``+=`` if it ``adds``, for contiguous vectors, unchecked, as one vector.
    """

    @intrinsic
    def write(typing_context: object, target: types.Array, at: object, source: types.Array, place: object) -> object:
        def generate(
            context: _Context, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]
        ) -> ir.Value:
            into, at, given, begin = arguments
            number = context.get_value_type(target.dtype)
            vector, size = ir.VectorType(number, LANES).as_pointer(), context.get_abi_sizeof(number)
            to, of = _pointer(context, builder, target, into, at), _pointer(context, builder, source, given, begin)
            to, of = builder.bitcast(to, vector), builder.bitcast(of, vector)
            value = builder.load(of, align=size)
            if adds:
                value = builder.fadd(builder.load(to, align=size), value)
            builder.store(value, to, align=size)
            return context.get_dummy_value()

        return types.void(target, types.int64, source, types.int64), generate

    found: Callable[..., None] = write
    return found


def _with_steps_of_two(adds: bool) -> Callable[..., None]:
    """Return ``write(target, at, source, place, count)`` for contiguous vectors, unchecked, with steps of two numbers.

    It computes ``target[at:][:count] = source[place::2][:count]`` or, if it ``adds``, ``target[at::2][:count] +=
    source[place:][:count]``.
    """

    @intrinsic
    def write(
        typing_context: object, target: types.Array, at: object, source: types.Array, place: object, count: object
    ) -> object:
        def generate(
            context: _Context, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]
        ) -> ir.Value:
            into, at, given, begin, numbers = arguments
            number = context.get_value_type(target.dtype)
            size = context.get_abi_sizeof(number)
            to, of = _pointer(context, builder, target, into, at), _pointer(context, builder, source, given, begin)
            if BYTES < 32 or size < 4:
                with cgutils.for_range(builder, numbers) as loop:
                    double = builder.shl(loop.index, WORD(1))
                    there = builder.gep(to, [double if adds else loop.index])
                    value = builder.load(builder.gep(of, [loop.index if adds else double]))
                    builder.store(builder.fadd(builder.load(there), value) if adds else value, there)
                return context.get_dummy_value()
            lanes = BYTES // size
            vector = ir.VectorType(ir.FloatType() if size == 4 else ir.DoubleType(), lanes)
            zeros, even = ir.Constant(vector, [0.0] * lanes), ir.VectorType(ir.IntType(1), lanes)
            even = ir.Constant(even, [lane % 2 == 0 for lane in range(lanes)])

            def picked(pair: Sequence[ir.Value], picks: Sequence[int]) -> ir.Value:
                return builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(HALF, lanes), list(picks)))

            with cgutils.for_range_slice(builder, WORD(0), numbers, WORD(lanes)) as (index, _):
                live, double = builder.sub(numbers, index), builder.shl(index, WORD(1))
                pairs = builder.sub(builder.shl(live, WORD(1)), WORD(1))
                some = first_lanes(builder, live, lanes)
                halves = [
                    (
                        builder.bitcast(
                            builder.gep(to if adds else of, [builder.add(double, WORD(half))]), vector.as_pointer()
                        ),
                        builder.and_(even, first_lanes(builder, builder.sub(pairs, WORD(half)), lanes)),
                    )
                    for half in (0, lanes)
                ]
                found = [masked_load(builder, address, mask, size) for address, mask in halves]
                single = builder.bitcast(builder.gep(of if adds else to, [index]), vector.as_pointer())
                if not adds:
                    _store_some(builder, picked(found, range(0, 2 * lanes, 2)), single, some, size)
                value = masked_load(builder, single, some, size) if adds else zeros
                for (address, mask), old, first in zip(halves if adds else (), found, (0, lanes // 2)):
                    picks = [lane for k in range(lanes // 2) for lane in (first + k, lanes)]
                    _store_some(builder, builder.fadd(old, picked((value, zeros), picks)), address, mask, size)
            return context.get_dummy_value()

        return types.void(target, types.int64, source, types.int64, types.int64), generate

    found: Callable[..., None] = write
    return found


copy: Callable[..., None] = _copy
copy_every_second, add_every_second = _with_steps_of_two(False), _with_steps_of_two(True)
copy_inside: Callable[..., None] = _copy_inside
fill: Callable[..., None] = _fill
max_of_pairs: Callable[..., None] = _max_of_pairs
write_pairs: Callable[..., None] = _write_pairs
copy_lanes, add_lanes = _on_lanes(False), _on_lanes(True)
