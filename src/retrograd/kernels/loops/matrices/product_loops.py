"""The compiled loops of ``products.py``: parts of matrix products, by calls of BLAS or by register tiles.

The loops of ``pairs.py`` and ``compact.py`` follow.
"""
# mypy: disable-error-code="no-untyped-def, type-arg, attr-defined, call-arg, var-annotated"

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...runtime.loop_blas import AS_IT_IS, TRANSPOSED, gemm
from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import add, shared
from ...tiles.packed_products import multiply_large, packed_product_at, panels_of
from ...tiles.tiles import product_at
from ..elements.basic_loops import wide
from ..layout.copy_loops import to_bfloat16
from .products import PACKED, SINGLY, STRAIGHT, TILES, WIDE, by_rows

_by_rows = njit(by_rows)


@njit
def _part(x, x_turned, y, y_turned, out, how, first, last, times):
    """Compute rows ``first`` to ``last`` of ``x @ y + times * out``, or these columns if the product is wide."""
    m, n = out.shape
    k = x.shape[0] if x_turned else x.shape[1]
    x_at, y_at, out_at = np.int64(x.ctypes.data), np.int64(y.ctypes.data), np.int64(out.ctypes.data)
    size = out.itemsize
    if _by_rows(m, n, how):
        m = last - first
        x_at += first * size * (1 if x_turned else k)
        out_at += first * size * n
    else:
        n = last - first
        y_at += first * size * (k if y_turned else 1)
        out_at += first * size
    if how == STRAIGHT:
        down, along = (size, x.strides[0]) if x_turned else (x.strides[0], size)
        product_at(m, k, n, x_at, down, along, y_at, y.strides[0], out_at, out.strides[0], times)
        return
    if how == PACKED:
        x_step, y_step, step = x.strides[0], y.strides[0], out.strides[0]
        packed_product_at(
            m, k, n, x_at, x_step, np.int64(x_turned), y_at, y_step, np.int64(y_turned), out_at, step, times
        )
        return
    x_way = TRANSPOSED if x_turned else AS_IT_IS
    y_way = TRANSPOSED if y_turned else AS_IT_IS
    gemm(x_way, y_way, m, n, k, x_at, x.shape[1], y_at, y.shape[1], times, out_at, out.shape[1])


