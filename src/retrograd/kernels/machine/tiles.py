"""Products inside compiled loops: of matrices that lie in the cache, or are packed once and multiplied again and again.

A packed matrix consists of panels, which hold as many columns as two or three vector registers, in the order in which
they are read. A tile of the result stays in registers while the loop runs over the inner dimension, in its order,
with one rounding for product and sum: a row's numbers do not depend on the rows beside it. BLAS, which reads matrices
as they lie for so few rows, takes up to twice as long. In single precision denormals are flushed, as by BLAS here.
"""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, attr-defined, var-annotated"

from __future__ import annotations

import platform

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..loops import _compiled
from .blas import flush, leave
from .native import shared
from .objects import routine
from .vectors import width

_MOST = 3  # vectors of a panel
_ROWS = 8 if width() == 64 else 4  # of a tile, which with a row of the panel and one number fills the registers
_BYTES = width()
_REGISTERS = "w" if platform.machine() in ("aarch64", "arm64") else "v"  # LLVM's letter for those of vectors
_LINE = 64  # bytes that a cache takes at once
_DEPTH = 1536  # bytes of a column of a panel that are multiplied at once
_TOGETHER = 64  # rows of the result for which a panel is read again and again
_WORD, _HALF = ir.IntType(64), ir.IntType(32)


def _declared(builder, name, result, kinds):
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, kinds), name)


def _spread(builder, number, lanes):
    """A vector of one number."""
    vector = ir.VectorType(number.type, lanes)
    nothing = ir.Constant(vector, ir.Undefined)
    first = ir.Constant(ir.VectorType(_HALF, lanes), [0] * lanes)
    return builder.shuffle_vector(builder.insert_element(nothing, number, _HALF(0)), nothing, first)


def _first(builder, live, lanes):
    """Which lanes are the first so many."""
    numbers = ir.Constant(ir.VectorType(_WORD, lanes), list(range(lanes)))
    return builder.icmp_signed("<", numbers, _spread(builder, live, lanes))


def _masked_load(builder, address, mask, size):
    """The numbers of a vector that a mask chooses, and zeros."""
    vector = address.type.pointee
    zeros = ir.Constant(vector, [0.0] * vector.count)
    name = f"llvm.masked.load.v{vector.count}f{8 * size}.p0"
    load = _declared(builder, name, vector, [address.type, _HALF, mask.type, vector])
    return builder.call(load, [address, _HALF(size), mask, zeros])


