"""Factorizations and spectra of matrices."""

from __future__ import annotations

import numpy as np

from ..._generated import linalg as ours
from ..._generated import toplevel as ops
from ...core.arrays import Array
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply
from ...core.tensor.tensor import Tensor
from ...ops.linear.matrices import adjoint, hermitian
from ...ops.linear.solving.systems import SOLVE
from ...ops.numpy.arguments import alike, tensor
from ...ops.table.batching import in_front
from ..decorators import ArrayLike, detached, differentiable, scipys
from .equations import SYLVESTER, assumed
from .matrices import linalg, matrix, pair


@linalg
def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the Cholesky factor of each matrix, upper triangular unless ``lower``; only this triangle of a is read.

    >>> rg.scipy.linalg.cholesky(rg.tensor([[4.0]]))
    tensor([[2.]])
    """
    x = matrix(a, check_finite, square=True)
    return ours.cholesky(x) if lower else ours.cholesky(x.mH).mH


@linalg
def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Tensor, bool]:
    """Return the Cholesky factor for ``cho_solve``, and ``lower``; the other triangle is zeros.

    >>> rg.scipy.linalg.cho_factor(rg.tensor([[4.0]]))[0]
    tensor([[2.]])
    """
    factor: Tensor = cholesky(a, lower, check_finite=check_finite)
    return factor, lower


@linalg
def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> tuple[Tensor, ...]:
    """Return ``p``, ``l`` and ``u`` with ``a = p @ l @ u``, or ``p @ l`` and ``u`` with ``permute_l``.

    >>> rg.scipy.linalg.lu(rg.tensor([[2.0]]))[2]
    tensor([[2.]])
    """
    p, lower, upper = ours.lu(matrix(a, check_finite))
    if permute_l:
        return p @ lower, upper
    return (ops.argmax(p, -1) if p_indices else p), lower, upper


@linalg
def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """Return the factors in one matrix, and the pivots, counted from 0, for ``lu_solve``.

    >>> rg.scipy.linalg.lu_factor(rg.tensor([[2.0]]))
    (tensor([[2.]]), tensor([0], dtype=int32))
    """
    factors, pivots = ours.lu_factor(matrix(a, check_finite))
    return factors, pivots - 1


@linalg
def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Tensor, ...]:
    """Return ``q`` and ``r`` with ``a = q @ r``; with ``pivoting``, ``a[:, p] = q @ r``, and also return ``p``.

    With ``mode="full"`` derivatives exist for square matrices, with ``"economic"`` and ``"r"`` also for tall matrices.

    >>> rg.scipy.linalg.qr(rg.tensor([[2.0]]), mode="r")[0].abs()
    tensor([[2.]])
    """
    modes = {"full": "complete", "economic": "reduced", "r": "r"}
    if mode not in modes:
        raise NotImplementedError(f"scipy.linalg.qr of Tensors: mode must be 'full', 'economic' or 'r', got {mode!r}")
    x = matrix(a, check_finite)
    order: tuple[Tensor, ...] = ()
    if pivoting:
        places = scipys("scipy.linalg").qr(detached(x), mode="r", pivoting=True)[-1]
        x, order = x[..., places], (tensor(places),)
    if mode == "r":
        r = ours.qr(x, "r").R
        if r.shape[-2] < x.shape[-2]:
            r = ops.cat([r, ops.zeros((*r.shape[:-2], x.shape[-2] - r.shape[-2], r.shape[-1]), dtype=r.dtype)], -2)
        return (r, *order)
    q, r = ours.qr(x, "complete" if mode == "full" else "reduced")
    return (q, r, *order)


@linalg
def rq(
    a: ArrayLike, overwrite_a: bool = False, lwork: int | None = None, mode: str = "full", check_finite: bool = True
) -> Tensor | tuple[Tensor, Tensor]:
    """Return ``r`` and ``q`` with ``a = r @ q``, for square matrices or, with ``mode="economic"``, for wide matrices.

    >>> rg.scipy.linalg.rq(rg.tensor([[2.0]]), mode="r").abs()
    tensor([[2.]])
    """
    x = matrix(a, check_finite)
    if mode not in ("full", "economic", "r"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic']")
    if x.shape[-2] > x.shape[-1] or mode != "economic" and x.shape[-2] != x.shape[-1]:
        raise NotImplementedError(
            "scipy.linalg.rq: expected a square matrix, or with mode='economic' "
            f"at most as many rows as columns, got {describe(x)}"
        )
    flipped = ours.qr(ops.flip(x, (-2, -1)).mH, "reduced")
    r, q = ops.flip(flipped.R.mH, (-2, -1)), ops.flip(flipped.Q.mH, (-2, -1))
    return r if mode == "r" else (r, q)


@linalg
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """Return ``u``, ``s`` and ``vh`` with ``a = u @ diag(s) @ vh``, or only ``s`` without ``compute_uv``.

    >>> rg.scipy.linalg.svd(rg.tensor([[2.0]]), compute_uv=False)
    tensor([2.])
    """
    x = matrix(a, check_finite)
    if not compute_uv:
        return ours.svdvals(x)
    u, s, vh = ours.svd(x, full_matrices)
    return u, s, vh


@linalg
def svdvals(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the singular values of each matrix.

    >>> rg.scipy.linalg.svdvals(rg.tensor([[2.0]]))
    tensor([2.])
    """
    return ours.svdvals(matrix(a, check_finite))


