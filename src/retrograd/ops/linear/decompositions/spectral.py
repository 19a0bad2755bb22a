"""Eigenvalues of symmetric and Hermitian matrices, and singular values.

The rules are those for real matrices, with conjugates for complex matrices. Cotangents use the transpose convention of
the backward pass (see docs/architecture.md), so each is the conjugate of PyTorch's gradient. The phases of complex
vectors are arbitrary; the backward pass checks that the differentiated function does not depend on them.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import Wrapping, array_module
from ....core.graph.modes import modes
from ....core.graph.primitive import Primitive, apply
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor
from ...table.batching import in_front
from ...table.registry import also_named, operator
from ...table.types import Operand
from ..matrices import adjoint, finite, hermitian, matrices, transposed
from ..products.matmul import MATMUL

# Symmetric eigenvalue problems


def _eigh_rule(g: tuple[Array, ...], ans: tuple[Array, ...]) -> Array:
    """V* (diag(gw) + (V^T gV) / E) V^T, made Hermitian; E_ij = w_j - w_i. Infinite for equal eigenvalues."""
    w, v = ans
    gw, gv = g
    inner = MATMUL(transposed(v), gv)
    check_phases("eigenvectors", inner)
    gaps = np.expand_dims(w, -2) - np.expand_dims(w, -1)
    return hermitian(MATMUL(MATMUL(v.conj(), _diagonal(gw) + _over(inner, gaps)), transposed(v)))


def check_phases(vectors: str, turned: Array, others: Array | None = None) -> None:
    """Raise an error if the differentiated function depends on the phases of complex vectors, which are arbitrary.

    Args:
        vectors: the name of the vectors, for the message.
        turned: a matrix whose diagonal has the derivatives with respect to the phases as imaginary parts.
        others: the same matrix for other vectors that share these phases.

    Raises:
        RuntimeError: a derivative is not 0, by more than PyTorch's tolerance.
    """
    arrays = [getattr(value, "array", value) for value in (turned, others) if value is not None]
    if arrays[0].dtype.kind != "c" or modes.tracer is not None or isinstance(arrays[0], Wrapping):
        return
    diagonals = [array.diagonal(axis1=-2, axis2=-1).imag for array in arrays]
    if bool((abs(sum(diagonals)) > 1e-2 * (1 + abs(diagonals[-1] if others is not None else 0))).any()):
        raise RuntimeError(
            f"complex {vectors} are determined up to a factor exp(i phi), and the function that is differentiated "
            "depends on phi: its gradient is not defined; use only what does not depend on it, such as abs()"
        )


def _diagonal(x: Array) -> Array:
    """Return a matrix with the vector x on its diagonal."""
    return np.expand_dims(x, -1) * array_module(x).eye(x.shape[-1], dtype=x.dtype)


def _over(x: Array, gaps: Array) -> Array:
    """x / gaps off the diagonal; 0 on the diagonal and where both are 0."""
    return _quotient(x, gaps, array_module(x).eye(x.shape[-1], dtype=bool))


def _quotient(x: Array, y: Array, nothing: Any = False) -> Array:
    """x / y; 0 where both are 0 and where ``nothing`` is True."""
    nothing = nothing | (getattr(y, "array", y) == 0) & (getattr(x, "array", x) == 0)
    return np.where(nothing, 0, x) / np.where(nothing, 1, y)


EIGH = Primitive(
    "linalg.eigh", lambda x, uplo: tuple(np.linalg.eigh(x, UPLO=uplo)), "x", [_eigh_rule], outputs=2, batch=in_front
)


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors, as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@operator(namespace="linalg", method=False, raises="convergence")
@also_named(input="A")
def eigh(A: Operand, UPLO: Literal["L", "U"] = "L") -> EighResult:
    """``w, V`` with ``A = V @ diag(w) @ V^H``: eigenvalues and eigenvectors of each symmetric (Hermitian) matrix.

    Derivative: the Hermitian part of ``V (diag(gw) + (V^H gV) / E) V^H``, ``E_ij = w_j - w_i``. For equal
    eigenvalues, the derivative of their eigenvectors is NaN or infinite (as in PyTorch and JAX), and 0 where neither of
    two eigenvectors has a gradient, as in ``V[:, :k]``: ``V f(w) V^H`` with ``f(w) = 0`` for equal
    eigenvalues misses a part of its gradient. Complex eigenvectors: for functions that do not depend on their phases.
    Shape: (..., n, n) to w (..., n) and V (..., n, n).
    Dtype: float32, float64 and complex, whose eigenvalues are real.

    Args:
        A: the matrices, of which one triangle is read.
        UPLO: which one: the lower or the upper.

    Returns:
        The named tuple ``(eigenvalues, eigenvectors)``, ascending, the vectors as columns.

    Raises:
        RuntimeError: the matrices are not square or hold other numbers, or ``UPLO`` is unknown.

    >>> rg.linalg.eigh(rg.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    x = matrices(A, square=True)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"UPLO must be 'L' or 'U', not {UPLO!r}")
    return EighResult(*apply(EIGH, (x,), {"uplo": UPLO.upper()}))


