"""Rounding: functions that are constant in pieces, with a gradient of zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.primitive import apply, apply1, operand
from ...core.tensor import Tensor, tensor_method
from ..table.elementwise import elementwise, unary
from ..table.masks import zero_rule
from ..table.registry import operator


def _of_integers(ufunc: Any) -> Any:
    """Integers are rounded already."""

    def rounded(x: Any) -> Any:
        return x.copy() if x.dtype.kind in "iu" else ufunc(x)

    return rounded


CEIL = unary("ceil", _of_integers(np.ceil), zero_rule, promote="same")
FLOOR = unary("floor", _of_integers(np.floor), zero_rule, promote="same")
TRUNC = unary("trunc", _of_integers(np.trunc), zero_rule, promote="same")
RINT = unary("round", _of_integers(np.rint), zero_rule, promote="same")
ROUND = elementwise("round", lambda x, decimals: np.round(x, decimals), "x", [zero_rule])
FRAC = unary("frac", lambda x: x - np.trunc(x), lambda g: g, promote="same", signals=True)


@operator(direct=True, inplace=CEIL, numpy=np.ceil, note="zero gradient")
def ceil(input: Tensor) -> Tensor:
    """The smallest whole number that is not below ``input``.

    >>> rg.ceil(rg.tensor([-1.5, 1.2]))
    tensor([-1.,  2.])
    """
    return apply1(CEIL, input)


@operator(direct=True, inplace=FLOOR, numpy=np.floor, note="zero gradient")
def floor(input: Tensor) -> Tensor:
    """The largest whole number that is not above ``input``.

    >>> rg.floor(rg.tensor([-1.5, 1.2]))
    tensor([-2.,  1.])
    """
    return apply1(FLOOR, input)


@operator(direct=True, inplace=TRUNC, numpy=np.trunc, aliases=("fix",), note="zero gradient")
def trunc(input: Tensor) -> Tensor:
    """The whole part of ``input``: it is rounded towards 0.

    >>> rg.trunc(rg.tensor([-1.5, 1.2]))
    tensor([-1.,  1.])
    """
    return apply1(TRUNC, input)


@operator(inplace=True, numpy=np.rint, note="zero gradient", real=True, also=("special.round",))
def round_(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest number with so many decimals, of two equally near the even one.

    Args:
        input: a Tensor.
        decimals: digits kept behind the point; negative ones round to tens, hundreds and so on.

    Raises:
        RuntimeError: integers, with decimals.

    >>> rg.round(rg.tensor([0.5, 1.5, 2.6]))
    tensor([0., 2., 3.])
    >>> rg.round(rg.tensor([1.236]), decimals=2)
    tensor([1.24])
    """
    if decimals == 0:
        return apply1(RINT, input)
    input = operand(input)
    if input.array.dtype.kind not in "fc":
        raise NotImplementedError(f"decimals are not implemented for {input.dtype}, only for floating Tensors")
    return apply(ROUND, (input,), {"decimals": decimals})


tensor_method(lambda self, decimals=None: round_(self, decimals=decimals or 0), "__round__")
tensor_method(floor, "__floor__")
tensor_method(ceil, "__ceil__")
tensor_method(trunc, "__trunc__")


@operator(inplace=True, note="1 everywhere")
def frac(input: Tensor) -> Tensor:
    """What ``trunc`` takes away: ``input - trunc(input)``, with the sign of ``input``.

    Raises:
        RuntimeError: the Tensor is not floating.

    >>> rg.frac(rg.tensor([-1.5, 1.25]))
    tensor([-0.5 ,  0.25])
    """
    input = operand(input)
    if input.array.dtype.kind != "f":
        raise NotImplementedError(f"is not implemented for {input.dtype}, only for floating Tensors")
    return apply1(FRAC, input)
