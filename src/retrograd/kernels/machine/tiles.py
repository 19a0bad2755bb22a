"""Products inside compiled loops: of matrices that lie in the cache, or are packed once and multiplied again and again.

A packed matrix consists of panels, which hold as many columns as two or three vector registers, in the order in which
they are read. A tile of the result stays in registers while the loop runs over the inner dimension, in its order,
with one rounding for product and sum: a row's numbers do not depend on the rows beside it. BLAS, which reads matrices
as they lie for so few rows, takes up to twice as long. In single precision denormals are flushed, as by BLAS here.
"""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, attr-defined"

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..loops import _compiled
from .blas import flush, leave
from .native import shared
from .vectors import width

_MOST = 3  # vectors of a panel
_ROWS = 8 if width() == 64 else 4  # of a tile, which with a row of the panel and one number fills the registers
_BYTES = width()
_LINE = 64  # bytes that a cache takes at once
_DEPTH = 1536  # bytes of a column of a panel that are multiplied at once
_TOGETHER = 64  # rows of the result for which a panel is read again and again
_WORD = ir.IntType(64)


def _tile(rows, vectors, whole=True):
    """``tile(a, down, along, b, across, depth, out, out_step, add, live, ahead)`` for so many rows and vectors.

    All are addresses, or numbers of bytes but for the depth; ``add`` is the number 1 where it adds to ``out``, else 0.
    Where the last vector is not whole, only its first ``live`` numbers are read and written. Meanwhile as many lines
    of the cache as the loop has turns are fetched from the address ``ahead``, which need not be anyone's memory.
    """

    @intrinsic
    def tile(typing_context, a, down, along, b, across, depth, out, out_step, add, live, ahead):
        def generate(context, builder, signature, arguments):
            a, down, along, b, across, depth, out, out_step, added, live, ahead = arguments
            real, size = context.get_value_type(add), add.bitwidth // 8
            lanes = _BYTES // size
            vector, integer = ir.VectorType(real, lanes), ir.IntType(32)
            flags = ir.VectorType(ir.IntType(1), lanes)
            zeros, nothing = ir.Constant(vector, [0.0] * lanes), ir.Constant(vector, ir.Undefined)
            first = ir.Constant(ir.VectorType(integer, lanes), [0] * lanes)

            def declared(name, result, kinds):
                return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, kinds), name)

            def place(address, *steps):
                for step in steps:
                    address = builder.add(address, step)
                return builder.inttoptr(address, vector.as_pointer())

            kind = f"v{lanes}f{8 * size}"
            fma = declared(f"llvm.fma.{kind}", vector, [vector] * 3)
            pointer = vector.as_pointer()
            masked_load = declared(f"llvm.masked.load.{kind}.p0", vector, [pointer, integer, flags, vector])
            masked_store = declared(f"llvm.masked.store.{kind}.p0", ir.VoidType(), [vector, pointer, integer, flags])
            byte = ir.IntType(8).as_pointer()
            prefetch = declared("llvm.prefetch.p0", ir.VoidType(), [byte, integer, integer, integer])
            if not whole:
                numbers = ir.Constant(ir.VectorType(_WORD, lanes), list(range(lanes)))
                none = ir.Constant(numbers.type, ir.Undefined)
                limit = builder.shuffle_vector(builder.insert_element(none, live, integer(0)), none, first)
                mask = builder.icmp_signed("<", numbers, limit)

            def load(address, part):
                if whole or part < vectors - 1:
                    return builder.load(address, align=size)
                return builder.call(masked_load, [address, integer(size), mask, zeros])

            def store(total, address, part):
                if whole or part < vectors - 1:
                    builder.store(total, address, align=size)
                else:
                    builder.call(masked_store, [total, address, integer(size), mask])

            lines = [builder.add(a, builder.mul(down, _WORD(row))) for row in range(rows)]
            before = builder.block
            loop, done = builder.append_basic_block(), builder.append_basic_block()
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(_WORD)
            cells = [[builder.phi(vector) for _ in range(vectors)] for _ in range(rows)]
            at = builder.mul(k, across)
            beside = [load(place(b, at, _WORD(_BYTES * part)), part) for part in range(vectors)]
            following = builder.add(k, _WORD(1))
            k.add_incoming(_WORD(0), before)
            k.add_incoming(following, loop)
            inside = builder.mul(k, along)
            line = builder.add(ahead, builder.mul(k, _WORD(_LINE)))
            builder.call(prefetch, [builder.inttoptr(line, byte), integer(0), integer(2), integer(1)])
            sums = []
            for line, row in zip(lines, cells, strict=True):
                number = builder.load(builder.inttoptr(builder.add(line, inside), real.as_pointer()))
                spread = builder.shuffle_vector(builder.insert_element(nothing, number, integer(0)), nothing, first)
                for cell, factor in zip(row, beside, strict=True):
                    total = builder.call(fma, [spread, factor, cell])
                    cell.add_incoming(zeros, before)
                    cell.add_incoming(total, loop)
                    sums.append(total)
            builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)
            builder.position_at_end(done)
            found = []
            for number, total in enumerate(sums):
                row, part = divmod(number, vectors)
                found.append((total, place(out, builder.mul(out_step, _WORD(row)), _WORD(_BYTES * part)), part))
            with builder.if_else(builder.fcmp_ordered("!=", added, real(0.0))) as (then, otherwise):
                with then:
                    for total, address, part in found:
                        store(builder.fadd(load(address, part), total), address, part)
                with otherwise:
                    for total, address, part in found:
                        store(total, address, part)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8, add, types.int64, types.int64), generate

    return tile


