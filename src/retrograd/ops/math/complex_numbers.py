"""Complex numbers: their parts, conjugates and angles.

In the walk the cotangent c of a complex z stands for dL = Re(c dz); the rules follow from that.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.devices import array_module
from ...core.dtypes import complex_of
from ...core.primitive import Primitive, apply, apply1, operand
from ...core.tensor import Tensor, tensor_method
from ..table.elementwise import unary
from ..table.masks import WHERE, ZEROS
from ..table.registry import operator

REAL = Primitive("real", lambda x: x.real, "x", [lambda g: g], view=True)
IMAG = Primitive("imag", lambda x: x.imag, "x", [lambda g: g * -1j], view=True)


def _conjugate(x: Any) -> Any:
    return x.copy() if x.dtype == bool else np.conjugate(x)  # NumPy's conjugate of a bool is an int8


CONJ = unary("conj", _conjugate, lambda g: g.conj(), promote="same")


@operator(method=False)
def real(input: Tensor) -> Tensor:
    """The real part, on the same memory; a real Tensor itself.

    >>> rg.real(rg.tensor([1 + 2j]))
    tensor([1.])
    """
    input = operand(input)
    return apply(REAL, (input,), {}) if input.array.dtype.kind == "c" else input


@operator(method=False)
def imag(input: Tensor) -> Tensor:
    """The imaginary part, on the same memory.

    Raises:
        RuntimeError: the Tensor is not complex.

    >>> rg.imag(rg.tensor([1 + 2j]))
    tensor([2.])
    """
    input = operand(input)
    if input.array.dtype.kind != "c":
        raise RuntimeError(f"is not implemented for Tensors of a dtype that is not complex, got {input.dtype}")
    return apply(IMAG, (input,), {})


tensor_method(property(real), "real")
tensor_method(property(imag), "imag")


@operator(numpy=np.conjugate)
def conj(input: Tensor) -> Tensor:
    """The complex conjugate; a real Tensor itself.

    >>> rg.conj(rg.tensor([1 + 2j]))
    tensor([1.-2.j], dtype=complex64)
    """
    input = operand(input)
    return apply1(CONJ, input) if input.array.dtype.kind == "c" else input


@operator(inplace=CONJ)
def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate in memory of its own, which ``conj`` gives here, too.

    >>> rg.conj_physical(rg.tensor([1 + 2j]))
    tensor([1.-2.j], dtype=complex64)
    """
    return apply1(CONJ, input)


def _angle_rule(g: Any, x: Any) -> Any:
    # d arg z = Im(dz / z) = Re(-i dz / z); at 0 the gradient is 0, as PyTorch's.
    if x.dtype.kind != "c":
        return ZEROS(g)
    return WHERE(x == 0, 0.0, g * -1j / WHERE(x == 0, 1.0, x))


def _angle(x: Any) -> Any:
    return np.angle(x) if x.dtype.kind == "c" else np.where(x < 0, math.pi, np.where(np.isnan(x), x, 0))


ANGLE = unary("angle", _angle, _angle_rule)


@operator(direct=True, note="0 at 0")
def angle(input: Tensor) -> Tensor:
    """The angle of each number in the complex plane, in radians: 0 or pi for a real one.

    >>> rg.angle(rg.tensor([1j, -1, 1]))
    tensor([1.5708, 3.1416, 0.    ])
    """
    return apply1(ANGLE, input)


def _parts(x: Any) -> Any:
    return x[..., None].view(x.real.dtype)


def _from_parts(x: Any) -> Any:
    return array_module(x).ascontiguousarray(x).view(complex_of(x.dtype))[..., 0]


VIEW_AS_REAL: Primitive = Primitive("view_as_real", _parts, "x", [lambda g: VIEW_AS_COMPLEX(g).conj()], view=True)
VIEW_AS_COMPLEX: Primitive = Primitive(
    "view_as_complex", _from_parts, "x", [lambda g: VIEW_AS_REAL(g.conj())], view=True
)


@operator(method=False)
def view_as_real(input: Tensor) -> Tensor:
    """A complex Tensor as a real one with a last axis of length 2: real and imaginary parts, on the same memory.

    Raises:
        RuntimeError: the Tensor is not complex.

    >>> rg.view_as_real(rg.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    input = operand(input)
    if input.array.dtype.kind != "c":
        raise RuntimeError(f"wanted a complex Tensor, got {input.dtype}")
    return apply(VIEW_AS_REAL, (input,), {})


@operator(method=False)
def view_as_complex(input: Tensor) -> Tensor:
    """A real Tensor whose last axis holds real and imaginary parts as a complex one, on the same memory if contiguous.

    Raises:
        RuntimeError: the Tensor is not float32 or float64, or its last axis has not length 2.

    >>> rg.view_as_complex(rg.tensor([[1.0, 2.0]]))
    tensor([1.+2.j], dtype=complex64)
    """
    input = operand(input)
    if input.array.dtype not in (np.float32, np.float64) or input.array.shape[-1:] != (2,):
        raise RuntimeError(
            f"wanted float32 or float64 with a last axis of length 2, got {input.dtype}{tuple(input.array.shape)}"
        )
    return apply(VIEW_AS_COMPLEX, (input,), {})
