"""Eigenvalues and eigenvectors, of symmetric and Hermitian and of general matrices, and singular values.

The rules are those for real matrices, with conjugates for complex matrices. Cotangents use the transpose convention of
the backward pass (see docs/architecture.md), so each is the conjugate of PyTorch's gradient. The phases of complex
vectors are arbitrary; the backward pass checks that the differentiated function does not depend on them.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import Wrapping, array_module, backend_of
from ....core.arrays.dtypes import complex_of
from ....core.graph.modes import modes
from ....core.graph.primitive import Primitive, apply
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor
from ...table.batching import in_front
from ...table.registry import also_named, operator
from ...table.types import Operand
from ..matrices import adjoint, finite, hermitian, matrices, transposed
from ..products.matmul import MATMUL
from ..solving.systems import SOLVE

# Symmetric eigenvalue problems


def _eigh_rule(g: tuple[Array | None, ...], ans: tuple[Array, ...]) -> Array:
    """V* (diag(gw) + (V^T gV) / E) V^T, made Hermitian; E_ij = w_j - w_i. NaN for equal eigenvalues (see ``over``)."""
    w, v = ans
    gw, gv = g
    middle = 0 if gw is None else diagonal_matrix(gw, v)
    if gv is not None:
        inner = MATMUL(transposed(v), gv)
        check_phases("eigenvectors", inner)
        gaps = np.expand_dims(w, -2) - np.expand_dims(w, -1)
        middle = middle + over(inner, gaps, unused(gw, gv))
    return hermitian(MATMUL(MATMUL(v.conj(), middle), transposed(v)))


def check_phases(vectors: str, turned: Array, others: Array | None = None) -> None:
    """Raise an error if the differentiated function depends on the phases of complex vectors, which are arbitrary.

    Args:
        vectors: the name of the vectors, for the message.
        turned: a matrix whose diagonal has the derivatives with respect to the phases as imaginary parts.
        others: the same matrix for other vectors that share these phases.

    Raises:
        RuntimeError: the magnitude of a derivative exceeds PyTorch's tolerance.
    """
    arrays = [getattr(value, "array", value) for value in (turned, others) if value is not None]
    if arrays[0].dtype.kind != "c" or modes.tracer is not None or isinstance(arrays[0], Wrapping):
        return
    diagonals = [array.diagonal(axis1=-2, axis2=-1).imag for array in arrays]
    if bool((abs(sum(diagonals)) > 1e-2 * (1 + abs(diagonals[-1] if others is not None else 0))).any()):
        raise RuntimeError(
            f"complex {vectors} are determined up to a factor exp(i phi), and the function that is differentiated "
            "depends on phi: its gradient is not defined; make the function independent of phi, for example by abs()"
        )


def diagonal_matrix(x: Array, like: Array) -> Array:
    """Return a matrix of the dtype of ``like`` with the vector x on its diagonal."""
    return np.expand_dims(x, -1) * array_module(x).eye(x.shape[-1], dtype=like.dtype)


def unused(values: Array | None, *vectors: Array) -> Array | None:
    """Return which columns have no gradient in any of the ``vectors``; None if the eigenvalues have a gradient.

    If the eigenvalues have a gradient, a zero gradient of a vector does not show that it is unused: in ``V f(w) V^H``
    the gradient of a vector is 0 where ``f(w)`` is 0, although the derivative of f is not.
    """
    if values is not None:
        return None
    columns = [(getattr(g, "array", g) == 0).all(-2) for g in vectors]
    return columns[0] if len(columns) == 1 else columns[0] & columns[1]


def over(x: Array, gaps: Array, idle: Array | None) -> Array:
    """Return x / gaps, with NaN for gaps of 0, and with 0 on the diagonal and between two ``idle`` (unused) columns.

    The vectors of equal eigenvalues are one choice of many. A function of the vectors has a derivative only if it does
    not depend on the choice, and its gradient at one choice does not show this. PyTorch and JAX give NaN as well.
    """
    nothing = array_module(x).eye(x.shape[-1], dtype=bool)
    equal = getattr(gaps, "array", gaps) == 0
    if idle is not None:
        nothing = nothing | equal & np.expand_dims(idle, -1) & np.expand_dims(idle, -2)
    return np.where(nothing, 0, x) / np.where(nothing, 1, np.where(equal, np.nan, gaps))


EIGH = Primitive(
    "linalg.eigh", lambda x, uplo: tuple(np.linalg.eigh(x, UPLO=uplo)), "x", [_eigh_rule], outputs=2, batch=in_front
)
EIGH.fills = False


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors, as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@operator(namespace="linalg", method=False, raises="convergence")
@also_named(input="A")
def eigh(A: Operand, UPLO: Literal["L", "U"] = "L") -> EighResult:
    """``w, V`` with ``A = V @ diag(w) @ V^H``: eigenvalues and eigenvectors of each symmetric (Hermitian) matrix.

    Derivative: the Hermitian part of ``V (diag(gw) + (V^H gV) / E) V^H``, ``E_ij = w_j - w_i``. For complex
    eigenvectors the function must not depend on their phases. If two eigenvalues are equal, the gradient of a function
    of the vectors is NaN, as in PyTorch and JAX: their vectors are one choice of many. It is finite if the function
    uses no eigenvalues and neither of these two vectors, as in ``V[:, :k]``. For functions of the matrix use
    ``linalg.matrix_exp``, ``scipy.linalg.sqrtm``, ``logm`` or ``fractional_matrix_power``; the projector onto the
    eigenvectors with eigenvalues below c is ``(I - scipy.linalg.polar(A - c I)[0]) / 2``.
    Shape: (..., n, n) to w (..., n) and V (..., n, n).
    Dtype: float32, float64 and complex, whose eigenvalues are real.

    Args:
        A: the matrices; only one triangle is read.
        UPLO: ``"L"`` if the lower triangle is read, ``"U"`` if the upper one is.

    Returns:
        The named tuple ``(eigenvalues, eigenvectors)``, ascending, the vectors as columns.

    Raises:
        RuntimeError: the matrices are not square, or not of float32, float64 or complex numbers, or ``UPLO`` is
            neither ``"L"`` nor ``"U"``.

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


