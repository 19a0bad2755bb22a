"""Matrix products inside compiled loops, by the BLAS that NumPy has loaded (``blas_address.py``).

Single-precision products flush subnormal numbers to zero. Gradients of a model with confident predictions contain many
subnormal numbers, on which processors are about a hundred times slower. The thread's floating-point mode is restored
before the call returns.
"""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .blas_address import PREFIX
from .denormals import FLUSH, flushes
from .numba_functions import njit

_ROWS, AS_IT_IS, TRANSPOSED = 101, 111, 112  # CblasRowMajor, CblasNoTrans, CblasTrans
_WORD, _REAL = ir.IntType(32), ir.FloatType()


@intrinsic
def gemm(typing_context, a_way, b_way, m, n, k, a, a_step, b, b_step, beta, c, c_step):
    """Compute ``c = a @ b + beta * c`` for matrices at addresses, in the precision of ``beta``.

    The ways say which of a and b are transposed; the steps are the leading dimensions.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]) -> Any:
        restore = flushing(builder, beta)
        _multiply(context, builder, beta, arguments)
        restore()
        return context.get_dummy_value()

    return types.void(*[types.int64] * 9, beta, types.int64, types.int64), generate


@intrinsic
def unflushed_gemm(typing_context, a_way, b_way, m, n, k, a, a_step, b, b_step, beta, c, c_step):
    """``gemm`` without flushing of subnormal numbers, as NumPy multiplies smaller matrices."""

    def generate(context: Any, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]) -> Any:
        _multiply(context, builder, beta, arguments)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 9, beta, types.int64, types.int64), generate


def _multiply(context: Any, builder: ir.IRBuilder, beta: object, arguments: Sequence[ir.Value]) -> None:
    """Generate the call of BLAS; none for pairs of bfloat16, which only tiles multiply."""
    if isinstance(beta, types.Integer):
        return
    long, real = ir.IntType(64), context.get_value_type(beta)
    kinds = [_WORD] * 3 + [long] * 3 + [real, long, long, long, long, real, long, long]
    name = PREFIX + ("sgemm" if real == _REAL else "dgemm")
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
    ways = [builder.trunc(way, _WORD) for way in arguments[:2]]
    builder.call(function, [_WORD(_ROWS), *ways, *arguments[2:5], real(1.0), *arguments[5:]])


def flushing(builder: Any, number: Any) -> Callable[[], None]:
    """Generate code that flushes subnormal single-precision numbers; return a function that generates its inverse."""
    kept = _flush(builder, number)
    return lambda: None if kept is None else _access(builder, "ldmxcsr", kept)


def _flush(builder: Any, number: Any) -> Any:
    """Generate code that switches the mode; return the variable with the old mode, or None if the mode stays."""
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
    """Flush subnormal numbers from here on, if ``number`` has single precision; return the old mode for ``leave``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kept = _flush(builder, number)
        return _WORD(0) if kept is None else builder.load(kept)

    return types.int32(number), generate


@intrinsic
def leave(typing_context, mode, number):
    """Restore the mode that ``flush`` returned."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if number == types.float32 and flushes():
            _access(builder, "ldmxcsr", cgutils.alloca_once_value(builder, arguments[0]))
        return context.get_dummy_value()

    return types.void(mode, number), generate


@njit(inline="always")
def _way(a):
    """Return CBLAS's transposition flag and leading dimension for a matrix with one contiguous axis."""
    if a.strides[1] == a.itemsize or a.shape[1] == 1:
        return AS_IT_IS, max(a.strides[0] // a.itemsize, a.shape[1], 1)
    return TRANSPOSED, max(a.strides[1] // a.itemsize, a.shape[0], 1)


@njit
def product(a, b, c, beta):
    """Compute ``c = a @ b + beta * c`` inside a compiled loop.

    All three matrices are float32 or float64. ``a`` and ``b`` have one contiguous axis and a positive stride along the
    other axis; the last axis of ``c`` is contiguous. With ``beta=0``, ``c`` is not read.
    """
    a_way, a_step = _way(a)
    b_way, b_step = _way(b)
    c_step = max(c.strides[0] // c.itemsize, c.shape[1], 1)
    beta = c.dtype.type(beta)
    a_at, b_at, c_at = a.ctypes.data, b.ctypes.data, c.ctypes.data
    gemm(a_way, b_way, a.shape[0], b.shape[1], a.shape[1], a_at, a_step, b_at, b_step, beta, c_at, c_step)
