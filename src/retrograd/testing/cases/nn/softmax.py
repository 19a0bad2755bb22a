"""Cases of log-sum-exp and the softmax family."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, together
from ..math.arithmetic import normal
from ..reduce.reductions import calls_of, one_dim

several = calls_of(
    lambda rng: Call(normal(rng, (2, 3, 2)), (0, 2)),
    lambda rng: Call(normal(rng, (2, 3, 2)), dim=(1, -1), keepdim=True),
)
infinities = calls_of(
    lambda rng: Call(np.array([[-np.inf, 1.0, 2.0], [1e300, 1e300, -1e300], [800.0, -800.0, 0.0]]), 1),
    lambda rng: Call(np.zeros((0, 3)), 1),
)
# No ties of huge numbers: there PyTorch's gradient of logsumexp, unlike ours, does not sum to 1.
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


CASES = [
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
