"""Optimizer steps as recorded operators, for ``differentiable=True``: gradients flow through the step.

An update writes to the parameter in place and stores new Tensors in its state. Gradients flow to the previous value of
the parameter, its gradient, the state, and hyper-parameters that are Tensors. Such parameters are usually not leaves.

>>> lr = rg.tensor(0.1, requires_grad=True)
>>> w = rg.tensor(3.0, requires_grad=True) * 1
>>> optimizer = rg.optim.SGD([w], lr=lr, differentiable=True)
>>> w.grad = rg.tensor(2.0)
>>> optimizer.step()
>>> w.backward()
>>> lr.grad
tensor(-2.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core.graph.modes import enable_grad
from ..core.tensor.tensor import Tensor
from ..elements.arithmetic import Element
from ..elements.updates import Operations, updates
from ..ops.indexing.selection import where
from ..ops.math.bounds import maximum, minimum
from .hyperparameters import ParamGroup


def _bounds(extreme: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Element], Tensor]:
    return lambda x, y: extreme(x, y if isinstance(y, Tensor) else x.new_tensor(y))


_UPDATES = updates(
    Operations(
        where=where,
        sqrt=lambda x: x.sqrt(),
        absolute=lambda x: x.abs(),
        maximum=_bounds(maximum),
        minimum=_bounds(minimum),
        neutral=lambda number: not isinstance(number, Tensor) and number == 1,
        absent=lambda number: not isinstance(number, Tensor) and number == 0,
    )
)


def record_update(optimizer: Any, parameter: Tensor, group: ParamGroup) -> None:
    """Update a parameter by differentiable operators."""
    with enable_grad():
        name, states, _ = optimizer._formula(group)
        (rates,) = optimizer._all_rates([parameter], group)
        state = optimizer.state[parameter]
        for key in states:
            optimizer._state_array(parameter, key)
        before = parameter.clone(), parameter.grad, *[state[key].clone() for key in states]
        value, *new = _UPDATES[name](*before, optimizer._factors(group), rates)
        state.update(zip(states, new, strict=True))
        parameter.copy_(value)


def root(x: Element) -> Element:
    """Return the square root of a number or a Tensor."""
    return x.sqrt() if isinstance(x, Tensor) else math.sqrt(x)
