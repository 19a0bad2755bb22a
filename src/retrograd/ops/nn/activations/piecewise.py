"""Piecewise linear activation functions other than rectifiers: hard gates, shrinkage, thresholds."""

from __future__ import annotations

from math import inf

from ....core.arrays.python_numbers import converted
from ....core.errors import describe
from ....core.graph.primitive import apply, operand
from ....core.tensor.mutation import apply_inplace
from ....core.tensor.tensor import Tensor
from ....kernels.loops.elements.elementwise import in_one_pass
from ...table.arguments import floating_operand, number
from ...table.blocks import in_single, wide
from ...table.elementwise_primitives import elementwise, unary
from ...table.registry import operator
from .application import FUNCTIONS, RULES, activate

_hardswish_backward = RULES["hardswish_backward"]
HARDSWISH = unary(
    "hardswish",
    in_one_pass(FUNCTIONS["hardswish"], in_single(FUNCTIONS["hardswish"])),
    in_one_pass(_hardswish_backward, lambda g, x: _hardswish_backward(g, wide(x))),
    promote="same",
    signals=True,
    compiled="fd",
)
HARDSIGMOID = unary(
    "hardsigmoid",
    in_one_pass(FUNCTIONS["hardsigmoid"], in_single(FUNCTIONS["hardsigmoid"])),
    in_one_pass(RULES["hardsigmoid_backward"]),
    promote="same",
    compiled="fd",
)


@operator(namespace="nn.functional", method=False, dtype="real")
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * min(max(input + 3, 0), 6) / 6``, elementwise.

    Derivative: ``g (input / 3 + 1 / 2)`` between -3 and 3, 0 below and at -3, ``g`` above and at 3.

    Source: Howard et al., "Searching for MobileNetV3", 2019.

    >>> F.hardswish(rg.tensor([-1.0, 2.0]))
    tensor([-0.3333,  1.6667])
    """
    return activate(HARDSWISH, input, inplace)


@operator(namespace="nn.functional", method=False, dtype="real")
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(input + 3, 0), 6) / 6``, elementwise.

    Derivative: ``g / 6`` between -3 and 3, 0 outside and at both bounds.

    >>> F.hardsigmoid(rg.tensor([0.0, 4.0]))
    tensor([0.5, 1. ])
    """
    return activate(HARDSIGMOID, input, inplace)


_shrinkage_backward = in_one_pass(RULES["shrinkage_backward"])
HARDSHRINK = elementwise(
    "hardshrink",
    in_one_pass(FUNCTIONS["hardshrink"]),
    "x",
    [_shrinkage_backward],
    promote="same",
    piecewise_linear=True,
    compiled="fd",
)
SOFTSHRINK = elementwise(
    "softshrink",
    in_one_pass(FUNCTIONS["softshrink"]),
    "x",
    [_shrinkage_backward],
    promote="same",
    piecewise_linear=True,
    signals=True,
    compiled="fd",
)


@operator(also=("nn.functional.hardshrink",), dtype="real")
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input`` where ``|input| > lambd``, else 0.

    Derivative: ``g`` where ``|input| > lambd``, 0 elsewhere and at the bounds.

    Args:
        lambd: the bound; not negative.

    >>> rg.hardshrink(rg.tensor([-1.0, 0.3]))
    tensor([-1.,  0.])
    """
    x = floating_operand(input)
    return activate(HARDSHRINK, x, False, lambd=converted(lambd, x.array.dtype))


@operator(namespace="nn.functional", method=False, like=hardshrink)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``sign(input) max(|input| - lambd, 0)``: moved towards 0 by ``lambd``.

    Args:
        lambd: the distance to move; not negative.

    Raises:
        RuntimeError: ``lambd`` is negative or infinite.

    >>> F.softshrink(rg.tensor([-1.0, 0.3]))
    tensor([-0.5,  0. ])
    """
    x = floating_operand(input)
    lambd = converted(lambd, x.array.dtype)
    if not 0 <= lambd < inf:
        raise RuntimeError(f"lambd must be finite and not negative, got {lambd}")
    return activate(SOFTSHRINK, x, False, lambd=lambd)


THRESHOLD = elementwise(
    "threshold",
    in_one_pass(FUNCTIONS["threshold"]),
    "x",
    [in_one_pass(RULES["threshold_backward"])],
    promote="same",
    piecewise_linear=True,
    compiled="fd",
)


@operator(inplace=True, method=False, real=True, dtype="number")
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """``input`` where it is greater than ``threshold``, else ``value``.

    Derivative: ``g`` above the threshold, 0 below and at it.

    Args:
        threshold: the bound.
        value: the replacement of elements up to the bound.

    Raises:
        NotImplementedError: the input holds bools.

    >>> rg.threshold(rg.tensor([-1.0, 2.0]), 0.5, -9.0)
    tensor([-9.,  2.])
    """
    return _threshold(input, threshold, value)


@operator(namespace="nn.functional", method=False, name="threshold", real=True, like=threshold)
def _threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``input`` where it is greater than ``threshold``, else ``value``.

    >>> F.threshold(rg.tensor([-1.0, 2.0]), 0.5, -9.0)
    tensor([-9.,  2.])
    """
    x = operand(input)
    dtype = x.array.dtype
    if dtype.kind == "b":
        raise NotImplementedError(f"is not defined for bools, got {describe(x)}")
    threshold, value = number(threshold, "threshold"), number(value, "value")
    if dtype.itemsize > 2 or dtype.kind in "iu":
        threshold = converted(threshold, dtype)
    params = {"threshold": threshold, "value": converted(value, dtype)}
    return apply_inplace(THRESHOLD, input, **params) if inplace else apply(THRESHOLD, (x,), params)
