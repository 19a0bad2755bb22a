"""Functions of square matrices. Their derivatives are blocks of the same function of a block triangular matrix.

The upper right block of ``f([[x, e], [0, x]])`` is the Frechet derivative in the direction ``e`` (N. Higham, Functions
of Matrices, 2008, theorem 3.6). The vector-Jacobian product is this derivative at the transposed matrix, in the
direction of the upstream gradient. So one rule serves all functions and all orders of derivatives.
"""

from __future__ import annotations

import numpy as np

from ..._generated import linalg as ours
from ..._generated import toplevel as ops
from ...core.arrays import Array
from ...core.arrays.dtypes import complex_of
from ...core.graph.primitive import Primitive, apply
from ...core.tensor.tensor import Tensor
from ...ops.linear.matrices import transposed
from ...ops.table.batching import in_front
from ..decorators import ArrayLike
from .equations import SYLVESTER
from .matrices import each, linalg, matrix, pair


def _corner(primitive: Primitive, x: Array, direction: Array, **params: float) -> Array:
    """Return the upper right block of a function of ``[[x, direction], [0, x]]``."""
    top = np.concatenate([x, direction], axis=-1)
    bottom = np.concatenate([np.zeros_like(direction), x], axis=-1)
    n = x.shape[-1]
    return primitive(np.concatenate([top, bottom], axis=-2), **params)[..., :n, n:]


def _values(name: str, x: Array, **options: float) -> Array:
    """Return SciPy's function of each matrix in the precision of ``x``; SciPy decides whether it is complex."""
    result = each(name, x, **options)
    turned = result.dtype.kind == "c" and x.dtype.kind == "f"
    return result.astype(complex_of(x.dtype) if turned else x.dtype, copy=False)


def _function(name: str) -> Primitive:
    primitive: Primitive = Primitive(
        f"scipy.linalg.{name}",
        lambda x: _values(name, x),
        "x",
        [lambda g, x: _corner(primitive, transposed(x), g)],
        batch=in_front,
    )
    return primitive


_PRIMITIVES = {name: _function(name) for name in ("logm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm")}
_SQRTM = Primitive(
    "scipy.linalg.sqrtm",
    lambda x: _values("sqrtm", x),
    "x",
    [lambda g, ans: SYLVESTER(transposed(ans), transposed(ans), g)],
    batch=in_front,
)


_POWER: Primitive = Primitive(
    "scipy.linalg.fractional_matrix_power",
    lambda x, t: _values("fractional_matrix_power", x, t=t),
    "x",
    [lambda g, x, t: _corner(_POWER, transposed(x), g, t=t)],
    batch=in_front,
)


def _applied(name: str, A: ArrayLike) -> Tensor:
    return apply(_PRIMITIVES[name], (matrix(A, square=True),), {})


@linalg
def expm(A: ArrayLike) -> Tensor:
    """Return the exponential of each square matrix.

    >>> rg.scipy.linalg.expm(rg.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return ours.matrix_exp(matrix(A, square=True))


@linalg
def expm_frechet(
    A: ArrayLike, E: ArrayLike, method: str | None = None, compute_expm: bool = True, check_finite: bool = True
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the exponential of ``A`` and its Frechet derivative in the direction ``E``.

    >>> rg.scipy.linalg.expm_frechet(rg.zeros(1, 1), rg.ones(1, 1), compute_expm=False)
    tensor([[1.]])
    """
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"Unknown implementation {method}")
    a, e = pair(A, E, check_finite)
    if a.shape != e.shape or a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"expected A and E to be square matrices of one shape, got {tuple(a.shape)}, {tuple(e.shape)}")
    n = a.shape[-1]
    top, bottom = ops.cat([a, e], -1), ops.cat([ops.zeros_like(a), a], -1)
    whole = ours.matrix_exp(ops.cat([top, bottom], -2))
    return (whole[:n, :n], whole[:n, n:]) if compute_expm else whole[:n, n:]


@linalg
def sqrtm(A: ArrayLike) -> Tensor:
    """Return the principal square root of each square matrix, complex if a real matrix has no real root.

    Derivative: the solution ``d`` of ``S^T d + d S^T = g``, where ``S`` is the result.

    >>> rg.scipy.linalg.sqrtm(rg.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[2., 0.],
            [0., 3.]])
    """
    return apply(_SQRTM, (matrix(A, square=True),), {})


@linalg
def logm(A: ArrayLike) -> Tensor:
    """Return the principal logarithm of each square matrix, complex if a real matrix has no real logarithm.

    >>> rg.scipy.linalg.logm(rg.eye(1))
    tensor([[0.]])
    """
    return _applied("logm", A)


@linalg
def fractional_matrix_power(A: ArrayLike, t: float) -> Tensor:
    """Return the power ``t``, a number, of each square matrix.

    >>> rg.scipy.linalg.fractional_matrix_power(rg.tensor([[4.0]]), 0.5)
    tensor([[2.]])
    """
    if isinstance(t, Tensor):
        raise NotImplementedError(
            "scipy.linalg.fractional_matrix_power: a Tensor t has no derivative; use expm(t * logm(A))"
        )
    return apply(_POWER, (matrix(A, square=True),), {"t": t})


@linalg
def cosm(A: ArrayLike) -> Tensor:
    """Return the cosine of a square matrix.

    >>> rg.scipy.linalg.cosm(rg.zeros(1, 1))
    tensor([[1.]])
    """
    return _applied("cosm", A)


@linalg
def sinm(A: ArrayLike) -> Tensor:
    """Return the sine of a square matrix.

    >>> rg.scipy.linalg.sinm(rg.zeros(1, 1))
    tensor([[0.]])
    """
    return _applied("sinm", A)


@linalg
def tanm(A: ArrayLike) -> Tensor:
    """Return the tangent of a square matrix.

    >>> rg.scipy.linalg.tanm(rg.zeros(1, 1))
    tensor([[0.]])
    """
    return _applied("tanm", A)


@linalg
def coshm(A: ArrayLike) -> Tensor:
    """Return the hyperbolic cosine of a square matrix.

    >>> rg.scipy.linalg.coshm(rg.zeros(1, 1))
    tensor([[1.]])
    """
    return _applied("coshm", A)


@linalg
def sinhm(A: ArrayLike) -> Tensor:
    """Return the hyperbolic sine of a square matrix.

    >>> rg.scipy.linalg.sinhm(rg.zeros(1, 1))
    tensor([[0.]])
    """
    return _applied("sinhm", A)


@linalg
def tanhm(A: ArrayLike) -> Tensor:
    """Return the hyperbolic tangent of a square matrix.

    >>> rg.scipy.linalg.tanhm(rg.zeros(1, 1))
    tensor([[0.]])
    """
    return _applied("tanhm", A)
