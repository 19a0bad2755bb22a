"""Products of packed matrices, for matrices that are multiplied several times or exceed the cache.

A packed matrix consists of panels of two or three vector registers of columns, in the order in which tiles
(``tiles.py``) read them. A matrix is *turned* if its transpose is given.
"""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, attr-defined, var-annotated"

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..loops.elements.basic_loops import _compiled
from ..loops.matrices.products import DEEP, UNPACKED
from ..runtime.numba_functions import routine
from .tiles import (
    BYTES,
    HALF,
    MOST,
    ROWS,
    WORD,
    address_of,
    first_lanes,
    masked_load,
    product_at,
    real_of,
    size_of,
    strip,
)

_TOGETHER = 64  # number of rows of the result that are computed from each panel before the rows below
_ABREAST = 2  # number of panels that are packed on the stack at a time


@_compiled()
def _panel(number, vectors):
    """Return the first vector of a vector's panel, and the panel's vectors: three, or fewer in the last panels."""
    wide = vectors - (4 if vectors % MOST == 1 and vectors > 1 else vectors % MOST)
    if number < wide:
        return number - number % MOST, MOST
    first = number - (number - wide) % 2
    return first, min(2, vectors - first)


def turner(lanes_of):
    """Return ``turn(lines, step, out, out_step, number)``, which transposes a square block of elements.

    A row is one vector of ``lanes_of(size)`` elements; steps are in bytes.
    """

    @intrinsic
    def turn(typing_context, lines, step, out, out_step, number):
        def generate(context, builder, signature, arguments):
            lines, step, out, out_step, _ = arguments
            size = number.bitwidth // 8
            lanes = lanes_of(size)
            vector = ir.VectorType(ir.IntType(8 * size), lanes)

            def place(address, distance, row):
                return builder.inttoptr(builder.add(address, builder.mul(distance, WORD(row))), vector.as_pointer())

            rows = [builder.load(place(lines, step, row), align=size) for row in range(lanes)]
            half = 1
            while half < lanes:  # in blocks of twice this side, exchange the off-diagonal quarters
                for low in [row for row in range(lanes) if not row & half]:
                    pair = rows[low], rows[low + half]
                    for side in (0, 1):
                        picks = [
                            lane + side * half if not lane & half else lanes + lane - half + side * half
                            for lane in range(lanes)
                        ]
                        mask = ir.Constant(ir.VectorType(HALF, lanes), picks)
                        rows[low + side * half] = builder.shuffle_vector(*pair, mask)
                half *= 2
            for row, values in enumerate(rows):
                builder.store(values, place(out, out_step, row), align=size)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4, number), generate

    return turn


_turn = turner(lambda size: BYTES // size)


def _mover(bytes_of):
    """Return ``move(count, source, step, out, out_step, number)``, which copies ``count`` vectors."""

    @intrinsic
    def move(typing_context, count, source, step, out, out_step, number):
        def generate(context, builder, signature, arguments):
            count, source, step, out, out_step, _ = arguments
            size = number.bitwidth // 8
            vector = ir.VectorType(real_of(context, number), bytes_of(size) // size).as_pointer()
            with cgutils.for_range(builder, count) as loop:
                here, there = [
                    builder.inttoptr(builder.add(begin, builder.mul(distance, loop.index)), vector)
                    for begin, distance in ((source, step), (out, out_step))
                ]
                builder.store(builder.load(here, align=size), there, align=size)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5, number), generate

    return move


_move, _move_number = _mover(lambda size: BYTES), _mover(lambda size: size)


@intrinsic
def _fill(typing_context, source, live, out, number):
    """Write a vector of ``live`` numbers from ``source``, followed by zeros."""

    def generate(context, builder, signature, arguments):
        source, live, out, _ = arguments
        size = number.bitwidth // 8
        lanes = BYTES // size
        vector = ir.VectorType(real_of(context, number), lanes)
        source, out = [builder.inttoptr(address, vector.as_pointer()) for address in (source, out)]
        builder.store(masked_load(builder, source, first_lanes(builder, live, lanes), size), out, align=size)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3, number), generate


@routine
def _pack(matrix, step, turned, depth, columns, out, low, high, like):
    """Pack a range of vectors of columns if ``turned``, else of rows, padding the panels with zeros."""
    size = size_of(like)
    lanes = BYTES // size
    vectors, whole = (columns + lanes - 1) // lanes, columns // lanes
    for number in range(low, high):
        if turned:
            first, count = _panel(number, vectors)
            source, across = matrix + number * lanes * step, count * BYTES
            to, live, k = out + (first * depth + number - first) * BYTES, min(lanes, columns - number * lanes), 0
            while number < whole and k + lanes <= depth:
                _turn(source + k * size, step, to + k * across, across, like)
                k += lanes
            while k < depth:
                _fill(source, 0, to + k * across, like)
                _move_number(live, source + k * size, step, to + k * across, size, like)
                k += 1
            continue
        source, done = matrix + number * step, 0
        while done < vectors:
            _, count = _panel(done, vectors)
            to, there = out + (done * depth + number * count) * BYTES, min(count, whole - done)
            _move(there, source + done * BYTES, BYTES, to, BYTES, like)
            if there < count:
                at = (done + there) * BYTES
                _fill(source + at, columns - whole * lanes, to + there * BYTES, like)
            done += count