def _spectrum(
    a: ArrayLike, b: ArrayLike | None, lower: bool, kind: int, subset: tuple[int, int] | None, check_finite: bool
) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors of a Hermitian matrix ``a``, or of ``(a, b)`` with positive definite ``b``.

    The pair is reduced by the Cholesky factor ``L`` of ``b``: to ``L^-1 a L^-H`` for ``a x = w b x`` (type 1) and to
    ``L^H a L`` for ``a b x = w x`` (type 2) and ``b a x = w x`` (type 3).
    """
    if b is None:
        values, vectors = ours.eigh(assumed(matrix(a, check_finite, square=True), "her", lower))
    else:
        x, y = pair(matrix(a, check_finite, square=True), matrix(b, check_finite, square=True))
        x, y = assumed(x, "her", lower), assumed(y, "her", lower)
        factor = ours.cholesky(y)
        if kind == 1:
            half = ours.solve_triangular(factor, x, upper=False)
            reduced = ours.solve_triangular(factor, half.mH, upper=False)
        elif kind in (2, 3):
            reduced = factor.mH @ x @ factor
        else:
            raise ValueError(f'"type" keyword only accepts 1, 2, and 3, got {kind}')
        values, vectors = ours.eigh((reduced + reduced.mH) / 2)
        if kind == 3:
            vectors = factor @ vectors
        else:
            vectors = ours.solve_triangular(factor.mH, vectors, upper=True)
    if subset is not None:
        first, last = subset
        if not 0 <= first <= last < values.shape[-1]:
            raise ValueError(f"Requested eigenvalue indices are not valid. Valid range is [0, {values.shape[-1] - 1}]")
        values, vectors = values[..., first : last + 1], vectors[..., first : last + 1]
    return values, vectors


@linalg
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    driver: str | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the eigenvalues of Hermitian matrices in ascending order, and eigenvectors; with ``b``, of pairs (a, b).

    The derivatives of eigenvectors exist where the eigenvalues differ. The signs of vectors may differ from SciPy's.

    >>> rg.scipy.linalg.eigh(rg.tensor([[2.0]]), eigvals_only=True)
    tensor([2.])
    """
    if subset_by_value is not None:
        raise NotImplementedError("scipy.linalg.eigh of Tensors: use subset_by_index in place of subset_by_value")
    values, vectors = _spectrum(a, b, lower, type, subset_by_index, check_finite)
    return values if eigvals_only else (values, vectors)


@linalg
def eigvalsh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    driver: str | None = None,
) -> Tensor:
    """Return the eigenvalues of Hermitian matrices in ascending order; with ``b``, of pairs (a, b).

    >>> rg.scipy.linalg.eigvalsh(rg.tensor([[2.0]]))
    tensor([2.])
    """
    if subset_by_value is not None:
        raise NotImplementedError("scipy.linalg.eigvalsh of Tensors: use subset_by_index in place of subset_by_value")
    return _spectrum(a, b, lower, type, subset_by_index, check_finite)[0]


def _tridiagonal(d: ArrayLike, e: ArrayLike) -> Tensor:
    diagonal, beside = alike(tensor(d), tensor(e))
    if diagonal.ndim != 1 or beside.shape[0] != diagonal.shape[0] - 1:
        raise ValueError("d must be a vector, and e a vector with one element less than d")
    return ops.diag(diagonal) + ops.diag(beside, -1) + ops.diag(beside, 1)


def _chosen(name: str, select: str | int, span: tuple[int, int] | None) -> tuple[int, int] | None:
    if select in ("a", 0):
        return None
    if select not in ("i", 2):
        raise NotImplementedError(f"scipy.linalg.{name} of Tensors: select must be 'a' or 'i'")
    return span