def _tile(rows, vectors, whole=True, between=None):
    """``tile(a, down, along, b, across, depth, out, out_step, add, live, ahead, ahead_step)`` for tiles of a size.

    All are addresses, or numbers of bytes but for the depth; ``add`` is the number 1 where it adds to ``out``, else 0.
    Where the last vector is not whole, only its first ``live`` numbers are read and written. With ``between``,
    ``along`` is the size of so many numbers, and b consists of panels.

    Meanwhile lines of the cache are fetched that will be needed: those of eight rows ``ahead_step`` apart, and those in
    which the tile below this one will be written. These need not be anyone's memory. Two threads that share a core, the
    other of which may be another program's, share its decoders: there the number of instructions limits, for the sake
    of which some turns are unrolled.
    """
    fetches = rows == _ROWS and (whole or vectors == 2)

    @intrinsic
    def tile(typing_context, a, down, along, b, across, depth, out, out_step, add, live, ahead, ahead_step):
        def generate(context, builder, signature, arguments):
            a, down, along, b, across, depth, out, out_step, added, live, ahead, ahead_step = arguments
            real, size = context.get_value_type(add), add.bitwidth // 8
            lanes = _BYTES // size
            vector = ir.VectorType(real, lanes)
            zeros, flags = ir.Constant(vector, [0.0] * lanes), ir.VectorType(ir.IntType(1), lanes)
            kind = f"v{lanes}f{8 * size}"
            fma = _declared(builder, f"llvm.fma.{kind}", vector, [vector] * 3)
            kinds = [vector, vector.as_pointer(), _HALF, flags]
            masked_store = _declared(builder, f"llvm.masked.store.{kind}.p0", ir.VoidType(), kinds)
            byte = ir.IntType(8).as_pointer()
            prefetch = _declared(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, _HALF, _HALF, _HALF])
            mask = None if whole else _first(builder, live, lanes)
            if between:
                along, across = _WORD(between * size), _WORD(vectors * _BYTES)

            def place(address, *steps):
                for step in steps:
                    address = builder.add(address, step)
                return builder.inttoptr(address, vector.as_pointer())

            def load(address, part):
                if whole or part < vectors - 1:
                    return builder.load(address, align=size)
                return _masked_load(builder, address, mask, size)

            def store(total, address, part):
                if whole or part < vectors - 1:
                    builder.store(total, address, align=size)
                else:
                    builder.call(masked_store, [total, address, _HALF(size), mask])

            def fetch(address, written):
                where = builder.inttoptr(address, byte)
                builder.call(prefetch, [where, _HALF(written), _HALF(3 if written else 2), _HALF(1)])

            def opaque(value):
                """The same, of which LLVM does not know how it was reckoned, lest it keeps all sums of it at hand."""
                return builder.asm(ir.FunctionType(_WORD, [_WORD]), "", "=r,0", [value], False)

            def in_turn(values):
                """The same, before which nothing moves: LLVM would load for all turns first, and spill."""
                count, kinds = len(values), [vector] * len(values)
                ties = ",".join([f"={_REGISTERS}"] * count + [str(number) for number in range(count)] + ["~{memory}"])
                kind = ir.FunctionType(ir.LiteralStructType(kinds), kinds)
                tied = builder.asm(kind, "", ties, values, True)
                return [builder.extract_value(tied, number) for number in range(count)]

            def moved(addresses, step):
                return [builder.add(address, step) for address in addresses]

            def loop_of(turns, fetched):
                """A loop of so many turns, of which some are unrolled."""
                together = _LINE // (2 * size) if fetched else 1  # in two turns of the loop a line of each row
                count = builder.udiv(turns, _WORD(together))
                with cgutils.for_range(builder, count) as loop:
                    sums = [builder.load(total) for total in totals]
                    at, *begins = [builder.load(address) for address in addresses]
                    if fetched:
                        row = builder.add(builder.and_(loop.index, _WORD(_ROWS - 1)), _WORD(_ROWS))
                        below = builder.add(out, builder.mul(row, out_step))
                        near, far = [builder.load(line) for line in lines]
                    for number in range(together):
                        beside = [load(place(at, _WORD(_BYTES * part)), part) for part in range(vectors)]
                        for row in range(rows):
                            address = begins[row // 4]
                            if row % 4:
                                address = builder.add(address, downs[row % 4])
                            factor = builder.load(builder.inttoptr(address, real.as_pointer()))
                            spread = _spread(builder, factor, lanes)
                            for part, other in enumerate(beside):
                                cell = row * vectors + part
                                sums[cell] = builder.call(fma, [spread, other, sums[cell]])
                        at, *begins = [builder.add(at, across), *moved(begins, along)]
                        if not between or number == together - 1:
                            at, *begins = [opaque(address) for address in (at, *begins)]
                        if fetched:
                            sums = in_turn(sums)
                            if number < 4:
                                fetch(builder.add(near, builder.mul(ahead_step, _WORD(number))), 0)
                                fetch(builder.add(below, _WORD(number * _LINE)), 1)
                    for values, variables in ((sums, totals), ((at, *begins), addresses)):
                        for value, variable in zip(values, variables, strict=True):
                            builder.store(value, variable)
                    if fetched:
                        builder.store(far, lines[0])
                        builder.store(builder.add(near, _WORD(_LINE)), lines[1])
                return builder.sub(turns, builder.mul(count, _WORD(together)))

            downs = [opaque(builder.mul(down, _WORD(row))) for row in range(4)]
            totals = [cgutils.alloca_once_value(builder, zeros) for _ in range(rows * vectors)]
            begins = [b, *[builder.add(a, builder.mul(down, _WORD(row))) for row in range(0, rows, 4)]]
            addresses = [cgutils.alloca_once_value(builder, address) for address in begins]
            if fetches:
                further = builder.add(ahead, builder.mul(ahead_step, _WORD(4)))
                lines = [cgutils.alloca_once_value(builder, address) for address in (ahead, further)]
                depth = loop_of(depth, True)
            loop_of(depth, False)
            found = []
            for number, total in enumerate(totals):
                row, part = divmod(number, vectors)
                address = place(out, builder.mul(out_step, _WORD(row)), _WORD(_BYTES * part))
                found.append((builder.load(total), address, part))
            with builder.if_else(builder.fcmp_ordered("!=", added, real(0.0))) as (then, otherwise):
                with then:
                    for total, address, part in found:
                        store(builder.fadd(load(address, part), total), address, part)
                with otherwise:
                    for total, address, part in found:
                        store(total, address, part)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8, add, *[types.int64] * 3), generate

    return tile


