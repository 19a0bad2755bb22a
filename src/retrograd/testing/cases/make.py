"""Example calls of the operators in ``ops/make/``, by module."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..case import Call, Calls, Case, Fixed
from .shape import integers, normals

CASES: list[Case] = []


# creation: Cases of Tensors from data.

data = normals(
    lambda n: Call([[1.0, 2.0], [3.0, 4.0]]), lambda n: Call(2, dtype=np.float64), lambda n: Call([True, False])
)

CASES += [
    Case("tensor", data, order=0),
    Case("as_tensor", data, order=0),
    Case("asarray", data, order=0),
    Case("from_numpy", lambda rng: (), order=0),
    Case("Tensor.new_tensor", normals(lambda n: Call(Fixed(n(2)), [1, 2], dtype=np.float64)), order=0),
    Case("is_tensor", normals(lambda n: Call(Fixed(n(2))), lambda n: Call(1.5)), order=0),
]


# filled: Cases of Tensors filled with a number.

sizes = normals(lambda n: Call(2, 3), lambda n: Call((2, 0)), lambda n: Call(3, dtype=np.int64), lambda n: Call(()))
alike = normals(
    lambda n: Call(Fixed(n(2, 3))), lambda n: Call(integers(1, 2)), lambda n: Call(Fixed(n()), dtype=np.float32)
)
renewed = normals(lambda n: Call(Fixed(n(2)), (2, 3)), lambda n: Call(integers(1), 2), lambda n: Call(Fixed(n(2)), 0))

CASES += [
    Case("zeros", sizes, order=0),
    Case("ones", sizes, order=0),
    Case("empty", normals(lambda n: Call(0, 3), lambda n: Call((2, 0))), order=0),
    Case("full", normals(lambda n: Call((2, 3), 1.5), lambda n: Call((2,), 3), lambda n: Call((), True)), order=0),
    Case("eye", normals(lambda n: Call(3), lambda n: Call(2, 3, dtype=np.int64), lambda n: Call(0)), order=0),
    Case("zeros_like", alike, order=0),
    Case("ones_like", alike, order=0),
    Case("empty_like", normals(lambda n: Call(Fixed(n(0, 3)))), order=0),
    Case("full_like", normals(lambda n: Call(Fixed(n(2, 3)), 1.5), lambda n: Call(integers(1), 2)), order=0),
    Case("Tensor.new_zeros", renewed, order=0),
    Case("Tensor.new_ones", renewed, order=0),
    Case("Tensor.new_empty", normals(lambda n: Call(Fixed(n(2)), (0, 3))), order=0),
    Case("Tensor.new_full", normals(lambda n: Call(Fixed(n(2)), (2, 3), 1.5)), order=0),
]


# further_samples: Cases of further random numbers.

CASES += [
    Case("poisson", normals(lambda n: Call(np.array([0.5, 1.0, 3.0])), lambda n: Call(n(2, 3) ** 2 + 1)), random=True),
    Case("Tensor.log_normal_", normals(lambda n: Call(Fixed(n(2, 3)), 0.5, 0.25)), order=0, random=True),
    Case("Tensor.cauchy_", normals(lambda n: Call(Fixed(n(2, 3)), 1.0, 2.0)), order=0, random=True),
    Case("Tensor.geometric_", normals(lambda n: Call(Fixed(n(2, 3)), 0.3)), order=0, random=True),
]


# random: Cases of random numbers and dropout.

sizes_of_random = normals(lambda n: Call(2, 3), lambda n: Call((2, 0), dtype=np.float64), lambda n: Call(()))
alike_of_random = normals(lambda n: Call(Fixed(n(2, 3))), lambda n: Call(Fixed(n())))


def channels(dims: int, unbatched: bool = True) -> Calls:
    """Return calls on (N, C, *), and on (C, *) if ``unbatched``, with ``dims`` dimensions after the channels."""
    batch = (2, 3, *(2,) * dims)
    single = batch[1:] if unbatched else batch
    return normals(lambda n: Call(n(*batch)), lambda n: Call(n(*single), 0.25), lambda n: Call(n(*batch), 0.5, False))


rates = normals(
    lambda n: Call(n(3, 4), 0.5, True),
    lambda n: Call(n(3, 4), p=0.25, training=True),
    lambda n: Call(n(3, 4), 0.5, False),
    lambda n: Call(n(3, 4), 0.0, True),
    lambda n: Call(n(3, 4), 1.0, True),
    lambda n: Call(n(0, 3), 0.5, True),
)

CASES += [
    Case("rand", sizes_of_random, order=0, random=True),
    Case("randn", sizes_of_random, order=0, random=True),
    Case("rand_like", alike_of_random, order=0, random=True),
    Case("randn_like", alike_of_random, order=0, random=True),
    Case("randint", normals(lambda n: Call(5, (2, 3)), lambda n: Call(-2, 3, (4,))), order=0, random=True),
    Case("randint_like", normals(lambda n: Call(Fixed(n(2, 3)), 5)), order=0, random=True),
    Case("randperm", normals(lambda n: Call(5), lambda n: Call(0)), order=0, random=True),
    Case(
        "normal",
        normals(lambda n: Call(0.0, 2.0, (2, 3)), lambda n: Call(Fixed(n(3)), Fixed(np.ones((2, 1))))),
        order=0,
        random=True,
    ),
    Case("nn.functional.dropout", rates, random=True),
    Case("nn.functional.dropout1d", channels(1), random=True),
    Case("nn.functional.dropout2d", channels(2, unbatched=False), random=True),
    Case("nn.functional.dropout3d", channels(3), random=True),
    Case("nn.functional.alpha_dropout", rates, random=True),
    Case("nn.functional.feature_alpha_dropout", rates, random=True),
]


# ranges: Cases of ranges.

triangle = normals(lambda n: Call(3, 4), lambda n: Call(4, 2, -1), lambda n: Call(2, 2, offset=1), lambda n: Call(0, 2))

CASES += [
    Case(
        "arange",
        normals(
            lambda n: Call(5),
            lambda n: Call(1, 2, 0.25),
            lambda n: Call(5, 0, -2),
            lambda n: Call(0, 1, 0.1, dtype=np.float64),
            lambda n: Call(3, 3),
        ),
        order=0,
    ),
    Case(
        "linspace",
        normals(lambda n: Call(0, 1, 5, dtype=np.float64), lambda n: Call(-1.0, 2.0, 1), lambda n: Call(0, 1, 0)),
        order=0,
    ),
    Case("logspace", normals(lambda n: Call(0, 2, 3, dtype=np.float64), lambda n: Call(0, 3, 4, 2.0)), order=0),
    Case("tril_indices", triangle, order=0),
    Case("triu_indices", triangle, order=0),
]


# sampling: Cases of sampling.

probabilities = normals(
    lambda n: Call(Fixed(np.array([[0.0, 1.0, 0.3], [0.5, 0.1, 0.0]])), 2),
    lambda n: Call(Fixed(np.array([0.2, 0.5])), 7, replacement=True),
)

CASES += [
    Case("bernoulli", normals(lambda n: Call(np.array([0.2, 0.9, 0.5])), lambda n: Call(n(3), 0.5)), random=True),
    Case("multinomial", probabilities, order=0, random=True),
    Case("Tensor.uniform_", normals(lambda n: Call(Fixed(n(2, 3)), -1, 1)), order=0, random=True),
    Case("Tensor.normal_", normals(lambda n: Call(Fixed(n(2, 3)), 1, 0.5)), order=0, random=True),
    Case("Tensor.exponential_", normals(lambda n: Call(Fixed(n(2, 3)), 2)), order=0, random=True),
    Case("Tensor.bernoulli_", normals(lambda n: Call(Fixed(n(2, 3)), 0.5)), order=0, random=True),
    Case(
        "Tensor.random_", normals(lambda n: Call(Fixed(n(2, 3))), lambda n: Call(Fixed(n(2)), 5)), order=0, random=True
    ),
]


# windows: Cases of window functions.


def lengths(*positional: object, **options: object) -> Callable[[np.random.Generator], Iterator[Call]]:
    """Return calls for no point, one point, an even number and an odd number of points, in float64."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for count in (0, 1, 5, 8):
            yield Call(count, *positional, dtype=np.float64, **options)

    return calls