@njit
def parts(x, x_turned, y, y_turned, out, block, how, taken, cuts, start, stop, times, over, given):
    """Compute parts of ``x @ y + times * out``; call ``over(given, out, top, bottom, low, high)`` on finished parts."""
    m, n = out.shape
    if how == TILES:
        lanes = WIDE // out.itemsize
        vectors, ranges = -(-n // lanes), len(taken)
        for number in range(start, stop):
            own = number % ranges
            rest = np.int64(taken.ctypes.data) + 8 * own
            block = add(rest, 1)
            if block < len(cuts) - 1:
                low, high = own * vectors // ranges * lanes, min(n, (own + 1) * vectors // ranges * lanes)
                panels = panels_of(y, y_turned, low, high)
                while block < len(cuts) - 1:
                    first, last = cuts[block], cuts[block + 1]
                    multiply_large(x, x_turned, y, panels, out, first, last, low, high, times)
                    over(given, out, first, last, low, high)
                    block = add(rest, 1)
        return
    tall = _by_rows(m, n, how)
    last = min(m if tall else n, stop * block)
    step = block if how == SINGLY else last - start * block
    for first in range(start * block, last, step):
        end = min(last, first + step)
        _part(x, x_turned, y, y_turned, out, how, first, end, times)
        if tall:
            over(given, out, first, end, 0, n)
        else:
            over(given, out, 0, m, first, end)


@njit
def _nothing(given, out, top, bottom, low, high):
    pass


@shared()
def product(x, x_turned, y, y_turned, out, block, how, taken, cuts, start, stop):
    """Compute parts of ``out = x @ y``; each factor may be given transposed."""
    parts(x, x_turned, y, y_turned, out, block, how, taken, cuts, start, stop, out.dtype.type(0), _nothing, ())


@shared()
def add_product(x, x_turned, y, y_turned, out, block, how, taken, cuts, start, stop):
    """``out += x @ y``, in the parts of ``product``."""
    parts(x, x_turned, y, y_turned, out, block, how, taken, cuts, start, stop, out.dtype.type(1), _nothing, ())


@njit
def _plus_row(row, out, top, bottom, low, high):
    some = row[low:high]
    for i in range(top, bottom):
        line = out[i, low:high]
        for j in range(line.size):
            line[j] += some[j]


@shared()
def product_plus(x, x_turned, y, y_turned, out, block, how, taken, cuts, row, start, stop):
    """``out = x @ y + row``, in the parts of ``product``: the row is added to a part that lies in the cache."""
    parts(x, x_turned, y, y_turned, out, block, how, taken, cuts, start, stop, out.dtype.type(0), _plus_row, row)


@shared()
def stack(m, n, k, x, x_apart, x_turned, x_width, y, y_apart, y_turned, y_width, out, start, stop):
    """``out[b] = x[b] @ y[b]`` for matrices at addresses, with distances in bytes."""
    x_way = TRANSPOSED if x_turned else AS_IT_IS
    y_way = TRANSPOSED if y_turned else AS_IT_IS
    at, apart = np.int64(out.ctypes.data), out.itemsize * m * n
    zero = out.dtype.type(0)
    for b in range(start, stop):
        gemm(x_way, y_way, m, n, k, x + b * x_apart, x_width, y + b * y_apart, y_width, zero, at + b * apart, n)


# Arrays of bfloat16 are given as uint16, arrays of pairs and of their float32 sums as uint32 (see ``pairs.py``).


@shared(noalias=True)
def pair_rows(x, out, start, stop):
    """Write rows 2 i and 2 i + 1 of each matrix of bfloat16 to row i of its result; a missing last row is zero.

    The rows of all results are numbered from ``start`` to ``stop``.
    """
    count = out.shape[1]
    for number in range(start, stop):
        m, i = divmod(number, count)
        first, pairs = x[m, 2 * i], out[m, i]
        if 2 * i + 1 == x.shape[1]:
            for j in range(pairs.size):
                pairs[j] = first[j]
            continue
        second = x[m, 2 * i + 1]
        for j in range(pairs.size):
            pairs[j] = np.uint32(np.uint32(first[j]) | np.uint32(np.uint32(second[j]) << np.uint32(16)))


@njit
def _narrowed(narrow, out, top, bottom, low, high):
    for i in range(top, bottom):
        sums, halves = out[i, low:high], narrow[i, low:high]
        for j in range(sums.size):
            halves[j] = to_bfloat16(sums[j])


@shared()
def pair_product(x, x_turned, y, y_turned, out, block, how, taken, cuts, narrow, adds, start, stop):
    """``product``, or with ``adds`` ``add_product``, for pairs; ``narrow`` is the result rounded to bfloat16."""
    parts(x, x_turned, y, y_turned, out, block, how, taken, cuts, start, stop, np.uint32(adds), _narrowed, narrow)


# Products of few rows and a matrix of bfloat16 or float16 (given as uint16) or 8-bit integers. Each number is converted
# to float32 in a register, since such a product is limited by the bytes that it reads from memory.

BLOCK = 32  # number of integers that share one scale
_LANES = 16  # number of sums that are accumulated separately, in one or several vector registers


@intrinsic
def _half(typing_context, bits):
    """Return the float32 of a float16."""

    def generate(context, builder, signature, arguments):
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


@intrinsic
def _block_dot(typing_context, x, w, scales, blocks):
    """Return ``sum_b scales_b sum_k x_bk w_bk`` for addresses of float32, int8 and float16."""
    real, byte, half, word = ir.FloatType(), ir.IntType(8), ir.HalfType(), ir.IntType(64)
    vector, integers = ir.VectorType(real, _LANES), ir.VectorType(ir.IntType(32), _LANES)

    def generate(context, builder, signature, arguments):
        fma = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{_LANES}f32"
        )
        zeros, lanes = ir.Constant(vector, [0.0] * _LANES), range(0, BLOCK, _LANES)
        first = ir.Constant(integers, [0] * _LANES)
        x, w, scales = (
            builder.inttoptr(address, kind.as_pointer())
            for address, kind in zip(arguments, (real, byte, half), strict=False)
        )
        total = cgutils.alloca_once_value(builder, zeros)
        with cgutils.for_range(builder, arguments[3]) as loop:
            at, part = builder.mul(loop.index, word(BLOCK)), zeros
            for lane in lanes:
                place = builder.add(at, word(lane))
                row = builder.bitcast(builder.gep(x, [place]), vector.as_pointer())
                narrow = ir.VectorType(byte, _LANES).as_pointer()
                numbers = builder.load(builder.bitcast(builder.gep(w, [place]), narrow), align=1)
                wide = builder.sitofp(builder.sext(numbers, integers), vector)
                part = builder.call(fma, [builder.load(row, align=4), wide, part])
            scale = builder.fpext(builder.load(builder.gep(scales, [loop.index])), real)
            spread = builder.insert_element(ir.Constant(vector, ir.Undefined), scale, ir.IntType(32)(0))
            spread = builder.shuffle_vector(spread, spread, first)
            builder.store(builder.call(fma, [part, spread, builder.load(total)]), total)
        add = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(real, [real, vector]), f"llvm.vector.reduce.fadd.v{_LANES}f32"
        )
        return builder.call(add, [real(0.0), builder.load(total)], fastmath=["reassoc"])

    return types.float32(types.int64, types.int64, types.int64, types.int64), generate


