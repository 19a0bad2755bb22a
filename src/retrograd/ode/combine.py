"""Linear combinations of Tensors with numbers as weights, one node of the graph each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays.devices import is_array
from ..core.graph.nodes import Node
from ..core.graph.primitive import Primitive, apply
from ..core.tensor.tensor import Tensor, new_tensor

Leaves = list[Tensor]


def _forward(*xs: Any, weights: tuple[float, ...]) -> Any:
    total = weights[0] * xs[0] if weights[0] != 1 else xs[0]
    for weight, x in zip(weights[1:], xs[1:], strict=True):
        total = total + weight * x
    dtype = xs[0].dtype
    if not is_array(total):
        return np.asarray(total, dtype)  # NumPy makes scalars of 0-d arrays
    return total.astype(dtype) if total.dtype != dtype or total is xs[0] else total


def _vjp(g: Any, weights: tuple[float, ...], needs: tuple[bool, ...]) -> list[Any]:
    return [_scaled(weight, g) if need else None for weight, need in zip(weights, needs, strict=True)]


def _scaled(weight: float, g: Any) -> Any:
    product = weight * g
    return product if isinstance(product, Tensor) or is_array(product) else np.asarray(product, g.dtype)


def _jvp(node: Node, tangents: dict[int, Any], as_tensors: bool) -> Any:
    weights = node.saved[COMBINE.position["weights"]]
    total: Any = None
    for index, t in tangents.items():
        term = _scaled(weights[index], t)
        total = term if total is None else total + term
    total = total if isinstance(total, Tensor) or is_array(total) else np.asarray(total, node.dtype)
    return new_tensor(total) if as_tensors and not isinstance(total, Tensor) else total


def _batch(call: Any) -> Any:
    return call.below([call.full(index) for index in range(len(call.values))])


COMBINE = Primitive("linear_combination", _forward, "*xs", vjp=_vjp, batch=_batch)
COMBINE.jvp = _jvp


def combine(weights: Sequence[float], states: Sequence[Leaves]) -> Leaves:
    """Return the sum of ``weight * state`` per leaf; states with weight 0 are left out, except for the first."""
    used = [i for i, weight in enumerate(weights) if weight != 0 or i == 0]
    chosen = {"weights": tuple([float(weights[i]) for i in used])}
    return [apply(COMBINE, tuple([states[i][leaf] for i in used]), chosen) for leaf in range(len(states[0]))]
