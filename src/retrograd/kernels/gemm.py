"""Products of matrices on the threads of the pool, by the BLAS that NumPy has loaded: each part is a call of its gemm.

BLAS's own threads would wait in loops of their own beside the helpers, each group keeping the other from running. So
it works with one thread while a product is under way, and with as many as before afterwards.
"""
# mypy: disable-error-code="no-untyped-def, type-arg, attr-defined, call-arg"

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from .cache import keep_on_disk
from .native import call, launch, task

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


@njit(nogil=True)
def _part(function, x, x_turned, y, y_turned, out, block, one, start, stop):
    """The blocks from ``start`` to ``stop`` of the rows of the result, or of its columns where it is wide."""
    m, n = out.shape
    k = x.shape[0] if x_turned else x.shape[1]
    of_x = _TRANSPOSED if x_turned else _AS_IT_IS
    of_y = _TRANSPOSED if y_turned else _AS_IT_IS
    x_at, y_at, out_at = np.int64(x.ctypes.data), np.int64(y.ctypes.data), np.int64(out.ctypes.data)
    size = out.itemsize
    first = start * block
    if m >= n:
        m = min(m, stop * block) - first
        x_at += first * size * (1 if x_turned else k)
        out_at += first * size * n
    else:
        n_part = min(n, stop * block) - first
        y_at += first * size * (k if y_turned else 1)
        out_at += first * size
        _gemm(function, of_x, of_y, m, n_part, k, x_at, x.shape[1], y_at, y.shape[1], out_at, n, one)
        return
    _gemm(function, of_x, of_y, m, n, k, x_at, x.shape[1], y_at, y.shape[1], out_at, n, one)


@njit(nogil=True)
def product(words, threads, start, total, least, limit, before, function, x, x_turned, y, y_turned, out, block, one):
    """``out = x @ y``, of which each may be given turned; ``limit`` is BLAS's function that sets its threads."""
    call(limit, (1,))
    work, data = task(_part, (function, x, x_turned, y, y_turned, out, block, one))
    launch(words, threads, start, total, least, work, data)
    call(limit, (before,))


keep_on_disk(product)
