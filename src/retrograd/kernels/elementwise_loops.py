"""The compiled loops over elements that take NumPy several passes: masks with a factor, losses of differences."""
# mypy: disable-error-code="no-untyped-def, type-arg"

from __future__ import annotations

from math import factorial

import numpy as np
from numba import types
from numba.extending import overload

from .elementwise import ABSOLUTE, BLOCK, LOGITS, SOFT_MARGIN, SQUARE
from .loops import _exp as _exp_single
from .machine.native import shared
from .machine.objects import njit


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


@shared()
def chosen_or_number(condition, wanted, x, number, out, start, stop):
    """``x`` where the condition is as wanted, else the number."""
    condition, x, out = condition[start:stop], x[start:stop], out[start:stop]
    for j in range(x.size):
        out[j] = x[j] if condition[j] == wanted else number


@shared()
def filled(out, condition, number, start, stop):
    """The number written over the elements where the condition is true."""
    out, condition = out[start:stop], condition[start:stop]
    for j in range(out.size):
        out[j] = number if condition[j] else out[j]


@njit(inline="always")
def _quadratic_then_linear(d, half, bound):
    a = abs(d)
    return half * d * d if a < bound else bound * (a - half * bound)


# Losses of scores, in double precision for both dtypes

_E = tuple([1.0 / factorial(k) for k in range(14)])
_L = tuple([1.0 / (2 * k + 1) for k in range(11)])


@njit(inline="always")
def _exp_down(x):
    """e^x of x up to 0: 2^n e^r with x = n log 2 + r and Taylor's polynomial; 0 where it would be a denormal number."""
    y = -708.0 if x < -708.0 else x
    t = y * 1.4426950408889634 + 6755399441055744.0  # rounds to n, which stands in the lowest bits of t
    n = t - 6755399441055744.0
    r = y - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10
    p = ((_E[13] * r + _E[12]) * r + _E[11]) * r + _E[10]
    p = (((p * r + _E[9]) * r + _E[8]) * r + _E[7]) * r + _E[6]
    p = (((p * r + _E[5]) * r + _E[4]) * r + _E[3]) * r + _E[2]
    p = p * r * r + r + 1.0
    scale = np.int64((np.float64(t).view(np.int64) - 0x4338000000000000 + 1023) << 52).view(np.float64)
    return 0.0 if x < -708.0 else p * scale


@njit(inline="always")
def _log1p_down(t):
    """log(1 + t) for t in [0, 1]: 2 artanh of ``t / (2 + t)``; where that is large, of (1 + t) / 2 and log 2."""
    far = t > 0.41421356237309503
    s = (t - 1.0 if far else t) / (3.0 + t if far else 2.0 + t)
    z = s * s
    p = ((_L[10] * z + _L[9]) * z + _L[8]) * z + _L[7]
    p = (((p * z + _L[6]) * z + _L[5]) * z + _L[4]) * z + _L[3]
    p = ((p * z + _L[2]) * z + _L[1]) * z + 1.0
    return 2.0 * s * p + (0.6931471805599453 if far else 0.0)


@njit(inline="always")
def _softplus(x):
    """log(1 + e^x)."""
    return (x if x > 0.0 else 0.0) + _log1p_down(_exp_down(-abs(x)))


@njit(inline="always")
def _sigmoid(x):
    t = _exp_down(-abs(x))
    return (1.0 if x >= 0.0 else t) / (1.0 + t)


@njit(inline="always")
def _logits_loss(x, y):
    size = abs(x)
    return size * (1.0 - y if x > 0.0 else y) + _log1p_down(_exp_down(-size))


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
    elif kind == LOGITS:
        for j in range(x.size):
            total += _logits_loss(np.float64(x[j]), np.float64(y[j]))
    elif kind == SOFT_MARGIN:
        for j in range(x.size):
            total += _softplus(-np.float64(x[j]) * np.float64(y[j]))
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
    elif kind == LOGITS:
        for j in range(x.size):
            out[j] = share * (_sigmoid(np.float64(x[j])) - y[j])
    elif kind == SOFT_MARGIN:
        for j in range(x.size):
            out[j] = -share * y[j] * _sigmoid(-np.float64(x[j]) * np.float64(y[j]))
    else:
        for j in range(x.size):
            d = x[j] - y[j]
            d = -bound if d < -bound else d
            d = bound if d > bound else d
            out[j] = share * (d / divisor)


# Functions of x, and derivatives, of g and x or the result: with the numbers of their references, where NaN goes the
# same way, and with constants in their dtype.


def _function(function):
    """``out[j] = function(x[j], *numbers)``."""

    def body(x, numbers, out, start, stop):
        x, out = x[start:stop], out[start:stop]
        for j in range(x.size):
            out[j] = function(x[j], *numbers)

    body.__name__ = function.__name__
    function = _inlined(function)
    return shared()(body)


