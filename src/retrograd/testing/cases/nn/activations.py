"""Example calls of activation functions, softmax and random activations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...case import Call, Case, Fixed, together
from ..math.elementwise import INF, NAN, apart, at, away_from_zero, complex_normal, normal, unary_calls
from ..reduce import calls_of, one_dim
from ..shape import integers, normals

CASES: list[Case] = []


# activations: Cases of the activation functions.

wide = apart(0.0, scale=4.0)
LIMITS = at(0.0, -0.0, 1000.0, -1000.0, NAN)


def prelu_calls(rng: np.random.Generator) -> Iterator[Call]:
    for shape, channels in (((2, 3), 3), ((2, 3, 2, 2), 3), ((4,), 1), ((), 1), ((2, 3), 1), ((0, 2), 2)):
        yield Call(away_from_zero(rng, shape), normal(rng, (channels,)))
    yield Call(away_from_zero(rng, (2, 3)), normal(rng, ()))


def prelu_edges(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(np.array([[0.0, -0.0, NAN]]), np.array([0.5]))


def glu_calls(rng: np.random.Generator) -> Iterator[Call]:
    for shape, dim in (((2, 4), -1), ((4, 3), 0), ((2, 4, 3), 1), ((2, 4, 3), -2), ((0, 2), 1)):
        yield Call(normal(rng, shape), dim)
    yield Call(normal(rng, (6,)))


F = "nn.functional."


def kept(function: Callable[..., object]) -> Callable[..., Any]:
    """Wrap a function that overwrites its input so that it gets a copy."""
    return lambda x, *args: function(x * 1, *args)


CASES += [
    Case("relu", unary_calls(away_from_zero), edge_calls=LIMITS),
    Case(F + "relu", unary_calls(away_from_zero), edge_calls=LIMITS),
    Case(
        F + "hardtanh",
        together(unary_calls(apart(-1.0, 1.0)), unary_calls(apart(-0.5, 2.0), -0.5, 2.0)),
        edge_calls=at(-1.0, 1.0, NAN),
    ),
    Case(F + "relu6", unary_calls(apart(0.0, 6.0, scale=5.0)), edge_calls=at(0.0, 6.0, 7.0)),
    Case(F + "elu", together(unary_calls(away_from_zero), unary_calls(away_from_zero, 0.5)), edge_calls=LIMITS),
    Case("selu", unary_calls(away_from_zero), edge_calls=LIMITS),
    Case(F + "selu", unary_calls(away_from_zero), edge_calls=LIMITS),
    Case("celu", together(unary_calls(away_from_zero), unary_calls(away_from_zero, 0.5)), edge_calls=LIMITS),
    Case(F + "celu", together(unary_calls(away_from_zero), unary_calls(away_from_zero, 0.5)), edge_calls=LIMITS),
    Case(F + "leaky_relu", together(unary_calls(away_from_zero), unary_calls(away_from_zero, 0.2)), edge_calls=LIMITS),
    Case("prelu", prelu_calls, edge_calls=prelu_edges),
    Case(F + "prelu", prelu_calls, edge_calls=prelu_edges),
    Case(F + "silu", unary_calls(wide), edge_calls=at(0.0, 1000.0)),
    Case(
        F + "softplus",
        together(unary_calls(wide), unary_calls(wide, 2.0), unary_calls(apart(1.0), 1.0, 1.0)),
        edge_calls=at(1000.0, -1000.0, 20.0, 25.0),
    ),
    Case(F + "logsigmoid", unary_calls(wide), edge_calls=at(1000.0, -1000.0)),
    Case(F + "mish", unary_calls(wide), edge_calls=at(0.0, 1000.0)),
    Case(
        F + "gelu",
        together(unary_calls(wide), unary_calls(wide, approximate="tanh")),
        edge_calls=together(at(0.0, 30.0, -30.0), at(0.0, 30.0, -30.0, approximate="tanh")),
    ),
    Case(F + "hardswish", unary_calls(apart(-3.0, 3.0, scale=3.0)), edge_calls=at(-3.0, 3.0, 5.0, -5.0)),
    # PyTorch's 1 / 6 has single precision.
    Case(F + "hardsigmoid", unary_calls(apart(-3.0, 3.0, scale=3.0)), lambda x: np.clip(x + 3, 0, 6) / 6, torch=""),
    Case("hardshrink", unary_calls(apart(-0.5, 0.5)), edge_calls=at(-0.5, 0.5, NAN)),
    Case(F + "hardshrink", unary_calls(apart(-0.3, 0.3), 0.3), edge_calls=at(-0.5, 0.5, NAN)),
    Case(F + "softshrink", unary_calls(apart(-0.3, 0.3), 0.3), edge_calls=at(-0.5, 0.5, INF)),
    Case(F + "tanhshrink", unary_calls(wide)),
    Case(F + "softsign", unary_calls(away_from_zero, also=complex_normal), edge_calls=at(0.0)),
    Case("threshold", unary_calls(apart(0.3), 0.3, -2.0), edge_calls=at(0.3, NAN, threshold=0.3, value=7.0)),
    Case(F + "threshold", unary_calls(apart(0.3), 0.3, -2.0)),
    Case(F + "glu", glu_calls),
    Case(F + "relu_", unary_calls(away_from_zero), wrap=kept),
    Case(F + "leaky_relu_", unary_calls(away_from_zero, 0.2), wrap=kept),
    Case(F + "elu_", unary_calls(away_from_zero, 0.5), wrap=kept),
    Case(F + "celu_", unary_calls(away_from_zero, 0.5), wrap=kept),
    Case(F + "selu_", unary_calls(away_from_zero), wrap=kept),
    Case(F + "hardtanh_", unary_calls(apart(-0.5, 2.0), -0.5, 2.0), wrap=kept),
    Case(F + "threshold_", unary_calls(apart(0.3), 0.3, -2.0), wrap=kept),
]


# softmax: Cases of log-sum-exp and the softmax family.

several = calls_of(
    lambda rng: Call(normal(rng, (2, 3, 2)), (0, 2)),
    lambda rng: Call(normal(rng, (2, 3, 2)), dim=(1, -1), keepdim=True),
)
infinities = calls_of(
    lambda rng: Call(np.array([[-np.inf, 1.0, 2.0], [1e300, 1e300, -1e300], [800.0, -800.0, 0.0]]), 1),
    lambda rng: Call(np.zeros((0, 3)), 1),
)
# No ties of huge numbers, for which PyTorch's gradient of logsumexp does not sum to 1 (Retrograd's does).
no_number = calls_of(
    lambda rng: Call(np.array([[-np.inf, 1.0, 2.0], [1e300, 1e299, -1e300], [800.0, -800.0, 0.0]]), 1),
    lambda rng: Call(np.array([[-np.inf, -np.inf], [1.0, -np.inf]]), 1),
    lambda rng: Call(np.zeros((0, 3)), 1),
)


def softmax_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (3, 4)), 0)
    yield Call(normal(rng, (2, 3, 2)), dim=-2)
    yield Call(normal(rng, ()), 0)
    yield Call(normal(rng, (3, 2)), dim=1, dtype=np.float64)


def gumbel_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal((2, 3)))
    yield Call(rng.standard_normal((2, 3)), tau=0.7, dim=0)


CASES += [
    Case("logsumexp", together(one_dim(), several), edge_calls=no_number),
    Case("softmax", softmax_calls, edge_calls=infinities),
    Case("log_softmax", softmax_calls, edge_calls=infinities),
    Case("nn.functional.softmax", softmax_calls, edge_calls=infinities),
    Case("nn.functional.log_softmax", softmax_calls, edge_calls=infinities),
    Case("special.logsumexp", several),
    Case("special.softmax", softmax_calls),
    Case("special.log_softmax", softmax_calls),
    Case("nn.functional.softmin", softmax_calls),
    Case("nn.functional.gumbel_softmax", gumbel_calls, random=True),
]


# randomized: Cases of random activation functions, and of the cross entropy of a linear layer.


def probabilities(*shape: int) -> Fixed:
    x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    return Fixed(x / x.sum(axis=1, keepdims=True))


rates = normals(
    lambda n: Call(n(3, 4), 0.1, 0.4, True),
    lambda n: Call(n(3, 4), training=True),
    lambda n: Call(n(3, 4), 0.1, 0.5),
    lambda n: Call(n(0, 3), 0.1, 0.5, True),
)

CASES += [
    Case("nn.functional.rrelu", rates, random=True),
    Case("nn.functional.rrelu_", normals(lambda n: Call(n(3, 4), 0.1, 0.5)), wrap=kept),
    Case(
        "nn.functional.linear_cross_entropy",
        normals(
            lambda n: Call(n(4, 3), n(5, 3), integers(0, 4, 1, 2)),
            lambda n: Call(n(3), n(5, 3), np.array(2), linear_bias=n(5)),
            lambda n: Call(n(4, 3), n(5, 3), integers(0, -100, 1, 2), weight=Fixed(np.arange(1.0, 6)), reduction="sum"),
            lambda n: Call(n(2, 3), n(5, 2, 3), integers([0, 1], [2, 4]), linear_bias=n(5, 2), reduction="none"),
            lambda n: Call(n(4, 3), n(5, 3), integers(0, 4, 1, 2), ignore_index=4, label_smoothing=0.1),
            lambda n: Call(n(2, 3), n(5, 3), probabilities(2, 5)),
        ),
        dtypes=("float32",),
    ),
]