@differentiable("scipy.linalg", real=True)
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[int, int] | None = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the eigenvalues and eigenvectors of a symmetric tridiagonal matrix with the diagonals ``d`` and ``e``.

    >>> rg.scipy.linalg.eigh_tridiagonal(rg.tensor([2.0, 2.0]), rg.tensor([1.0]), eigvals_only=True)
    tensor([1., 3.])
    """
    whole = _tridiagonal(d, e)
    span = _chosen("eigh_tridiagonal", select, select_range)
    values, vectors = _spectrum(whole, None, True, 1, span, check_finite)
    return values if eigvals_only else (values, vectors)


@differentiable("scipy.linalg", real=True)
def eigvalsh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    select: str = "a",
    select_range: tuple[int, int] | None = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Tensor:
    """Return the eigenvalues of a symmetric tridiagonal matrix with the diagonals ``d`` and ``e``.

    >>> rg.scipy.linalg.eigvalsh_tridiagonal(rg.tensor([2.0, 2.0]), rg.tensor([1.0]))
    tensor([1., 3.])
    """
    whole = _tridiagonal(d, e)
    span = _chosen("eigvalsh_tridiagonal", select, select_range)
    return _spectrum(whole, None, True, 1, span, check_finite)[0]


@linalg
def eig(
    a: ArrayLike,
    b: ArrayLike | None = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the eigenvalues of square matrices, and the right eigenvectors, which have the length 1.

    >>> rg.scipy.linalg.eig(rg.tensor([[2.0]]), right=False).real
    tensor([2.])
    """
    if left or homogeneous_eigvals:
        raise NotImplementedError("scipy.linalg.eig of Tensors: left and homogeneous_eigvals must be False")
    x = _quotient(a, b, check_finite)
    if not right:
        return ours.eigvals(x)
    values, vectors = ours.eig(x)
    return values, vectors


def _quotient(a: ArrayLike, b: ArrayLike | None, check_finite: bool) -> Tensor:
    """Return ``b^-1 a``, whose eigenvalues are those of the pair."""
    x = matrix(a, check_finite, square=True)
    if b is None:
        return x
    x, y = pair(x, matrix(b, check_finite, square=True))
    return ours.solve(y, x)


@linalg
def eigvals(
    a: ArrayLike,
    b: ArrayLike | None = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Tensor:
    """Return the eigenvalues of square matrices, complex numbers.

    >>> rg.scipy.linalg.eigvals(rg.tensor([[2.0]])).real
    tensor([2.])
    """
    if homogeneous_eigvals:
        raise NotImplementedError("scipy.linalg.eigvals of Tensors: homogeneous_eigvals must be False")
    return ours.eigvals(_quotient(a, b, check_finite))


def _unitary(x: Array) -> Array:
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    return u @ vh


def _unitary_rule(g: Array, ans: Array, x: Array) -> Array:
    """``U^H dU = W`` solves ``P W + W P = U^H dA - dA^H U``; the part orthogonal to the columns of U is ``dA P^-1``."""
    g, adj = g.conj(), adjoint(ans)
    p = hermitian(adj @ x)
    y = SYLVESTER(p, p, adj @ g)
    beside = g - ans @ (adj @ g)
    return (ans @ (y - adjoint(y)) + adjoint(SOLVE(p, adjoint(beside)))).conj()


_UNITARY = Primitive("scipy.linalg.polar", _unitary, "x", [_unitary_rule], batch=in_front)


@linalg
def polar(a: ArrayLike, side: str = "right") -> tuple[Tensor, Tensor]:
    """Return ``u``, unitary, and ``p``, positive semidefinite, with ``a = u @ p``, or ``a = p @ u`` for ``"left"``.

    The derivative exists for matrices of full rank, also where singular values are equal.

    >>> rg.scipy.linalg.polar(rg.tensor([[-2.0]]))[1]
    tensor([[2.]])
    """
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    x = matrix(a)
    if x.ndim != 2:
        raise ValueError("`a` must be a 2-D array.")
    tall = x.shape[0] >= x.shape[1]
    u = apply(_UNITARY, (x,), {}) if tall else apply(_UNITARY, (x.mH,), {}).mH
    p = u.mH @ x if side == "right" else x @ u.mH
    return u, (p + p.mH) / 2


@linalg
def orthogonal_procrustes(A: ArrayLike, B: ArrayLike, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """Return the orthogonal matrix ``R`` that brings ``A @ R`` nearest to ``B``, and the sum of singular values.

    >>> rg.scipy.linalg.orthogonal_procrustes(rg.tensor([[2.0]]), rg.tensor([[-3.0]]))
    (tensor([[-1.]]), tensor(6.))
    """
    x, y = pair(matrix(A, check_finite), matrix(B, check_finite), check_finite)
    if x.shape != y.shape or x.ndim != 2:
        raise ValueError(f"the shapes of A and B differ ({tuple(x.shape)} vs {tuple(y.shape)})")
    r, p = polar((y.mH @ x).mH)
    return r, ops.diagonal(p).sum()