def _derivative(function):
    """``out[j] = function(g[j], x[j], *numbers)``."""

    def body(g, x, numbers, out, start, stop):
        g, x, out = g[start:stop], x[start:stop], out[start:stop]
        for j in range(x.size):
            out[j] = function(g[j], x[j], *numbers)

    body.__name__ = function.__name__
    function = _inlined(function)
    return shared()(body)


_inlined = njit(forceinline=True, error_model="numpy")


@_function
def bounded(x, low, high):
    """Also where a bound is NaN."""
    y = x if (x >= low) | (x != x) else low
    return y if (y <= high) | (y != y) else high


@_derivative
def clamp_backward(g, x, low, high, zero):
    return g if (x >= low) & (x <= high) else zero


@_derivative
def hardtanh_backward(g, x, low, high, zero):
    return zero if (x <= low) | (x >= high) else g


@_function
def hardsigmoid(x, three, six, zero, sixth):
    y = x + three
    y = zero if y < zero else y
    return (six if y > six else y) * sixth


@_derivative
def hardsigmoid_backward(g, x, three, zero, sixth):
    return g * sixth if (x > -three) & (x < three) else zero


@_function
def hardswish(x, three, six, zero, sixth):
    y = x + three
    y = zero if y < zero else y
    return x * (six if y > six else y) * sixth


@_derivative
def hardswish_backward(g, x, three, zero, third, half):
    inner = zero if x <= -three else g * (x * third + half)
    return g if x >= three else inner


@_derivative
def shrinkage_backward(g, x, bound, zero):
    return zero if (x >= -bound) & (x <= bound) else g


@_function
def hardshrink(x, bound, zero):
    return zero if (x >= -bound) & (x <= bound) else x


@_function
def softshrink(x, bound):
    inner = -bound if x < -bound else x
    return x - (bound if inner > bound else inner)


@_function
def threshold(x, bound, value):
    return value if x <= bound else x


@_derivative
def threshold_backward(g, x, bound, zero):
    return zero if x <= bound else g


@_function
def leaky_relu(x, slope, zero):
    return x if x > zero else slope * x


@_derivative
def leaky_relu_backward(g, x, slope, zero):
    return g if x > zero else slope * g


@njit(inline="always")
def _exp_double(x):
    e = _exp_down(-abs(x))
    return e if x < 0.0 else 1.0 / e


@njit(inline="always")
def _expm1_double(x):
    """Near 0 by its series."""
    p = _E[13]
    for k in range(12, 0, -1):
        p = p * x + _E[k]
    return p * x if abs(x) < 0.35 else _exp_double(x) - 1.0


_E_SINGLE = tuple([np.float32(1.0 / factorial(k)) for k in range(9)])


@njit(inline="always")
def _expm1_single(x):
    p = _E_SINGLE[8]
    for k in range(7, 0, -1):
        p = p * x + _E_SINGLE[k]
    return p * x if abs(x) < np.float32(0.35) else _exp_single(x) - np.float32(1)


def _exp(x):
    """e^x in the precision of x."""


def _expm1(x):
    """e^x - 1 in the precision of x."""


@overload(_exp, inline="always")
def _exp_of(x):
    return (lambda x: _exp_single(x)) if x is types.float32 else (lambda x: _exp_double(x))


@overload(_expm1, inline="always")
def _expm1_of(x):
    return (lambda x: _expm1_single(x)) if x is types.float32 else (lambda x: _expm1_double(x))


@_function
def elu(x, scale, alpha, width, zero):
    below = scale * alpha * _expm1((x if x < 0 else zero) / width)
    return scale * x if (x > 0) | (x != x) else below


@_derivative
def elu_backward(g, x, scale, alpha, width, zero, one):
    slope = alpha / width * _exp((x if x < 0 else zero) / width)
    return g * (scale * (slope if x <= 0 else one))


@_function
def sign(x, zero, one):
    return one if x > zero else -one if x < zero else zero if x == zero else x


@_derivative
def abs_backward(g, x, zero, one):
    return g * (one if x > zero else -one if x < zero else zero if x == zero else x)


@_derivative
def square_backward(g, x, two):
    return g * (two * x)


@_derivative
def sqrt_backward(g, y, two):
    return g / (two * y)


@_function
def rsqrt(x, one):
    return one / np.sqrt(x)


@_derivative
def rsqrt_backward(g, y, minus_half):
    return g * (minus_half * y * y * y)


@_derivative
def reciprocal_backward(g, y):
    return -g * y * y


# Special functions of float32 numbers, in double precision


