"""Matrix products on several threads, if NumPy has the BLAS of its wheels; otherwise NumPy computes them.

NumPy also computes products of small matrices.
"""

from __future__ import annotations

from ctypes import c_char_p
from functools import cache, lru_cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.blas import SEVERAL, beside_pool, one_thread, openblas
from ....core.arrays.layout import broadcast_shapes, place_of
from ....core.arrays.summation import LARGE
from ....core.opaque_calls import LoopMissing
from ... import loop, multiplies, share
from ...runtime.cores import count
from ...runtime.result_arrays import empty
from ...runtime.threads import PARTS, in_shares, launch, launch_products

USEFUL = 1 << 18  # minimum number of multiplications for which several threads are faster than one
LINES = 64  # minimum rows per thread of a matrix that is multiplied with one vector
STACKED = 1 << 21  # minimum number of multiplications of a stack of products for which several threads are faster
BLOCK = 48  # rows or columns in a block of the result: a multiple of the tile sizes of BLAS's inner loops
SMALL = 1_000_000  # maximum number of multiplications for which OpenBLAS does not pack
THIN, SKINNY = 32, 128  # smaller side of the result: up to THIN packing is never worthwhile, up to SKINNY sometimes
# Tiles read a factor without packing if the part that is multiplied at once, up to ``DEEP`` bytes of each column, has
# at most ``UNPACKED`` bytes.
UNPACKED, DEEP = 3 << 18, 1536
LIGHT = 10_000  # skinny results are packed only for more multiplications per element along the longer axis
TILED = 1 << 23  # register tiles of shared packed factors are used for more multiplications
NARROW = 64  # minimum of rows, columns and inner length for which register tiles are used
SHALLOW = 128  # maximum inner length for which products below TILED need no packing
# With at least this many rows, threads share the rows even if there are more columns, as in updates of a weight.
TALL = 64
WIDE = 64  # bytes of the vector registers with which tiles beat BLAS; processors with them have 32 registers
ALONE = 1 << 19  # number of elements that a thread packs at once
ROWS, COLUMNS = 8, 16  # a thread computes a multiple of this many rows and columns of the result
FINEST = 1 << 19  # minimum number of multiplications per thread
WHOLE, SINGLY = 0, 1  # multiply a part by BLAS: in one call, or in one call per block
TILES, STRAIGHT, PACKED = 2, 3, 4  # multiply by register tiles: shared packed, unpacked, or separately packed factors
_NONE = np.zeros(1, np.int64)  # placeholder for arguments that only tiles need


def _shares() -> bool:
    """Return whether products can be multi-threaded: BLAS's thread count can be set, and loops can call BLAS."""
    return openblas() is not None and multiplies()


def dot(x: Array, y: Array) -> Any:
    """Return ``x @ y`` for two matrices of NumPy or CuPy."""
    if type(x) is not ndarray:
        return np.matmul(x, y)  # CUDA graphs can capture matmul, but not dot
    if (work := x.size * y.shape[1]) < SEVERAL:
        return x.dot(y)
    if len(x) == 1 or y.shape[1] == 1:
        return _vector_dot(x, y) if work >= USEFUL else beside_pool(x.dot, y)
    return x.dot(y) if work < USEFUL else _shared_dot(x, y)


