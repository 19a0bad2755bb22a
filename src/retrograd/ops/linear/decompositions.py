"""Decompositions of matrices: Cholesky, QR, LU, eigenvalues of symmetric matrices, singular values; and what they
solve.

Rules for real matrices; of complex ones the values are right, but they cannot be differentiated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.devices import array_module
from ...core.errors import LinAlgError, describe
from ...core.primitive import Primitive, apply, apply1, operand
from ...core.tensor import Tensor, new_tensor
from ..shape.joining import cat
from ..table.registry import also_named, operator
from .linalg import SOLVE, is_vector_batch, matrices, solve_triangular, transposed
from .matmul import MATMUL


def require_real(x: Tensor) -> None:
    if x.dtype.kind == "c" and x.requires_grad:
        raise RuntimeError(f"derivatives are implemented for real matrices only, got {describe(x)}")


def lower_part(x: Any, diagonal: float) -> Any:
    """The lower triangle, the diagonal times a factor."""
    xp = array_module(x)
    n = x.shape[-1]
    weights = xp.tri(n, n, -1, dtype=x.dtype) + diagonal * xp.eye(n, dtype=x.dtype)
    return x * weights


def upper_part(x: Any, diagonal: float) -> Any:
    return transposed(lower_part(transposed(x), diagonal))


def _symmetric(x: Any) -> Any:
    return (x + transposed(x)) / 2


# Cholesky


def _cholesky(x: Any) -> Any:
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "the factorization could not be completed because the input is not positive-definite"
        ) from None


def _cholesky_rule(g: Any, ans: Any) -> Any:
    """L^-T Phi(L^T g) L^-1, made symmetric; Phi takes the lower triangle with half the diagonal (I. Murray, 2016)."""
    t = transposed(ans)
    phi = lower_part(MATMUL(t, g), 0.5)
    half = SOLVE(t, phi)
    return _symmetric(transposed(SOLVE(t, transposed(half))))


CHOLESKY = Primitive("linalg.cholesky", _cholesky, "x", [_cholesky_rule])


def _cholesky_of(value: Any, upper: bool) -> Tensor:
    x = matrices(value, square=True)
    require_real(x)
    lower = apply1(CHOLESKY, x)
    return lower.mH if upper else lower


@operator(namespace="linalg", method=False)
@also_named(input="A")
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with ``L @ L^T = A`` of each symmetric positive-definite matrix (``upper``: ``U^T @ U =
    A``).

    Only the lower triangle of A is read; the gradient is symmetric.

    Raises:
        RuntimeError: a matrix is not positive-definite.

    >>> rg.linalg.cholesky(rg.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    return _cholesky_of(A, upper)


@operator(name="cholesky")
def cholesky_(input: Tensor, upper: bool = False) -> Tensor:
    """As ``linalg.cholesky``.

    >>> rg.cholesky(rg.tensor([[4.0]]))
    tensor([[2.]])
    """
    return _cholesky_of(input, upper)


@operator()
@also_named(input2="L")
def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """The X with ``A @ X = input``, given the Cholesky factor of A.

    >>> rg.cholesky_solve(rg.tensor([[8.0]]), rg.tensor([[2.0]]))
    tensor([[2.]])
    """
    b, factor = matrices(input, "input"), matrices(L, "L", square=True)
    if b.array.shape[-2] != factor.array.shape[-1]:
        raise RuntimeError(f"incompatible shapes {describe(b)} and {describe(factor)}")
    lower = factor.mT if upper else factor
    half = solve_triangular(lower, b, upper=False)
    return solve_triangular(lower.mT, half, upper=True)


@operator()
@also_named(input="L")
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A, given its Cholesky factor.

    >>> rg.cholesky_inverse(rg.tensor([[2.0]]))
    tensor([[0.25]])
    """
    factor = matrices(L, "L", square=True)
    eye = new_tensor(array_module(factor).eye(factor.array.shape[-1], dtype=factor.dtype))
    return cholesky_solve(eye, factor, upper)


# QR


def _qr_rule(g: Any, ans: Any) -> Any:
    """M = R gR^T - gQ^T Q; (gQ + Q copyltu(M)) R^-T, copyltu copying the lower triangle to the upper (S. Walter,
    2010).
    """
    q, r = ans
    gq, gr = g
    m = MATMUL(r, transposed(gr)) - MATMUL(transposed(gq), q)
    lower = lower_part(m, 0.5)
    inner = gq + MATMUL(q, lower + transposed(lower))
    return transposed(SOLVE(r, transposed(inner)))