@njit(inline="always")
def _log(x):
    """Of positive normal numbers: with x = 2^n m, n log 2 and 2 artanh of ``(m - 1) / (m + 1)``."""
    bits = np.float64(x).view(np.int64)
    n = (bits - 0x3FE6A09E667F3BCD) >> 52  # so that m is between the roots of 1/2 and 2
    m = np.int64(bits - (n << 52)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = (((_L[8] * z + _L[7]) * z + _L[6]) * z + _L[5]) * z + _L[4]
    p = (((p * z + _L[3]) * z + _L[2]) * z + _L[1]) * z + 1.0
    return 0.6931471805599453 * np.float64(np.int32(n)) + 2.0 * s * p


# Fitted to ``erfinv(x) / x`` as a function of w = -log(1 - x^2), and of its root beyond 5, to a relative error of 4e-9
_ERFINV_NEAR = (
    4.14957746259e-06,
    -3.33398092938e-05,
    2.51574353209e-05,
    0.000284075152842,
    -0.000836468738216,
    -0.000484349950675,
    0.00852593449784,
    -0.0195741940071,
    -0.0261082807621,
    0.616600723474,
    1.50140935173,
)
_ERFINV_FAR = (
    -1.60591699038e-05,
    5.84877088539e-05,
    -3.74744779019e-05,
    -0.000210893535022,
    0.000765882858359,
    -0.00155414537063,
    0.00247748757062,
    -0.00379803470893,
    0.00556217379255,
    0.935970650029,
    3.00152680944,
)


@njit(inline="always")
def _horner(coefficients, x):
    """The polynomial with these coefficients, highest power first."""
    p = coefficients[0]
    for k in range(1, len(coefficients)):
        p = p * x + coefficients[k]
    return p


@_function
def erfinv(x):
    """Infinite at -1 and 1, NaN beyond."""
    x = np.float64(x)
    inside = (1.0 - x) * (1.0 + x)
    w = -_log(inside if inside > 0.0 else 1.0)
    near = _horner(_ERFINV_NEAR, (w - 2.5) / 2.5)
    middle, width = (4.1 + 2.23606797749979) / 2, (4.1 - 2.23606797749979) / 2
    y = x * (near if w < 5.0 else _horner(_ERFINV_FAR, (np.sqrt(w) - middle) / width))
    return y if inside > 0.0 else x / inside if inside == 0.0 else np.nan


_COSINE = tuple([(-1) ** k / factorial(2 * k) for k in range(10, -1, -1)])
_SINE = tuple([(-1) ** k / factorial(2 * k + 1) for k in range(10, -1, -1)])
_BERNOULLI = 7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6  # B14 to B2
_STIRLING = tuple([number / (14 - 2 * k) for k, number in enumerate(_BERNOULLI)])
_STIRLING_OF_LOG = tuple([number / (13 - 2 * k) for k, number in enumerate(_STIRLING)])
_SHIFT = 6  # by how much arguments are moved to where the asymptotic series hold (DLMF 5.11), by the recurrence


@njit(inline="always")
def _sine(x):
    """Of pi x, for x between -1/2 and 1/2."""
    return np.pi * x * _horner(_SINE, np.pi * np.pi * x * x)


@njit(inline="always")
def _cotangent(x):
    """Of pi x, for x between -1/2 and 1/2: infinite at 0."""
    return _horner(_COSINE, np.pi * np.pi * x * x) / _sine(x)


@_function
def lgamma(x):
    """The logarithm of |gamma(x)|: below 0 by reflection (DLMF 5.5)."""
    x = np.float64(x)
    y = 1.0 - x if x < 0.0 else x
    product = 1.0
    for k in range(_SHIFT):
        product = product * (y + k)
    z = y + _SHIFT
    value = (z - 0.5) * _log(z) - z + 0.9189385332046727 + _horner(_STIRLING_OF_LOG, 1.0 / (z * z)) / z
    value = value - _log(product if product > 0.0 else 1.0)
    rest = x - np.rint(x)
    value = _log(np.pi / abs(_sine(rest if rest != 0.0 else 0.5))) - value if x < 0.0 else value
    value = 0.0 if (x == 1.0) | (x == 2.0) else value
    return np.inf if (x <= 0.0) & (rest == 0.0) | (abs(x) == np.inf) else value


@_function
def digamma(x):
    """The derivative of ``lgamma``, likewise."""
    x = np.float64(x)
    y = 1.0 - x if x < 0.0 else x
    product, first = 1.0, 0.0  # y (y + 1) ... (y + 5), and its derivative
    for k in range(_SHIFT):
        first = first * (y + k) + product
        product = product * (y + k)
    z = y + _SHIFT
    w = 1.0 / (z * z)
    value = _log(z) - 0.5 / z - w * _horner(_STIRLING, w) - first / product
    rest = x - np.rint(x)
    value = value - np.pi * _cotangent(rest) if x < 0.0 else value
    value = np.nan if (x < 0.0) & (rest == 0.0) else -1.0 / x if x == 0.0 else value
    return value if abs(x) < np.inf else x if x == np.inf else np.nan


@_function
def trigamma(x):
    """The derivative of ``digamma``, likewise."""
    x = np.float64(x)
    y = 1.0 - x if x < 0.0 else x
    product, first, second = 1.0, 0.0, 0.0
    for k in range(_SHIFT):
        second = second * (y + k) + 2.0 * first
        first = first * (y + k) + product
        product = product * (y + k)
    z = y + _SHIFT
    w = 1.0 / (z * z)
    value = (first / product) ** 2 - second / product + (1.0 + 0.5 / z + w * _horner(_BERNOULLI, w)) / z
    value = np.pi * np.pi * (1.0 + _cotangent(x - np.rint(x)) ** 2) - value if x < 0.0 else value
    value = np.inf if (x <= 0.0) & (x == np.rint(x)) else value
    return 0.0 if x == np.inf else value


# Functions of pairs of float32 numbers, in double precision: of two arrays, or of one and of one that is repeated


@njit(inline="always")
def _place(x, size, start, end):
    """Where in an array, of this size or repeated, a part of the result has its elements."""
    at = start if x.size == size else start % x.size
    return x[at : at + end - start]


@njit(inline="always")
def _end(x, y, start, stop):
    """How far a part from ``start`` on may go that leaves no array's end behind."""
    period = min(x.size, y.size)
    return min(stop, start + min(BLOCK, period - start % period))


def _pairs(function):
    """``out[j] = function(x[j], y[j])``."""

    def body(x, y, out, start, stop):
        while start < stop:
            end = _end(x, y, start, stop)
            xs, ys, results = _place(x, out.size, start, end), _place(y, out.size, start, end), out[start:end]
            for j in range(results.size):
                results[j] = function(np.float64(xs[j]), np.float64(ys[j]))
            start = end

    body.__name__ = function.__name__
    function = _inlined(function)
    return shared()(body)


@_pairs
def hypot(x, y):
    length = np.sqrt(x * x + y * y)
    return np.inf if (abs(x) == np.inf) | (abs(y) == np.inf) else length


@_pairs
def logaddexp(x, y):
    d = x - y
    return (x if x > y else y) + _log1p_down(_exp_down(-(0.0 if x == y else abs(d))))


_EXACT = 268435456.0  # quotients of float32 numbers up to here have products that double precision holds


@njit(inline="always")
def _quotient(x, y):
    """That of absolute values, cut to a whole number."""
    return np.trunc(abs(np.float64(x)) / abs(np.float64(y)))


@njit(inline="always")
def _rest(x, y):
    """C's remainder, where the quotient is exact: a quotient that was rounded up is one too large."""
    size = abs(np.float64(y))
    rest = abs(np.float64(x)) - _quotient(x, y) * size
    return np.float32(np.copysign(rest + size if rest < 0.0 else rest, np.float64(x)))


@njit(inline="always")
def _is_exact(x, y):
    return (abs(y) < np.inf) & (_quotient(x, y) < _EXACT)


def _divisions(function):
    """``out[j] = function(x[j], y[j], rest)``, with C's remainder, whose own function is called where it must be."""

    def body(x, y, out, start, stop):
        while start < stop:
            end = _end(x, y, start, stop)
            xs, ys, results = _place(x, out.size, start, end), _place(y, out.size, start, end), out[start:end]
            exact = True
            for j in range(results.size):
                exact &= _is_exact(xs[j], ys[j])
                results[j] = function(xs[j], ys[j], _rest(xs[j], ys[j]))
            if not exact:
                for j in range(results.size):
                    if not _is_exact(xs[j], ys[j]):
                        results[j] = function(xs[j], ys[j], np.float32(np.fmod(np.float64(xs[j]), np.float64(ys[j]))))
            start = end

    body.__name__ = function.__name__
    function = _inlined(function)
    return shared()(body)


@_divisions
def fmod_of(x, y, rest):
    return rest


@_divisions
def remainder(x, y, rest):
    """With the divisor's sign."""
    moved = rest + y if (y < 0) != (rest < 0) else rest
    return moved if (rest != 0) | (y == 0) else np.copysign(np.float32(0), y)


@_divisions
def floor_divide(x, y, rest):
    """As Python divides: the quotient less the remainder, rounded."""
    half, one = np.float32(0.5), np.float32(1)
    quotient = (x - rest) / y
    quotient = quotient - one if (rest != 0) & ((y < 0) != (rest < 0)) else quotient
    whole = np.floor(quotient)
    whole = whole + one if quotient - whole > half else whole
    whole = whole if quotient != 0 else np.copysign(np.float32(0), x / y)
    return x / y if y == 0 else whole
