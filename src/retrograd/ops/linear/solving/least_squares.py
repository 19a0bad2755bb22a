"""Pseudo-inverses, numerical ranks and least squares.

With a tolerance, the pseudo-inverse is that of the nearest matrix of lower rank.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import all_examples, array_module
from ....core.arrays.dtypes import precision
from ....core.errors import describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor, new_tensor
from ...table.batching import in_front
from ...table.registry import also_named, operator
from ...table.types import Operand
from ..matrices import adjoint, finite, is_vector_batch, matrices, transposed
from ..products.matmul import MATMUL


def _count_as_nonzero(squares: Array, atol: Array, rtol: Array) -> Array:
    """Return which squared singular values, ascending, count as nonzero."""
    values = np.sqrt(np.maximum(squares, 0.0))
    return values > np.maximum(atol, rtol * values[..., -1:])


def _projector(x: Array, atol: Array, rtol: Array) -> Array:
    squares, vectors = np.linalg.eigh(x)
    kept = vectors * _count_as_nonzero(squares, atol, rtol)[..., None, :]
    return MATMUL(kept, adjoint(vectors))


def _projector_rule(g: Array, x: Array, atol: Array, rtol: Array) -> Array:
    """``V (F * (V^H g V)) V^H`` with ``F_ij = (k_i - k_j) / (w_i - w_j)`` (Y. Daleckii and S. Krein, 1965)."""
    squares, vectors = np.linalg.eigh(x)
    kept = _count_as_nonzero(squares, atol, rtol).astype(x.real.dtype)
    steps = kept[..., :, None] - kept[..., None, :]
    gaps = squares[..., :, None] - squares[..., None, :]
    factors = steps / np.where(steps == 0, 1.0, gaps)
    inner = MATMUL(MATMUL(adjoint(vectors), transposed(g)), vectors)
    return transposed(MATMUL(MATMUL(vectors, factors * inner), adjoint(vectors)))


PROJECTOR = Primitive("linalg.pinv", _projector, "x", [_projector_rule], batch=in_front)


def drops_values(x: Tensor, atol: Array, rtol: Array) -> bool:
    """Return whether a tolerance counts singular values as zero that are not zero to working precision."""
    values = all_examples(np.linalg.svd(x.array, compute_uv=False))
    largest = values.max(axis=-1, keepdims=True)
    small = (values <= np.maximum(atol, rtol * largest)) & (values > 4 * precision(x.dtype) ** 0.5 * largest)
    return bool(small.any())


def truncated(x: Tensor, atol: Array, rtol: Array) -> Tensor:
    """Return the matrix without the singular values that count as zero.

    The projector onto the other singular vectors is an analytic function of ``x^H x`` where no singular value is equal
    to the tolerance, and its derivative describes the rotation of the dropped part.
    """
    rows, columns = x.array.shape[-2:]
    options = {"atol": atol, "rtol": rtol}
    if rows < columns:
        return apply(PROJECTOR, (x @ x.mH,), options) @ x
    return x @ apply(PROJECTOR, (x.mH @ x,), options)


def _pinv_rule(g: Array, x: Array, ans: Array) -> Array:
    """dP = -P dA P + P P^H dA^H (1 - AP) + (1 - PA) dA^H P^H P (G. Golub and V. Pereyra, 1973)."""
    pt = transposed(ans)
    gh = adjoint(g)
    x, p = x.conj(), ans.conj()
    middle = -MATMUL(MATMUL(pt, g), pt)
    right = MATMUL(gh, MATMUL(p, pt))
    right = right - MATMUL(x, MATMUL(p, right))
    left = MATMUL(MATMUL(pt, p), gh)
    left = left - MATMUL(MATMUL(left, p), x)
    return middle + right + left


def _pinv_forward(x: Array, atol: object, rtol: float) -> Array:
    x = finite(x)
    if atol is not None and x.size:
        largest = np.linalg.svd(x, compute_uv=False)[..., 0]
        rtol = np.maximum(rtol, atol / np.where(largest > 0, largest, 1))
    return np.linalg.pinv(x, rtol)


PINV = Primitive("linalg.pinv", _pinv_forward, "x", [_pinv_rule], batch=in_front)


def _pinv(value: Operand, argument: str, atol: object, rtol: object, hermitian: bool) -> Tensor:
    x = matrices(value, argument)
    if hermitian:
        x = (x.tril() + x.tril(-1).mH) if x.array.shape[-1] == x.array.shape[-2] else x
    rows, columns = x.array.shape[-2:]
    if rtol is None:
        rtol = max(rows, columns) * precision(x.dtype) if atol is None else 0.0
    atol, rtol = [bound.array if isinstance(bound, Tensor) else bound for bound in (atol, rtol)]
    if x.requires_grad and x.array.size:
        xp = array_module(x)
        least, relative = [xp.asarray(0.0 if bound is None else bound)[..., None] for bound in (atol, rtol)]
        dropped = np.maximum(least, relative).max() > max(rows, columns) * precision(x.dtype)
        if dropped and drops_values(x, least, relative):
            x = truncated(x, least, relative)
    return apply(PINV, (x,), {"atol": atol, "rtol": rtol})


@operator(namespace="linalg", method=False, dtype="matrix", raises="convergence, matrix", shape="transposed")
@also_named(input="A")
def pinv(
    A: Operand,
    rcond: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
) -> Tensor:
    """``V @ diag(1 / S) @ U^H``: the pseudo-inverse of each matrix; singular values that count as zero stay zero.

    Derivative: ``-P^H g P^H + (1 - A P) g^H P P^H + P^H P g^H (1 - P A)`` for the result P; if a tolerance drops
    nonzero singular values, plus the effect of the rotation of their vectors. The rank must be constant near A.

    Args:
        rcond: another name of ``rtol``.
        hermitian: A is symmetric or Hermitian, and only its lower triangle is read.
        atol: singular values up to this count as zero; a number, or one for each matrix.
        rtol: singular values up to this times the matrix's largest count as zero; a number, or one for each matrix; by
            default max(m, n) times the dtype's eps, or 0 if ``atol`` is given.

    Source: the derivative: G. Golub, V. Pereyra, The Differentiation of Pseudo-Inverses and Nonlinear Least Squares
    Problems Whose Variables Separate, 1973.

    >>> rg.linalg.pinv(rg.tensor([[2.0], [0.0]]))
    tensor([[0.5, 0. ]])
    """
    return _pinv(A, "A", atol, rcond if rtol is None else rtol, hermitian)


@operator(dtype="matrix", raises="convergence, matrix", shape="transposed", args="input matrices")
def pinverse(input: Operand, rcond: float = 1e-15) -> Tensor:
    """``V @ diag(1 / S) @ U^H``: ``linalg.pinv``.

    Derivative: as ``linalg.pinv``.

    Args:
        rcond: singular values up to this times the largest count as zero.

    >>> rg.pinverse(rg.tensor([[2.0]]))
    tensor([[0.5]])
    """
    return _pinv(input, "input", None, rcond, False)


class LstsqResult(NamedTuple):
    """The results of ``lstsq``."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@operator(namespace="linalg", method=False, dtype="equal matrix", raises="convergence", reads_elements=True)