def _no_qr_rule(g: Any) -> Any:
    raise RuntimeError("mode='r' has no derivative, and mode='complete' only for square matrices; use mode='reduced'")


def _factors(x: Any, mode: Any) -> tuple[Any, Any]:
    q, r = np.linalg.qr(x, mode=mode)
    return q, r


QR = Primitive("linalg.qr", lambda x: _factors(x, "reduced"), "x", [_qr_rule], outputs=2)
QR_COMPLETE = Primitive("linalg.qr", lambda x: _factors(x, "complete"), "x", [_no_qr_rule], outputs=2)
QR_R = Primitive("linalg.qr", lambda x: np.linalg.qr(x, mode="r"), "x", [_no_qr_rule])


class QRResult(NamedTuple):
    """The factors of ``A = Q @ R``."""

    Q: Tensor
    R: Tensor


def _qr(value: Any, mode: str) -> QRResult:
    x = matrices(value)
    require_real(x)
    rows, columns = x.array.shape[-2:]
    if mode == "r":
        xp = array_module(x)
        return QRResult(new_tensor(xp.empty((0,), x.dtype)), apply1(QR_R, x))
    if mode == "complete" and rows > columns:
        return QRResult(*apply(QR_COMPLETE, (x,), {}))
    if mode not in ("reduced", "complete"):
        raise RuntimeError(f"mode must be 'reduced', 'complete' or 'r', not {mode!r}")
    if rows >= columns:
        return QRResult(*apply(QR, (x,), {}))
    # The first columns determine Q, and Q the rest of R.
    q, r = apply(QR, (x[..., :rows],), {})
    return QRResult(q, cat([r, q.mT @ x[..., rows:]], -1))


@operator(namespace="linalg", method=False)
def qr(A: Tensor, mode: str = "reduced") -> QRResult:
    """``A = Q @ R`` with orthonormal columns in Q and upper triangular R.

    ``(..., m, n)`` gives ``Q (..., m, k)`` and ``R (..., k, n)``, ``k = min(m, n)``; with ``mode="complete"``
    ``k = m``; with ``mode="r"`` Q is empty.

    >>> q, r = rg.linalg.qr(rg.tensor([[3.0], [4.0]]))
    >>> abs(r)
    tensor([[5.]])
    """
    return _qr(A, mode)


@operator(name="qr")
def qr_(input: Tensor, some: bool = True) -> QRResult:
    """As ``linalg.qr``; ``some=False`` is ``mode="complete"``.

    >>> rg.qr(rg.ones(3, 2)).Q.shape
    (3, 2)
    """
    return _qr(input, "reduced" if some else "complete")


# Symmetric eigenvalue problems


def _eigh_rule(g: Any, ans: Any) -> Any:
    """V (diag(gw) + (V^T gV) / E) V^T, made symmetric; E_ij = w_j - w_i. Degenerate eigenvalues make gV's part
    infinite.
    """
    w, v = ans
    gw, gv = g
    inner = MATMUL(transposed(v), gv)
    gaps = np.expand_dims(w, -2) - np.expand_dims(w, -1)
    return _symmetric(MATMUL(MATMUL(v, _diagonal(gw) + _over(inner, gaps)), transposed(v)))


def _diagonal(x: Any) -> Any:
    """A matrix with the vector x on its diagonal."""
    return np.expand_dims(x, -1) * array_module(x).eye(x.shape[-1], dtype=x.dtype)


def _over(x: Any, gaps: Any) -> Any:
    """x / gaps off the diagonal, zero on it and where neither a gradient nor a gap is."""
    return _quotient(x, gaps, array_module(x).eye(x.shape[-1], dtype=bool))


def _quotient(x: Any, y: Any, nothing: Any = False) -> Any:
    """x / y; 0 where both are 0, and where ``nothing`` says so."""
    nothing = nothing | (getattr(y, "array", y) == 0) & (getattr(x, "array", x) == 0)
    return np.where(nothing, 0, x) / np.where(nothing, 1, y)


EIGH = Primitive("linalg.eigh", lambda x, uplo: tuple(np.linalg.eigh(x, UPLO=uplo)), "x", [_eigh_rule], outputs=2)


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors, as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _uplo(UPLO: str) -> str:
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"UPLO must be 'L' or 'U', not {UPLO!r}")
    return UPLO.upper()