@operator(namespace="linalg", method=False, like=eigh)
@also_named(input="A")
def eigvalsh(A: Operand, UPLO: Literal["L", "U"] = "L") -> Tensor:
    """``w`` with ``A = V @ diag(w) @ V^H``: the eigenvalues of each symmetric (Hermitian) matrix, ascending.

    Derivative: ``V diag(g) V^H``; for equal eigenvalues, the derivative for one choice of eigenvectors.
    Shape: (..., n, n) to (..., n).

    Returns:
        The eigenvalues, ascending.

    >>> rg.linalg.eigvalsh(rg.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """
    return eigh(A, UPLO).eigenvalues


# Singular values


def _svd_rule(g: tuple[Array, ...], ans: tuple[Array, ...]) -> Array:
    """For real matrices, with skew(X) = X - X^T and E_ij = s_j^2 - s_i^2 (J. Townsend 2016):

    U [skew(U^T gU)/E S + S skew(V^T gV)/E + diag(gs)] V^T + (1 - UU^T) gU S^-1 V^T + U S^-1 gV^T (1 - VV^T).

    For complex matrices skew(X) = X - X^H, and diag(skew(U^T gU) / (2 S)), for the phases that U and V share, is added
    to gs (Z. Wan and S. Zhang, 2019).
    """
    u, s, vh = ans
    gu, gs, gvh = g
    # The additional vectors of full_matrices are arbitrary within the space they span: they have no gradient (PyTorch).
    u, gu = u[..., : s.shape[-1]], gu[..., : s.shape[-1]]
    vh, gvh = vh[..., : s.shape[-1], :], gvh[..., : s.shape[-1], :]
    k = s.shape[-1]
    columns, rows = np.expand_dims(s, -2), np.expand_dims(s, -1)
    gaps = (columns - rows) * (columns + rows)
    left, right = MATMUL(transposed(u), gu), MATMUL(vh.conj(), adjoint(gvh))
    check_phases("singular vectors", left, right)
    turn, turn_back = left - adjoint(left), right - adjoint(right)
    inner = _over(turn, gaps) * columns + rows * _over(turn_back, gaps) + _diagonal(gs)
    if u.dtype.kind == "c":
        eye = array_module(u).eye(k, dtype=u.dtype)
        inner = inner + _quotient(turn * eye, 2 * columns)
    u, vh = u.conj(), vh.conj()
    result = MATMUL(MATMUL(u, inner), vh)
    if u.shape[-2] > k:
        result = result + MATMUL(_quotient(gu - MATMUL(u, left), columns), vh)
    if vh.shape[-1] > k:
        result = result + MATMUL(u, _quotient(gvh - MATMUL(adjoint(right), vh), rows))
    return result


