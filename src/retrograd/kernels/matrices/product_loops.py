"""The compiled loops of ``products.py``: products of matrices in parts, by calls of BLAS or by tiles of registers."""
# mypy: disable-error-code="no-untyped-def, type-arg, attr-defined, call-arg"

from __future__ import annotations

import numpy as np

from ..machine.blas import AS_IT_IS, TRANSPOSED, gemm
from ..machine.native import add, shared
from ..machine.objects import njit
from ..machine.tiles import multiply_large, packed
from .products import EACH, PANELS, SINGLY


@njit
def _part(x, x_turned, y, y_turned, how, out, first, last, times):
    """The rows from ``first`` to ``last`` of the result, or its columns, where it is wide, on ``times * out``."""
    m, n = out.shape
    if how == PANELS:
        multiply_large(x, x_turned, y, out, first, last, times)
        return
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
    x_way = TRANSPOSED if x_turned else AS_IT_IS
    y_way = TRANSPOSED if y_turned else AS_IT_IS
    gemm(x_way, y_way, m, n, k, x_at, x.shape[1], y_at, y.shape[1], times, out_at, out.shape[1])


@njit
def part(x, x_turned, y, y_turned, how, out, first, last):
    """Rows of ``out = x @ y``, or columns."""
    _part(x, x_turned, y, y_turned, how, out, first, last, out.dtype.type(0))


@njit
def own_panels(y, y_turned, columns):
    """The panels of a matrix of so many columns, which may be given turned, packed by and for this thread."""
    panels = packed(y, y_turned, y.shape[1] if y_turned else len(y), columns, 1)
    return panels.reshape(1, panels.size)


@njit
def next_rows(taken, rows):
    """The first of so many rows that no thread has taken yet."""
    return add(np.int64(taken.ctypes.data), rows)


@njit
def _parts(x, x_turned, y, y_turned, out, block, how, taken, start, stop, times):
    if how == EACH:
        first = next_rows(taken, block)
        if first < len(out):
            panels = own_panels(y, y_turned, out.shape[1])
            while first < len(out):
                multiply_large(x, x_turned, panels, out, first, min(len(out), first + block), times)
                first = next_rows(taken, block)
        return
    last = min(len(out) if how == PANELS else max(out.shape), stop * block)
    step = block if how == SINGLY else last - start * block
    for first in range(start * block, last, step):
        _part(x, x_turned, y, y_turned, how, out, first, min(last, first + step), times)


@shared()
def product(x, x_turned, y, y_turned, out, block, how, taken, start, stop):
    """``out = x @ y``, of which each may be given turned, or y in panels: some blocks of it."""
    _parts(x, x_turned, y, y_turned, out, block, how, taken, start, stop, out.dtype.type(0))


@shared()
def add_product(x, x_turned, y, y_turned, out, block, how, taken, start, stop):
    """``out += x @ y``, in the parts of ``product``."""
    _parts(x, x_turned, y, y_turned, out, block, how, taken, start, stop, out.dtype.type(1))


@shared()
def stack(m, n, k, x, x_apart, x_turned, x_width, y, y_apart, y_turned, y_width, out, start, stop):
    """``out[b] = x[b] @ y[b]`` of matrices at addresses, so many bytes apart."""
    x_way = TRANSPOSED if x_turned else AS_IT_IS
    y_way = TRANSPOSED if y_turned else AS_IT_IS
    at, apart = np.int64(out.ctypes.data), out.itemsize * m * n
    zero = out.dtype.type(0)
    for b in range(start, stop):
        gemm(x_way, y_way, m, n, k, x + b * x_apart, x_width, y + b * y_apart, y_width, zero, at + b * apart, n)
