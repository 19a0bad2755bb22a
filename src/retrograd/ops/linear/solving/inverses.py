"""Inverses, determinants, powers and exponentials of square matrices.

The rules are those of M. Giles, "An extended collection of matrix derivative results for forward and reverse mode AD"
(2008), written for stacks of matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.errors import LinAlgError
from ....core.graph.primitive import Primitive, apply, apply1
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor
from ...indexing.selection import where
from ...math.exponential import log
from ...shape.conversion import CONTIGUOUS
from ...table.arguments import integer
from ...table.batching import in_front
from ...table.elementwise_primitives import zero_rule
from ...table.registry import also_named, operator
from ...table.types import Operand
from ..matrices import identity_like, matrices, transposed
from ..products.matmul import MATMUL


def _invert(x: Array) -> Array:
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{error}: the matrix has no inverse") from None


def _inv_rule(g: Array, ans: Array) -> Array:
    t = transposed(ans)
    return -MATMUL(MATMUL(t, g), t)


INV = Primitive("linalg.inv", _invert, "x", [_inv_rule], batch=in_front, shaped=True)


def _columns(g: Array) -> Array:
    """Reshape one number per matrix to 1x1 matrices, which broadcast with the matrices."""
    return np.expand_dims(np.expand_dims(g, -1), -1)


def _cofactors(x: Array) -> Array:
    """det(x) inv(x)^T, also for singular x = U S V^H: det(U) det(V^H) U* diag(prod of the other s) V^T."""
    xp = array_module(x)
    if not xp.isfinite(x).all():  # LAPACK may not terminate for infinities and NaN
        return xp.full_like(x, np.nan)
    u, s, vh = np.linalg.svd(x)
    n = s.shape[-1]
    others = xp.where(xp.eye(n, dtype=bool), xp.ones((), s.dtype), s[..., None, :]).prod(axis=-1)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return sign[..., None, None] * ((u.conj() * others[..., None, :]) @ vh.conj())


def _cofactors_rule(g: Array, x: Array, ans: Array) -> Any:
    """With B = inv(x): d cof = tr(B dx) cof - B^T dx^T cof."""
    b = transposed(INV(x))
    inner = (g * ans).sum(axis=(-2, -1), keepdims=True)
    return inner * b - MATMUL(MATMUL(ans, transposed(g)), b)


COFACTORS = Primitive("cofactors", _cofactors, "x", [_cofactors_rule], batch=in_front)
DET = Primitive(
    "linalg.det", np.linalg.det, "x", [lambda g, x: _columns(g) * COFACTORS(x)], batch=in_front, shaped=True
)


def _slogdet_rule(g: tuple[Array, ...], x: Array, ans: tuple[Array, ...]) -> Array:
    """With w = tr(inv(x) dx): d logabsdet = Re w, d sign = sign i Im w. A real sign is constant."""
    factor = g[1]
    if x.dtype.kind == "c":
        factor = factor + 1j * (g[0] * ans[0]).imag
    return _columns(factor) * transposed(INV(x))


SLOGDET = Primitive(
    "linalg.slogdet",
    lambda x: tuple(np.linalg.slogdet(x)),
    "x",
    [_slogdet_rule],
    outputs=2,
    batch=in_front,
    shaped=True,
)


@operator(namespace="linalg", method=False, shape="square", dtype="matrix", raises="singular, square")
def inv(A: Operand) -> Tensor:
    """``A^-1`` of each square matrix.

    Derivative: ``-A^-T g A^-T``.

    >>> rg.linalg.inv(rg.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]])
    """
    return apply1(INV, matrices(A, square=True))


@operator(shape="square", dtype="matrix", raises="singular, square")
def inverse(input: Operand) -> Tensor:
    """``input^-1`` of each square matrix: ``linalg.inv``.

    Derivative: ``-input^-T g input^-T``.

    >>> rg.inverse(rg.tensor([[2.0]]))
    tensor([[0.5]])
    """
    return apply1(INV, matrices(input, "input", square=True))


@operator(namespace="linalg", method=False, shape="square to number", dtype="matrix", raises="square")
def det(A: Operand) -> Tensor:
    """``det(A)`` of each square matrix.

    Derivative: ``g`` times the cofactors of ``A``, which exist for singular matrices as well; second derivatives need
    the inverse.

    >>> rg.linalg.det(rg.tensor([[2.0, 1.0], [1.0, 3.0]]))
    tensor(5.)
    """
    return apply1(DET, matrices(A, square=True))


@operator(name="det", shape="square to number", dtype="matrix", raises="square")
def det_(input: Operand) -> Tensor:
    """``det(input)`` of each square matrix: ``linalg.det``.

    Derivative: ``g`` times the cofactors of ``input``.

    >>> rg.det(rg.tensor([[3.0]]))
    tensor(3.)
    """
    return apply1(DET, matrices(input, "input", square=True))


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its magnitude."""

    sign: Tensor
    logabsdet: Tensor


