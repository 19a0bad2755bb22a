"""Singular values and principal components of low rank, by random projections."""

from __future__ import annotations

from typing import Any

from ....core.arrays.devices import array_module
from ....core.errors import InvalidValue, describe
from ....core.tensor.tensor import Tensor, new_tensor
from ...make.random_arrays import standard_normal
from ...table.arguments import integer
from ...table.registry import operator
from ..matrices import matrices
from ..solving.systems import solve_triangular
from .factorizations import cholesky, qr
from .spectral import OldSVDResult, eigh, svd


def _svd_lowrank(a: Tensor, q: int, niter: int) -> OldSVDResult:
    rows, columns = a.array.shape[-2:]
    if integer(q, "q") < 0:
        raise RuntimeError(f"q must not be negative, got {q}")
    if niter < 0:
        raise InvalidValue(f"niter must not be negative, got {niter}")
    if rows < columns:
        u, s, v = _svd_lowrank(a.mH, q, niter)
        return OldSVDResult(v, s, u)
    noise = new_tensor(standard_normal(array_module(a), (columns, q), a.dtype))
    basis = qr(a @ noise).Q
    for _ in range(niter):
        basis = qr(a @ qr(a.mH @ basis).Q).Q
    u, s, vh = svd(basis.mH @ a, full_matrices=False)
    return OldSVDResult(basis @ u, s, vh.mH)


@operator(method=False, derivative="of the steps", dtype="real S")
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int = 2, M: Tensor | None = None) -> OldSVDResult:
    """``U, S, V`` with ``A - M`` near ``U @ diag(S) @ V^H``: the largest q singular values, by random projections.

    Shape: A ``(..., m, n)``, with which M broadcasts, to U ``(..., m, q)``, S ``(..., q)``, V ``(..., n, q)``.

    Args:
        q: the number of singular values; at least the rank of A for an exact result.
        niter: the number of subspace iterations; more are needed where singular values decrease slowly.
        M: a matrix that is subtracted from A; by default none.

    Returns: (U, S, V).

    Raises:
        RuntimeError: q is negative.
        ValueError: niter is negative.

    Source: Halko, Martinsson and Tropp, Finding structure with randomness, 2009, algorithms 4.4 and 5.1.

    >>> rg.svd_lowrank(rg.ones(4, 3), 1).S
    tensor([3.4641])
    """
    a = matrices(_dense(A))
    return _svd_lowrank(a if M is None else a - M, 6 if q is None else q, niter)


@operator(method=False, derivative="of the steps", dtype="real S")
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> OldSVDResult:
    """``U, S, V`` with ``A - mean(A, -2)`` near ``U @ diag(S) @ V^H``: principal directions are the columns of V.

    Shape: ``(..., m, n)``, m examples of n numbers, to U ``(..., m, q)``, S ``(..., q)``, V ``(..., n, q)``.

    Args:
        A: the examples.
        q: the number of principal components; by default the least of 6, m and n.
        center: whether to subtract the mean of the examples.
        niter: the number of subspace iterations.

    Returns: (U, S, V).

    Raises:
        ValueError: q or niter is out of range.

    Source: Halko, Martinsson and Tropp, Finding structure with randomness, 2009.

    >>> rg.pca_lowrank(rg.tensor([[0.0, 0.0], [1.0, 1.0]]), 1).S
    tensor([1.])
    """
    a = matrices(_dense(A))
    most = min(a.array.shape[-2:])
    q = min(6, most) if q is None else integer(q, "q")
    if not 0 <= q <= most:
        raise InvalidValue(f"q must lie between 0 and {most}, got {q} for {describe(a)}")
    return _svd_lowrank(a - a.mean(-2, keepdim=True) if center else a, q, niter)


def _dense(x: Any) -> Tensor:
    return x.to_dense() if getattr(x, "is_sparse", False) else x


@operator(method=False)
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: object = None,
    ortho_iparams: object = None,
    ortho_fparams: object = None,
    ortho_bparams: object = None,
) -> tuple[Tensor, Tensor]:
    """``E, X`` with ``A X = B X diag(E)``: the k largest or smallest eigenvalues of symmetric A, and eigenvectors.

    A full decomposition computes the eigenvalues, so the arguments of PyTorch's iteration are accepted and ignored.

    Derivative: that of ``linalg.eigh``, applied to ``(A + A^H) / 2``, so that both triangles of A get the same
    gradient.
    Shape: A and B (..., m, m) to E (..., k) and X (..., m, k).
    Dtype: float32, float64 and complex, preserved; E is real.

    Args:
        A: symmetric matrices, or a sparse one.
        k: the number of eigenvalues; by default the number of columns of X, or 1 without X.
        B: symmetric positive-definite matrices, by default the identity matrix.
        X: the start of PyTorch's iteration, of which only the number of columns is used here.
        n, iK, niter, tol, method, tracker, ortho_iparams, ortho_fparams, ortho_bparams: accepted for compatibility.
        largest: True, the default, for the largest eigenvalues in descending order; False for the smallest in ascending
            order.

    Returns: (E, X).

    Raises:
        RuntimeError: k is not between 1 and m, or an input is not a square matrix.

    Source: Knyazev, Toward the optimal preconditioned eigensolver, 2001.

    >>> rg.lobpcg(rg.diag(rg.tensor([1.0, 3.0, 2.0])), 2)[0]
    tensor([3., 2.])
    """
    a = matrices(_dense(A), square=True)
    a = (a + a.mH) / 2
    rows = a.array.shape[-1]
    count = k if k is not None else 1 if X is None else X.shape[-1]
    if not 1 <= integer(count, "k") <= rows:
        raise RuntimeError(f"k must be between 1 and {rows}, got {count}")
    if B is None:
        values, vectors = eigh(a)
    else:
        b = matrices(_dense(B), "B", square=True)
        factor = cholesky(b)
        left = solve_triangular(factor, a, upper=False)
        values, vectors = eigh(solve_triangular(factor, left.mH, upper=False).mH)
        vectors = solve_triangular(factor.mH, vectors, upper=True)
    if largest is False:
        return values[..., :count], vectors[..., :count]
    return values[..., -count:].flip(-1), vectors[..., -count:].flip(-1)
