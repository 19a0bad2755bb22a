"""Matrix products inside compiled loops, by the BLAS that NumPy has loaded (``blas_address.py``).

In single precision, numbers too small for full precision count as zero while BLAS multiplies: the gradients of a model
that is sure of its examples are full of them, and a processor takes a hundred times as long for each. The thread's own
floating-point mode is back before the call returns.
"""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .blas_address import PREFIX
from .denormals import FLUSH, flushes
from .numba_functions import njit

_ROWS, AS_IT_IS, TRANSPOSED = 101, 111, 112  # of CBLAS
_WORD, _REAL = ir.IntType(32), ir.FloatType()


@intrinsic
def gemm(typing_context, a_way, b_way, m, n, k, a, a_step, b, b_step, beta, c, c_step):
    """``c = a @ b + beta * c`` of matrices at addresses, in the numbers that ``beta`` is one of.

    The ways say which of a and b are given transposed; the steps are from row to row in memory.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        long, real = ir.IntType(64), context.get_value_type(beta)
        kinds = [_WORD] * 3 + [long] * 3 + [real, long, long, long, long, real, long, long]
        name = PREFIX + ("sgemm" if real == _REAL else "dgemm")
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
        ways = [builder.trunc(way, _WORD) for way in arguments[:2]]
        restore = flushing(builder, beta)
        builder.call(function, [_WORD(_ROWS), *ways, *arguments[2:5], real(1.0), *arguments[5:]])
        restore()
        return context.get_dummy_value()

    return types.void(*[types.int64] * 9, beta, types.int64, types.int64), generate


def flushing(builder: Any, number: Any) -> Callable[[], None]:
    """Let the processor flush, for numbers of a single precision's type; returns what makes the code that ends it."""
    kept = _flush(builder, number)
    return lambda: None if kept is None else _access(builder, "ldmxcsr", kept)


def _flush(builder: Any, number: Any) -> Any:
    """Where the mode is kept that was left; None where there is nothing to be done."""
    if number != types.float32 or not flushes():
        return None
    kept, changed = [cgutils.alloca_once(builder, _WORD) for _ in range(2)]
    _access(builder, "stmxcsr", kept)
    builder.store(builder.or_(builder.load(kept), _WORD(FLUSH)), changed)
    _access(builder, "ldmxcsr", changed)
    return kept


def _access(builder: Any, name: str, place: Any) -> None:
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.sse.{name}")
    builder.call(function, [builder.bitcast(place, byte)])


@intrinsic
def flush(typing_context, number):
    """Let the processor flush from here on, where numbers are of single precision; for ``leave``, the mode before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kept = _flush(builder, number)
        return _WORD(0) if kept is None else builder.load(kept)

    return types.int32(number), generate


@intrinsic
def leave(typing_context, mode, number):
    """Go back to the mode before ``flush``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if number == types.float32 and flushes():
            _access(builder, "ldmxcsr", cgutils.alloca_once_value(builder, arguments[0]))
        return context.get_dummy_value()

    return types.void(mode, number), generate


@njit(inline="always")
def _way(a):
    """How BLAS is to read a matrix, one of whose axes is contiguous, and the distance of its rows or columns."""
    if a.strides[1] == a.itemsize or a.shape[1] == 1:
        return AS_IT_IS, max(a.strides[0] // a.itemsize, a.shape[1], 1)
    return TRANSPOSED, max(a.strides[1] // a.itemsize, a.shape[0], 1)


@njit
def product(a, b, c, beta):
    """``c = a @ b + beta * c``, for compiled loops.

    All three are matrices of one dtype, float32 or float64. Of ``a`` and ``b`` one axis is contiguous, either one, and
    the other one's stride positive; of ``c`` the last one. With ``beta=0`` what ``c`` holds is not read.
    """
    a_way, a_step = _way(a)
    b_way, b_step = _way(b)
    c_step = max(c.strides[0] // c.itemsize, c.shape[1], 1)
    beta = c.dtype.type(beta)
    a_at, b_at, c_at = a.ctypes.data, b.ctypes.data, c.ctypes.data
    gemm(a_way, b_way, a.shape[0], b.shape[1], a.shape[1], a_at, a_step, b_at, b_step, beta, c_at, c_step)
