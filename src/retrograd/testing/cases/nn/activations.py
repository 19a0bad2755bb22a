"""Cases of the activation functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...case import Call, Case, together
from ..math.arithmetic import INF, NAN, apart, at, away_from_zero, complex_normal, normal, unary_calls

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


def kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes over its input as one that does not."""
    return lambda x, *args: function(x * 1, *args)


CASES = [
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
