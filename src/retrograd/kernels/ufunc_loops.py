"""The compiled loop that calls NumPy's own: its ufuncs' inner loops, by their addresses."""
# mypy: disable-error-code="no-untyped-def, type-arg, attr-defined, call-arg"

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .machine.native import shared


@intrinsic
def _inner_loop(typing_context, function, data, length, first, second, third, of_first, of_second, of_third):
    """``function(addresses, lengths, steps, data)``, as NumPy calls a ufunc's inner loop."""

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
    """Rows of ``length`` elements, or parts of a single one where that is 0.

    ``places`` has of up to three arrays where they begin, and the steps in bytes from row to row and in a row.
    """
    x, y, z = places[0, 0], places[1, 0], places[2, 0]
    if length == 0:
        p, q, r = places[0, 2], places[1, 2], places[2, 2]
        _inner_loop(function, data, stop - start, x + start * p, y + start * q, z + start * r, p, q, r)
        return
    for row in range(start, stop):
        at_x, at_y, at_z = x + row * places[0, 1], y + row * places[1, 1], z + row * places[2, 1]
        _inner_loop(function, data, length, at_x, at_y, at_z, places[0, 2], places[1, 2], places[2, 2])
