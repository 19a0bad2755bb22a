"""The compiled loops that call the inner loops of NumPy's ufuncs by their addresses."""
# mypy: disable-error-code="no-untyped-def, type-arg, attr-defined, call-arg"

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...runtime.thread_protocol import shared


@intrinsic
def _inner_loop(typing_context, function, data, length, first, second, third, of_first, of_second, of_third):
    """Call ``function(addresses, lengths, steps, data)``, a ufunc's inner loop."""

    def generate(context, builder, signature, arguments):
        word = ir.IntType(64)
        function, data, length, *places = arguments
        blocks = [cgutils.alloca_once(builder, ir.ArrayType(word, 3)) for _ in range(3)]
        for block, values in zip(blocks, (places[:3], [length], places[3:]), strict=True):
            for at, value in enumerate(values):
                builder.store(value, builder.gep(block, [ir.IntType(32)(0), ir.IntType(32)(at)]))
        kind = ir.FunctionType(ir.VoidType(), [word] * 4)
        words = [builder.ptrtoint(block, word) for block in blocks]
        builder.call(builder.inttoptr(function, kind.as_pointer()), [*words, data])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 9), generate


@shared()
def rows(function, data, length, places, start, stop):
    """Process rows of ``length`` elements, or parts of a single row if the length is 0.

    ``places`` has the addresses of up to three arrays and their strides in bytes between and within rows.
    """
    x, y, z = places[0, 0], places[1, 0], places[2, 0]
    if length == 0:
        p, q, r = places[0, 2], places[1, 2], places[2, 2]
        _inner_loop(function, data, stop - start, x + start * p, y + start * q, z + start * r, p, q, r)
        return
    for row in range(start, stop):
        at_x, at_y, at_z = x + row * places[0, 1], y + row * places[1, 1], z + row * places[2, 1]
        _inner_loop(function, data, length, at_x, at_y, at_z, places[0, 2], places[1, 2], places[2, 2])


@shared()
def columns(function, data, length, after, width, item, x, out, start, stop):
    """``out[b, k] = x[b, 0, k] + x[b, 1, k] + ...`` for the ufunc +, in blocks of columns k; arrays are addresses."""
    blocks = -(-after // width)
    for number in range(start, stop):
        b, block = divmod(number, blocks)
        count = min(width, after - block * width)
        line, total = x + (b * length * after + block * width) * item, out + (b * after + block * width) * item
        first, step = line, after * item
        for _ in range(1, length):
            line += step
            _inner_loop(function, data, count, first, line, total, item, item, item)
            first = total


@shared()
def folds(function, data, length, least, item, x, half, out, start, stop):
    """``out[row] = x[row, 0] + x[row, 1] + ...`` for the ufunc +, by adding the halves of a row recursively.

    Each part, of at least ``least`` rows, has a buffer for half a row.
    """
    room = half + start // least * (length // 2) * item
    for row in range(start, stop):
        line, count = x + row * length * item, length
        while count > 1:
            rest = count // 2
            total = room if rest > 1 else out + row * item
            _inner_loop(function, data, rest, line, line + rest * item, total, item, item, item)
            if count % 2:
                _inner_loop(function, data, 1, total, line + (count - 1) * item, total, item, item, item)
            line, count = total, rest
