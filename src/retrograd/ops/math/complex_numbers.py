"""Complex numbers: their parts, conjugates and angles.

In the backward pass, the cotangent c of a complex z means dL = Re(c dz); the rules follow from this convention.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING, complex_of
from ...core.arrays.layout import order_like
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, apply1, apply2, operand
from ...core.tensor.tensor import Tensor, new_tensor, tensor_method
from ..table.batching import in_front
from ..table.elementwise_primitives import STAYS_ATTACHED, WHERE, ZEROS, binary, unary
from ..table.registry import operator
from ..table.types import Operand
from .trigonometric import cos, sin

REAL = Primitive("real", lambda x: x.real, "x", [lambda g: g], view=True, batch=in_front)
IMAG = Primitive("imag", lambda x: x.imag, "x", [lambda g: g * -1j], view=True, batch=in_front)


def _conjugate(x: Array) -> Array:
    return x.copy() if x.dtype == bool else np.conjugate(x)  # NumPy's conjugate of a bool is an int8


CONJ = unary("conj", _conjugate, lambda g: g.conj(), promote="same")


@operator(method=False)
def real(input: Tensor) -> Tensor:
    """``Re(input)``, elementwise, on the same memory; a real Tensor is returned itself.

    Derivative: ``g``, as a complex number.
    Dtype: any; the result is real.

    >>> rg.real(rg.tensor([1 + 2j]))
    tensor([1.])
    """
    input = operand(input)
    return apply(REAL, (input,), {}) if input.array.dtype.kind == "c" else input


@operator(method=False)
def imag(input: Tensor) -> Tensor:
    """``Im(input)``, elementwise, on the same memory.

    Derivative: ``i * g``.
    Dtype: complex only; the result is real.

    Raises:
        RuntimeError: the Tensor is not complex.

    >>> rg.imag(rg.tensor([1 + 2j]))
    tensor([2.])
    """
    input = operand(input)
    if input.array.dtype.kind != "c":
        raise RuntimeError(f"is not implemented for Tensors of a dtype that is not complex, got {input.dtype}")
    return apply(IMAG, (input,), {})


def _set_real(self: Tensor, value: Operand) -> None:
    real(self)[...] = value


def _set_imag(self: Tensor, value: Operand) -> None:
    imag(self)[...] = value


tensor_method(property(real, _set_real), "real")


class NotComplexError(RuntimeError, AttributeError):
    """The error of ``imag`` for real numbers: PyTorch's RuntimeError, and an AttributeError for ``hasattr``."""


def _imaginary_part(self: Tensor) -> Tensor:
    if self.array.dtype.kind != "c":
        raise NotComplexError(
            f"imag of {describe(self)}: is not implemented for Tensors of a dtype that is not complex; np.imag(tensor) "
            "gives zeros"
        )
    return imag(self)


_imaginary_part.__doc__ = imag.__doc__
tensor_method(property(_imaginary_part, _set_imag), "imag")


@operator(aliases=("conjugate",))
def conj(input: Tensor) -> Tensor:
    """``Re(input) - i Im(input)``, elementwise: the complex conjugate.

    A real Tensor is returned itself; ``np.conj`` of it returns a copy.

    Derivative: ``conj(g)``.

    >>> rg.conj(rg.tensor([1 + 2j]))
    tensor([1.-2.j], dtype=complex64)
    """
    input = operand(input)
    return apply1(CONJ, input) if input.array.dtype.kind == "c" else input


@operator(inplace=CONJ, numpy=np.conjugate, like=conj)
def conj_physical(input: Tensor) -> Tensor:
    """``Re(input) - i Im(input)``, elementwise: the complex conjugate, always a copy.

    >>> rg.conj_physical(rg.tensor([1 + 2j]))
    tensor([1.-2.j], dtype=complex64)
    """
    return apply1(CONJ, input)


def _angle_rule(g: Array, x: Array) -> Any:
    # d arg z = Im(dz / z) = Re(-i dz / z); at 0 the gradient is 0, as in PyTorch.
    if x.dtype.kind != "c":
        return ZEROS(g)
    return WHERE(x == 0, 0.0, g * -1j / WHERE(x == 0, 1.0, x))


def _angle(x: Array) -> Array:
    return np.angle(x) if x.dtype.kind == "c" else np.where(x < 0, math.pi, np.where(np.isnan(x), x, 0))


ANGLE = unary("angle", _angle, _angle_rule, contiguous=True)


@operator(direct=True)
def angle(input: Tensor) -> Tensor:
    """``arg(input)``, elementwise: the angle in the complex plane, in radians; 0 or pi for a real number.

    Derivative: ``g * i / conj(input)`` for complex numbers, 0 at 0; zero for real numbers.
    Dtype: floating and complex; the result is real; integers become the default dtype.

    >>> rg.angle(rg.tensor([1j, -1, 1]))
    tensor([1.5708, 3.1416, 0.    ])
    """
    return apply1(ANGLE, input)


