"""The compiled loops of special functions and of binary functions on float32, computed in double precision."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

import numpy as np

from ...runtime.loop_calls import Loop
from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared
from .elementwise import BLOCK
from .elementwise_loops import _inlined
from .scalar_functions import exp_down, horner, log, log1p_down

# Fitted to ``erfinv(x) / x`` as a function of w = -log(1 - x^2), or of sqrt(w) for w > 5; relative error 4e-9
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


def _function(function: Callable[[float], float]) -> Loop:
    """The loop that writes ``function(x[j])`` to ``out[j]``."""

    def body(x: np.ndarray, numbers: tuple[()], out: np.ndarray, start: int, stop: int) -> None:
        x, out = x[start:stop], out[start:stop]
        for j in range(x.size):
            out[j] = function(x[j])

    body.__name__ = function.__name__
    function = _inlined(function)
    return shared()(body)


@_function
def erfinv(x: float) -> float:
    """The inverse error function: infinite at -1 and 1, NaN outside of them."""
    x = np.float64(x)
    inside = (1.0 - x) * (1.0 + x)
    w = -log(inside if inside > 0.0 else 1.0)
    near = horner(_ERFINV_NEAR, (w - 2.5) / 2.5)
    middle, width = (4.1 + 2.23606797749979) / 2, (4.1 - 2.23606797749979) / 2
    y = x * (near if w < 5.0 else horner(_ERFINV_FAR, (np.sqrt(w) - middle) / width))
    return y if inside > 0.0 else x / inside if inside == 0.0 else np.nan


# Fitted to ``erfcx(x) / t`` as a function of t = 1 / (1 + 0.35 x), for x from 0 to 11, to a relative error of 2e-9
_ERFCX = (
    -1.87476571318e-06,
    9.21938059075e-06,
    3.49583107035e-05,
    -0.000127585980796,
    -0.000678569288616,
    0.000596708082729,
    0.0140167057788,
    0.0615134793887,
    0.164795125254,
    0.314137737758,
    0.445704097476,
)


@_function
def erfc(x: float) -> float:
    """The complementary error function, accurate down to the smallest subnormal number."""
    x = np.float64(x)
    a = 11.0 if abs(x) > 11.0 else abs(x)
    t = 1.0 / (1.0 + 0.35 * a)
    least = 1.0 / (1.0 + 0.35 * 11.0)
    y = exp_down(-a * a) * t * horner(_ERFCX, (2.0 * t - 1.0 - least) / (1.0 - least))
    return 2.0 - y if x < 0.0 else y


_COSINE = tuple([(-1) ** k / factorial(2 * k) for k in range(10, -1, -1)])
_SINE = tuple([(-1) ** k / factorial(2 * k + 1) for k in range(10, -1, -1)])
_BERNOULLI = 7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6  # the Bernoulli numbers B14 to B2
_STIRLING = tuple([number / (14 - 2 * k) for k, number in enumerate(_BERNOULLI)])
_STIRLING_OF_LOG = tuple([number / (13 - 2 * k) for k, number in enumerate(_STIRLING)])
_SHIFT = 6  # added to arguments, by the recurrence, so that the asymptotic series (DLMF 5.11) converges


@njit(inline="always")
def _sine(x: float) -> float:
    """``sin(pi x)`` for x between -1/2 and 1/2."""
    return np.pi * x * horner(_SINE, np.pi * np.pi * x * x)


@njit(inline="always")
def _cotangent(x: float) -> float:
    """``cot(pi x)`` for x between -1/2 and 1/2; infinite at 0."""
    return horner(_COSINE, np.pi * np.pi * x * x) / _sine(x)


@_function
def lgamma(x: float) -> float:
    """The logarithm of |gamma(x)|, for x < 0 by reflection (DLMF 5.5)."""
    x = np.float64(x)
    y = 1.0 - x if x < 0.0 else x
    product = 1.0
    for k in range(_SHIFT):
        product = product * (y + k)
    z = y + _SHIFT
    value = (z - 0.5) * log(z) - z + 0.9189385332046727 + horner(_STIRLING_OF_LOG, 1.0 / (z * z)) / z
    value = value - log(product if product > 0.0 else 1.0)
    rest = x - np.rint(x)
    value = log(np.pi / abs(_sine(rest if rest != 0.0 else 0.5))) - value if x < 0.0 else value
    value = 0.0 if (x == 1.0) | (x == 2.0) else value
    return np.inf if (x <= 0.0) & (rest == 0.0) | (abs(x) == np.inf) else value


@_function
def digamma(x: float) -> float:
    """The derivative of ``lgamma``, computed in the same way."""
    x = np.float64(x)
    y = 1.0 - x if x < 0.0 else x
    product, first = 1.0, 0.0  # y (y + 1) ... (y + 5), and its derivative
    for k in range(_SHIFT):
        first = first * (y + k) + product
        product = product * (y + k)
    z = y + _SHIFT
    w = 1.0 / (z * z)
    value = log(z) - 0.5 / z - w * horner(_STIRLING, w) - first / product
    rest = x - np.rint(x)
    value = value - np.pi * _cotangent(rest) if x < 0.0 else value
    value = np.nan if (x < 0.0) & (rest == 0.0) else -1.0 / x if x == 0.0 else value
    return value if abs(x) < np.inf else x if x == np.inf else np.nan


@_function
def trigamma(x: float) -> float:
    """The derivative of ``digamma``, computed in the same way."""
    x = np.float64(x)
    y = 1.0 - x if x < 0.0 else x
    product, first, second = 1.0, 0.0, 0.0
    for k in range(_SHIFT):
        second = second * (y + k) + 2.0 * first
        first = first * (y + k) + product
        product = product * (y + k)
    z = y + _SHIFT
    w = 1.0 / (z * z)
    value = (first / product) ** 2 - second / product + (1.0 + 0.5 / z + w * horner(_BERNOULLI, w)) / z
    value = np.pi * np.pi * (1.0 + _cotangent(x - np.rint(x)) ** 2) - value if x < 0.0 else value
    value = np.inf if (x <= 0.0) & (x == np.rint(x)) else value
    return 0.0 if x == np.inf else value


# Binary functions, where one of the arrays may be repeated


@njit(inline="always")
def _place(x: np.ndarray, size: int, start: int, end: int) -> np.ndarray:
    """Return the range of an array, possibly repeated, that corresponds to a part of the result."""
    at = start if x.size == size else start % x.size
    return x[at : at + end - start]


@njit(inline="always")
def _end(x: np.ndarray, y: np.ndarray, start: int, stop: int) -> int:
    """Return the end of the longest part from ``start`` on that does not cross the end of a repeated array."""
    period = min(x.size, y.size)
    return min(stop, start + min(BLOCK, period - start % period))


def _pairs(function: Callable[[float, float], float]) -> Loop:
    """``out[j] = function(x[j], y[j])``."""

    def body(x: np.ndarray, y: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
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
def hypot(x: float, y: float) -> float:
    length = np.sqrt(x * x + y * y)
    return np.inf if (abs(x) == np.inf) | (abs(y) == np.inf) else length


@_pairs
def logaddexp(x: float, y: float) -> float:
    d = x - y
    return (x if x > y else y) + log1p_down(exp_down(-(0.0 if x == y else abs(d))))


_EXACT = 268435456.0  # if the quotient of two float32 numbers is smaller, quotient * divisor is exact in float64


@njit(inline="always")
def _quotient(x: np.floating, y: np.floating) -> np.floating:
    """Return the quotient of the absolute values, truncated."""
    return np.trunc(abs(np.float64(x)) / abs(np.float64(y)))


@njit(inline="always")
def _rest(x: np.floating, y: np.floating) -> np.floating:
    """Return C's remainder if the quotient is below ``_EXACT``; rounding may have made the quotient one too large."""
    size = abs(np.float64(y))
    rest = abs(np.float64(x)) - _quotient(x, y) * size
    return np.float32(np.copysign(rest + size if rest < 0.0 else rest, np.float64(x)))


