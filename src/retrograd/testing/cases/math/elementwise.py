"""Example calls of the operators in ``ops/math/``, by module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....core.arrays import Array
from ...case import Call, Calls, Case, Fixed, together

CASES: list[Case] = []


# arithmetic: Cases of elementwise arithmetic, and the draws that the other elementwise families share.

Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Standard normal numbers."""
    return np.asarray(rng.standard_normal(shape))


def uniform(low: float, high: float) -> Draw:
    """Uniform numbers between two bounds."""
    return lambda rng, shape: np.asarray(rng.uniform(low, high, shape))


def apart(*kinks: float, scale: float = 1.0) -> Draw:
    """Normal numbers at least 0.05 away from each of the kinks."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        x = scale * rng.standard_normal(shape)
        for kink in kinks:
            x = np.where(np.abs(x - kink) < 0.05, x + 0.2, x)
        return np.asarray(x)

    return draw


def complex_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Complex numbers with standard normal parts."""
    return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))


away_from_zero = apart(0.0)
positive = uniform(0.3, 3.0)
unit = uniform(0.1, 0.9)
SHAPES: tuple[tuple[int, ...], ...] = ((2, 3), (), (0, 2))
PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3), (2, 3)),
    ((2, 1, 3), (4, 1)),
    ((3,), ()),
    ((), (2, 2)),
    ((0, 3), (3,)),
)


def unary_calls(
    draw: Draw = normal, *args: object, also: Draw | None = None, empty: bool = True, **kwargs: object
) -> Calls:
    """Return calls on a matrix, a scalar and an empty tensor; with ``also``, on a vector of numbers that it draws."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for shape in SHAPES if empty else SHAPES[:2]:
            yield Call(draw(rng, shape), *args, **kwargs)
        if also is not None:
            yield Call(also(rng, (3,)), *args, **kwargs)

    return calls


def binary_calls(
    draw: Draw = normal,
    draw_other: Draw | None = None,
    *,
    number: bool = True,
    also: Draw | None = None,
    **kwargs: object,
) -> Calls:
    """Return calls on equal shapes, shapes that broadcast, 0-d and a number; with ``also``, on vectors it draws."""
    other = draw_other or draw

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for left, right in PAIRS:
            yield Call(draw(rng, left), other(rng, right), **kwargs)
        if number:
            yield Call(draw(rng, (3,)), float(other(rng, ())), **kwargs)
        if also is not None:
            yield Call(also(rng, (3,)), also(rng, (3,)), **kwargs)

    return calls


def at(*values: float, **kwargs: object) -> Calls:
    """One call on a vector of chosen values."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(np.array(values, dtype=np.float64), **kwargs)

    return calls


def at_pairs(*pairs: tuple[float, float]) -> Calls:
    """One call on two vectors of chosen values."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        first, second = np.array(pairs, dtype=np.float64).T
        yield Call(first.copy(), second.copy())

    return calls


def quotient_draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Dividends for divisors near 1, with quotients away from whole numbers."""
    return np.asarray(rng.integers(-4, 4, shape) + rng.uniform(0.4, 0.6, shape))


near_one = uniform(0.99, 1.01)
INF, NAN = float("inf"), float("nan")


CASES += [
    Case("add", together(binary_calls(also=complex_normal), binary_calls(number=False, alpha=2.5))),
    Case("sub", together(binary_calls(also=complex_normal), binary_calls(number=False, alpha=-0.5))),
    Case("rsub", together(binary_calls(), binary_calls(number=False, alpha=2)), lambda x, y, alpha=1: y - alpha * x),
    Case("mul", binary_calls(also=complex_normal), np.multiply),
    Case(
        "div",
        together(
            binary_calls(normal, positive, also=complex_normal),
            binary_calls(quotient_draw, near_one, rounding_mode="floor"),
            binary_calls(quotient_draw, near_one, rounding_mode="trunc"),
        ),
    ),
    Case("true_divide", binary_calls(normal, positive), np.true_divide),
    Case("floor_divide", binary_calls(quotient_draw, near_one), np.floor_divide, torch=""),
    Case("remainder", binary_calls(quotient_draw, near_one), np.remainder, torch=""),
    Case("fmod", binary_calls(quotient_draw, near_one), np.fmod),
    Case("neg", unary_calls(also=complex_normal), np.negative),
    Case("positive", unary_calls(empty=False), np.positive),
    Case(
        "abs",
        unary_calls(away_from_zero),
        np.abs,
        edge_calls=together(at(0.0, -0.0, INF, -INF), unary_calls(complex_normal)),
    ),
    Case("sign", unary_calls(away_from_zero), np.sign, edge_calls=at(0.0, INF, -INF)),
    Case("sgn", unary_calls(away_from_zero, also=complex_normal), edge_calls=at(0.0, INF)),
]


