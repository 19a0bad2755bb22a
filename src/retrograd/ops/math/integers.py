"""Divisors and multiples of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.graph.primitive import Primitive, apply2
from ...core.tensor.tensor import Tensor
from ..table.elementwise import elementwise
from ..table.registry import operator
from ..table.types import Operand


def _of_integers(name: str, ufunc: np.ufunc) -> Primitive:
    def forward(x: Any, y: Any) -> Any:
        for array in (x, y):
            if getattr(array, "dtype", np.dtype(np.int64)).kind not in "iu":
                raise NotImplementedError(f"expected integers, got {array.dtype}")
        return ufunc(x, y)

    return elementwise(name, forward, "x y", None, promote="same")


GCD = _of_integers("gcd", np.gcd)
LCM = _of_integers("lcm", np.lcm)


@operator(inplace=GCD, numpy=np.gcd, differentiable=False)
def gcd(input: Operand, other: Operand) -> Tensor:
    """The greatest common divisor ``gcd(|input|, |other|)``, elementwise; ``gcd(0, n) = |n|``.

    Shape: any; the arguments broadcast, and the result has their common shape.
    Dtype: integers; the inputs' common one.

    Args:
        other: integers.

    Raises:
        NotImplementedError: the numbers are not integers.

    >>> rg.gcd(rg.tensor([12, -18, 0]), rg.tensor([8, 27, 5]))
    tensor([4, 9, 5])
    """
    return apply2(GCD, input, other)


@operator(inplace=LCM, numpy=np.lcm, differentiable=False, like=gcd)
def lcm(input: Operand, other: Operand) -> Tensor:
    """The least common multiple ``|input * other| / gcd(input, other)``, elementwise; 0 where either is.

    >>> rg.lcm(rg.tensor([4, -6, 0]), rg.tensor([6, 4, 5]))
    tensor([12, 12,  0])
    """
    return apply2(LCM, input, other)
