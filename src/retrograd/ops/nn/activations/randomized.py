"""The rectifier with a random slope, rrelu."""

from __future__ import annotations

from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import FLOATING
from ....core.errors import describe
from ....core.graph.primitive import apply, operand
from ....core.tensor.mutation import apply_inplace
from ....core.tensor.tensor import Tensor
from ...make.random_arrays import uniform
from ...table.elementwise import elementwise
from ...table.registry import operator
from .rectifiers import leaky_relu

RRELU = elementwise("rrelu", lambda x, slopes: x * slopes, "x", [lambda g, slopes: g * slopes], piecewise_linear=True)


@operator(namespace="nn.functional", method=False, real=True, dtype="real")
def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """``input`` where it is positive, else ``a input`` with a drawn evenly from ``[lower, upper)`` for each element.

    Without ``training``, a is the mean of the two.

    Derivative: ``g`` above 0, ``a g`` below and at 0.

    Args:
        lower: the least slope.
        upper: the greatest slope.
        training: whether slopes are drawn.

    Raises:
        NotImplementedError: the input is not floating.
        RuntimeError: ``lower`` exceeds ``upper``.

    Source: Xu et al., Empirical evaluation of rectified activations in convolutional network, 2015.

    >>> F.rrelu(rg.tensor([-1.0, 2.0]), 0.25, 0.75)
    tensor([-0.5,  2. ])
    """
    x = operand(input)
    if x.dtype.kind not in FLOATING:
        raise NotImplementedError(f"expected floating numbers, got {describe(x)}")
    if lower > upper:
        raise RuntimeError(f"lower must not exceed upper, got {lower} and {upper}")
    if not training:
        return leaky_relu(x, (lower + upper) / 2, inplace)
    xp, kind = array_module(x), x.dtype
    slopes = uniform(xp, x.array.shape, kind) * kind.type(upper - lower) + kind.type(lower)
    slopes = xp.where(x.array > 0, kind.type(1), slopes)
    return apply_inplace(RRELU, x, slopes=slopes) if inplace else apply(RRELU, (x,), {"slopes": slopes})


@operator(namespace="nn.functional", method=False, name="rrelu_", raises="complex", like=rrelu)
def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """``rrelu(input)``, written over the input, which is returned.

    Derivative: ``rrelu``'s.

    >>> F.rrelu_(rg.tensor([-1.0, 2.0]), 0.25, 0.75)
    tensor([-0.5,  2. ])
    """
    return rrelu(input, lower, upper, training, inplace=True)