@njit(inline="always")
def _is_exact(x: np.floating, y: np.floating) -> bool:
    return (abs(y) < np.inf) & (_quotient(x, y) < _EXACT)


def _divisions(function: Callable[[np.floating, np.floating, np.floating], np.floating]) -> Loop:
    """``out[j] = function(x[j], y[j], rest)``, with C's remainder; ``fmod`` is called only for large quotients."""

    def body(x: np.ndarray, y: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
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
def fmod_of(x: np.floating, y: np.floating, rest: np.floating) -> np.floating:
    return rest


@_divisions
def remainder(x: np.floating, y: np.floating, rest: np.floating) -> np.floating:
    """The remainder with the divisor's sign."""
    moved = rest + y if (y < 0) != (rest < 0) else rest
    return moved if (rest != 0) | (y == 0) else np.copysign(np.float32(0), y)


@_divisions
def floor_divide(x: np.floating, y: np.floating, rest: np.floating) -> np.floating:
    """Python's floor division: the rounded quotient of the dividend minus the remainder."""
    half, one = np.float32(0.5), np.float32(1)
    quotient = (x - rest) / y
    quotient = quotient - one if (rest != 0) & ((y < 0) != (rest < 0)) else quotient
    whole = np.floor(quotient)
    whole = whole + one if quotient - whole > half else whole
    whole = whole if quotient != 0 else np.copysign(np.float32(0), x / y)
    return x / y if y == 0 else whole
