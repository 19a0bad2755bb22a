"""The compiled loops of copies: conversions of half precision (passed as bits), transposition, and copies of lines.

Conversions follow Giesen's "Half to float done quic". Numbers below the smallest normal float16 are rounded by adding a
power of two whose last bit has the value of the smallest float16.
"""

from __future__ import annotations

import numpy as np

from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared

u, f = np.uint32, np.float32
_INFINITY, _SIGN = u(0x7F800000), u(0x80000000)
_TOO_LARGE = u(0x47800000)  # the bits of 2^16, to which numbers from 65520 on are rounded
_NORMAL, _LEAST_NORMAL = u(0x38800000), f(2.0**-14)
_HALF = u(0x3F000000)  # the bits of 0.5
_REBIASED = u(0xC8000FFF)  # added to the bits: changes the exponent's bias, and rounds to nearest


@shared()
def narrow(x: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    x, out = x[start:stop], out[start:stop]
    for j in range(x.size):
        bits = np.float32(x[j]).view(np.uint32)
        size = u(bits & u(0x7FFFFFFF))
        small = u(np.float32(np.uint32(size).view(np.float32) + f(0.5)).view(np.uint32) - _HALF)
        normal = u(u(size + _REBIASED + (u(size >> u(13)) & u(1))) >> u(13))
        large = u(0x7E00) if size > _INFINITY else u(0x7C00)
        half = small if size < _NORMAL else normal
        half = large if size >= _TOO_LARGE else half
        out[j] = np.uint16(half | u(u(bits >> u(16)) & u(0x8000)))


d, v = np.uint64, np.float64


@shared()
def narrow_double(x: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    x, out = x[start:stop], out[start:stop]
    for j in range(x.size):
        bits = np.float64(x[j]).view(np.uint64)
        size = d(bits & d(0x7FFFFFFFFFFFFFFF))
        small = d(np.float64(np.uint64(size).view(np.float64) + v(2.0**28)).view(np.uint64) - d(0x41B0000000000000))
        normal = d(d(size + d(0xC10001FFFFFFFFFF) + (d(size >> d(42)) & d(1))) >> d(42))
        large = d(0x7E00) if size > d(0x7FF0000000000000) else d(0x7C00)
        half = small if size < d(0x3F10000000000000) else normal
        half = large if size >= d(0x40F0000000000000) else half
        out[j] = np.uint16(half | d(d(bits >> d(48)) & d(0x8000)))


@shared()
def widen(x: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    x, out = x[start:stop], out[start:stop]
    for j in range(x.size):
        bits = u(x[j])
        size = u(u(bits & u(0x7FFF)) << u(13))
        exponent = u(size & u(0x0F800000))
        normal = u(size + u(0x38000000))
        special = u(size + u(0x70000000))
        small = np.float32(np.uint32(size + _NORMAL).view(np.float32) - _LEAST_NORMAL).view(np.uint32)
        whole = small if exponent == u(0) else normal
        whole = special if exponent == u(0x0F800000) else whole
        out[j] = np.uint32(whole | u(u(bits & u(0x8000)) << u(16))).view(np.float32)


TILE = 8  # rows and columns transposed together; more lines at distances of a power of two conflict in the cache


@njit
def to_bfloat16(bits: np.uint32) -> np.uint16:
    """Return the nearest bfloat16 to a float32, for a tie the number whose last bit is 0; NaN keeps its sign."""
    upper = u(bits >> u(16))
    rounded = u(u(bits + u(0x7FFF)) + u(upper & u(1))) >> u(16)
    return np.uint16(rounded if u(bits & ~_SIGN) <= _INFINITY else u(u(upper & u(0x8000)) | u(0x7FC0)))


@shared(noalias=True)
def narrow_bfloat16(x: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    """Round float32, given as uint32, to bfloat16, given as uint16."""
    x, out = x[start:stop], out[start:stop]
    for j in range(x.size):
        out[j] = to_bfloat16(x[j])


@shared(noalias=True)
def widen_bfloat16(x: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    """Convert bfloat16, given as uint16, to float32, given as uint32."""
    x, out = x[start:stop], out[start:stop]
    for j in range(x.size):
        out[j] = u(u(x[j]) << u(16))


@shared()
def transpose(x: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    """Compute rows of ``out[b, i, j] = x[b, j, i]``; rows are numbered across all matrices."""
    rows, columns = out.shape[1:]
    for b in range(start // rows, (stop - 1) // rows + 1):
        matrix, result = x[b], out[b]
        low, high = max(0, start - b * rows), min(rows, stop - b * rows)
        for i in range(low, high, TILE):
            for j in range(0, columns, TILE):
                if i + TILE <= high and j + TILE <= columns:
                    for r in range(TILE):  # a constant range, so that the compiler keeps the tile in registers
                        for c in range(TILE):
                            result[i + r, j + c] = matrix[j + c, i + r]
                else:
                    for r in range(i, min(i + TILE, high)):
                        for c in range(j, min(j + TILE, columns)):
                            result[r, c] = matrix[c, r]


@shared(noalias=True)
def flat(x: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    x, out = x[start:stop], out[start:stop]
    for j in range(x.size):
        out[j] = x[j]


@shared()
def fill(out: np.ndarray, number: float, start: int, stop: int) -> None:
    out[start:stop] = number


@shared(noalias=True)
def lines(
    x: np.ndarray,
    out: np.ndarray,
    begin: int,
    way: int,
    shape: tuple[int, int, int],
    steps: tuple[tuple[int, ...], ...],
    start: int,
    stop: int,
) -> None:
    """Copy lines numbered along three axes, which have different strides in x and out.

    Within a line, the stride in x is ``way`` elements: 1, -1, or 0.
    """
    rows, columns, length = shape
    for number in range(start, stop):
        above, k = divmod(number, columns)
        i, j = divmod(above, rows)
        line = x[begin + i * steps[0][0] + j * steps[0][1] + k * steps[0][2] :]
        result = out[i * steps[1][0] + j * steps[1][1] + k * steps[1][2] :][:length]
        if way == 1:
            line = line[:length]
            for c in range(length):
                result[c] = line[c]
        elif way == 0:
            result[:] = line[0]
        else:
            for c in range(length):
                result[c] = line[np.uint64(length - 1 - c)]  # an unsigned index avoids the check for negative indices
