"""Products with a matrix that is packed once and then multiplied by a few rows again and again.

So do recurrent layers and attention. A panel holds as many columns as two or three vector registers, in the order in
which they are read. A tile of the result stays in registers while the loop runs over the inner dimension, in its order,
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
from ..machine.blas import flushing
from ..machine.native import shared
from ..machine.vectors import width

_MOST = 3  # vectors of a panel
_ROWS = 8 if width() == 64 else 4  # of a tile, which with a row of the panel and one number fills the registers
_BYTES = width()
_WORD = ir.IntType(64)


def _tile(rows, vectors):
    """``tile(a, down, along, panel, depth, out, out_step, add)`` for so many rows and vectors.

    All are addresses, or numbers of bytes but for the depth; ``add`` is the number 1 where it adds to ``out``, else 0.
    """

    @intrinsic
    def tile(typing_context, a, down, along, panel, depth, out, out_step, add):
        def generate(context, builder, signature, arguments):
            a, down, along, panel, depth, out, out_step, added = arguments
            real, size = context.get_value_type(add), add.bitwidth // 8
            lanes = _BYTES // size
            vector, integer = ir.VectorType(real, lanes), ir.IntType(32)
            kind = ir.FunctionType(vector, [vector] * 3)
            fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{lanes}f{8 * size}")
            zeros, nothing = ir.Constant(vector, [0.0] * lanes), ir.Constant(vector, ir.Undefined)
            first = ir.Constant(ir.VectorType(integer, lanes), [0] * lanes)
            restore = flushing(builder, add)
            lines = [builder.add(a, builder.mul(down, _WORD(row))) for row in range(rows)]
            before = builder.block
            loop, done = builder.append_basic_block(), builder.append_basic_block()
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(_WORD)
            cells = [[builder.phi(vector) for _ in range(vectors)] for _ in range(rows)]
            at = builder.add(panel, builder.mul(k, _WORD(_BYTES * vectors)))
            across = []
            for number in range(vectors):
                place = builder.inttoptr(builder.add(at, _WORD(_BYTES * number)), vector.as_pointer())
                across.append(builder.load(place, align=_BYTES))
            following = builder.add(k, _WORD(1))
            k.add_incoming(_WORD(0), before)
            k.add_incoming(following, loop)
            inside = builder.mul(k, along)
            sums = []
            for line, row in zip(lines, cells, strict=True):
                number = builder.load(builder.inttoptr(builder.add(line, inside), real.as_pointer()))
                spread = builder.shuffle_vector(builder.insert_element(nothing, number, integer(0)), nothing, first)
                for cell, beside in zip(row, across, strict=True):
                    total = builder.call(fma, [spread, beside, cell])
                    cell.add_incoming(zeros, before)
                    cell.add_incoming(total, loop)
                    sums.append(total)
            builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)
            builder.position_at_end(done)
            places = []
            for number in range(rows * vectors):
                row, part = divmod(number, vectors)
                place = builder.add(builder.add(out, builder.mul(out_step, _WORD(row))), _WORD(_BYTES * part))
                places.append(builder.inttoptr(place, vector.as_pointer()))
            with builder.if_else(builder.fcmp_ordered("!=", added, real(0.0))) as (then, otherwise):
                with then:
                    for place, total in zip(places, sums, strict=True):
                        builder.store(builder.fadd(builder.load(place, align=size), total), place, align=size)
                with otherwise:
                    for place, total in zip(places, sums, strict=True):
                        builder.store(total, place, align=size)
            restore()
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7, add), generate

    return tile


_one, _two, _three = [_tile(_ROWS, vectors) for vectors in range(1, _MOST + 1)]
_one_row, _two_row, _three_row = [_tile(1, vectors) for vectors in range(1, _MOST + 1)]


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


@_compiled()
def _pack(matrix, turned, depth, columns, factor, out, low, high):
    """Write vectors of columns, from one number to another, to their panels; zeros where there are no columns."""
    lanes = _BYTES // out.itemsize
    vectors = padded(columns, out) // lanes
    for number in range(low, high):
        first, count = _panel(number, vectors)
        panel = out[first * lanes * depth :][: count * lanes * depth].reshape(depth, count * lanes)
        panel = panel[:, (number - first) * lanes :]
        begin = number * lanes
        found = min(lanes, columns - begin)
        if turned:
            for j in range(found):
                line = matrix[begin + j]
                for k in range(depth):
                    panel[k, j] = line[k] * factor
        else:
            for k in range(depth):
                line = matrix[k, begin : begin + found]
                for j in range(found):
                    panel[k, j] = line[j] * factor
        for k in range(depth):
            panel[k, found:lanes] = 0


@_compiled()
def packed(matrix, turned, depth, columns, factor):
    """The panels of ``factor`` times a matrix of so many rows and columns, which may be given turned."""
    size = depth * padded(columns, matrix)
    memory = np.empty(size + _BYTES // matrix.itemsize, matrix.dtype)
    out = memory[-memory.ctypes.data % _BYTES // matrix.itemsize :][:size]  # where a vector may begin
    _pack(matrix, turned, depth, columns, factor, out, 0, padded(columns, matrix) * matrix.itemsize // _BYTES)
    return out


@shared()
def pack(matrix, turned, depth, columns, out, start, stop):
    """The same into memory that is there, by many threads."""
    _pack(matrix, turned, depth, columns, out.dtype.type(1), out, start, stop)


@_compiled()
def multiply(a, panels, depth, columns, out, add):
    """``out = a @ m``, or plus that, for the first columns of m and as many of its rows as ``a`` has columns.

    ``depth`` is how many rows m has. ``out`` has room to the end of a panel, unbroken in a row.
    """
    size = out.itemsize
    lanes = _BYTES // size
    down, along, out_step, added = a.strides[0], a.strides[1], out.strides[0], out.dtype.type(add)
    rows, inner = a.shape
    number = 0
    while number * lanes < columns:
        _, count = _panel(number, panels.size // (depth * lanes))
        panel = panels.ctypes.data + number * _BYTES * depth
        a_at, out_at = a.ctypes.data, out.ctypes.data + number * _BYTES
        i = 0
        while i < rows:
            whole = rows - i >= _ROWS
            if whole and count == 3:
                _three(a_at, down, along, panel, inner, out_at, out_step, added)
            elif whole and count == 2:
                _two(a_at, down, along, panel, inner, out_at, out_step, added)
            elif whole:
                _one(a_at, down, along, panel, inner, out_at, out_step, added)
            elif count == 3:
                _three_row(a_at, down, along, panel, inner, out_at, out_step, added)
            elif count == 2:
                _two_row(a_at, down, along, panel, inner, out_at, out_step, added)
            else:
                _one_row(a_at, down, along, panel, inner, out_at, out_step, added)
            step = _ROWS if whole else 1
            i, a_at, out_at = i + step, a_at + step * down, out_at + step * out_step
        number += count