@operator(namespace="linalg", method=False, note="degenerate eigenvalues: the gradient of eigenvectors is not finite")
@also_named(input="A")
def eigh(A: Tensor, UPLO: str = "L") -> EighResult:
    """Eigenvalues (ascending) and eigenvectors of each symmetric matrix: ``A = V @ diag(w) @ V^T``.

    Only one triangle of A is read, the lower one by default; the gradient is symmetric.

    >>> rg.linalg.eigh(rg.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    x = matrices(A, square=True)
    require_real(x)
    return EighResult(*apply(EIGH, (x,), {"uplo": _uplo(UPLO)}))


@operator(namespace="linalg", method=False)
@also_named(input="A")
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of each symmetric matrix, ascending.

    >>> rg.linalg.eigvalsh(rg.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """
    return eigh(A, UPLO).eigenvalues


# Singular values


def _svd_rule(g: Any, ans: Any) -> Any:
    """With skew(X) = X - X^T and E_ij = s_j^2 - s_i^2 (J. Townsend, "Differentiating the singular value
    decomposition"):

    U [skew(U^T gU)/E S + S skew(V^T gV)/E + diag(gs)] V^T + (1 - UU^T) gU S^-1 V^T + U S^-1 gV^T (1 - VV^T).
    """
    u, s, vh = ans
    gu, gs, gvh = g
    # Of the further vectors of full_matrices only the space they span is determined: they have no gradient (PyTorch).
    u, gu = u[..., : s.shape[-1]], gu[..., : s.shape[-1]]
    vh, gvh = vh[..., : s.shape[-1], :], gvh[..., : s.shape[-1], :]
    ut = transposed(u)
    k = s.shape[-1]
    columns, rows = np.expand_dims(s, -2), np.expand_dims(s, -1)
    gaps = (columns - rows) * (columns + rows)
    left, right = MATMUL(ut, gu), MATMUL(vh, transposed(gvh))
    inner = (
        _over(left - transposed(left), gaps) * columns + rows * _over(right - transposed(right), gaps) + _diagonal(gs)
    )
    result = MATMUL(MATMUL(u, inner), vh)
    if u.shape[-2] > k:
        result = result + MATMUL(_quotient(gu - MATMUL(u, left), columns), vh)
    if vh.shape[-1] > k:
        result = result + MATMUL(u, _quotient(gvh - MATMUL(transposed(right), vh), rows))
    return result


SVD = Primitive("linalg.svd", lambda x, full: tuple(np.linalg.svd(x, full_matrices=full)), "x", [_svd_rule], outputs=3)


class SVDResult(NamedTuple):
    """The factors of ``A = U @ diag(S) @ Vh``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@operator(namespace="linalg", method=False, note="repeated singular values: the gradient of U and V is not finite")
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVDResult:
    """``A = U @ diag(S) @ Vh`` with orthonormal U and Vh, and singular values S in descending order.

    ``(..., m, n)`` gives ``S (..., k)``, ``k = min(m, n)``, and ``U (..., m, k)``, ``Vh (..., k, n)`` unless
    ``full_matrices``, whose further vectors have no gradient. ``driver`` is accepted and ignored.

    >>> rg.linalg.svd(rg.tensor([[3.0, 0.0], [0.0, -2.0]])).S
    tensor([3., 2.])
    """
    x = matrices(A)
    require_real(x)
    return SVDResult(*apply(SVD, (x,), {"full": full_matrices}))


class OldSVDResult(NamedTuple):
    """The factors of ``A = U @ diag(S) @ V^T``."""

    U: Tensor
    S: Tensor
    V: Tensor


@operator(name="svd")
def svd_(input: Tensor, some: bool = True, compute_uv: bool = True) -> OldSVDResult:
    """As ``linalg.svd``, with V instead of its transpose; zeros for U and V with ``compute_uv=False``.

    >>> rg.svd(rg.ones(3, 2)).V.shape
    (2, 2)
    """
    u, s, vh = svd(input, full_matrices=not some)
    if not compute_uv:
        return OldSVDResult(u.detach() * 0, s, vh.detach().mT * 0)
    return OldSVDResult(u, s, vh.mT)


@operator(namespace="linalg", method=False)
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values of each matrix, in descending order. ``driver`` is accepted and ignored.

    >>> rg.linalg.svdvals(rg.tensor([[3.0, 0.0], [0.0, -2.0]]))
    tensor([3., 2.])
    """
    return svd(A, full_matrices=False).S


# Pseudo-inverse and least squares