def _rows(name, number):
    """Return a loop that computes columns of ``out = x @ w.T`` for 16 bits of each ``number``."""

    def body(x, w, out, start, stop):
        for j in range(start, stop):
            column = w[j]
            for i in range(len(x)):
                row, total = x[i], np.float32(0)
                for k in range(column.size):
                    total += row[k] * number(column[k])
                out[i, j] = total

    body.__name__ = name
    return shared("reassoc", "contract", noalias=True)(body)


bfloat16_rows, float16_rows = _rows("bfloat16_rows", wide), _rows("float16_rows", _half)


@shared()
def block_rows(x, w, scales, out, start, stop):
    """Compute columns of ``out = x @ w.T`` for integers with a float16 scale per ``BLOCK`` of them."""
    x_at, w_at, scales_at = np.int64(x.ctypes.data), np.int64(w.ctypes.data), np.int64(scales.ctypes.data)
    for j in range(start, stop):
        for i in range(len(x)):
            row = x_at + i * x.strides[0]
            out[i, j] = _block_dot(row, w_at + j * w.strides[0], scales_at + j * scales.strides[0], scales.shape[1])


@shared(noalias=True)
def expand_blocks(w, scales, out, start, stop):
    """Write rows of integers, multiplied by the scales of their blocks, as float32."""
    for j in range(start, stop):
        for b in range(scales.shape[1]):
            block, scale = out[j, BLOCK * b : BLOCK * (b + 1)], _half(scales[j, b])
            numbers = w[j, BLOCK * b : BLOCK * (b + 1)]
            for k in range(block.size):
                block[k] = numbers[k] * scale


@njit(error_model="numpy")
def add_halves(x, y, out):
    """``out += x @ y.T`` for rows of bfloat16: by pairs of columns; a column without a partner is added separately."""
    pairs, odd = divmod(x.shape[1], 2)
    x_at, y_at, out_at = np.int64(x.ctypes.data), np.int64(y.ctypes.data), np.int64(out.ctypes.data)
    steps = x.strides[0], y.strides[0], out.strides[0]
    packed_product_at(len(x), pairs, len(y), x_at, steps[0], 0, y_at, steps[1], 1, out_at, steps[2], np.uint32(1))
    if odd:
        for i in range(len(x)):
            factor, line = wide(x[i, 2 * pairs]), out[i]
            for j in range(len(line)):
                line[j] += factor * wide(y[j, 2 * pairs])