# bounds: Cases of maxima, minima and bounds.

TIES = at_pairs((1.0, 1.0), (NAN, 1.0), (1.0, NAN), (INF, INF), (0.0, -0.0), (2.0, 1.0))


def clamp_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = apart(-0.5, 0.7)
    for bounds in ({"min": -0.5, "max": 0.7}, {"min": -0.5}, {"max": 0.7}):
        for shape in ((2, 3), (), (0, 2)):
            yield Call(draw(rng, shape), **bounds)
    low, high = uniform(-1.0, -0.3)(rng, (3,)), uniform(0.3, 1.0)(rng, (2, 1))
    yield Call(normal(rng, (2, 3)), low, high)
    yield Call(normal(rng, (2, 3)), low)
    yield Call(normal(rng, (2, 3)), None, high)


def clamp_edges(rng: np.random.Generator) -> Iterator[Call]:
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, NAN])
    yield Call(x, -1.0, 1.0)
    yield Call(x, 1.0, -1.0)
    yield Call(x, -1)
    yield Call(x, np.array(-1.0), np.array(1.0))
    yield Call(x, np.array([1.0]), np.array([-1.0]))


CASES += [
    Case("maximum", binary_calls(number=False), np.maximum, edge_calls=TIES),
    Case("minimum", binary_calls(number=False), np.minimum, edge_calls=TIES),
    Case("fmax", binary_calls(number=False), np.fmax, edge_calls=TIES),
    Case("fmin", binary_calls(number=False), np.fmin, edge_calls=TIES),
    Case("clamp", clamp_calls, edge_calls=clamp_edges),
    Case(
        "clamp_min",
        together(binary_calls(number=False), unary_calls(apart(0.3), 0.3)),
        np.maximum,
        edge_calls=at(1.0, 2.0, min=1.0),
    ),
    Case(
        "clamp_max",
        together(binary_calls(number=False), unary_calls(apart(0.3), 0.3)),
        np.minimum,
        edge_calls=at(1.0, 2.0, max=1.0),
    ),
    Case(
        "nan_to_num",
        unary_calls(),
        np.nan_to_num,
        edge_calls=together(at(NAN, INF, -INF, 1.0), at(NAN, INF, -INF, nan=1.0, posinf=2.0, neginf=3.0)),
    ),
    Case(
        "copysign", binary_calls(away_from_zero), np.copysign, edge_calls=at_pairs((0.0, 1.0), (1.0, -0.0), (2.0, 0.0))
    ),
]


# comparison: Cases of comparisons.

TIES_OF_COMPARISON = at_pairs((1.0, 1.0), (NAN, NAN), (0.0, -0.0), (INF, INF), (2.0, 1.0))
SPECIAL = at(0.0, -0.0, NAN, INF, -INF, 1.0)


def close_calls(rng: np.random.Generator) -> Iterator[Call]:
    x = np.array([1.0, 2.0, NAN, INF, -INF, 0.0])
    y = np.array([1.0 + 1e-7, 2.1, NAN, INF, INF, 1e-9])
    for options in ({}, {"rtol": 0.1}, {"atol": 0.2}, {"equal_nan": True}):
        yield Call(x, y, **options)
    yield Call(np.array([1, 2]), np.array([1, 3]))
    yield Call(x[:2], x[:2].copy())