@also_named(input="A", b="B")
def lstsq(
    A: Operand,
    B: Operand,
    rcond: float | None = None,
    *,
    driver: Literal["gels", "gelsy", "gelsd", "gelss"] | None = None,
) -> LstsqResult:
    """``argmin_X ||A @ X - B||`` for each matrix; the X of smallest norm if there are several.

    Derivative: that of ``pinv(A) @ B``, where the rank is constant; rank and singular values have none.
    Shape: A (..., m, n), B (..., m, k) or vectors (..., m); X (..., n, k) or (..., n), residuals (..., k) where m > n
    and the rank is full, else empty.

    Args:
        rcond: singular values up to this times the largest count as zero; by default max(m, n) times the dtype's eps.
        driver: all drivers compute the same solution; as in PyTorch, ``rank`` is empty for ``"gels"``, and
            ``singular_values`` are empty except for ``"gelsd"`` and ``"gelss"``.

    Returns:
        The named tuple ``(solution, residuals, rank, singular_values)``; residuals are sums of squares.

    Raises:
        RuntimeError: the shapes do not fit, the dtypes differ, or ``driver`` is unknown.

    >>> rg.linalg.lstsq(rg.tensor([[1.0], [1.0]]), rg.tensor([[1.0], [3.0]])).solution
    tensor([[2.]])
    """
    a, b = matrices(A), operand(B, "B")
    vector = is_vector_batch(a, b)
    b = b.unsqueeze(-1) if vector else b
    if b.array.ndim < 2 or a.array.shape[-2] != b.array.shape[-2]:
        raise RuntimeError(f"B must have as many rows as A, got {describe(B)} and {describe(A)}")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"driver must be 'gels', 'gelsy', 'gelsd' or 'gelss', got {driver!r}")
    rows, columns = a.array.shape[-2:]
    solution = _pinv(a, "A", None, rcond, False) @ b
    values = np.linalg.svd(finite(a.array), compute_uv=False)
    cut = max(rows, columns) * precision(a.dtype) if rcond is None else rcond
    rank = (values > cut * values.max(axis=-1, keepdims=True)).sum(axis=-1) if values.size else values.sum(axis=-1)
    xp = array_module(a)
    residuals = new_tensor(xp.empty((0,), a.dtype))
    if rows > columns and bool((all_examples(rank) == columns).all()):
        rest = a @ solution - b
        residuals = (rest * rest.conj()).real.sum(-2) if rest.dtype.kind == "c" else (rest**2).sum(-2)
    return LstsqResult(
        solution.squeeze(-1) if vector else solution,
        residuals,
        new_tensor(xp.empty((0,), np.int64) if driver == "gels" else xp.asarray(rank, dtype=np.int64)),
        new_tensor(values if driver in ("gelsd", "gelss") else xp.empty((0,), values.dtype)),
    )


