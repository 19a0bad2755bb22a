"""Products of matrices in parts, each by a call of the BLAS that NumPy has loaded."""
# mypy: disable-error-code="no-untyped-def, type-arg, attr-defined, call-arg"

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .native import shared
from .objects import njit

_ROW_MAJOR, _AS_IT_IS, _TRANSPOSED = 101, 111, 112  # from cblas.h


@intrinsic
def _gemm(typing_context, function, of_x, of_y, m, n, k, x, x_width, y, y_width, out, out_width, one):
    """``cblas_?gemm`` at an address, with alpha 1 and beta 0; the type of ``one`` says which."""

    def generate(context, builder, signature, arguments):
        function, of_x, of_y, m, n, k, x, x_width, y, y_width, out, out_width, one = arguments
        choice, word, number = ir.IntType(32), ir.IntType(64), one.type
        kinds = [choice] * 3 + [word] * 3 + [number, word, word, word, word, number, word, word]
        pointer = builder.inttoptr(function, ir.FunctionType(ir.VoidType(), kinds).as_pointer())
        choices = [choice(_ROW_MAJOR), builder.trunc(of_x, choice), builder.trunc(of_y, choice)]
        builder.call(pointer, [*choices, m, n, k, one, x, x_width, y, y_width, number(0.0), out, out_width])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 12, one), generate


@njit
def _block(function, x, x_turned, y, y_turned, out, first, last, one):
    """The rows from ``first`` to ``last`` of the result, or its columns where it is wide."""
    m, n = out.shape
    k = x.shape[0] if x_turned else x.shape[1]
    x_at, y_at, out_at = np.int64(x.ctypes.data), np.int64(y.ctypes.data), np.int64(out.ctypes.data)
    size = out.itemsize
    if m >= n:
        m = last - first
        x_at += first * size * (1 if x_turned else k)
        out_at += first * size * n
    else:
        n = last - first
        y_at += first * size * (k if y_turned else 1)
        out_at += first * size
    of_x = _TRANSPOSED if x_turned else _AS_IT_IS
    of_y = _TRANSPOSED if y_turned else _AS_IT_IS
    _gemm(function, of_x, of_y, m, n, k, x_at, x.shape[1], y_at, y.shape[1], out_at, out.shape[1], one)


@shared()
def product(function, x, x_turned, y, y_turned, out, block, alone, one, start, stop):
    """``out = x @ y``, of which each may be given turned: blocks of it, each by a call of its own or all by one."""
    last = min(max(out.shape), stop * block)
    step = block if alone else last - start * block
    for first in range(start * block, last, step):
        _block(function, x, x_turned, y, y_turned, out, first, min(last, first + step), one)


@shared()
def stack(function, m, n, k, x, x_apart, x_turned, x_width, y, y_apart, y_turned, y_width, out, one, start, stop):
    """``out[b] = x[b] @ y[b]`` of matrices at addresses, so many bytes apart."""
    of_x = _TRANSPOSED if x_turned else _AS_IT_IS
    of_y = _TRANSPOSED if y_turned else _AS_IT_IS
    at, apart = np.int64(out.ctypes.data), out.itemsize * m * n
    for b in range(start, stop):
        x_at, y_at = x + b * x_apart, y + b * y_apart
        _gemm(function, of_x, of_y, m, n, k, x_at, x_width, y_at, y_width, at + b * apart, n, one)