_three, _three_row = _tile(_ROWS, 3), _tile(1, 3)
_one_part, _two_part, _three_part = [_tile(_ROWS, vectors, False) for vectors in range(1, _MOST + 1)]
_one_row_part, _two_row_part, _three_row_part = [_tile(1, vectors, False) for vectors in range(1, _MOST + 1)]


@_compiled()
def _strip(rows, a, down, along, apart, b, across, inner, out, out_step, added, count, live, lanes, ahead):
    """So many rows of the result, ``count`` vectors wide, of the last of which ``live`` numbers are there.

    ``apart`` is how far the rows of a tile lie from those of the next one; ``ahead`` where what is read next begins.
    """
    wide = count == _MOST and live == lanes
    mode = flush(added)
    i = 0
    while i < rows:
        whole = rows - i >= _ROWS
        if wide:
            if whole:
                _three(a, down, along, b, across, inner, out, out_step, added, live, ahead)
            else:
                _three_row(a, down, along, b, across, inner, out, out_step, added, live, ahead)
        elif count == 3:
            if whole:
                _three_part(a, down, along, b, across, inner, out, out_step, added, live, ahead)
            else:
                _three_row_part(a, down, along, b, across, inner, out, out_step, added, live, ahead)
        elif count == 2:
            if whole:
                _two_part(a, down, along, b, across, inner, out, out_step, added, live, ahead)
            else:
                _two_row_part(a, down, along, b, across, inner, out, out_step, added, live, ahead)
        elif whole:
            _one_part(a, down, along, b, across, inner, out, out_step, added, live, ahead)
        else:
            _one_row_part(a, down, along, b, across, inner, out, out_step, added, live, ahead)
        if whole:
            i, a, out = i + _ROWS, a + apart, out + _ROWS * out_step
        else:
            i, a, out = i + 1, a + down, out + out_step
        ahead += inner * _LINE
    leave(mode, added)


@_compiled()
def product(a, b, out, add):
    """``out = a @ b``, or plus that. The rows of b and of out are unbroken; b is read as it lies."""
    size = out.itemsize
    lanes = _BYTES // size
    down, along, across, out_step = a.strides[0], a.strides[1], b.strides[0], out.strides[0]
    (rows, inner), columns, added = a.shape, out.shape[1], out.dtype.type(add)
    at, b_at, out_at = np.int64(a.ctypes.data), np.int64(b.ctypes.data), np.int64(out.ctypes.data)
    j = 0
    while j < columns:
        count = min(_MOST, (columns - j + lanes - 1) // lanes)
        live = min(lanes, columns - j - (count - 1) * lanes)
        here, apart, to = b_at + j * size, _ROWS * down, out_at + j * size
        _strip(rows, at, down, along, apart, here, across, inner, to, out_step, added, count, live, lanes, here)
        j += count * lanes


@_compiled()
def padded(columns, like):
    """So many columns and what is missing to whole vectors."""
    lanes = _BYTES // like.itemsize
    return (columns + lanes - 1) // lanes * lanes


@_compiled()
def _panel(number, vectors):
    """Where the panel of a vector begins, and how many vectors it has: three, but for the last ones of two."""
    wide = vectors - (4 if vectors % _MOST == 1 and vectors > 1 else vectors % _MOST)
    if number < wide:
        return number - number % _MOST, _MOST
    first = number - (number - wide) % 2
    return first, min(2, vectors - first)


@intrinsic
def _turn(typing_context, lines, step, out, out_step, number):
    """Write as many rows of a vector, so many bytes apart, as columns."""

    def generate(context, builder, signature, arguments):
        lines, step, out, out_step, _ = arguments
        real, size = context.get_value_type(number), number.bitwidth // 8
        lanes = _BYTES // size
        vector, integer = ir.VectorType(real, lanes), ir.IntType(32)

        def place(address, distance, row):
            return builder.inttoptr(builder.add(address, builder.mul(distance, _WORD(row))), vector.as_pointer())

        rows = [builder.load(place(lines, step, row), align=size) for row in range(lanes)]
        half = 1
        while half < lanes:  # in squares of twice this side, the second and the third quarter change places
            for low in [row for row in range(lanes) if not row & half]:
                pair = rows[low], rows[low + half]
                for side in (0, 1):
                    picks = [
                        lane + side * half if not lane & half else lanes + lane - half + side * half
                        for lane in range(lanes)
                    ]
                    mask = ir.Constant(ir.VectorType(integer, lanes), picks)
                    rows[low + side * half] = builder.shuffle_vector(*pair, mask)
            half *= 2
        for row, values in enumerate(rows):
            builder.store(values, place(out, out_step, row), align=size)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4, number), generate


