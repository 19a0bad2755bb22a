"""Bessel functions of order 0 and 1 and Airy's function, as in ``torch.special``, which defines no derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import backend_of
from ....core.graph.primitive import Primitive, apply1
from ....core.tensor.tensor import Tensor
from ...table.elementwise_primitives import WHERE, unary
from ...table.registry import operator
from ..trigonometric import COS
from .gamma import I0, I1
from .libraries import from_library, library_for


def _quotient(x: Array, y: Array) -> Any:
    """``J1(x) / x``, 1/2 at 0; near 0 by its series, whose derivatives do not cancel."""
    near = np.abs(x) < 0.05
    square = WHERE(near, x, 0.0) ** 2
    series = 1 / 2 - square * (1 / 16 - square * (1 / 384 - square * (1 / 18432)))
    return WHERE(near, series, y / WHERE(near, 1.0, x))


J0 = unary("special.bessel_j0", from_library("j0"), lambda g, x: -g * J1(x))
J1: Primitive = unary("special.bessel_j1", from_library("j1"), lambda g, x, ans: g * (J0(x) - _quotient(x, ans)))
Y0 = unary("special.bessel_y0", from_library("y0"), lambda g, x: -g * Y1(x), signals=True)
Y1: Primitive = unary("special.bessel_y1", from_library("y1"), lambda g, x, ans: g * (Y0(x) - ans / x), signals=True)
K0 = unary("special.modified_bessel_k0", from_library("k0"), lambda g, x: -g * K1(x), signals=True)
K1: Primitive = unary(
    "special.modified_bessel_k1", from_library("k1"), lambda g, x, ans: -g * (K0(x) + ans / x), signals=True
)
K0E = unary(
    "special.scaled_modified_bessel_k0", from_library("k0e"), lambda g, x, ans: g * (ans - K1E(x)), signals=True
)
K1E: Primitive = unary(
    "special.scaled_modified_bessel_k1",
    from_library("k1e"),
    lambda g, x, ans: g * (ans - K0E(x) - ans / x),
    signals=True,
)


def _spherical_rule(g: Array, x: Array, ans: Array) -> Array:
    # (cos x - sin(x) / x) / x; near 0 by its series.
    near = np.abs(x) < 0.3
    small = WHERE(near, x, 0.0)
    square = small * small
    series = -small / 3 * (1 - square / 10 * (1 - square / 28 * (1 - square / 54 * (1 - square / 88))))
    return g * WHERE(near, series, (COS(x) - ans) / WHERE(near, 1.0, x))


SPHERICAL_J0 = unary(
    "special.spherical_bessel_j0",
    lambda x: np.where(x == 0, 1, np.sin(x) / np.where(x == 0, 1, x)).astype(x.dtype),
    _spherical_rule,
)


def _airy(which: int) -> Any:
    def forward(x: Any) -> Any:
        backend = backend_of(x)  # CuPy lacks the function: it is computed with NumPy
        array = backend.to_numpy(x)
        return backend.asarray(library_for(array).airy(array)[which], dtype=x.dtype)

    return forward


AIRY = unary("special.airy_ai", _airy(0), lambda g, x: g * AIRY_SLOPE(x))
AIRY_SLOPE: Primitive = unary("airy_ai_slope", _airy(1), lambda g, x: g * x * AIRY(x))


@operator(namespace="special", method=False, real=True, dtype="float", raises="scipy")
def bessel_j0(input: Tensor) -> Tensor:
    """``J_0(input)``, the Bessel function of the first kind, elementwise.

    Derivative: ``-g * J_1(input)``.

    Source: DLMF 10.2.

    >>> rg.special.bessel_j0(rg.tensor([0.0, 1.0]))
    tensor([1.    , 0.7652])
    """
    return apply1(J0, input)


@operator(namespace="special", method=False, real=True, like=bessel_j0)
def bessel_j1(input: Tensor) -> Tensor:
    """``J_1(input)``, the Bessel function of the first kind, elementwise.

    Derivative: ``g * (J_0(input) - J_1(input) / input)``, ``g / 2`` at 0.

    >>> rg.special.bessel_j1(rg.tensor([0.0, 1.0]))
    tensor([0.    , 0.4401])
    """
    return apply1(J1, input)


@operator(namespace="special", method=False, real=True, like=bessel_j0)
def bessel_y0(input: Tensor) -> Tensor:
    """``Y_0(input)``, the Bessel function of the second kind; -inf at 0, NaN below, elementwise.

    Derivative: ``-g * Y_1(input)``.

    >>> rg.special.bessel_y0(rg.tensor([1.0, 2.0]))
    tensor([0.0883, 0.5104])
    """
    return apply1(Y0, input)


@operator(namespace="special", method=False, real=True, like=bessel_j0)
def bessel_y1(input: Tensor) -> Tensor:
    """``Y_1(input)``, the Bessel function of the second kind; -inf at 0, NaN below, elementwise.

    Derivative: ``g * (Y_0(input) - Y_1(input) / input)``.

    >>> rg.special.bessel_y1(rg.tensor([1.0, 2.0]))
    tensor([-0.7812, -0.107 ])
    """
    return apply1(Y1, input)


@operator(namespace="special", method=False, real=True, dtype="float", raises="scipy")
def modified_bessel_i0(input: Tensor) -> Tensor:
    """``I_0(input)``, the modified Bessel function of the first kind, elementwise.

    Derivative: ``g * I_1(input)``.

    Source: DLMF 10.25.

    >>> rg.special.modified_bessel_i0(rg.tensor([0.0, 1.0]))
    tensor([1.    , 1.2661])
    """
    return apply1(I0, input)


@operator(namespace="special", method=False, real=True, like=modified_bessel_i0)
def modified_bessel_i1(input: Tensor) -> Tensor:
    """``I_1(input)``, the modified Bessel function of the first kind, elementwise.

    Derivative: ``g * (I_0(input) - I_1(input) / input)``, ``g / 2`` at 0.

    >>> rg.special.modified_bessel_i1(rg.tensor([0.0, 1.0]))
    tensor([0.    , 0.5652])
    """
    return apply1(I1, input)


@operator(namespace="special", method=False, real=True, like=modified_bessel_i0)
def modified_bessel_k0(input: Tensor) -> Tensor:
    """``K_0(input)``, the modified Bessel function of the second kind; inf at 0, NaN below, elementwise.

    Derivative: ``-g * K_1(input)``.

    >>> rg.special.modified_bessel_k0(rg.tensor([1.0, 2.0]))
    tensor([0.421 , 0.1139])
    """
    return apply1(K0, input)


@operator(namespace="special", method=False, real=True, like=modified_bessel_i0)
def modified_bessel_k1(input: Tensor) -> Tensor:
    """``K_1(input)``, the modified Bessel function of the second kind; inf at 0, NaN below, elementwise.

    Derivative: ``-g * (K_0(input) + K_1(input) / input)``.

    >>> rg.special.modified_bessel_k1(rg.tensor([1.0, 2.0]))
    tensor([0.6019, 0.1399])
    """
    return apply1(K1, input)


@operator(namespace="special", method=False, real=True, like=modified_bessel_i0)
def scaled_modified_bessel_k0(input: Tensor) -> Tensor:
    """``e^input K_0(input)``, elementwise.

    Derivative: ``g * e^input (K_0(input) - K_1(input))``.

    >>> rg.special.scaled_modified_bessel_k0(rg.tensor([1.0, 2.0]))
    tensor([1.1445, 0.8416])
    """
    return apply1(K0E, input)


@operator(namespace="special", method=False, real=True, like=modified_bessel_i0)
def scaled_modified_bessel_k1(input: Tensor) -> Tensor:
    """``e^input K_1(input)``, elementwise.

    Derivative: ``g * e^input (K_1(input) - K_0(input) - K_1(input) / input)``.

    >>> rg.special.scaled_modified_bessel_k1(rg.tensor([1.0, 2.0]))
    tensor([1.6362, 1.0335])
    """
    return apply1(K1E, input)


@operator(namespace="special", method=False, real=True, dtype="float")
def spherical_bessel_j0(input: Tensor) -> Tensor:
    """``sin(input) / input``, 1 at 0: the spherical Bessel function, elementwise.

    Derivative: ``g * (cos(input) - result) / input``, 0 at 0.

    Source: DLMF 10.49.

    >>> rg.special.spherical_bessel_j0(rg.tensor([0.0, 1.0]))
    tensor([1.    , 0.8415])
    """
    return apply1(SPHERICAL_J0, input)


@operator(namespace="special", method=False, real=True, dtype="float", raises="scipy")
def airy_ai(input: Tensor) -> Tensor:
    """``Ai(input)``, Airy's function, elementwise.

    Derivative: ``g * Ai'(input)``.

    Source: DLMF 9.2.

    >>> rg.special.airy_ai(rg.tensor([0.0, 1.0]))
    tensor([0.355 , 0.1353])
    """
    return apply1(AIRY, input)
