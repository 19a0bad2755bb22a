"""The compiled loops over elements that take NumPy several passes: masks with a factor, losses of differences."""
# mypy: disable-error-code="no-untyped-def, type-arg"

from __future__ import annotations

from .elementwise import ABSOLUTE, BLOCK, SQUARE
from .native import shared
from .objects import njit


@shared()
def kept(x, keep, scale, out, start, stop):
    """``x * scale`` where the mask is true, else 0."""
    x, keep, out = x[start:stop], keep[start:stop], out[start:stop]
    zero = x.dtype.type(0) * scale
    for j in range(x.size):
        out[j] = x[j] * scale if keep[j] else zero


@shared()
def chosen(condition, x, y, out, start, stop):
    """``x`` where the condition is true, else ``y``."""
    condition, x, y, out = condition[start:stop], x[start:stop], y[start:stop], out[start:stop]
    for j in range(x.size):
        out[j] = x[j] if condition[j] else y[j]


@njit(inline="always")
def _quadratic_then_linear(d, half, bound):
    a = abs(d)
    return half * d * d if a < bound else bound * (a - half * bound)


@njit(fastmath={"reassoc"}, error_model="numpy")
def _loss(x, y, kind, half, bound, divisor):
    total = 0.0
    if kind == SQUARE:
        for j in range(x.size):
            d = x[j] - y[j]
            total += d * d
    elif kind == ABSOLUTE:
        for j in range(x.size):
            total += abs(x[j] - y[j])
    else:
        for j in range(x.size):
            total += _quadratic_then_linear(x[j] - y[j], half, bound) / divisor
    return total


@shared()
def losses(x, y, kind, half, bound, divisor, out, start, stop):
    """Of each block the sum, in double precision."""
    for block in range(start, stop):
        low, high = block * BLOCK, min(x.size, (block + 1) * BLOCK)
        out[block] = _loss(x[low:high], y[low:high], kind, half, bound, divisor)


@shared()
def slopes(x, y, kind, share, bound, divisor, out, start, stop):
    x, y, out = x[start:stop], y[start:stop], out[start:stop]
    one = x.dtype.type(1)
    if kind == SQUARE:
        for j in range(x.size):
            d = x[j] - y[j]
            out[j] = share * (d + d)
    elif kind == ABSOLUTE:
        for j in range(x.size):
            d = x[j] - y[j]
            out[j] = share * (one if d > 0 else -one if d < 0 else d)
    else:
        for j in range(x.size):
            d = x[j] - y[j]
            d = -bound if d < -bound else d
            d = bound if d > bound else d
            out[j] = share * (d / divisor)
