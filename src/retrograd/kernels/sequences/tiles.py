"""Products of a few rows with a matrix that is multiplied again and again, as in recurrent layers.

The matrix is packed once, into panels as wide as three vector registers, in the order in which they are read. A tile
of the result stays in registers while the loop runs over the inner dimension, in its order, with one rounding for
product and sum: so a row's numbers do not depend on the rows beside it. BLAS, which has to read the matrix as it lies
for so few rows, takes up to twice as long. In single precision it flushes denormals, as products by BLAS do.
"""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, attr-defined"

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..machine.blas import flushing
from ..machine.native import shared
from ..machine.objects import njit
from ..machine.vectors import width

_VECTORS = 3  # of a panel
_ROWS = 8 if width() == 64 else 4  # of a tile, which with a row of the panel and one number fills the registers
_BYTES = width()
_WORD = ir.IntType(64)


def _tile(rows, vectors):
    """The function ``tile(a, a_step, panel, depth, out, out_step, like)`` for so many rows and vectors."""

    @intrinsic
    def tile(typing_context, a, a_step, panel, depth, out, out_step, like):
        def generate(context, builder, signature, arguments):
            a, a_step, panel, depth, out, out_step, _ = arguments
            real, size = context.get_value_type(like), like.bitwidth // 8
            lanes = _BYTES // size
            vector, integer = ir.VectorType(real, lanes), ir.IntType(32)
            kind = ir.FunctionType(vector, [vector] * 3)
            fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{lanes}f{8 * size}")
            zeros, nothing = ir.Constant(vector, [0.0] * lanes), ir.Constant(vector, ir.Undefined)
            first = ir.Constant(ir.VectorType(integer, lanes), [0] * lanes)
            restore = flushing(builder, like)
            lines = [builder.add(a, builder.mul(a_step, _WORD(row))) for row in range(rows)]
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
            sums = []
            for line, row in zip(lines, cells, strict=True):
                number = builder.load(
                    builder.inttoptr(builder.add(line, builder.mul(k, _WORD(size))), real.as_pointer())
                )
                spread = builder.shuffle_vector(builder.insert_element(nothing, number, integer(0)), nothing, first)
                for cell, beside in zip(row, across, strict=True):
                    total = builder.call(fma, [spread, beside, cell])
                    cell.add_incoming(zeros, before)
                    cell.add_incoming(total, loop)
                    sums.append(total)
            builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)
            builder.position_at_end(done)
            for number, total in enumerate(sums):
                row, vector_of_row = divmod(number, vectors)
                place = builder.add(out, builder.mul(out_step, _WORD(row)))
                place = builder.add(place, _WORD(_BYTES * vector_of_row))
                builder.store(total, builder.inttoptr(place, vector.as_pointer()), align=size)
            restore()
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6, like), generate

    return tile


_wide, _narrow = [[_tile(rows, vectors) for rows in (_ROWS, 1)] for vectors in (_VECTORS, 1)]
(_wide_rows, _wide_row), (_narrow_rows, _narrow_row) = _wide, _narrow


@njit
def multiply(a, panels, out):
    """``out = a @ m`` for the m of the panels. ``out`` has as many columns as these: whole vectors."""
    lanes = _BYTES // out.itemsize
    depth, zero = a.shape[1], out.dtype.type(0)
    rows, columns = out.shape
    a_step, out_step = a.strides[0], out.strides[0]
    j = 0
    while j < columns:
        wide = columns - j >= _VECTORS * lanes
        panel = panels.ctypes.data + j * depth * out.itemsize
        a_at, out_at = a.ctypes.data, out.ctypes.data + j * out.itemsize
        i = 0
        while i < rows:
            whole = rows - i >= _ROWS
            if wide and whole:
                _wide_rows(a_at, a_step, panel, depth, out_at, out_step, zero)
            elif wide:
                _wide_row(a_at, a_step, panel, depth, out_at, out_step, zero)
            elif whole:
                _narrow_rows(a_at, a_step, panel, depth, out_at, out_step, zero)
            else:
                _narrow_row(a_at, a_step, panel, depth, out_at, out_step, zero)
            step = _ROWS if whole else 1
            i, a_at, out_at = i + step, a_at + step * a_step, out_at + step * out_step
        j += _VECTORS * lanes if wide else lanes


@shared()
def pack(matrix, turned, columns, out, start, stop):
    """Write the panels of a matrix, which may be given turned, one after the other; zeros where it has no columns.

    From one vector of columns to another; those of the last wide panel are followed by panels of one vector each.
    """
    depth, lanes = out.size // columns, _BYTES // out.itemsize
    vectors = columns // lanes
    for number in range(start, stop):
        wide = number < vectors - vectors % _VECTORS
        step = _VECTORS * lanes if wide else lanes
        inside = number % _VECTORS * lanes if wide else 0
        low = number * lanes
        panel = out[(low - inside) * depth :][: step * depth].reshape(depth, step)[:, inside : inside + lanes]
        found = min(lanes, (matrix.shape[0] if turned else matrix.shape[1]) - low)
        if turned:
            for j in range(found):
                line = matrix[low + j]
                for k in range(depth):
                    panel[k, j] = line[k]
        else:
            for k in range(depth):
                line = matrix[k, low : low + found]
                for j in range(found):
                    panel[k, j] = line[j]
        for k in range(depth):
            panel[k, found:] = 0