@_compiled()
def _room(memory):
    """Return the first aligned address in memory, which is one vector larger than needed."""
    return address_of(memory) + -address_of(memory) % BYTES


@_compiled()
def packed(matrix, turned, depth, columns, factor):
    """Return the panels of ``factor`` times a matrix of ``depth`` rows and some columns, possibly turned."""
    lanes = BYTES // matrix.itemsize
    vectors = (columns + lanes - 1) // lanes
    memory = np.empty((depth * vectors + 1) * lanes, matrix.dtype)
    out = memory[-address_of(memory) % BYTES // matrix.itemsize :][: depth * vectors * lanes]
    units = vectors if turned else depth
    _pack(address_of(matrix), matrix.strides[0], turned, depth, columns, address_of(out), 0, units, out.dtype.type(0))
    if factor != 1:
        for j in range(out.size):
            out[j] *= factor
    return out


@routine
def _multiply(rows, inner, a, down, along, apart, panels, vectors, depth, low, columns, out, out_step, added):
    """``multiply`` for matrices at addresses, from row ``low`` of m on; m has ``vectors`` vectors of columns."""
    lanes = BYTES // size_of(added)
    number = 0
    while number * lanes < columns:
        _, whole = _panel(number, vectors)
        count = min(whole, (columns - number * lanes + lanes - 1) // lanes)
        live = min(lanes, columns - (number + count - 1) * lanes)
        across, to = whole * BYTES, out + number * BYTES
        panel = panels + number * depth * BYTES + low * across
        ahead = panel + depth * across
        strip(rows, a, down, along, apart, panel, across, inner, to, out_step, added, count, live, ahead, number == 0)
        number += whole


@_compiled()
def multiply(a, panels, depth, columns, out, add):
    """``out = a @ m``, or ``out += a @ m`` if ``add`` is 1, for the first columns of m, and its first rows.

    m has ``depth`` rows; a row of m is read for each column of ``a``. The rows of ``out`` are contiguous.
    """
    (rows, inner), (down, along), added = a.shape, a.strides, a.dtype.type(add)
    at, panels_at, vectors = address_of(a), address_of(panels), panels.size * out.itemsize // (depth * BYTES)
    to, step = address_of(out), out.strides[0]
    _multiply(rows, inner, at, down, along, ROWS * down, panels_at, vectors, depth, 0, columns, to, step, added)


@_compiled()
def _piece(depth, size):
    """Return the length of equal pieces of the inner dimension, for which a panel stays in the cache."""
    piece = -(-depth // -(-depth * size // DEEP))
    return piece + -piece % 8


@routine
def _unpacked_product(rows, depth, columns, a, down, along, b, b_step, out, out_step, added):
    """``product_at`` in pieces of the inner dimension and blocks of rows."""
    piece, one = _piece(depth, size_of(added)), type(added)(1)
    for top in range(0, rows, _TOGETHER):
        for k in range(0, depth, piece):
            at, times = a + top * down + k * along, added if k == 0 else one
            some, inner, to = min(_TOGETHER, rows - top), min(piece, depth - k), out + top * out_step
            product_at(some, inner, columns, at, down, along, b + k * b_step, b_step, to, out_step, times)


@_compiled()
def panels_of(matrix, turned, low, high):
    """Return the panels of the columns ``low`` to ``high`` of a matrix, possibly turned.

    Return no panels if tiles should read the matrix itself: pieces of its rows fit in the cache.
    """
    size, step = matrix.itemsize, matrix.strides[0]
    depth, lanes = matrix.shape[1] if turned else len(matrix), BYTES // size
    if not turned and _piece(depth, size) * step <= UNPACKED:
        return np.empty(0, matrix.dtype)
    vectors = (high - low + lanes - 1) // lanes
    panels = np.empty((depth * vectors + 1) * lanes, matrix.dtype)
    at, units = address_of(matrix) + low * (step if turned else size), vectors if turned else depth
    _pack(at, step, turned, depth, high - low, _room(panels), 0, units, panels.dtype.type(0))
    return panels


@_compiled()
def multiply_large(a, turned, b, panels, out, first, last, low, high, added):
    """Compute rows ``first`` to ``last``, columns ``low`` to ``high``, of ``out = a @ b + added * out``.

    ``a`` may be turned; ``b`` is read only if ``panels_of`` has returned no panels. The inner dimension is processed
    in equal pieces, each of which is multiplied by a block of rows.
    """
    size, one = out.itemsize, type(added)(1)
    depth, columns = a.shape[0] if turned else a.shape[1], high - low
    step, a_step, panels_at = out.strides[0], a.strides[0], _room(panels)
    down, along = (size, a_step) if turned else (a_step, size)
    a_at, out_at = address_of(a) + first * down, address_of(out) + first * step + low * size
    if panels.size == 0:
        b_at, b_step = address_of(b) + low * size, b.strides[0]
        _unpacked_product(last - first, depth, columns, a_at, down, along, b_at, b_step, out_at, step, added)
        return
    piece, vectors, apart = _piece(depth, size), -(-columns * size // BYTES), ROWS * down
    for top in range(0, last - first, _TOGETHER):
        rows, to = min(_TOGETHER, last - first - top), out_at + top * step
        for k in range(0, depth, piece):
            inner, times, at = min(piece, depth - k), added if k == 0 else one, a_at + top * down + k * along
            _multiply(rows, inner, at, down, along, apart, panels_at, vectors, depth, k, columns, to, step, times)


def _memory(size):
    """Return ``memory()``, which allocates ``size`` bytes on the caller's stack, aligned for vectors."""

    @intrinsic
    def memory(typing_context):
        def generate(context, builder, signature, arguments):
            with builder.goto_entry_block():
                found = builder.alloca(ir.IntType(8), size)
                found.align = BYTES
            return builder.ptrtoint(found, WORD)

        return types.int64(), generate

    return memory


_panels_memory = _memory(_ABREAST * MOST * BYTES * DEEP // 4)
_block_memory = _memory(_TOGETHER * _ABREAST * MOST * BYTES)


@routine
def _turn_all(source, step, rows, columns, out, out_step, like):
    """Write the transpose of a matrix."""
    size = size_of(like)
    lanes, i = BYTES // size, 0
    while i < rows:
        count, j = min(lanes, rows - i), 0
        while count == lanes and j + lanes <= columns:
            _turn(source + i * step + j * size, step, out + j * out_step + i * size, out_step, like)
            j += lanes
        while j < columns:
            _move_number(count, source + i * step + j * size, step, out + j * out_step + i * size, size, like)
            j += 1
        i += count


@routine
def packed_product_at(rows, inner, columns, a, a_step, a_turned, b, b_step, b_turned, out, out_step, added):
    """``tiles.product_at`` for factors that may be turned; if necessary, one of them is packed, some panels at a time.

    The result does not depend, to the last bit, on which factor is packed and on how the result is divided.
    """
    size, one = size_of(added), type(added)(1)
    panels, block, piece = _panels_memory(), _block_memory(), _piece(inner, size)
    if not b_turned and piece * b_step <= UNPACKED:
        down, along = (size, a_step) if a_turned else (a_step, size)
        _unpacked_product(rows, inner, columns, a, down, along, b, b_step, out, out_step, added)
        return
    out_turned = rows < columns if b_turned else columns < rows and a_turned != 0
    if out_turned:  # compute the transposed result: fewer rows are packed, and the other factor's rows are contiguous
        rows, columns, a, a_step, b, b_step = columns, rows, b, b_step, a, a_step
        a_turned, b_turned = 1 - b_turned, 1 - a_turned
    lanes, far = BYTES // size, _ABREAST * MOST * BYTES
    down, along = (size, a_step) if a_turned else (a_step, size)
    apart = ROWS * down
    for low in range(0, columns, far // size):
        wide = min(far // size, columns - low)
        vectors = -(-wide // lanes)
        for k in range(0, inner, piece):
            depth, times = min(piece, inner - k), added if k == 0 else one
            if b_turned:
                _pack(b + low * b_step + k * size, b_step, 1, depth, wide, panels, 0, vectors, added)
            else:
                _pack(b + k * b_step + low * size, b_step, 0, depth, wide, panels, 0, depth, added)
            for top in range(0, rows, _TOGETHER):
                some = min(_TOGETHER, rows - top)
                at = a + top * down + k * along
                to, step = out + top * out_step + low * size, out_step
                if out_turned:
                    there, to, step = out + low * out_step + top * size, block, far
                    if times != 0:
                        _turn_all(there, out_step, wide, some, block, far, added)
                    _multiply(some, depth, at, down, along, apart, panels, vectors, depth, 0, wide, to, step, times)
                    _turn_all(block, far, some, wide, there, out_step, added)
                else:
                    _multiply(some, depth, at, down, along, apart, panels, vectors, depth, 0, wide, to, step, times)
