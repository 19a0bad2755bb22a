"""Matrix products inside compiled loops, by the BLAS that NumPy has loaded (``cblas.py``)."""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type"

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .cblas import PREFIX
from .objects import njit

_ROWS, _AS_IT_IS, _TRANSPOSED = 101, 111, 112  # of CBLAS


@intrinsic
def _gemm(typing_context, a_way, b_way, m, n, k, a, a_step, b, b_step, beta, c, c_step):
    """``c = a @ b + beta * c`` with the steps from row to row in memory, transposed as the ways say."""
    number = c.dtype
    kind = {types.float32: "sgemm", types.float64: "dgemm"}[number]
    signature = types.void(*[types.int64] * 5, a, types.int64, b, types.int64, number, c, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        flag, size, real = ir.IntType(32), ir.IntType(64), context.get_value_type(number)
        place = real.as_pointer()

        def pointer(at: int) -> Any:
            array = context.make_array(signature.args[at])(context, builder, arguments[at])
            return builder.bitcast(array.data, place)

        wanted = flag, flag, flag, size, size, size, real, place, size, place, size, real, place, size
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), wanted), PREFIX + kind)
        a_way, b_way = [builder.trunc(way, flag) for way in arguments[:2]]
        m, n, k, _, a_step, _, b_step, beta, _, c_step = arguments[2:]
        left, right = (real(1.0), pointer(5), a_step), (pointer(7), b_step)
        builder.call(function, [flag(_ROWS), a_way, b_way, m, n, k, *left, *right, beta, pointer(10), c_step])
        return context.get_dummy_value()

    return signature, generate


@njit(inline="always")
def _way(a):
    """How BLAS is to read a matrix, one of whose axes is contiguous, and the distance of its rows or columns."""
    if a.strides[1] == a.itemsize or a.shape[1] == 1:
        return _AS_IT_IS, max(a.strides[0] // a.itemsize, a.shape[1], 1)
    return _TRANSPOSED, max(a.strides[1] // a.itemsize, a.shape[0], 1)


@njit
def product(a, b, c, beta):
    """``c = a @ b + beta * c``, for compiled loops.

    All three are matrices of one dtype, float32 or float64. Of ``a`` and ``b`` one axis is contiguous, either one, and
    the other one's stride positive; of ``c`` the last one. With ``beta=0`` what ``c`` holds is not read.
    """
    a_way, a_step = _way(a)
    b_way, b_step = _way(b)
    c_step = max(c.strides[0] // c.itemsize, c.shape[1], 1)
    _gemm(a_way, b_way, a.shape[0], b.shape[1], a.shape[1], a, a_step, b, b_step, c.dtype.type(beta), c, c_step)
