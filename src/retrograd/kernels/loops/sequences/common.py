"""What the loops over sequences have in common: matrices at an address, copies of vectors."""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, attr-defined"

from __future__ import annotations

from numba import carray, types
from numba.extending import intrinsic

from ...runtime.numba_functions import njit
from ..elements.basic_loops import _loop


@intrinsic
def _pointer(typing_context, address, number):
    """The address as that of numbers like ``number``."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(number)(types.int64, number), generate


@njit
def matrix_at(address, rows, columns, number):
    """The row-major matrix of numbers like ``number`` at an address, for compiled loops."""
    return carray(_pointer(address, number), (rows, columns))


@_loop
def copy(row, out):
    """Fill a vector from one that may be longer."""
    for j in range(out.size):
        out[j] = row[j]