def _svd_rule(g: tuple[Array | None, ...], ans: tuple[Array, ...]) -> Array:
    """For real matrices, with skew(X) = X - X^T and E_ij = s_j^2 - s_i^2 (J. Townsend 2016):

    U [skew(U^T gU)/E S + S skew(V^T gV)/E + diag(gs)] V^T + (1 - UU^T) gU S^-1 V^T + U S^-1 gV^T (1 - VV^T).

    For complex matrices skew(X) = X - X^H, and diag(skew(U^T gU) / (2 S)), for the phases that U and V share, is added
    to gs (Z. Wan and S. Zhang, 2019).
    """
    u, s, vh = ans
    gu, gs, gvh = g
    k = s.shape[-1]
    # The additional vectors of full_matrices are arbitrary within the space they span: they have no gradient (PyTorch).
    u, vh = u[..., :k], vh[..., :k, :]
    if gu is None and gvh is None and gs is not None:
        return MATMUL(MATMUL(u.conj(), diagonal_matrix(gs, u)), vh.conj())
    gu = array_module(u).zeros(u.shape, u.dtype) if gu is None else gu[..., :k]
    gvh = array_module(vh).zeros(vh.shape, vh.dtype) if gvh is None else gvh[..., :k, :]
    columns, rows = np.expand_dims(s, -2), np.expand_dims(s, -1)
    gaps = (columns - rows) * (columns + rows)
    left, right = MATMUL(transposed(u), gu), MATMUL(vh.conj(), adjoint(gvh))
    check_phases("singular vectors", left, right)
    idle = unused(gs, gu, transposed(gvh))
    turn, turn_back = left - adjoint(left), right - adjoint(right)
    inner = over(turn, gaps, idle) * columns + rows * over(turn_back, gaps, idle)
    if gs is not None:
        inner = inner + diagonal_matrix(gs, u)
    zero = getattr(s, "array", s) == 0
    divisor = np.where(zero, np.nan if idle is None else 1, s)
    if idle is not None:
        divisor = np.where(zero & ~idle, np.nan, divisor)
    if u.dtype.kind == "c":
        inner = inner + turn * array_module(u).eye(k, dtype=u.dtype) / np.expand_dims(2 * divisor, -2)
    u, vh = u.conj(), vh.conj()
    result = MATMUL(MATMUL(u, inner), vh)
    if u.shape[-2] > k:
        result = result + MATMUL((gu - MATMUL(u, left)) / np.expand_dims(divisor, -2), vh)
    if vh.shape[-1] > k:
        result = result + MATMUL(u, (gvh - MATMUL(adjoint(right), vh)) / np.expand_dims(divisor, -1))
    return result


SVD = Primitive(
    "linalg.svd",
    lambda x, full: tuple(np.linalg.svd(finite(x), full_matrices=full)),
    "x",
    [_svd_rule],
    outputs=3,
    batch=in_front,
)
SVD.fills = False