def equal_calls(rng: np.random.Generator) -> Iterator[Call]:
    x = rng.standard_normal((2, 3))
    yield Call(x, x.copy())
    yield Call(x, x + 1)
    yield Call(x, x[0])
    yield Call(np.array([NAN]), np.array([NAN]))


def none(name: str, calls: Calls, reference: Any = None, **options: Any) -> Case:
    """A case without derivatives."""
    return Case(name, calls, reference, order=0, dtypes=(), **options)


CASES += [
    *(
        none(name, binary_calls(), ufunc, edge_calls=TIES_OF_COMPARISON)
        for name, ufunc in {
            "eq": np.equal,
            "ne": np.not_equal,
            "lt": np.less,
            "le": np.less_equal,
            "gt": np.greater,
            "ge": np.greater_equal,
        }.items()
    ),
    none("isnan", unary_calls(), np.isnan, edge_calls=SPECIAL),
    none("isinf", unary_calls(), np.isinf, edge_calls=SPECIAL),
    none("isfinite", unary_calls(), np.isfinite, edge_calls=SPECIAL),
    none("isposinf", unary_calls(), np.isposinf, edge_calls=SPECIAL),
    none("isneginf", unary_calls(), np.isneginf, edge_calls=SPECIAL),
    none("signbit", unary_calls(), np.signbit, edge_calls=SPECIAL),
    none("isclose", close_calls, np.isclose),
    none("allclose", close_calls, np.allclose),
    none("equal", equal_calls, np.array_equal),
]


# complex_numbers: Cases of complex numbers.

narrow = ("float32",)


def pairs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal((*shape, 2))


CASES += [
    Case("real", unary_calls(complex_normal, empty=False, also=normal), np.real, dtypes=narrow),
    Case("imag", unary_calls(complex_normal, empty=False), np.imag, dtypes=narrow),
    Case("conj", unary_calls(complex_normal, empty=False, also=normal), np.conj, dtypes=narrow),
    Case("conj_physical", unary_calls(complex_normal, empty=False, also=normal), np.conj, dtypes=narrow),
    Case(
        "angle",
        unary_calls(complex_normal, also=away_from_zero),
        np.angle,
        dtypes=narrow,
        edge_calls=at(0.0, -0.0, 1.0),
    ),
    Case("view_as_real", unary_calls(complex_normal, empty=False), dtypes=narrow),
    Case("view_as_complex", unary_calls(pairs, empty=False), dtypes=narrow),
]


# complex_parts: Cases of complex numbers from their parts.