SVD = Primitive(
    "linalg.svd",
    lambda x, full: tuple(np.linalg.svd(finite(x), full_matrices=full)),
    "x",
    [_svd_rule],
    outputs=3,
    batch=in_front,
)


class SVDResult(NamedTuple):
    """The factors of ``A = U @ diag(S) @ Vh``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@operator(namespace="linalg", method=False, raises="convergence, matrix")
def svd(A: Operand, full_matrices: bool = True, *, driver: str | None = None) -> SVDResult:
    """``U, S, Vh`` with ``A = U @ diag(S) @ Vh``: orthonormal U and Vh, and the singular values, descending.

    Derivative: with ``E_ij = s_j^2 - s_i^2`` and ``skew(X) = X - X^H``:
    ``U (skew(U^H gU)/E S + S skew(V^H gV)/E + diag(gS)) V^H + (1 - U U^H) gU S^-1 V^H + U S^-1 gV^H (1 - V V^H)``; of
    complex matrices also ``diag(skew(U^H gU) / (2 S))`` by ``diag(gS)``, for functions that do not depend on the phases
    of pairs of vectors. For equal singular values, the derivative of U and Vh is not finite.
    Shape: (..., m, n) to U (..., m, k), S (..., k), Vh (..., k, n), ``k = min(m, n)``; U (..., m, m) and Vh (..., n, n)
    with ``full_matrices``.
    Dtype: float32, float64 and complex, whose singular values are real.

    Args:
        full_matrices: complete U and Vh to square matrices, by vectors that have no gradient.
        driver: accepted and ignored.

    Returns:
        The named tuple ``(U, S, Vh)``.

    Source: the derivative: J. Townsend, Differentiating the Singular Value Decomposition, 2016.

    >>> rg.linalg.svd(rg.tensor([[3.0, 0.0], [0.0, -2.0]])).S
    tensor([3., 2.])
    """
    x = matrices(A)
    return SVDResult(*apply(SVD, (x,), {"full": full_matrices}))


class OldSVDResult(NamedTuple):
    """The factors of ``A = U @ diag(S) @ V^T``."""

    U: Tensor
    S: Tensor
    V: Tensor


@operator(name="svd", raises="convergence, matrix", args="input matrices", like=svd)
def svd_(input: Operand, some: bool = True, compute_uv: bool = True) -> OldSVDResult:
    """``U, S, V`` with ``input = U @ diag(S) @ V^H``: ``linalg.svd`` with V instead of its transpose.

    Derivative: as ``linalg.svd``.
    Shape: (..., m, n) to U (..., m, k), S (..., k), V (..., n, k), ``k = min(m, n)``; square U and V without ``some``.

    Args:
        some: False completes U and V to square matrices.
        compute_uv: False gives zeros for U and V.

    Returns:
        The named tuple ``(U, S, V)``.

    >>> rg.svd(rg.ones(3, 2)).V.shape
    (2, 2)
    """
    u, s, vh = svd(input, full_matrices=not some)
    if not compute_uv:
        return OldSVDResult(u.detach() * 0, s, vh.detach().mH * 0)
    return OldSVDResult(u, s, vh.mH.contiguous())


@operator(namespace="linalg", method=False, like=svd)
def svdvals(A: Operand, *, driver: str | None = None) -> Tensor:
    """``S`` with ``A = U @ diag(S) @ Vh``: the singular values of each matrix, descending.

    Derivative: ``U diag(g) Vh``; for equal singular values, the derivative for one choice of U and Vh.
    Shape: (..., m, n) to (..., min(m, n)).

    Returns:
        The singular values, descending.

    >>> rg.linalg.svdvals(rg.tensor([[3.0, 0.0], [0.0, -2.0]]))
    tensor([3., 2.])
    """
    return svd(A, full_matrices=False).S
