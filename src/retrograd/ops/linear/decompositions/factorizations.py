"""Cholesky and QR factorizations.

The rules are those for real matrices, with conjugates for complex matrices. Cotangents use the transpose convention of
the backward pass (see docs/architecture.md), so each is the conjugate of PyTorch's gradient.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.errors import LinAlgError, describe
from ....core.graph.primitive import Primitive, apply, apply1
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor, new_tensor
from ...shape.joining import cat
from ...table.batching import in_front
from ...table.registry import also_named, operator
from ...table.types import Operand
from ..matrices import adjoint, hermitian, lower_part, matrices, transposed
from ..products.matmul import MATMUL
from ..solving.systems import SOLVE_TRIANGULAR, solve_triangular

# Cholesky


def _cholesky(x: Array) -> Array:
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "the factorization could not be completed because the input is not positive-definite"
        ) from None


def _cholesky_rule(g: Array, ans: Array) -> Array:
    """L^-T Phi(L^T g) L*^-1, made Hermitian; Phi takes the lower triangle with half the diagonal (I. Murray, 2016)."""
    t = transposed(ans)
    half = SOLVE_TRIANGULAR(t, lower_part(MATMUL(t, g), 0.5), upper=True, unit=False)
    return hermitian(transposed(SOLVE_TRIANGULAR(adjoint(ans), transposed(half), upper=True, unit=False)))


CHOLESKY = Primitive("linalg.cholesky", _cholesky, "x", [_cholesky_rule], batch=in_front, shaped=True)


def _cholesky_of(value: Operand, argument: str, upper: bool) -> Tensor:
    x = matrices(value, argument, square=True)
    lower = apply1(CHOLESKY, x)
    return lower.mH if upper else lower


@operator(namespace="linalg", method=False, shape="square", dtype="matrix", raises="square, positive-definite")
@also_named(input="A")
def cholesky(A: Operand, *, upper: bool = False) -> Tensor:
    """``L`` with ``L @ L^H = A``: the lower triangular factor of each symmetric (Hermitian) positive-definite matrix.

    Derivative: the Hermitian part of ``L^-H P L^-1``, where ``P`` is the lower triangle of ``L^H g`` with half
    its diagonal.

    Args:
        A: the matrices, of which only the lower triangle is read.
        upper: return ``U = L^H`` with ``U^H @ U = A``.

    Source: the derivative: I. Murray, Differentiation of the Cholesky decomposition, 2016.

    >>> rg.linalg.cholesky(rg.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    return _cholesky_of(A, "A", upper)


@operator(name="cholesky", shape="square", dtype="matrix", raises="square, positive-definite")
def cholesky_(input: Operand, upper: bool = False) -> Tensor:
    """``L`` with ``L @ L^H = input``: ``linalg.cholesky``.

    Derivative: as ``linalg.cholesky``.

    Args:
        input: the matrices, of which only the lower triangle is read.
        upper: return ``U = L^H``.

    >>> rg.cholesky(rg.tensor([[4.0]]))
    tensor([[2.]])
    """
    return _cholesky_of(input, "input", upper)


@operator(dtype="equal matrix", raises="dtypes", args="input right-hand sides", derivative="triangular systems")
@also_named(input2="L")
def cholesky_solve(input: Operand, L: Operand, upper: bool = False) -> Tensor:
    """``X`` with ``L @ L^H @ X = input``, from a Cholesky factor.

    Shape: input (..., n, k), L (..., n, n), batches broadcast; X has the input's shape.

    Args:
        L: the factor; only the lower triangle is read, or with ``upper`` only the upper one.
        upper: the factor is upper triangular: ``L^H @ L @ X = input``.

    Raises:
        LinAlgError: a factor is singular.

    >>> rg.cholesky_solve(rg.tensor([[8.0]]), rg.tensor([[2.0]]))
    tensor([[2.]])
    """
    b, factor = matrices(input, "input"), matrices(L, "L", square=True)
    if b.array.shape[-2] != factor.array.shape[-1]:
        raise RuntimeError(f"input must have as many rows as L, got {describe(b)} and {describe(factor)}")
    lower = factor.mH if upper else factor
    half = solve_triangular(lower, b, upper=False)
    return solve_triangular(lower.mH, half, upper=True)


@operator(shape="square", dtype="matrix", like=cholesky_solve)
@also_named(input="L")
def cholesky_inverse(L: Operand, upper: bool = False) -> Tensor:
    """``(L @ L^H)^-1``, from a Cholesky factor.

    Args:
        upper: the factor is upper triangular: ``(L^H @ L)^-1``.

    Raises:
        TypeError: ``L`` is not a Tensor, array or number.
        RuntimeError: the matrices are not square, or not of float32, float64 or complex numbers.

    >>> rg.cholesky_inverse(rg.tensor([[2.0]]))
    tensor([[0.25]])
    """
    factor = matrices(L, "L", square=True)
    eye = new_tensor(array_module(factor).eye(factor.array.shape[-1], dtype=factor.dtype))
    return cholesky_solve(eye, factor, upper)


# QR


def _qr_rule(g: tuple[Array, ...], ans: tuple[Array, ...]) -> Array:
    """M = R* gR^H - gQ^H Q*; (gQ + Q* copyltu(M)) R^-T, copyltu mirrors the lower triangle (S. Walter, 2010)."""
    q, r = ans
    gq, gr = g
    m = MATMUL(r.conj(), adjoint(gr)) - MATMUL(adjoint(gq), q.conj())
    lower = lower_part(m, 0.5)
    inner = gq + MATMUL(q.conj(), lower + adjoint(lower))
    return transposed(SOLVE_TRIANGULAR(r, transposed(inner), upper=True, unit=False))


def _no_qr_rule(g: object) -> Any:
    raise RuntimeError("mode='r' has no derivative, and mode='complete' only for square matrices; use mode='reduced'")


def _factors(x: Array, mode: Literal["reduced", "complete"]) -> tuple[Array, Array]:
    q, r = np.linalg.qr(x, mode=mode)
    return q, r


QR = Primitive("linalg.qr", lambda x: _factors(x, "reduced"), "x", [_qr_rule], outputs=2, batch=in_front)
QR_COMPLETE = Primitive("linalg.qr", lambda x: _factors(x, "complete"), "x", [_no_qr_rule], outputs=2, batch=in_front)
QR_R = Primitive("linalg.qr", lambda x: np.linalg.qr(x, mode="r"), "x", [_no_qr_rule], batch=in_front)


class QRResult(NamedTuple):
    """The factors of ``A = Q @ R``."""

    Q: Tensor
    R: Tensor


def _qr(value: Operand, argument: str, mode: str) -> QRResult:
    x = matrices(value, argument)
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
    # The first columns of A determine Q, and Q determines the remaining columns of R.
    q, r = apply(QR, (x[..., :rows],), {})
    return QRResult(q, cat([r, q.mH @ x[..., rows:]], -1))


@operator(namespace="linalg", method=False, dtype="matrix")
def qr(A: Operand, mode: Literal["reduced", "complete", "r"] = "reduced") -> QRResult:
    """``Q, R`` with ``A = Q @ R``: orthonormal columns and an upper triangular matrix.

    Derivative: ``(gQ + Q C) R^-H``, ``C`` the lower triangle of ``R gR^H - gQ^H Q`` made Hermitian; the columns after
    the m-th of a wide matrix affect R only.
    Shape: (..., m, n) to Q (..., m, k) and R (..., k, n), ``k = min(m, n)``, or m for ``"complete"``; Q is empty
    for ``"r"``.

    Args:
        mode: ``"reduced"``, ``"complete"`` (differentiable for m <= n only), or ``"r"`` (not differentiable).

    Returns:
        The named tuple ``(Q, R)``.

    Raises:
        RuntimeError: the input is not a matrix of float32, float64 or complex numbers, or ``mode`` is unknown; in the
            backward pass: the mode has no derivative.
        LinAlgError: in the backward pass: the first columns are linearly dependent.

    Source: the derivative: S. Walter, L. Lehmann, Algorithmic differentiation of linear algebra functions, 2010.

    >>> q, r = rg.linalg.qr(rg.tensor([[3.0], [4.0]]))
    >>> abs(r)
    tensor([[5.]])
    """
    return _qr(A, "A", mode)


@operator(name="qr", like=qr, args="input matrices")
def qr_(input: Operand, some: bool = True) -> QRResult:
    """``Q, R`` with ``input = Q @ R``: ``linalg.qr``.

    Derivative: as ``linalg.qr``.
    Shape: (..., m, n) to Q (..., m, k) and R (..., k, n), ``k = min(m, n)``, or m without ``some``.

    Args:
        some: False is ``mode="complete"``.

    Raises:
        RuntimeError: as ``linalg.qr``.
        LinAlgError: as ``linalg.qr``.

    >>> rg.qr(rg.ones(3, 2)).Q.shape
    (3, 2)
    """
    return _qr(input, "input", "reduced" if some else "complete")
