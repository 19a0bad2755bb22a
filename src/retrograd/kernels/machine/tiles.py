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
from .blas import flushing
from .native import shared
from .vectors import width

_MOST = 3  # vectors of a panel
_ROWS = 8 if width() == 64 else 4  # of a tile, which with a row of the panel and one number fills the registers
_BYTES = width()
_WORD = ir.IntType(64)


def _tile(rows, vectors, whole=True):
    """``tile(a, down, along, b, across, depth, out, out_step, add, live)`` for so many rows and vectors.

    All are addresses, or numbers of bytes but for the depth; ``add`` is the number 1 where it adds to ``out``, else 0.
    Where the last vector is not whole, only its first ``live`` numbers are read and written.
    """

    @intrinsic
    def tile(typing_context, a, down, along, b, across, depth, out, out_step, add, live):
        def generate(context, builder, signature, arguments):
            a, down, along, b, across, depth, out, out_step, added, live = arguments
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

            restore = flushing(builder, add)
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
            restore()
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8, add, types.int64), generate

    return tile


_one, _two, _three = [_tile(_ROWS, vectors) for vectors in range(1, _MOST + 1)]
_one_row, _two_row, _three_row = [_tile(1, vectors) for vectors in range(1, _MOST + 1)]
_one_part, _two_part, _three_part = [_tile(_ROWS, vectors, False) for vectors in range(1, _MOST + 1)]
_one_row_part, _two_row_part, _three_row_part = [_tile(1, vectors, False) for vectors in range(1, _MOST + 1)]


@_compiled()
def product(a, b, out, add):
    """``out = a @ b``, or plus that. The rows of b and of out are unbroken; b is read as it lies."""
    size = out.itemsize
    lanes = _BYTES // size
    down, along, across, out_step = a.strides[0], a.strides[1], b.strides[0], out.strides[0]
    (rows, inner), columns, added = a.shape, out.shape[1], out.dtype.type(add)
    j = 0
    while j < columns:
        left = columns - j
        wide = left >= _MOST * lanes
        count = _MOST if wide else (left + lanes - 1) // lanes
        live = left - (count - 1) * lanes
        a_at, b_at, out_at = a.ctypes.data, b.ctypes.data + j * size, out.ctypes.data + j * size
        i = 0
        while i < rows:
            whole = rows - i >= _ROWS
            if wide:
                if whole:
                    _three(a_at, down, along, b_at, across, inner, out_at, out_step, added, live)
                else:
                    _three_row(a_at, down, along, b_at, across, inner, out_at, out_step, added, live)
            elif count == 3:
                if whole:
                    _three_part(a_at, down, along, b_at, across, inner, out_at, out_step, added, live)
                else:
                    _three_row_part(a_at, down, along, b_at, across, inner, out_at, out_step, added, live)
            elif count == 2:
                if whole:
                    _two_part(a_at, down, along, b_at, across, inner, out_at, out_step, added, live)
                else:
                    _two_row_part(a_at, down, along, b_at, across, inner, out_at, out_step, added, live)
            elif whole:
                _one_part(a_at, down, along, b_at, across, inner, out_at, out_step, added, live)
            else:
                _one_row_part(a_at, down, along, b_at, across, inner, out_at, out_step, added, live)
            step = _ROWS if whole else 1
            i, a_at, out_at = i + step, a_at + step * down, out_at + step * out_step
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
        panel, across = panels.ctypes.data + number * _BYTES * depth, count * _BYTES
        a_at, out_at = a.ctypes.data, out.ctypes.data + number * _BYTES
        i = 0
        while i < rows:
            whole = rows - i >= _ROWS
            if whole and count == 3:
                _three(a_at, down, along, panel, across, inner, out_at, out_step, added, lanes)
            elif whole and count == 2:
                _two(a_at, down, along, panel, across, inner, out_at, out_step, added, lanes)
            elif whole:
                _one(a_at, down, along, panel, across, inner, out_at, out_step, added, lanes)
            elif count == 3:
                _three_row(a_at, down, along, panel, across, inner, out_at, out_step, added, lanes)
            elif count == 2:
                _two_row(a_at, down, along, panel, across, inner, out_at, out_step, added, lanes)
            else:
                _one_row(a_at, down, along, panel, across, inner, out_at, out_step, added, lanes)
            step = _ROWS if whole else 1
            i, a_at, out_at = i + step, a_at + step * down, out_at + step * out_step
        number += count