def reals(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(Fixed(np.array([1 + 0j, 1j, 0, np.nan])))
    yield Call(Fixed(rng.standard_normal((2, 3))))
    yield Call(np.array(3))


CASES += [
    Case("complex", binary_calls(normal, number=False), lambda x, y: x + 1j * y, dtypes=("float32",)),
    Case(
        "polar", binary_calls(positive, normal, number=False), lambda r, phi: r * np.exp(1j * phi), dtypes=("float32",)
    ),
    Case("isreal", reals, np.isreal, order=0, dtypes=()),
]


# exponential: Cases of exponentials and logarithms.


def reference_xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(x) * np.log(y)


LOGADDEXP_EDGES = at_pairs((0.0, 0.0), (1000.0, -1000.0), (-1000.0, 1000.0), (1000.0, 1000.0), (INF, 1.0), (-INF, 1.0))

CASES += [
    Case("exp", unary_calls(also=complex_normal), np.exp, edge_calls=at(-INF, INF, NAN, 1000.0)),
    Case("exp2", unary_calls(), np.exp2, edge_calls=at(-INF, INF)),
    Case("expm1", unary_calls(), np.expm1, edge_calls=at(-INF, 1e-20, 0.0)),
    Case("log", unary_calls(positive, also=complex_normal), np.log, edge_calls=at(0.0, -1.0, INF)),
    Case("log2", unary_calls(positive), np.log2, edge_calls=at(0.0, -1.0, INF)),
    Case("log10", unary_calls(positive), np.log10, edge_calls=at(0.0, -1.0, INF)),
    Case("log1p", unary_calls(uniform(-0.7, 3.0)), np.log1p, edge_calls=at(-1.0, -2.0, 1e-20, INF)),
    Case("sigmoid", unary_calls(also=complex_normal), edge_calls=at(-1000.0, 1000.0, -INF, INF, NAN)),
    Case(
        "logaddexp",
        binary_calls(number=False, also=complex_normal),
        lambda x, y: np.log(np.exp(x) + np.exp(y)) if np.iscomplexobj(x) else np.logaddexp(x, y),
        edge_calls=LOGADDEXP_EDGES,
    ),
    Case("logaddexp2", binary_calls(number=False), np.logaddexp2, edge_calls=LOGADDEXP_EDGES),
    Case(
        "xlogy",
        binary_calls(normal, positive),
        reference_xlogy,
        edge_calls=at_pairs((0.0, 0.5), (0.0, NAN), (2.0, 1.0), (0.0, 3.0)),
    ),
    Case("special.xlogy", binary_calls(normal, positive), reference_xlogy),
    Case(
        "special.xlog1py",
        binary_calls(normal, uniform(-0.5, 2.0)),
        lambda x, y: x * np.log1p(y),
        edge_calls=at_pairs((0.0, 0.5), (0.0, NAN), (2.0, 1.0), (0.0, 3.0)),
    ),
    Case(
        "logit",
        together(unary_calls(unit), unary_calls(unit, eps=0.05), unary_calls(uniform(0.7, 0.9), eps=0.4)),
        edge_calls=together(at(0.25, 0.5), at(-0.5, 0.1, 0.9, 1.5, eps=0.1)),
    ),
    Case("special.logit", unary_calls(unit, eps=0.05)),
    Case("special.exp2", unary_calls(), np.exp2),
    Case("special.expm1", unary_calls(), np.expm1),
    Case("special.log1p", unary_calls(positive), np.log1p),
    Case("special.expit", unary_calls(apart(scale=3.0))),
    Case("nn.functional.sigmoid", unary_calls(apart(scale=3.0))),
]


# floating_numbers: Cases of mantissa and exponent, of nextafter, and of heaviside.


def steps(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(Fixed(rng.standard_normal((2, 3))), Fixed(rng.standard_normal(3)))
    yield Call(Fixed(np.array([-1.0, 0.0, -0.0, 2.0, INF])), Fixed(np.array(0.5)))
    yield Call(np.array([-1, 0, 3]), np.array([[5], [6]]))
    yield Call(np.array([-1, 0, 3]), np.array(5))
    yield Call(Fixed(np.array(0.0)), Fixed(np.array(0.25)))


def neighbors(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(Fixed(rng.standard_normal((2, 3))), Fixed(rng.standard_normal(3)))
    yield Call(Fixed(np.array([0.0, 1.0, 1.0, INF, 1.0])), Fixed(np.array([-1.0, 1.0, INF, 0.0, NAN])))
    yield Call(Fixed(np.array(0.0)), Fixed(np.array(1.0)))


CASES += [
    Case("heaviside", steps, np.heaviside, order=0),
    Case("nextafter", neighbors, np.nextafter, order=0),
    Case("frexp", unary_calls(away_from_zero), np.frexp, edge_calls=at(0.0, -0.0, 5e-324, INF, NAN, 1e308)),
]


# integers: Cases of divisors and multiples of integers.


def pairs_of_integers(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.integers(-30, 30, (2, 3)), rng.integers(-30, 30, (2, 3)))
    yield Call(rng.integers(-30, 30, (2, 1, 3)), rng.integers(-30, 30, (4, 1)))
    yield Call(np.array([0, 0, 7]), np.array([0, 5, 0], np.int32))
    yield Call(np.array(12), np.array(18))
    yield Call(np.zeros((0, 3), np.int64), np.array([1, 2, 3]))


CASES += [
    Case("gcd", pairs_of_integers, np.gcd, order=0, dtypes=()),
    Case("lcm", pairs_of_integers, np.lcm, order=0, dtypes=()),
]


# interpolation: Cases of interpolation, and of sums with products and quotients.


def three(draw: Draw, draw_last: Draw, **kwargs: object) -> Calls:
    """Three inputs that broadcast."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for a, b, c in (((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), ()), ((), (2,), (1,)), ((0, 2), (2,), (2,))):
            yield Call(draw(rng, a), draw(rng, b), draw_last(rng, c), **kwargs)

    return calls


def lerp_calls(rng: np.random.Generator) -> Iterator[Call]:
    for weight in (unit(rng, (2, 3)), np.array([0.2]), 0.2, 0.7, 1.5, np.array(0.7)):
        yield Call(normal(rng, (2, 3)), normal(rng, (3,)), weight)


CASES += [
    Case("addcmul", together(three(normal, normal), three(normal, normal, value=2.5))),
    Case("addcdiv", together(three(normal, positive), three(normal, positive, value=2.5))),
    Case("lerp", lerp_calls),
]


# logic: Cases of logic and bits.


def integers(low: int, high: int, *, bools: bool = True) -> Calls:
    """Pairs of integers, of an array and a number, and of bools."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(rng.integers(low, high, (2, 3)), rng.integers(low, high, (3,)))
        yield Call(rng.integers(low, high, (2, 3)).astype(np.int32), 3)
        if bools:
            yield Call(rng.random((2, 3)) < 0.5, rng.random((2, 1)) < 0.5)

    return calls


def one_integer(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.integers(-9, 9, (2, 3)))
    yield Call(rng.random((2, 3)) < 0.5)


def truths(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.integers(-1, 2, (2, 3)), rng.integers(-1, 2, (3,)))
    yield Call(rng.random((2, 3)) < 0.5, rng.random((2, 1)) < 0.5)
    yield Call(np.array([0.0, 1.5, NAN]), np.array([1.0, 0.0, 1.0]))


CASES += [
    none("logical_and", truths, np.logical_and),
    none("logical_or", truths, np.logical_or),
    none("logical_xor", truths, np.logical_xor),
    none("logical_not", one_integer, np.logical_not, edge_calls=SPECIAL),
    none("bitwise_and", integers(-9, 9), np.bitwise_and),
    none("bitwise_or", integers(-9, 9), np.bitwise_or),
    none("bitwise_xor", integers(-9, 9), np.bitwise_xor),
    none("bitwise_not", one_integer, np.invert),
    none("bitwise_left_shift", integers(0, 6, bools=False), np.left_shift),
    none("bitwise_right_shift", integers(0, 6, bools=False), np.right_shift),
]


# powers: Cases of powers and roots.


def power_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield from binary_calls(positive, normal)(rng)
    for exponent in (0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.5, 2.5):
        yield Call(positive(rng, (2, 2)), exponent)
    for exponent in (2, 3, 5, -1, -3, 2.0):
        yield Call(away_from_zero(rng, (4,)), exponent)
    yield Call(away_from_zero(rng, (4,)), Fixed(np.array([2.0, -1.0, 0.0, 3.0])))
    yield Call(away_from_zero(rng, (3,)), np.array([2, 3, 1]))
    yield Call(2.5, normal(rng, (3,)))
    yield Call(complex_normal(rng, (3,)), 2)
    yield Call(complex_normal(rng, (3,)), complex_normal(rng, (3,)))


def power_edges(rng: np.random.Generator) -> Iterator[Call]:
    zeros = np.zeros(5)
    yield Call(zeros, np.array([0.0, 1.0, 2.0, 0.5, 3.0]))
    for exponent in (0, 1, 2, 3, 0.0, 1.0, 2.0, 1.5):
        yield Call(np.array([0.0, -0.0, 1.0, -2.0]) if exponent != 1.5 else np.array([0.0, 1.0]), exponent)
    yield Call(0.0, np.array([0.5, 2.0]))
    yield Call(np.array([-2.0, -1.0]), Fixed(np.array([2.0, 3.0])))
    yield Call(np.array([0.0, 4.0]), 0.5)
    yield Call(np.array([-1.0, 2.0]), np.array([2.0, 0.0]))


def float_power_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield from binary_calls(positive, normal)(rng)
    yield Call(np.array([1, 2, 3]), 2)


def ldexp_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (2, 3)), np.array([1, 2, 3]))
    yield from binary_calls(number=False)(rng)


CASES += [
    Case("pow", power_calls, edge_calls=power_edges),
    Case("float_power", float_power_calls, np.float_power, dtypes=()),
    Case("square", unary_calls(also=complex_normal), np.square),
    Case("sqrt", unary_calls(positive, also=complex_normal), np.sqrt, edge_calls=at(0.0, INF, -1.0)),
    Case("rsqrt", unary_calls(positive), edge_calls=at(0.0, INF, -1.0)),
    Case("reciprocal", unary_calls(away_from_zero, also=complex_normal), np.reciprocal, edge_calls=at(0.0, INF)),
    Case("hypot", binary_calls(away_from_zero, number=False), np.hypot, edge_calls=at_pairs((0.0, 1.0), (3.0, 0.0))),
    Case("ldexp", ldexp_calls, lambda x, y: x * 2.0**y, dtypes=("float32",)),
]


# rounding: Cases of rounding.

CASES += [
    Case("ceil", unary_calls(quotient_draw), np.ceil, edge_calls=at(1.0, -0.5, INF, NAN)),
    Case("floor", unary_calls(quotient_draw), np.floor, edge_calls=at(1.0, -0.5, INF, NAN)),
    Case("trunc", unary_calls(quotient_draw), np.trunc, edge_calls=at(1.0, -0.5, INF, NAN)),
    Case(
        "round",
        together(unary_calls(uniform(0.1, 0.4)), unary_calls(uniform(0.31, 0.34), decimals=1)),
        edge_calls=together(at(0.5, 1.5, -2.5, INF), at(1.25, 27.0, decimals=-1), at(0.125, 2.345, decimals=2)),
    ),
    Case("special.round", unary_calls(uniform(0.31, 0.34), decimals=1)),
    Case("frac", unary_calls(quotient_draw), lambda x: x - np.trunc(x)),
]


# trigonometric: Cases of trigonometric and hyperbolic functions.

inside = uniform(-0.8, 0.8)

CASES += [
    Case("sin", unary_calls(also=complex_normal), np.sin, edge_calls=at(INF, 0.0)),
    Case("cos", unary_calls(also=complex_normal), np.cos, edge_calls=at(INF, 0.0)),
    Case("tan", unary_calls(uniform(-1.2, 1.2), also=complex_normal), np.tan),
    Case("asin", unary_calls(inside), np.arcsin, edge_calls=at(-1.0, 1.0, 2.0)),
    Case("acos", unary_calls(inside), np.arccos, edge_calls=at(-1.0, 1.0, 2.0)),
    Case("atan", unary_calls(), np.arctan, edge_calls=at(INF, -INF)),
    Case("sinh", unary_calls(also=complex_normal), np.sinh),
    Case("cosh", unary_calls(also=complex_normal), np.cosh),
    Case("tanh", unary_calls(also=complex_normal), np.tanh, edge_calls=at(INF, -1000.0)),
    Case("asinh", unary_calls(), np.arcsinh),
    Case("acosh", unary_calls(uniform(1.3, 3.0)), np.arccosh, edge_calls=at(1.0, 0.5)),
    Case("atanh", unary_calls(inside), np.arctanh, edge_calls=at(-1.0, 1.0, 2.0)),
    Case(
        "atan2",
        binary_calls(away_from_zero, number=False),
        np.arctan2,
        edge_calls=at_pairs((0.0, 0.0), (0.0, -1.0), (1.0, 0.0), (-0.0, -1.0)),
    ),
    Case("deg2rad", unary_calls(apart(scale=90.0)), np.deg2rad),
    Case("rad2deg", unary_calls(), np.rad2deg),
    Case(
        "sinc",
        together(unary_calls(normal, also=uniform(-0.05, 0.05)), unary_calls(also=complex_normal)),
        np.sinc,
        edge_calls=at(0.0),
    ),
    Case("special.sinc", unary_calls(normal), np.sinc),
    Case("nn.functional.tanh", unary_calls(), np.tanh),
]