def _pinv_rule(g: Any, x: Any, ans: Any) -> Any:
    """dP = -P dA P + P P^T dA^T (1 - AP) + (1 - PA) dA^T P^T P (G. Golub and V. Pereyra, 1973)."""
    pt = transposed(ans)
    gt = transposed(g)
    middle = -MATMUL(MATMUL(pt, g), pt)
    right = MATMUL(gt, MATMUL(ans, pt))
    right = right - MATMUL(x, MATMUL(ans, right))
    left = MATMUL(MATMUL(pt, ans), gt)
    left = left - MATMUL(MATMUL(left, ans), x)
    return middle + right + left


PINV = Primitive("linalg.pinv", lambda x, rtol: np.linalg.pinv(x, rtol), "x", [_pinv_rule])


def _pinv(value: Any, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    x = matrices(value)
    require_real(x)
    if hermitian:
        x = (x.tril() + x.tril(-1).mT) if x.array.shape[-1] == x.array.shape[-2] else x
    rows, columns = x.array.shape[-2:]
    if rtol is None:
        rtol = max(rows, columns) * float(np.finfo(x.dtype).eps) if atol is None else 0.0
    if atol is not None and x.array.size:
        largest = float(np.linalg.svd(x.array, compute_uv=False).max())
        rtol = max(float(rtol), float(atol) / largest if largest else 0.0)
    return apply(PINV, (x,), {"rtol": float(rtol)})


@operator(namespace="linalg", method=False)
@also_named(input="A")
def pinv(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The pseudo-inverse of each matrix (E. Moore, R. Penrose): ``(..., m, n) -> (..., n, m)``.

    Singular values up to ``max(atol, rtol * largest)`` count as zero; the rank must be constant where it is
    differentiated.

    >>> rg.linalg.pinv(rg.tensor([[2.0], [0.0]]))
    tensor([[0.5, 0. ]])
    """
    return _pinv(A, atol, rcond if rtol is None else rtol, hermitian)


@operator()
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """As ``linalg.pinv``.

    >>> rg.pinverse(rg.tensor([[2.0]]))
    tensor([[0.5]])
    """
    return _pinv(input, None, rcond, False)


class LstsqResult(NamedTuple):
    """What ``lstsq`` finds."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@operator(namespace="linalg", method=False)
@also_named(input="A", b="B")
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LstsqResult:
    """The X that minimises ``||A @ X - B||`` for each matrix; the shortest one where there are several.

    ``A (..., m, n)``, ``B (..., m, k)`` or ``(..., m)``. ``residuals`` are the squared norms where m > n and the rank
    is full, else empty. The solution is found the same way for every ``driver`` (``"gelsy"``, the default, ``"gels"``,
    ``"gelsd"``, ``"gelss"``); as in PyTorch there is no ``rank`` from ``"gels"``, and there are ``singular_values``
    from ``"gelsd"`` and ``"gelss"`` only.

    >>> rg.linalg.lstsq(rg.tensor([[1.0], [1.0]]), rg.tensor([[1.0], [3.0]])).solution
    tensor([[2.]])
    """
    a, b = matrices(A), operand(B, "B")
    vector = is_vector_batch(a, b)
    b = b.unsqueeze(-1) if vector else b
    if b.array.ndim < 2 or a.array.shape[-2] != b.array.shape[-2]:
        raise RuntimeError(f"incompatible shapes of A and B: {describe(A)} and {describe(B)}")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"driver must be 'gels', 'gelsy', 'gelsd' or 'gelss', got {driver!r}")
    rows, columns = a.array.shape[-2:]
    solution = _pinv(a, None, rcond, False) @ b
    values = np.linalg.svd(a.array, compute_uv=False)
    cut = max(rows, columns) * float(np.finfo(a.dtype).eps) if rcond is None else rcond
    rank = (values > cut * values.max(axis=-1, keepdims=True)).sum(axis=-1) if values.size else values.sum(axis=-1)
    xp = array_module(a)
    residuals = new_tensor(xp.empty((0,), a.dtype))
    if rows > columns and bool((rank == columns).all()):
        residuals = ((a @ solution - b) ** 2).sum(-2)
    return LstsqResult(
        solution.squeeze(-1) if vector else solution,
        residuals,
        new_tensor(xp.empty((0,), np.int64) if driver == "gels" else xp.asarray(rank, dtype=np.int64)),
        new_tensor(values if driver in ("gelsd", "gelss") else xp.empty((0,), values.dtype)),
    )