@operator(namespace="linalg", method=False, raises="square, singular derivative")
def slogdet(A: Operand) -> SlogdetResult:
    """``(det(A) / |det(A)|, log|det(A)|)`` of each square matrix; ``det(A)`` itself may overflow.

    Derivative: with ``w = tr(A^-1 dA)``, logabsdet: ``Re w``; sign: ``i sign Im w``, 0 for real matrices.
    Shape: (..., n, n) to (...) twice.
    Dtype: float32, float64 and complex, whose logabsdet is real.

    Args:
        A: the matrices; singular ones give ``(0, -inf)``, and no derivative.

    Returns:
        The named tuple ``(sign, logabsdet)``.

    >>> sign, logabsdet = rg.linalg.slogdet(rg.tensor([[-1.0]]))
    >>> sign, logabsdet
    (tensor(-1.), tensor(0.))
    """
    return SlogdetResult(*apply(SLOGDET, (matrices(A, square=True),), {}))


@operator(name="slogdet", like=slogdet)
def slogdet_(input: Operand) -> SlogdetResult:
    """``(det(input) / |det(input)|, log|det(input)|)`` of each square matrix: ``linalg.slogdet``.

    Derivative: as ``linalg.slogdet``.

    >>> rg.slogdet(rg.tensor([[1.0]])).logabsdet
    tensor(0.)
    """
    return SlogdetResult(*apply(SLOGDET, (matrices(input, "input", square=True),), {}))


@operator(shape="square to number", dtype="matrix", raises="square, singular derivative")
def logdet(input: Operand) -> Tensor:
    """``log(det(input))`` of each square matrix: NaN where a real determinant is negative, -inf where it is 0.

    Derivative: ``g input^-T``.

    >>> rg.logdet(rg.tensor([[2.0, 0.0], [0.0, 0.5]]))
    tensor(0.)
    """
    sign, logabsdet = slogdet_(matrices(input, "input", square=True))
    if sign.array.dtype.kind == "c":
        return log(sign) + logabsdet
    return where(sign.detach() < 0, float("nan"), logabsdet)


# Powers


@operator(namespace="linalg", method=False, shape="square", dtype="matrix", raises="square")
@also_named(input="A")
def matrix_power(A: Operand, n: int) -> Tensor:
    """``A^n`` of each square matrix, by repeated squaring; for negative ``n``, of its inverse.

    Derivative: ``sum_(k < n) (A^T)^k g (A^T)^(n-1-k)``; 0 for ``n = 0``.

    Args:
        n: the exponent; 0 gives the identity matrix, 1 a copy.

    Raises:
        LinAlgError: ``n`` is negative and a matrix is singular.
        TypeError: ``n`` is not an integer.

    >>> rg.linalg.matrix_power(rg.tensor([[2.0]]), 3)
    tensor([[8.]])
    """
    return _matrix_power(matrices(A, square=True), integer(n, "n"))


