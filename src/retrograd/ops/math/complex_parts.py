"""Complex numbers made of their parts, or of their magnitudes and angles."""

from __future__ import annotations

import numpy as np

from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING
from ...core.arrays.layout import order_like
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, apply2, operand
from ...core.tensor.tensor import Tensor, new_tensor
from ..table.elementwise import STAYS_ATTACHED, binary
from ..table.registry import operator
from .trigonometric import cos, sin

# The cotangent c of a complex z stands for dL = Re(c dz): Re(c) of the real part, Re(i c) of the imaginary one.
COMPLEX: Primitive = binary("complex", lambda x, y: x + 1j * y, lambda g: g.real, lambda g: (g * 1j).real)


def _pair(x: Tensor, y: Tensor) -> None:
    if x.dtype.kind not in FLOATING or y.dtype.kind not in FLOATING or np.float16 in (x.dtype, y.dtype):
        raise RuntimeError(f"expected both inputs to be float32 or float64, got {describe(x)} and {describe(y)}")
    if x.dtype != y.dtype:
        raise RuntimeError(f"expected inputs of one dtype, got {describe(x)} and {describe(y)}")


@operator(name="complex", method=False, shape="broadcast")
def complex_(real: Tensor, imag: Tensor) -> Tensor:
    """``real + i imag``, elementwise.

    Derivative: real: ``Re(g)``; imag: ``Im(g)``.
    Dtype: both float32 or both float64; complex64 or complex128.

    Args:
        real: the real part.
        imag: the imaginary part.

    Raises:
        RuntimeError: the parts are not floating, or of two dtypes.

    >>> rg.complex(rg.tensor([1.0, 2.0]), rg.tensor([3.0, -4.0]))
    tensor([1.+3.j, 2.-4.j], dtype=complex64)
    """
    x, y = operand(real, "real"), operand(imag, "imag")
    _pair(x, y)
    return apply2(COMPLEX, x, y)


@operator(method=False, shape="broadcast")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """``abs (cos(angle) + i sin(angle))``, elementwise.

    Derivative: abs: ``Re(g conj(e^(i angle)))``; angle: ``Re(g conj(i result))``.
    Dtype: both float32 or both float64; complex64 or complex128.

    Args:
        abs: the magnitudes.
        angle: the angles in radians.

    Raises:
        RuntimeError: the inputs are not floating, or of two dtypes.

    >>> rg.polar(rg.tensor([1.0, 2.0]), rg.tensor([0.0, np.pi])).real
    tensor([ 1., -2.])
    """
    r, phi = operand(abs, "abs"), operand(angle, "angle")
    _pair(r, phi)
    if r._requires:
        r = apply(STAYS_ATTACHED, (r,), {})
    return apply2(COMPLEX, r * cos(phi), r * sin(phi))


@operator(differentiable=False)
def isreal(input: Tensor) -> Tensor:
    """``imag(input) == 0``, elementwise: everywhere, where numbers are not complex.

    Dtype: all; bool.

    >>> rg.isreal(rg.tensor([1 + 0j, 1j]))
    tensor([ True, False])
    """
    x = operand(input)
    if x.dtype.kind == "c":
        return new_tensor(array_module(x).asarray(x.array.imag == 0))
    return new_tensor(array_module(x).ones_like(x.array, dtype=bool, order=order_like(x.array)))