def _mover(bytes_of, abreast=1):
    """``move(count, source, step, out, out_step, apart, number)``: copy so many vectors, or some beside each other.

    These go to places that lie ``apart``.
    """

    @intrinsic
    def move(typing_context, count, source, step, out, out_step, apart, number):
        def generate(context, builder, signature, arguments):
            count, source, step, out, out_step, apart, _ = arguments
            size = number.bitwidth // 8
            wide = bytes_of(size)
            vector = ir.VectorType(context.get_value_type(number), wide // size).as_pointer()
            with cgutils.for_range(builder, count) as loop:
                at, to = [
                    builder.add(begin, builder.mul(distance, loop.index))
                    for begin, distance in ((source, step), (out, out_step))
                ]
                for number_beside in range(abreast):
                    here = builder.inttoptr(builder.add(at, _WORD(wide * number_beside)), vector)
                    there = builder.inttoptr(builder.add(to, builder.mul(apart, _WORD(number_beside))), vector)
                    builder.store(builder.load(here, align=size), there, align=size)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6, number), generate

    return move


_move, _move_rows, _move_tiles = _mover(lambda size: _BYTES), *[_mover(lambda size: _ROWS * size, n) for n in (1, 4)]


@_compiled()
def _pack_turned(matrix, depth, columns, out, low, high):
    """Write columns to their panels, a vector of them after the other, from one number to another."""
    size = matrix.itemsize
    lanes = _BYTES // size
    vectors = padded(columns, matrix) // lanes
    source, step, like = np.int64(matrix.ctypes.data), matrix.strides[0], out.dtype.type(0)
    for number in range(low, high):
        first, count = _panel(number, vectors)
        panel = out[first * lanes * depth :][: count * lanes * depth].reshape(depth, count * lanes)
        panel = panel[:, (number - first) * lanes :]
        to, across, begin = np.int64(panel.ctypes.data), panel.strides[0], number * lanes
        found = min(lanes, columns - begin)
        k = 0
        if found == lanes:
            while k + lanes <= depth:
                _turn(source + begin * step + k * size, step, to + k * across, across, like)
                k += lanes
        for row in range(k, depth):
            for j in range(found):
                panel[row, j] = matrix[begin + j, row]
            panel[row, found:lanes] = 0


@_compiled()
def _pack_rows(matrix, depth, columns, out, low, high):
    """Write rows to their panels, from one number to another."""
    size = matrix.itemsize
    lanes = _BYTES // size
    vectors, whole = padded(columns, matrix) // lanes, columns // lanes
    begin, like = np.int64(out.ctypes.data), out.dtype.type(0)
    for row in range(low, high):
        source, number = np.int64(matrix[row].ctypes.data), 0
        while number < whole:
            first, count = _panel(number, vectors)
            to = begin + (number * depth + row * count) * _BYTES
            _move(min(count, whole - number), source + number * _BYTES, _BYTES, to, _BYTES, 0, like)
            number += count
        if whole < vectors:
            first, count = _panel(whole, vectors)
            last = out[(first * depth + row * count + whole - first) * lanes :][:lanes]
            for j in range(columns - whole * lanes):
                last[j] = matrix[row, whole * lanes + j]
            last[columns - whole * lanes :] = 0


@_compiled()
def _pack(matrix, turned, depth, columns, out, low, high):
    """Write a part of the panels: zeros where there are no columns. Its unit is a vector of columns, or a row."""
    if turned:
        _pack_turned(matrix, depth, columns, out, low, high)
    else:
        _pack_rows(matrix, depth, columns, out, low, high)


