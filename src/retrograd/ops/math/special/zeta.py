"""The zeta function and the incomplete gamma functions.

PyTorch does not define their derivatives with respect to the first argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.arrays import Array
from ....core.graph.primitive import Primitive, apply2
from ....core.tensor.mutation import apply_inplace
from ....core.tensor.tensor import Tensor, tensor_method
from ...table.elementwise_primitives import WHERE, elementwise
from ...table.registry import inplace_method, operator
from ...table.types import Operand
from ..exponential import EXP, LOG
from .gamma import LGAMMA
from .libraries import library_for
from .orders import difference, double, step_of


def _from_library(name: str) -> Callable[[Any, Any], Any]:
    """Return the library's function of two arrays or numbers, with results in the dtype of the arrays."""

    def forward(x: Any, y: Any) -> Any:
        array = x if hasattr(x, "dtype") else y
        return getattr(library_for(array), name)(x, y).astype(array.dtype)

    return forward


def _density(a: Array, x: Array) -> Array:
    return EXP((a - 1) * LOG(x) - x - LGAMMA(a))


def gamma_slope(a: Array, x: Array) -> Array:
    """Return the derivative of the lower incomplete gamma function with respect to ``a``.

    It is computed from the smaller of the lower and the upper function.
    """
    a, x = double(a), double(x)

    def part(a: Array) -> Array:
        return WHERE(low, IGAMMA(a, x), -IGAMMAC(a, x))

    low = x < a
    return difference(part, a, step_of(x / (a + 1), of=a, growing=True))


def _zeta_slope(x: Array, q: Array) -> Array:
    """Return the derivative with respect to ``x``; the derivative of the first, often dominant term is exact."""
    x, q = double(x), double(q)
    rest = difference(lambda x: ZETA(x, q + 1), x, step_of(q + 1, of=x - 1))
    return rest - LOG(q) * EXP(-x * LOG(q))


ZETA: Primitive = elementwise(
    "special.zeta",
    _from_library("zeta"),
    "x q",
    [lambda g, x, q: g * _zeta_slope(x, q), lambda g, x, q: -g * x * ZETA(x + 1, q)],
    promote="float",
    signals=True,
)
IGAMMA: Primitive = elementwise(
    "igamma",
    _from_library("gammainc"),
    "a x",
    [lambda g, a, x: g * gamma_slope(a, x), lambda g, a, x: g * _density(a, x)],
    promote="float",
    signals=True,
)
IGAMMAC: Primitive = elementwise(
    "igammac",
    _from_library("gammaincc"),
    "a x",
    [lambda g, a, x: -g * gamma_slope(a, x), lambda g, a, x: -g * _density(a, x)],
    promote="float",
    signals=True,
)


@operator(namespace="special", method=False, real=True, dtype="single or double")
def zeta(input: Operand, other: Operand) -> Tensor:
    """``sum_{k >= 0} (k + other)^-input``, the Hurwitz zeta function, elementwise; Riemann's for ``other = 1``.

    Derivative: input: by differences of order 16 in float64, to about ten digits; other:
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
    """``1 / gamma(input) * integral_0^other t^(input - 1) e^-t dt``, elementwise: the lower incomplete gamma function.

    Derivative: input: by differences of order 16 in float64, to about ten digits (PyTorch has none); other:
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
    """``1 - igamma(input, other)``, elementwise, without cancellation: the upper incomplete gamma function.

    Derivative: input: by differences of order 16 in float64, to about ten digits (PyTorch has none); other:
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
