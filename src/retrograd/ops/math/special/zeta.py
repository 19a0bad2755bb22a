"""The zeta function and the incomplete gamma functions: differentiable in their second argument, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ....core.arrays import Array
from ....core.graph.primitive import Primitive, apply2
from ....core.tensor.mutation import apply_inplace
from ....core.tensor.tensor import Tensor, tensor_method
from ...table.elementwise import elementwise
from ...table.registry import inplace_method, operator
from ...table.types import Operand
from ..exponential import EXP, LOG
from .gamma import LGAMMA
from .libraries import library_for


def _from_library(name: str) -> Callable[[Any, Any], Any]:
    """A function of two arrays or numbers from the library, in the arrays' dtype."""

    def forward(x: Any, y: Any) -> Any:
        array = x if hasattr(x, "dtype") else y
        return getattr(library_for(array, name), name)(x, y).astype(array.dtype)

    return forward


def _no_rule(name: str) -> Callable[[Any], NoReturn]:
    def rule(g: object) -> NoReturn:
        raise NotImplementedError(f"{name}: the derivative with respect to the first argument is not implemented")

    return rule


def _density(a: Array, x: Array) -> Array:
    """``x^(a - 1) e^-x / gamma(a)``."""
    return EXP((a - 1) * LOG(x) - x - LGAMMA(a))


ZETA: Primitive = elementwise(
    "special.zeta",
    _from_library("zeta"),
    "x q",
    [_no_rule("special.zeta"), lambda g, x, q: -g * x * ZETA(x + 1, q)],
    promote="float",
    signals=True,
)
IGAMMA = elementwise(
    "igamma",
    _from_library("gammainc"),
    "a x",
    [_no_rule("igamma"), lambda g, a, x: g * _density(a, x)],
    promote="float",
    signals=True,
)
IGAMMAC = elementwise(
    "igammac",
    _from_library("gammaincc"),
    "a x",
    [_no_rule("igammac"), lambda g, a, x: -g * _density(a, x)],
    promote="float",
    signals=True,
)


@operator(namespace="special", method=False, real=True, dtype="single or double")
def zeta(input: Operand, other: Operand) -> Tensor:
    """``sum_{k >= 0} (k + other)^-input``, the Hurwitz zeta function, elementwise; Riemann's for ``other = 1``.

    Derivative: input: none, a backward walk to it raises NotImplementedError; other:
    ``-g * input * zeta(input + 1, other)``.

    Args:
        input: the exponent; infinite at 1, NaN below.
        other: where the sum begins; infinite at 0 and negative whole numbers.

    Raises:
        RuntimeError: SciPy is not installed.

    Source: DLMF 25.11.

    >>> rg.special.zeta(rg.tensor([2.0, 4.0]), 1.0)
    tensor([1.6449, 1.0823])
    """
    return apply2(ZETA, input, other)


@operator(real=True, like=zeta)
def igamma(input: Operand, other: Operand) -> Tensor:
    """``1 / gamma(input) * integral_0^other t^(input - 1) e^-t dt``, elementwise: the lower part, in ``[0, 1]``.

    Derivative: input: none, a backward walk to it raises NotImplementedError; other:
    ``g * other^(input - 1) e^-other / gamma(input)``.

    Args:
        input: the shape a, not negative.
        other: the upper bound x, not negative.

    Source: DLMF 8.2.

    >>> rg.igamma(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 1.0]))
    tensor([0.6321, 0.2642])
    """
    return apply2(IGAMMA, input, other)


@operator(real=True, like=igamma)
def igammac(input: Operand, other: Operand) -> Tensor:
    """``1 - igamma(input, other)``, elementwise, without loss of digits: the upper part of the integral.

    Derivative: input: none, a backward walk to it raises NotImplementedError; other:
    ``-g * other^(input - 1) e^-other / gamma(input)``.

    Args:
        other: the lower bound x, not negative.

    >>> rg.igammac(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 1.0]))
    tensor([0.3679, 0.7358])
    """
    return apply2(IGAMMAC, input, other)


def _in_place(name: str, primitive: Primitive) -> None:
    def write(self: Tensor, other: Operand) -> Tensor:
        return apply_inplace(primitive, self, other)

    tensor_method(inplace_method(name, write, real=True))


_in_place("igamma", IGAMMA)
_in_place("igammac", IGAMMAC)
operator(namespace="special", method=False, name="gammainc", real=True)(igamma)
operator(namespace="special", method=False, name="gammaincc", real=True)(igammac)
