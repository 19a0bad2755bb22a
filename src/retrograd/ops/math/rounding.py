"""Rounding: piecewise constant functions, with zero gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import FLOATING, INEXACT
from ...core.graph.primitive import apply, apply1, operand
from ...core.tensor.tensor import Tensor, tensor_method
from ..table.elementwise import elementwise, unary, zero_rule
from ..table.registry import operator


def _of_integers(ufunc: Any) -> Callable[[Array], Array]:
    """Wrap a ufunc so that integers are returned unchanged and bools raise an error, as in PyTorch."""

    def rounded(x: Array) -> Array:
        if x.dtype.kind not in "iub":
            return ufunc(x)
        if x.dtype.kind == "b":
            raise NotImplementedError("is not defined for bools")
        return x.copy()

    rounded.ufunc = ufunc  # type: ignore[attr-defined]
    return rounded


CEIL = unary("ceil", _of_integers(np.ceil), zero_rule, promote="same", compiled="fd")
FLOOR = unary("floor", _of_integers(np.floor), zero_rule, promote="same", compiled="fd")
TRUNC = unary("trunc", _of_integers(np.trunc), zero_rule, promote="same", compiled="fd")
RINT = unary("round", _of_integers(np.rint), zero_rule, promote="same", compiled="fd")
ROUND = elementwise("round", lambda x, decimals: np.round(x, decimals), "x", [zero_rule])
FRAC = unary("frac", lambda x: x - np.trunc(x), lambda g: g, promote="same", signals=True)


@operator(direct=True, inplace=CEIL, numpy=np.ceil, raises="complex", derivative="zero")
def ceil(input: Tensor) -> Tensor:
    """``ceil(input)``, elementwise: the smallest whole number not below.

    Dtype: real; the result has the input's, integers stay as they are.

    >>> rg.ceil(rg.tensor([-1.5, 1.2]))
    tensor([-1.,  2.])
    """
    return apply1(CEIL, input)


@operator(direct=True, inplace=FLOOR, numpy=np.floor, like=ceil)
def floor(input: Tensor) -> Tensor:
    """``floor(input)``, elementwise: the largest whole number not above.

    >>> rg.floor(rg.tensor([-1.5, 1.2]))
    tensor([-2.,  1.])
    """
    return apply1(FLOOR, input)


@operator(direct=True, inplace=TRUNC, numpy=np.trunc, aliases=("fix",), like=ceil)
def trunc(input: Tensor) -> Tensor:
    """``sign(input) * floor(|input|)``, elementwise: rounded towards 0.

    >>> rg.trunc(rg.tensor([-1.5, 1.2]))
    tensor([-1.,  1.])
    """
    return apply1(TRUNC, input)


@operator(inplace=True, numpy=np.rint, real=True, also=("special.round",), derivative="zero")
def round_(input: Tensor, *, decimals: int = 0) -> Tensor:
    """``rint(input * 10^decimals) / 10^decimals``, elementwise: of two equally near numbers the even one.

    Dtype: floating; integers stay as they are.

    Args:
        input: the numbers to round.
        decimals: digits kept behind the point; negative ones round to tens, hundreds and so on.

    Raises:
        NotImplementedError: integers with decimals.

    >>> rg.round(rg.tensor([0.5, 1.5, 2.6]))
    tensor([0., 2., 3.])
    >>> rg.round(rg.tensor([1.236]), decimals=2)
    tensor([1.24])
    """
    if decimals == 0:
        return apply1(RINT, input)
    x = operand(input)
    if x.array.dtype.kind not in INEXACT:
        raise NotImplementedError(f"decimals are not implemented for {x.dtype}, only for floating Tensors")
    return apply(ROUND, (x,), {"decimals": decimals})


def _round(self: Tensor, decimals: int | None = None) -> Tensor:
    return round_(self, decimals=decimals or 0)


tensor_method(_round, "__round__")
tensor_method(floor, "__floor__")
tensor_method(ceil, "__ceil__")
tensor_method(trunc, "__trunc__")


@operator(inplace=True)
def frac(input: Tensor) -> Tensor:
    """``input - trunc(input)``, elementwise: what is behind the point, with the sign of the input.

    Derivative: ``g``, at whole numbers, too.
    Dtype: floating only.

    Raises:
        NotImplementedError: the Tensor is not floating.

    >>> rg.frac(rg.tensor([-1.5, 1.25]))
    tensor([-0.5 ,  0.25])
    """
    x = operand(input)
    if x.array.dtype.kind not in FLOATING:
        raise NotImplementedError(f"is not implemented for {x.dtype}, only for floating Tensors")
    return apply1(FRAC, x)