def _parts(x: Array) -> Array:
    return x[..., None].view(x.real.dtype)


def _from_parts(x: Array) -> Array:
    size = x.dtype.itemsize
    if x.strides[-1] != size or any(stride % (2 * size) for stride in x.strides[:-1]):
        x = array_module(x).ascontiguousarray(x)
    return x.view(complex_of(x.dtype))[..., 0]


VIEW_AS_REAL: Primitive = Primitive(
    "view_as_real", _parts, "x", [lambda g: VIEW_AS_COMPLEX(g).conj()], view=True, batch=in_front
)
VIEW_AS_COMPLEX: Primitive = Primitive(
    "view_as_complex", _from_parts, "x", [lambda g: VIEW_AS_REAL(g.conj())], view=True, batch=in_front
)


@operator(method=False, like=imag)
def view_as_real(input: Tensor) -> Tensor:
    """``(Re(input), Im(input))`` along a new last dimension, on the same memory.

    Derivative: ``view_as_complex(g)``.
    Shape: (*) to (*, 2).
    Dtype: complex only; the result has the dtype of the parts.

    >>> rg.view_as_real(rg.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    input = operand(input)
    if input.array.dtype.kind != "c":
        raise RuntimeError(f"expected a complex Tensor, got {input.dtype}")
    return apply(VIEW_AS_REAL, (input,), {})


@operator(method=False)
def view_as_complex(input: Tensor) -> Tensor:
    """``input[..., 0] + i input[..., 1]``, on the same memory if the strides allow it, else a copy.

    Derivative: ``view_as_real(g)``.
    Shape: (*, 2) to (*).
    Dtype: float32 and float64; the result is complex64 or complex128.

    Raises:
        RuntimeError: the Tensor is not float32 or float64, or its last dimension does not have length 2.

    >>> rg.view_as_complex(rg.tensor([[1.0, 2.0]]))
    tensor([1.+2.j], dtype=complex64)
    """
    input = operand(input)
    if input.array.dtype not in (np.float32, np.float64) or input.array.shape[-1:] != (2,):
        raise RuntimeError(
            f"expected float32 or float64 with a last axis of length 2, got {input.dtype}{tuple(input.array.shape)}"
        )
    return apply(VIEW_AS_COMPLEX, (input,), {})


# From dL = Re(c dz): the real part gets Re(c), the imaginary part Re(i c).
COMPLEX: Primitive = binary("complex", lambda x, y: x + 1j * y, lambda g: g.real, lambda g: (g * 1j).real)


def _pair(x: Tensor, y: Tensor) -> None:
    if x.dtype.kind not in FLOATING or y.dtype.kind not in FLOATING or np.float16 in (x.dtype, y.dtype):
        raise RuntimeError(f"expected both inputs to be float32 or float64, got {describe(x)} and {describe(y)}")
    if x.dtype != y.dtype:
        raise RuntimeError(f"expected inputs of the same dtype, got {describe(x)} and {describe(y)}")


@operator(name="complex", method=False, shape="broadcast")
def complex_(real: Tensor, imag: Tensor) -> Tensor:
    """``real + i imag``, elementwise.

    Derivative: real: ``Re(g)``; imag: ``Im(g)``.
    Dtype: both float32 or both float64; the result is complex64 or complex128.

    Args:
        real: the real part.
        imag: the imaginary part.

    Raises:
        RuntimeError: the parts are not floating, or differ in dtype.

    >>> rg.complex(rg.tensor([1.0, 2.0]), rg.tensor([3.0, -4.0]))
    tensor([1.+3.j, 2.-4.j], dtype=complex64)
    """
    x, y = operand(real, "real"), operand(imag, "imag")
    _pair(x, y)
    return apply2(COMPLEX, x, y)


@operator(method=False, shape="broadcast", like=complex_)
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """``abs (cos(angle) + i sin(angle))``, elementwise.

    Derivative: abs: ``Re(g conj(e^(i angle)))``; angle: ``Re(g conj(i result))``.

    Args:
        abs: the magnitudes.
        angle: the angles in radians.

    Raises:
        RuntimeError: the inputs are not floating, or differ in dtype.

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
    """``imag(input) == 0``, elementwise; True everywhere for real dtypes.

    Dtype: any; the result is bool.

    >>> rg.isreal(rg.tensor([1 + 0j, 1j]))
    tensor([ True, False])
    """
    x = operand(input)
    if x.dtype.kind == "c":
        return new_tensor(array_module(x).asarray(x.array.imag == 0))
    return new_tensor(array_module(x).ones_like(x.array, dtype=bool, order=order_like(x.array)))