@operator(name="matrix_power", like=matrix_power, args="input matrices")
def matrix_power_(input: Operand, n: int) -> Tensor:
    """``input^n`` of each square matrix: ``linalg.matrix_power``.

    Derivative: as ``linalg.matrix_power``.

    >>> rg.matrix_power(rg.tensor([[2.0]]), -1)
    tensor([[0.5]])
    """
    return _matrix_power(matrices(input, "input", square=True), integer(n, "n"))


# The zeroth power, the identity matrix, keeps a history with zero gradients, as in PyTorch.
POWER_ZERO = Primitive(
    "matrix_power", lambda x: np.zeros_like(x) + identity_like(x), "x", [zero_rule], contiguous=True, batch=in_front
)


def _matrix_power(x: Tensor, n: int) -> Tensor:
    if n == 0:
        return apply1(POWER_ZERO, x)
    if n < 0:
        x, n = inv(x), -n
    elif n == 1:
        return apply1(CONTIGUOUS, x)
    result: Tensor | None = None
    while n:
        if n & 1:
            result = x if result is None else result @ x
        n >>= 1
        x = x @ x if n else x
    assert result is not None, "n has a bit that is set"
    return result


# The exponential


def _expm(x: Array) -> Array:
    """Scaling and squaring with the Padé approximant of order 13 (N. Higham, SIAM J. Matrix Anal. Appl. 26, 2005)."""
    xp = array_module(x)
    if x.size == 0:
        return x.copy()
    norm = float(xp.abs(x).sum(axis=-2).max())
    if not np.isfinite(norm):
        return xp.full(x.shape, np.nan, x.dtype)
    squarings = max(0, int(np.ceil(np.log2(norm / 5.37)))) if norm > 5.37 else 0
    a = x / 2**squarings
    b: tuple[int, ...]
    b = (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600)
    b += (670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)
    eye = xp.eye(x.shape[-1], dtype=x.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    u = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye)
    v = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye
    result = np.linalg.solve(v - u, v + u)
    for _ in range(squarings):
        result = result @ result
    return result


def _expm_rule(g: Array, x: Array) -> Array:
    """The exponential of ``[[x^T, g], [0, x^T]]`` has the gradient in its upper right corner (C. Van Loan, 1978)."""
    t = transposed(x)
    top = np.concatenate([t, g], axis=-1)
    bottom = np.concatenate([np.zeros_like(t), t], axis=-1)
    n = x.shape[-1]
    return MATRIX_EXP(np.concatenate([top, bottom], axis=-2))[..., :n, n:]


MATRIX_EXP = Primitive("matrix_exp", _expm, "x", [_expm_rule], batch=in_front, shaped=True)


@operator(shape="square", dtype="matrix", raises="square")
def matrix_exp(input: Operand) -> Tensor:
    """``sum_k input^k / k!`` of each square matrix.

    Derivative: the upper right block of ``exp([[input^T, g], [0, input^T]])``.

    Source: N. Higham, The Scaling and Squaring Method for the Matrix Exponential Revisited, 2005; the derivative:
    C. Van Loan, Computing Integrals Involving the Matrix Exponential, 1978.

    >>> rg.matrix_exp(rg.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return apply1(MATRIX_EXP, matrices(input, "input", square=True))


@operator(namespace="linalg", method=False, name="matrix_exp", shape="square", dtype="matrix", raises="square")
@also_named(input="A")
def linalg_matrix_exp(A: Operand) -> Tensor:
    """``sum_k A^k / k!`` of each square matrix: ``matrix_exp``.

    Derivative: as ``matrix_exp``.

    >>> rg.linalg.matrix_exp(rg.zeros(1, 1))
    tensor([[1.]])
    """
    return apply1(MATRIX_EXP, matrices(A, square=True))