@operator(namespace="linalg", method=False, differentiable=False)
@also_named(input="A")
def matrix_rank(
    A: Tensor,
    tol: Operand | None = None,
    hermitian: bool = False,
    *,
    atol: Operand | None = None,
    rtol: Operand | None = None,
) -> Tensor:
    """The number of singular values of each matrix that exceed ``max(atol, rtol * largest)``.

    Shape: ``(..., m, n)`` to ``(...)``.
    Dtype: float32, float64 and complex; the result is int64.

    Args:
        tol: an older name of ``atol``.
        hermitian: whether A is symmetric or Hermitian; then only the lower triangle is read.
        atol: the absolute tolerance, by default 0.
        rtol: the relative tolerance, by default ``max(m, n)`` times the dtype's eps, or 0 if ``atol`` is given.

    Raises:
        RuntimeError: A is not a matrix, or both ``tol`` and ``atol`` are given.

    >>> rg.linalg.matrix_rank(rg.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    x = matrices(A)
    if tol is not None and atol is not None:
        raise RuntimeError("pass tol or atol, got both")
    absolute = tol if atol is None else atol
    xp = array_module(x)
    if not x.array.size:
        return new_tensor(xp.zeros(x.array.shape[:-2], np.int64))
    if hermitian:
        x = matrices(x, square=True)
        values = xp.abs(np.linalg.eigvalsh(x.array, UPLO="L"))
    else:
        values = np.linalg.svd(finite(x.array), compute_uv=False)
    if rtol is None:
        rtol = max(x.array.shape[-2:]) * precision(x.dtype) if absolute is None else 0.0
    low = operand(0.0 if absolute is None else absolute, "atol").array
    cut = xp.maximum(low, operand(rtol, "rtol").array * values.max(axis=-1))
    return new_tensor(xp.asarray((values > cut[..., None]).sum(axis=-1), dtype=np.int64))
