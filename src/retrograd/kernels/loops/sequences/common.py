"""Helpers of the loops over sequences: matrices at an address, prefetches, copies of vectors."""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, attr-defined"

from __future__ import annotations

from numba import carray, types
from numba.extending import intrinsic

from ...runtime.numba_functions import njit
from ...tiles.tiles import LINE, address_of, prefetch
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


@intrinsic
def _fetch(typing_context, address):
    """Prefetch the cache line at an address, which need not be valid."""

    def generate(context, builder, signature, arguments):
        prefetch(builder, arguments[0], 0)
        return context.get_dummy_value()

    return types.void(types.int64), generate


@njit
def area(x, row, apart):
    """Return the address of a row of a matrix, the distance to the next one, ``apart`` rows below, and its length."""
    length = x.shape[1] * x.itemsize
    return address_of(x) + row * length, apart * length, length


@njit
def fetch_rows(areas, start, stop):
    """Prefetch the rows ``start`` to ``stop`` of each area."""
    for row in range(start, stop):
        for begin, apart, length in areas:
            for place in range(0, length, LINE):
                _fetch(begin + row * apart + place)


@_loop
def copy(row, out):
    """Fill ``out`` from a vector that may be longer; an ``out`` of uint16 contains bfloat16 numbers."""
    for j in range(out.size):
        out[j] = like(row[j], out)