_three, _three_row = _tile(_ROWS, 3), _tile(1, 3)
_three_packed, _three_gathered = _tile(_ROWS, 3, True, 1), _tile(_ROWS, 3, True, _ROWS)
_one_part, _two_part, _three_part = [_tile(_ROWS, vectors, False) for vectors in range(1, _MOST + 1)]
_one_row_part, _two_row_part, _three_row_part = [_tile(1, vectors, False) for vectors in range(1, _MOST + 1)]


@intrinsic
def _size(typing_context, number):
    """Bytes of such a number."""

    def generate(context, builder, signature, arguments):
        return _WORD(number.bitwidth // 8)

    return types.int64(number), generate


@intrinsic
def _at(typing_context, array):
    """The address of an array's numbers."""

    def generate(context, builder, signature, arguments):
        return builder.ptrtoint(context.make_array(array)(context, builder, arguments[0]).data, _WORD)

    return types.int64(array), generate


@routine
def _strip(rows, a, down, along, apart, b, across, inner, out, out_step, added, count, live, ahead, first):
    """So many rows of the result, ``count`` vectors wide, of the last of which ``live`` numbers are there.

    ``apart`` is how far the rows of a tile lie from those of the next one. The first strip of a factor's rows fetches
    ahead the rows of its next tile, the others what begins at ``ahead``.
    """
    wide = count == _MOST and live == _BYTES // _size(added)
    mode = flush(added)
    i, ahead_step = 0, inner * _size(added)
    while i < rows:
        whole = rows - i >= _ROWS
        if first:
            ahead, ahead_step = a + apart, down
        if wide:
            if whole and across == _MOST * _BYTES and along == _size(added):
                _three_packed(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
            elif whole and across == _MOST * _BYTES and along == _ROWS * _size(added):
                _three_gathered(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
            elif whole:
                _three(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
            else:
                _three_row(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
        elif count == 3:
            if whole:
                _three_part(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
            else:
                _three_row_part(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
        elif count == 2:
            if whole:
                _two_part(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
            else:
                _two_row_part(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
        elif whole:
            _one_part(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
        else:
            _one_row_part(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
        if whole:
            i, a, out = i + _ROWS, a + apart, out + _ROWS * out_step
        else:
            i, a, out = i + 1, a + down, out + out_step
        ahead += inner * _ROWS * _size(added)
    leave(mode, added)


@routine
def product_at(rows, inner, columns, a, down, along, b, across, out, out_step, added):
    """``product`` of matrices at addresses."""
    lanes = _BYTES // _size(added)
    apart = _ROWS * down
    while columns > 0:
        count = min(_MOST, (columns + lanes - 1) // lanes)
        live = min(lanes, columns - (count - 1) * lanes)
        _strip(rows, a, down, along, apart, b, across, inner, out, out_step, added, count, live, b, 1)
        columns, b, out = columns - count * lanes, b + count * _BYTES, out + count * _BYTES


@_compiled()
def product(a, b, out, add):
    """``out = a @ b``, or plus that. The rows of b and of out are unbroken; b is read as it lies."""
    (rows, inner), columns, added = a.shape, out.shape[1], out.dtype.type(add)
    down, along = a.strides
    product_at(rows, inner, columns, _at(a), down, along, _at(b), b.strides[0], _at(out), out.strides[0], added)


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
        vector = ir.VectorType(real, lanes)

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
                    mask = ir.Constant(ir.VectorType(_HALF, lanes), picks)
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


_move, _move_number = _mover(lambda size: _BYTES), _mover(lambda size: size)
_move_rows, _move_tiles = [_mover(lambda size: _ROWS * size, abreast) for abreast in (1, 4)]


@intrinsic
def _fill(typing_context, source, live, out, number):
    """Write a vector: so many numbers, which are read, and zeros."""

    def generate(context, builder, signature, arguments):
        source, live, out, _ = arguments
        size = number.bitwidth // 8
        lanes = _BYTES // size
        vector = ir.VectorType(context.get_value_type(number), lanes)
        source, out = [builder.inttoptr(address, vector.as_pointer()) for address in (source, out)]
        builder.store(_masked_load(builder, source, _first(builder, live, lanes), size), out, align=size)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3, number), generate


@routine
def _pack(matrix, step, turned, depth, columns, out, low, high, like):
    """Write a part of the panels: zeros where there are no columns. Its unit is a vector of columns, or a row."""
    size = _size(like)
    lanes = _BYTES // size
    vectors, whole = (columns + lanes - 1) // lanes, columns // lanes
    for number in range(low, high):
        if turned:
            first, count = _panel(number, vectors)
            source, across = matrix + number * lanes * step, count * _BYTES
            to, live, k = out + (first * depth + number - first) * _BYTES, min(lanes, columns - number * lanes), 0
            while number < whole and k + lanes <= depth:
                _turn(source + k * size, step, to + k * across, across, like)
                k += lanes
            while k < depth:
                _fill(source, 0, to + k * across, like)
                _move_number(live, source + k * size, step, to + k * across, size, 0, like)
                k += 1
            continue
        source, done = matrix + number * step, 0
        while done < vectors:
            _, count = _panel(done, vectors)
            to, there = out + (done * depth + number * count) * _BYTES, min(count, whole - done)
            _move(there, source + done * _BYTES, _BYTES, to, _BYTES, 0, like)
            if there < count:
                at = (done + there) * _BYTES
                _fill(source + at, columns - whole * lanes, to + there * _BYTES, like)
            done += count


@_compiled()
def _room(memory):
    """Where in memory a vector may begin; there is one vector more."""
    return _at(memory) + -_at(memory) % _BYTES


@_compiled()
def packed(matrix, turned, depth, columns, factor):
    """The panels of ``factor`` times a matrix of so many rows and columns, which may be given turned."""
    lanes = _BYTES // matrix.itemsize
    vectors = (columns + lanes - 1) // lanes
    memory = np.empty((depth * vectors + 1) * lanes, matrix.dtype)
    out = memory[-_at(memory) % _BYTES // matrix.itemsize :][: depth * vectors * lanes]
    units = vectors if turned else depth
    _pack(_at(matrix), matrix.strides[0], turned, depth, columns, _at(out), 0, units, out.dtype.type(0))
    if factor != 1:
        for j in range(out.size):
            out[j] *= factor
    return out


@_compiled()
def panels_of(matrix, turned, low, high):
    """The panels of the columns from ``low`` to ``high`` of a matrix, which may be given turned."""
    size, step = matrix.itemsize, matrix.strides[0]
    depth, lanes = matrix.shape[1] if turned else len(matrix), _BYTES // size
    vectors = (high - low + lanes - 1) // lanes
    panels = np.empty((depth * vectors + 1) * lanes, matrix.dtype)
    at, units = _at(matrix) + low * (step if turned else size), vectors if turned else depth
    _pack(at, step, turned, depth, high - low, _room(panels), 0, units, panels.dtype.type(0))
    return panels


@shared()
def pack(matrix, turned, depth, columns, out, start, stop):
    """The same into memory that is there, by many threads, which share vectors of columns, or rows."""
    step, like = matrix.strides[0], out.dtype.type(0)
    _pack(_at(matrix), step, turned, depth, columns, _room(out), start, stop, like)


@routine
def _multiply(rows, inner, a, down, along, apart, panels, vectors, depth, low, columns, out, out_step, added):
    """``multiply`` of matrices at addresses, from row ``low`` of m on; its panels have so many vectors."""
    lanes = _BYTES // _size(added)
    number = 0
    while number * lanes < columns:
        _, whole = _panel(number, vectors)
        count = min(whole, (columns - number * lanes + lanes - 1) // lanes)
        live = min(lanes, columns - (number + count - 1) * lanes)
        across, to = whole * _BYTES, out + number * _BYTES
        panel = panels + number * depth * _BYTES + low * across
        ahead = panel + depth * across
        _strip(rows, a, down, along, apart, panel, across, inner, to, out_step, added, count, live, ahead, number == 0)
        number += whole


@_compiled()
def multiply(a, panels, depth, columns, out, add):
    """``out = a @ m``, or plus that, for the first columns of m and as many of its rows as ``a`` has columns.

    ``depth`` is how many rows m has. The rows of ``out`` are unbroken.
    """
    (rows, inner), (down, along), added = a.shape, a.strides, out.dtype.type(add)
    at, panels_at, vectors = _at(a), _at(panels), panels.size * out.itemsize // (depth * _BYTES)
    to, step = _at(out), out.strides[0]
    _multiply(rows, inner, at, down, along, _ROWS * down, panels_at, vectors, depth, 0, columns, to, step, added)


@routine
def _gather(lines, step, depth, rows, out, like):
    """The columns of some lines as the rows of tiles: of each tile the first number of each row, then the second."""
    size = _size(like)
    wide, i = _ROWS * size, 0
    while i + 4 * _ROWS <= rows:
        _move_tiles(depth, lines + i * size, step, out + i * depth * size, wide, wide * depth, like)
        i += 4 * _ROWS
    while i + _ROWS <= rows:
        _move_rows(depth, lines + i * size, step, out + i * depth * size, wide, 0, like)
        i += _ROWS
    if i < rows:
        for k in range(depth):
            to = out + i * depth * size + k * wide
            _move_number(rows - i, lines + k * step + i * size, size, to, size, 0, like)


@_compiled()
def multiply_large(a, turned, panels, out, first, last, low, high, added):
    """A part of ``out = a @ m + added * out``, where ``a`` may be given turned: so many rows, and columns.

    The inner dimension is gone through in equal pieces of which a panel stays in the cache, for as many rows as do.
    """
    size, one = out.itemsize, type(added)(1)
    depth, columns = a.shape[0] if turned else a.shape[1], high - low
    vectors = -(-columns * size // _BYTES)
    piece = -(-depth // -(-depth * size // _DEPTH))
    piece += -piece % 8
    gathered = np.empty((_TOGETHER + _ROWS) * piece if turned else 1, out.dtype)
    a_at, a_step, panels_at = _at(a), a.strides[0], _room(panels)
    step, down, along = out.strides[0], a_step, size
    if turned:
        down, along = size, _ROWS * size
    for top in range(first, last, _TOGETHER):
        rows, to = min(_TOGETHER, last - top), _at(out) + top * step + low * size
        for k in range(0, depth, piece):
            inner, times = min(piece, depth - k), added if k == 0 else one
            if turned:
                at, apart = _at(gathered), inner * _ROWS * size  # asked for here, lest Numba lets go of it before
                _gather(a_at + k * a_step + top * size, a_step, inner, rows, at, added)
            else:
                at, apart = a_at + top * down + k * size, _ROWS * down
            _multiply(rows, inner, at, down, along, apart, panels_at, vectors, depth, k, columns, to, step, times)