@_compiled()
def _room(memory, size):
    """So much of memory, from an address where a vector may begin; there is one vector more."""
    return memory[-memory.ctypes.data % _BYTES // memory.itemsize :][:size]


@_compiled()
def packed(matrix, turned, depth, columns, factor):
    """The panels of ``factor`` times a matrix of so many rows and columns, which may be given turned."""
    size, vectors = depth * padded(columns, matrix), padded(columns, matrix) * matrix.itemsize // _BYTES
    out = _room(np.empty(size + _BYTES // matrix.itemsize, matrix.dtype), size)
    _pack(matrix, turned, depth, columns, out, 0, vectors if turned else depth)
    if factor != 1:
        for j in range(size):
            out[j] *= factor
    return out


@shared()
def pack(matrix, turned, depth, columns, out, start, stop):
    """The same into memory that is there, by many threads, which share vectors of columns, or rows."""
    _pack(matrix, turned, depth, columns, _room(out, out.size - _BYTES // out.itemsize), start, stop)


@_compiled()
def multiply(a, panels, depth, columns, out, add):
    """``out = a @ m``, or plus that, for the first columns of m and as many of its rows as ``a`` has columns.

    ``depth`` is how many rows m has. The rows of ``out`` are unbroken.
    """
    size = out.itemsize
    lanes = _BYTES // size
    down, along, out_step, added = a.strides[0], a.strides[1], out.strides[0], out.dtype.type(add)
    rows, inner = a.shape
    at, panels_at, out_at = np.int64(a.ctypes.data), np.int64(panels.ctypes.data), np.int64(out.ctypes.data)
    number = 0
    while number * lanes < columns:
        _, whole = _panel(number, panels.size // (depth * lanes))
        count = min(whole, (columns - number * lanes + lanes - 1) // lanes)
        live = min(lanes, columns - (number + count - 1) * lanes)
        panel, across, to = panels_at + number * _BYTES * depth, whole * _BYTES, out_at + number * _BYTES
        ahead, apart = panel + depth * across, _ROWS * down
        _strip(rows, at, down, along, apart, panel, across, inner, to, out_step, added, count, live, lanes, ahead)
        number += whole


@_compiled()
def _gather(lines, out):
    """The columns of some lines as the rows of tiles: of each tile the first number of each row, then the second."""
    depth, rows = lines.shape
    size, step, like = out.itemsize, lines.strides[0], out.dtype.type(0)
    wide, lines_at, out_at = _ROWS * size, np.int64(lines.ctypes.data), np.int64(out.ctypes.data)
    i = 0
    while i + 4 * _ROWS <= rows:
        _move_tiles(depth, lines_at + i * size, step, out_at + i * depth * size, wide, wide * depth, like)
        i += 4 * _ROWS
    while i + _ROWS <= rows:
        _move_rows(depth, lines_at + i * size, step, out_at + i * depth * size, wide, 0, like)
        i += _ROWS
    if i < rows:
        tile = out[i * depth :][: _ROWS * depth].reshape(depth, _ROWS)
        for k in range(depth):
            for j in range(rows - i):
                tile[k, j] = lines[k, i + j]


@_compiled()
def multiply_large(a, turned, panels, out, first, last, added):
    """The rows from ``first`` to ``last`` of ``out = a @ m + added * out``, where ``a`` may be given turned.

    The inner dimension is gone through in equal pieces of which a panel stays in the cache, for as many rows as do.
    """
    size = out.itemsize
    lanes = _BYTES // size
    depth, columns = a.shape[0] if turned else a.shape[1], out.shape[1]
    vectors = padded(columns, out) // lanes
    pieces = -(-depth * size // _DEPTH)
    piece = -(-depth // pieces)
    gathered = np.empty((_TOGETHER + _ROWS) * piece if turned else 1, out.dtype)
    panels_at = np.int64(_room(panels.reshape(panels.size), 1).ctypes.data)
    a_at, gathered_at, out_at = np.int64(a.ctypes.data), np.int64(gathered.ctypes.data), np.int64(out.ctypes.data)
    for top in range(first, last, _TOGETHER):
        rows = min(_TOGETHER, last - top)
        for low in range(0, depth, piece):
            inner = min(piece, depth - low)
            if turned:
                _gather(a[low : low + inner, top : top + rows], gathered)
                at, down, along, apart = gathered_at, size, _ROWS * size, inner * _ROWS * size
            else:
                down = a.strides[0]
                at, along, apart = a_at + top * down + low * size, size, _ROWS * down
            before = added if low == 0 else out.dtype.type(1)
            number = 0
            while number < vectors:
                _, count = _panel(number, vectors)
                live = min(lanes, columns - (number + count - 1) * lanes)
                across = count * _BYTES
                panel = panels_at + number * _BYTES * depth + low * across
                ahead, step = panel + depth * across, out.strides[0]
                to = out_at + top * step + number * _BYTES
                _strip(rows, at, down, along, apart, panel, across, inner, to, step, before, count, live, lanes, ahead)
                number += count