def both(flag: str, **options: object) -> Callable[[np.random.Generator], Iterator[Call]]:
    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for value in (True, False):
            yield from lengths(**{flag: value}, **options)(rng)

    return calls


def with_options(*parts: Callable[[np.random.Generator], Iterator[Call]]) -> Calls:
    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for part in parts:
            yield from part(rng)

    return calls


CASES += [
    *(Case(f"{name}_window", both("periodic"), order=0) for name in ("bartlett", "blackman", "hann")),
    Case("hamming_window", with_options(both("periodic"), lengths(True, 0.6, 0.3)), order=0),
    Case("kaiser_window", with_options(both("periodic"), lengths(False, 3.0)), order=0, torch_tolerance=1e-6),
    *(
        Case(f"signal.windows.{name}", both("sym"), order=0)
        for name in ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall")
    ),
    Case("signal.windows.exponential", with_options(both("sym", tau=2.5), lengths(sym=False, center=1.5)), order=0),
    Case("signal.windows.gaussian", both("sym", std=1.5), order=0),
    Case("signal.windows.general_cosine", both("sym", a=[0.4, 0.3, 0.2, 0.1]), order=0),
    Case("signal.windows.general_hamming", both("sym", alpha=0.6), order=0),
    Case("signal.windows.kaiser", both("sym", beta=4.0), order=0, torch_tolerance=1e-6),
]