class SVDResult(NamedTuple):
    """The factors of ``A = U @ diag(S) @ Vh``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@operator(namespace="linalg", method=False, raises="convergence, matrix")
def svd(A: Operand, full_matrices: bool = True, *, driver: str | None = None) -> SVDResult:
    """``U, S, Vh`` with ``A = U @ diag(S) @ Vh``: orthonormal U and Vh, and the singular values, descending.

    Derivative: with ``E_ij = s_j^2 - s_i^2`` and ``skew(X) = X - X^H``: ``U (skew(U^H gU)/E S + S skew(V^H gV)/E +
    diag(gS)) V^H + (1 - U U^H) gU S^-1 V^H + U S^-1 gV^H (1 - V V^H)``; for complex matrices ``diag(skew(U^H gU) / (2
    S))`` is added to ``diag(gS)``, and the function must not depend on the phases of pairs of vectors. If two singular
    values are equal or one is 0, the gradient of a function of U and Vh is NaN, as in PyTorch and JAX, unless it uses
    only other singular vectors; ``scipy.linalg.polar`` gives ``U @ Vh``.
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


def _eig(x: Array) -> tuple[Array, Array]:
    backend = backend_of(x)
    array = backend.to_numpy(x)
    if not np.isfinite(array).all():
        raise RuntimeError("the matrices must not contain infs or NaNs")
    dtype = x.dtype if x.dtype.kind == "c" else complex_of(x.dtype)
    values, vectors = np.linalg.eig(array)
    return backend.asarray(values, dtype=dtype), backend.asarray(vectors, dtype=dtype)


def _eig_rule(g: tuple[Array | None, ...], x: Array, ans: tuple[Array, ...]) -> Array:
    """V^-T [diag(gw) + (V^T gV - V^T V* diag(Re(V^T gV))) / E] V^T, with E_ij = w_j - w_i.

    The second term keeps the lengths of the columns at 1. Their phases are arbitrary, and a function of V must not
    depend on them (C. Boeddeker et al., "On the computation of complex-valued gradients with application to
    statistically optimum beamforming", 2017, and PyTorch).
    """
    w, v = ans
    gw, gv = g
    vt = transposed(v)
    middle = 0 if gw is None else diagonal_matrix(gw, v)
    if gv is not None:
        inner = MATMUL(vt, gv)
        check_phases("eigenvectors", inner)
        lengths = (inner * array_module(v).eye(v.shape[-1], dtype=v.dtype)).sum(axis=-2).real
        inner = inner - MATMUL(vt, v.conj()) * np.expand_dims(lengths, -2)
        gaps = np.expand_dims(w, -2) - np.expand_dims(w, -1)
        middle = middle + over(inner, gaps, unused(gw, gv))
    gx = MATMUL(SOLVE(vt, middle), vt)
    return gx if x.dtype.kind == "c" else gx.real


EIG = Primitive("linalg.eig", _eig, "x", [_eig_rule], outputs=2, batch=in_front)
EIG.fills = False


class EigResult(NamedTuple):
    """Eigenvalues in no particular order, and eigenvectors of length 1, as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@operator(namespace="linalg", method=False)
@also_named(input="A")
def eig(A: Tensor) -> EigResult:
    """Eigenvalues w and eigenvectors V of each square matrix: ``A @ V = V @ diag(w)``.

    Derivative: ``V^-T (diag(gw) + (V^T gV - V^T conj(V) diag(Re(V^T gV))) / E) V^T``, ``E_ij = w_j - w_i``. The
    function must not depend on the phases of V's columns, which are arbitrary. If two eigenvalues are equal, the
    gradient of a function of V is NaN, as in PyTorch, unless it uses no eigenvalues and neither of these two columns.
    Shape: ``(..., n, n)`` to ``(..., n)`` and ``(..., n, n)``.
    Dtype: float32, float64 and complex; both results complex.

    Returns: (eigenvalues, eigenvectors), in no particular order; the eigenvectors are columns of length 1.

    Raises:
        RuntimeError: A is not square, or has infinities or NaN.

    >>> rg.linalg.eig(rg.tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return EigResult(*apply(EIG, (matrices(A, square=True),), {}))


@operator(namespace="linalg", method=False)
@also_named(input="A")
def eigvals(A: Tensor) -> Tensor:
    """The w with ``A @ v = w v``: the eigenvalues of each square matrix, in no particular order.

    Derivative: ``V^-T diag(g) V^T``.
    Shape: ``(..., n, n)`` to ``(..., n)``.
    Dtype: float32, float64 and complex; the result is complex.

    Raises:
        RuntimeError: A is not square, or has infinities or NaN.

    >>> rg.linalg.eigvals(rg.tensor([[2.0, 1.0], [0.0, 3.0]])).real
    tensor([2., 3.])
    """
    return eig(A).eigenvalues
