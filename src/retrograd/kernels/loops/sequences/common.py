"""Helpers of the loops over sequences: matrices at an address, copies of vectors."""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, attr-defined"

from __future__ import annotations

from numba import carray, types
from numba.extending import intrinsic

from ...runtime.numba_functions import njit
from ..elements.basic_loops import _loop, like


@intrinsic
def _pointer(typing_context, address, number):
    """Return the address as a pointer to numbers like ``number``."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(number)(types.int64, number), generate


@njit
def matrix_at(address, rows, columns, number):
    """Return the row-major matrix of numbers like ``number`` at an address."""
    return carray(_pointer(address, number), (rows, columns))


@_loop
def copy(row, out):
    """Fill ``out`` from a vector that may be longer; an ``out`` of uint16 contains bfloat16 numbers."""
    for j in range(out.size):
        out[j] = like(row[j], out)