def _vector_dot(x: Array, y: Array) -> Array:
    """Return the product of a matrix and one row or column, by threads that read equal parts of the matrix.

    Memory limits this product: one core of a desktop or server processor does not use all of the memory's throughput.
    """
    kind, by_columns, size = x.dtype.char, len(x) == 1, max(len(x), y.shape[1])
    native = kind in "fd" and x.dtype == y.dtype and x.dtype.isnative
    if not native or x.shape[1] != len(y) or size < 2 * LINES or count() == 1 or openblas() is None:
        return beside_pool(x.dot, y)
    out = empty((len(x), y.shape[1]), x.dtype)

    def multiply(start: int, stop: int) -> None:
        low, high = start * LINES, stop * LINES
        if by_columns:
            np.dot(x, y[:, low:high], out[:, low:high])
        else:
            np.dot(x[low:high], y, out[low:high])

    one_thread(in_shares, multiply, -(-size // LINES), 1)
    return out


def stack(x: Array, y: Array) -> Array:
    """Return ``x @ y`` for broadcast stacks of matrices of NumPy or CuPy."""
    if type(x) is type(y) is ndarray and y.ndim and (work := x.size * y.shape[-1]) >= SEVERAL:
        if work >= STACKED and x.ndim > 1 < y.ndim:
            return _shared_stack(x, y)
        return beside_pool(np.matmul, x, y)
    return np.matmul(x, y)


def _shared_stack(x: Array, y: Array) -> Any:
    kind = x.dtype.char
    if kind not in "fd" or y.dtype.char != kind or not _shares() or x.shape[-1] != y.shape[-2]:
        return beside_pool(np.matmul, x, y)
    lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x_form, y_form = _form(x, lead), _form(y, lead)
    (m, k), n = x.shape[-2:], y.shape[-1]
    if x_form is None or y_form is None or min(m, n, k) == 1:
        return beside_pool(np.matmul, x, y)
    out = empty((*lead, m, n), x.dtype)
    given = m, n, k, place_of(x), *x_form, place_of(y), *y_form, out.reshape(-1, m, n)
    least = max(1, USEFUL // (m * n * k))
    try:
        launch_products(loop("loops.matrices.product_loops", "stack"), prod(lead), least, *given)
    except LoopMissing:
        return beside_pool(np.matmul, x, y)
    return out


def _form(x: Array, lead: tuple[int, ...]) -> tuple[int, bool, int] | None:
    """Return the distance of a stack's matrices, whether they are transposed, and their row stride.

    Return None if BLAS cannot read them. A stack of one matrix is repeated with distance 0.
    """
    (rows, columns), (down, along), size = x.shape[-2:], x.strides[-2:], x.itemsize
    turned = along != size
    if turned:
        rows, columns, down, along = columns, rows, along, down
    if along != size or down % size or down < size * columns or not x.flags.aligned:
        return None
    count = prod(x.shape[:-2])
    if count == 1:
        return 0, turned, down // size
    apart = [(length, stride) for length, stride in zip(x.shape[:-2], x.strides, strict=False) if length > 1]
    even = all(outer == length * inner for (_, outer), (length, inner) in pairwise(apart))
    return (apart[-1][1], turned, down // size) if even and count == prod(lead) else None


def _shared_dot(x: Array, y: Array) -> Array:
    given = prepared(x, y)
    if given is None:
        return beside_pool(x.dot, y)
    try:
        _launch("product", *given)
    except LoopMissing:
        return beside_pool(x.dot, y)
    return given[2][4]


def _launch(name: str, blocks: int, least: int, args: tuple[Any, ...]) -> None:
    """Launch a loop on the blocks of a prepared product; BLAS's threads matter only to methods that call BLAS."""
    run = launch_products if args[6] in (WHOLE, SINGLY) else launch
    run(loop("loops.matrices.product_loops", name), blocks, least, *args)


def add_dot(out: Array, x: Array, y: Array) -> None:
    """Compute ``out += x @ y`` for a row-major matrix, without an array for the product."""
    given = prepared(x, y, out)
    if given is not None:
        try:
            _launch("add_product", *given)
            return
        except LoopMissing:
            pass
    np.add(out, beside_pool(x.dot, y), out=out)


def dot_plus(x: Array, y: Array, row: Array) -> Array | None:
    """Return ``x @ y + row``, which each thread adds to what it has multiplied; None for small and other arrays."""
    m, n = len(x), y.shape[1]
    if type(x) is not ndarray or x.size * n < USEFUL or min(m, n) == 1 or row.shape != (n,) or row.dtype != x.dtype:
        return None
    given = prepared(x, y) if row.flags.c_contiguous and row.flags.aligned else None
    if given is None:
        return None
    blocks, least, args = given
    try:
        _launch("product_plus", blocks, least, (*args, row))
    except LoopMissing:
        return None
    out: Array = args[4]
    return out


def prepared(x: Array, y: Array, out: Any = None) -> tuple[int, int, tuple[Any, ...]] | None:
    """Return the number of blocks, the minimum number per thread, and the arguments of ``product_loops.product``.

    The fifth argument is the array of the result. Return None if NumPy should compute the product, or raise the error
    for shapes that do not match.

    OpenBLAS packs both factors in each call. Here each thread packs some columns of one factor and reads the other
    unpacked, or gathers it if it is transposed.
    """
    kind = x.dtype.char
    if kind not in "fd" or y.dtype.char != kind or x.shape[1] != len(y) or not _shares():
        return None
    x_turned, y_turned = not x.flags.c_contiguous, not y.flags.c_contiguous
    rows, columns = x.T if x_turned else x, y.T if y_turned else y
    if x_turned and not rows.flags.c_contiguous or y_turned and not columns.flags.c_contiguous:
        return None
    (m, k), n = x.shape, y.shape[1]
    if out is None:
        out = empty((m, n), x.dtype)
    if m * n >= LARGE:
        share()
    blocks, least, block, how, ranges, cuts = planned(m, k, n, x_turned, y_turned, kind, count())
    taken = np.zeros(ranges, np.int64) if ranges else _NONE
    return blocks, least, (rows, x_turned, columns, y_turned, out, block, how, taken, cuts)


def _vectors_are_wide() -> bool:
    from ...tiles.vector_width import width

    return width() == WIDE


@lru_cache(1024)
def planned(m: int, k: int, n: int, x_turned: bool, y_turned: bool, kind: str, threads: int) -> tuple[Any, ...]:
    """Return the number of blocks, the minimum number per thread, their length, and the method of multiplication.

    For tiles of packed factors, also return the number of column ranges and the blocks of rows.
    """
    if m * n * k > TILED and min(m, n, k) >= NARROW and _vectors_are_wide():
        ranges, cuts = _shared_out(m, k, n, threads)
        return ranges * threads, 1, 0, TILES, ranges, cuts
    blocks, least, block, each, how = smaller(m, k, n, x_turned, y_turned, kind)
    return blocks, max(least, -(-blocks // (each * threads))), block, how, 0, _NONE


def smaller(m: int, k: int, n: int, x_turned: bool, y_turned: bool, kind: str) -> tuple[int, int, int, int, int]:
    """Return the plan of a product below ``TILED``: the number of blocks, the minimum number per thread, their length,
    the number of parts per thread, and the method of multiplication.
    """
    shortest, longest = sorted((m, n))
    if _vectors_are_wide() and k <= SHALLOW and shortest >= ROWS and not y_turned:
        length, other, block = (m, n, ROWS) if by_rows(m, n, STRAIGHT) else (n, m, COLUMNS)
        return -(-length // block), -(-FINEST // (4 * block * k * other)), block, 1, STRAIGHT
    size = 4 if kind == "f" else 8
    thinnest = NARROW if x_turned or kind == "d" and not y_turned else THIN
    if not y_turned and min(k * size, DEEP) * n <= UNPACKED and not (x_turned and n * size < WIDE):
        thinnest = ROWS  # nothing is packed
    if _vectors_are_wide() and shortest >= thinnest:
        block = ROWS if m >= n or y_turned else COLUMNS
        return -(-longest // block), 1, block, 1, PACKED  # each part packs its factor
    block = small_block(shortest, k, y_turned and not x_turned) if kind == "f" and not always_packs() else 0
    if block:
        return -(-longest // block), 1, block, 2, SINGLY
    return -(-longest // BLOCK), part_of(longest, shortest * k), BLOCK, PARTS, WHOLE


def by_rows(m: int, n: int, how: int) -> bool:
    """Return whether a product below ``TILED`` is divided by rows of the result, not by columns."""
    return m >= n or how == STRAIGHT and m >= TALL


def _shared_out(m: int, k: int, n: int, threads: int) -> tuple[int, Any]:
    """Return the number of column ranges of the result, and the boundaries of the blocks of rows for threads.

    A thread packs a range of columns of one factor and reads rows of the other factor; the number of threads per range
    minimizes this memory traffic. Blocks become smaller toward the end, so that all threads finish together.
    """
    divisors = [groups for groups in range(1, threads + 1) if threads % groups == 0]
    groups = min(divisors, key=lambda groups: n * (threads // groups) + m * groups)
    ranges = groups * -(-k * n // (groups * ALONE))
    least, cuts = -(-FINEST * ranges // (k * n)), [0]
    while cuts[-1] < m:
        share = max(least, (m - cuts[-1]) * groups // (2 * threads))
        cuts.append(min(m, cuts[-1] + -(-share // ROWS) * ROWS))
    return ranges, np.array(cuts, np.int64)


@cache
def always_packs() -> bool:
    """Return whether OpenBLAS packs small matrices, too, as it does on x86 processors without AVX-512.

    Separate BLAS calls for the blocks of a product would then pack the shared factor in each call.
    """
    library = openblas()
    core_name = getattr(library, "scipy_openblas_get_corename64_", None)
    if core_name is None:
        return False
    core_name.restype = c_char_p
    return core_name() in (b"Haswell", b"Zen")


def small_block(shortest: int, k: int, rows_by_rows: bool) -> int:
    """Return the largest block size of the result for which OpenBLAS does not pack the matrices.

    Return 0 if packing is faster: for large results, and for ``x @ y.T`` with a short inner dimension.
    """
    packs = shortest > SKINNY or shortest > THIN and shortest * k > LIGHT
    if packs or rows_by_rows and k < 256:
        return 0
    return (SMALL // 4 if rows_by_rows else SMALL) // (shortest * k) // 8 * 8


def part_of(longest: int, each: int) -> int:
    """Return the size of equal parts, one per thread; each row or column takes ``each`` multiplications.

    OpenBLAS rounds differently in parts too small for packing, so parts are not made so small, unless it always packs.
    """
    blocks = -(-longest // BLOCK)
    for threads in range(count(), 1, -1):
        part = -(-blocks // threads)
        last = longest % (part * BLOCK) or part * BLOCK
        if last * each > SMALL or always_packs():
            return part
    return blocks
